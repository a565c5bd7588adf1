//! Imports go one way, between folders and between files. The compiler ensures that the core knows nothing of the
//! layers above: it is a crate of its own.

mod house;
mod imports;
mod words;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use house::House;

/// The layers. A module may import from layers below its own.
const LAYERS: [&[&str]; 10] = [
    &["server", "policy", "schedule", "version"],
    &["clock", "config", "level"],
    &["metrics"],
    &["replicate", "pending"],
    &["data_type"],
    &["delivery"],
    &["commands"],
    &["background"],
    &["info"],
    &["lib"],
];

/// The folders of `server`, and its files beside them. Each imports from those before it.
const SERVER: [&str; 10] = [
    "error",
    "string",
    "fake",
    "process",
    "context",
    "hooks",
    "other_modules",
    "client_checks",
    "listeners",
    "key",
];

fn layer_of(module: &str) -> usize {
    let layer = LAYERS.iter().position(|layer| layer.contains(&module));
    layer.unwrap_or_else(|| panic!("{module} has no layer: say in tests/server/layout.rs which"))
}

/// The folders of the crates: the module's, and the core's, which is within it.
const CRATES: [&str; 2] = ["src", "src/lawn"];

/// Returns the sources of the crate in a folder, by their paths there.
fn sources(folder: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        if path.join("Cargo.toml").exists() {
            continue;
        }
        if path.is_dir() {
            let below = sources(&path).into_iter();
            found.extend(below.map(|(inner, code)| (format!("{name}/{inner}"), code)));
        } else if name.ends_with(".rs") {
            found.insert(name, fs::read_to_string(&path).expect("a file"));
        }
    }
    found
}

#[test]
fn imports_run_one_way() {
    let files = sources(Path::new("src"));
    assert!(files.len() > 20, "{files:?}");
    let house = House::new(&files, true);
    let mut seen = 0;
    for (file, path) in house.named() {
        let module = file.split('/').next().expect("a name").trim_end_matches(".rs");
        // Items of the root belong to its layer.
        let import = path.first().map_or("lib", |first| &first[..]);
        let (below, lowest) = (layer_of(import) < layer_of(module), layer_of(module) == 0);
        assert!(
            import == module || below && !lowest,
            "{file} imports {}, which is not below it",
            path.join("::")
        );
        seen += 1;
    }
    assert!(seen > 500, "{seen} imports");
}

#[test]
fn no_files_import_each_other() {
    for folder in CRATES {
        let house = House::new(&sources(Path::new(folder)), false);
        let arrows = house.arrows();
        assert!(arrows.len() > 80, "{} arrows in {folder}", arrows.len());
        let mut circles = String::new();
        for files in house.circles() {
            circles.push_str(&format!("\na circle of {} files:", files.len()));
            let is_within = |from: &str, to: &str| files.contains(from) && files.contains(to);
            for ((from, to), names) in arrows.iter().filter(|((from, to), _)| is_within(from, to)) {
                circles.push_str(&format!("\n  {from} -> {to}: {names:?}"));
            }
        }
        assert!(circles.is_empty(), "in {folder}: {circles}");
    }
}

#[test]
fn the_folders_of_the_server_import_from_those_before_them() {
    let house = House::new(&sources(Path::new("src")), false);
    let place = |file: &str| {
        let room = file.strip_prefix("server/")?.split('/').next()?.trim_end_matches(".rs");
        let place = SERVER.iter().position(|it| *it == room);
        (room != "mod").then(|| place.unwrap_or_else(|| panic!("where does server/{room} stand?")))
    };
    let arrows = house.arrows();
    let within = arrows
        .iter()
        .filter_map(|((from, to), names)| Some(((from, to, names), place(from)?, place(to)?)));
    let within: Vec<_> = within.collect();
    assert!(within.len() > 20, "{within:?}");
    for (arrow, from, to) in within {
        assert!(to <= from, "{arrow:?}");
    }
}

/// The table in `src/background/server_events.rs`: what the process remembers in each file, and what that hears.
#[test]
fn what_the_process_remembers_hears_of_the_servers_events() {
    let files = sources(Path::new("src"));
    let events = &files["background/server_events.rs"];
    let rows = events.lines().filter_map(|line| line.strip_prefix("//! | `"));
    let cells = |row: &str| row.split(" | ").map(str::to_owned).collect::<Vec<_>>();
    let rows: Vec<_> = rows.map(cells).collect();
    let named: Vec<_> = rows.iter().map(|row| row[0].trim_matches('`').to_owned()).collect();
    // Types of what may change, and all thread-locals.
    let kinds =
        ["Atomic", "Cell<", "OnceLock<", "LazyLock<", "Counter", "Histogram", "Number", "Text"];
    let remembers = |line: &str| {
        let line = line.trim_start();
        let line = line.strip_prefix("pub ").unwrap_or(line);
        line.starts_with("static ") && kinds.iter().any(|kind| line.contains(kind))
    };
    let mut found = Vec::new();
    for (file, code) in &files {
        let code = code.split("#[cfg(test)]\nmod tests").next().expect("code");
        if code.contains("thread_local! {") || code.lines().any(remembers) {
            found.push(file.trim_end_matches(".rs").trim_end_matches("/mod").to_owned());
        }
    }
    found.retain(|file| file != "server/fake");
    found.sort();
    let mut sorted = named.clone();
    sorted.sort();
    assert_eq!(sorted, found, "the table in src/background/server_events.rs");

    // The functions that the handlers call, which are all behind `register`.
    let handlers = events.split("fn on_flush").nth(1).expect("handlers");
    let calls = |text: &str| {
        let words = text.split(|it: char| !(it.is_alphanumeric() || "_:".contains(it)));
        let calls = words.filter(|word| word.starts_with(char::is_lowercase));
        let calls = calls.filter(|word| word.contains("::") && !word.starts_with("raw::"));
        let calls = calls
            .filter(|word| !["event::", "server_info::"].iter().any(|it| word.starts_with(it)));
        calls.map(str::to_owned).collect::<std::collections::BTreeSet<_>>()
    };
    let hears = rows.iter().map(|row| &row[2][..]).collect::<Vec<_>>().join(" ");
    assert_eq!(calls(&hears), calls(handlers), "what hears, and what is called");
}

#[test]
fn the_core_reads_no_clock() {
    for (file, code) in sources(Path::new("src/lawn")) {
        for clock in ["SystemTime", "Instant"] {
            assert!(!code.contains(clock), "{file} mentions {clock}");
        }
    }
}

/// Returns the functions that a pattern of mutants.toml names, each with its type, if that is named too.
fn named_functions(pattern: &str) -> Vec<(Option<&str>, String)> {
    let is_name = |letter: char| letter.is_alphanumeric() || letter == '_';
    let mut found = Vec::new();
    for (at, _) in pattern.match_indices("::") {
        let (before, behind) = (&pattern[..at], &pattern[at + 2..]);
        let types = before.rsplit(|letter| !is_name(letter));
        let of = types.take(5).find(|word| word.starts_with(|it: char| it.is_uppercase()));
        if behind.starts_with(|it: char| !it.is_lowercase()) {
            continue;
        }
        let end = behind.find(|letter| !is_name(letter)).unwrap_or(behind.len());
        let (start, others) = behind.split_at(end);
        let ends = others.strip_prefix('(').and_then(|it| it.split_once(')')).map_or("", |it| it.0);
        found.extend(ends.split('|').map(|end| (of, format!("{start}{end}"))));
    }
    found
}

#[test]
fn changes_that_no_test_must_notice_are_in_functions_that_exist() {
    let files = sources(Path::new("src")).into_iter().chain(sources(Path::new("src/lawn")));
    let files: Vec<_> = files.map(|(_, code)| code).collect();
    let is_of = |code: &str, of: &str| {
        let words = |line: &str| line.split(|it: char| !it.is_alphanumeric()).any(|it| it == of);
        code.lines().any(|line| line.trim_start().starts_with("impl") && words(line))
    };
    let has = |code: &str, name: &str| {
        code.contains(&format!("fn {name}(")) || code.contains(&format!("fn {name}<"))
    };
    let mut seen = 0;
    for line in fs::read_to_string("tests/mutants/mutants.toml").expect("a file").lines() {
        let Some(pattern) = line.trim().strip_prefix('"') else { continue };
        for (of, name) in named_functions(pattern) {
            let is_it = |code: &String| has(code, &name) && of.is_none_or(|of| is_of(code, of));
            assert!(files.iter().any(is_it), "there is no {name} of {of:?}: {line}");
            seen += 1;
        }
    }
    assert!(seen > 20, "{seen} functions");
}
