//! Imports run one way, and the core stands alone.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The floors of the house. A module may import from floors below its own.
const FLOORS: [&[&str]; 9] = [
    &["lawn", "server", "policy"],
    &["clock", "config", "level"],
    &["metrics"],
    &["replicate", "pending"],
    &["data_type"],
    &["courier"],
    &["background", "commands"],
    &["info"],
    &["lib"],
];

fn floor_of(module: &str) -> usize {
    let floor = FLOORS.iter().position(|floor| floor.contains(&module));
    floor.unwrap_or_else(|| panic!("{module} has no floor: say in tests/server/layout.rs which"))
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        match entry.path() {
            path if path.is_dir() => sources(&path, found),
            path => found.push(path),
        }
    }
}

/// The names that follow `crate::` in a file's code, one by one or in braces.
fn imports(code: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let code: String = code.lines().filter(|line| !line.trim().starts_with("//")).collect();
    for rest in code.split("crate::").skip(1) {
        let list = rest.strip_prefix('{').and_then(|list| list.split_once('}'));
        let items = list.map_or(vec![rest], |(list, _)| list.split(',').collect());
        for item in items {
            let name: String =
                item.trim().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            names.insert(name);
        }
    }
    names.remove("");
    names
}

#[test]
fn imports_run_one_way() {
    let mut files = Vec::new();
    sources(Path::new("src"), &mut files);
    assert!(files.len() > 20, "{files:?}");
    for file in files {
        let inside = file.strip_prefix("src").expect("in src");
        let first = inside.components().next().expect("a name").as_os_str().to_string_lossy();
        let module = first.trim_end_matches(".rs").to_owned();
        let code = fs::read_to_string(&file).expect("a file");
        for import in imports(&code) {
            let below = floor_of(&import) < floor_of(&module);
            let lowest = floor_of(&module) == 0;
            assert!(
                import == module && module != "lawn" || below && !lowest,
                "{} imports {import}, which is not below it",
                file.display()
            );
        }
    }
}

#[test]
fn the_core_knows_nothing_of_redis_and_reads_no_clock() {
    let mut files = Vec::new();
    sources(Path::new("src/lawn"), &mut files);
    for file in files {
        let code = fs::read_to_string(&file).expect("a file");
        for foreign in ["redis_module", "RedisModule", "SystemTime", "Instant", "crate::"] {
            assert!(!code.contains(foreign), "{} mentions {foreign}", file.display());
        }
    }
}
