//! The table of docs/guarantees.md names a judge or a test for each statement, and each of them exists. The faults that must be
//! found can be planted.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use simulated::judges::Promise;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the text of all files of tests.
fn sources(folder: &Path) -> String {
    let entries = fs::read_dir(folder).expect("a folder").map(|it| it.expect("an entry").path());
    entries
        .map(|path| {
            if path.is_dir() {
                sources(&path)
            } else {
                fs::read_to_string(path).unwrap_or_default()
            }
        })
        .collect()
}

#[test]
fn each_section_of_the_guarantees_names_judges_or_tests_that_exist() {
    let page = fs::read_to_string(root().join("docs/guarantees.md")).expect("the page");
    let (page, table) = page.split_once("## What tests each statement").expect("the table");
    let rows: Vec<_> = table
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.split_once(" | "))
        .skip(1)
        .collect();
    for section in page.lines().filter_map(|line| line.strip_prefix("## ")) {
        assert!(
            rows.iter().any(|row| row.0.starts_with(&format!("*{section}*"))),
            "nothing tests {section:?}"
        );
    }
    let tests =
        ["server", "torture"].map(|folder| sources(&root().join("tests").join(folder))).concat();
    let shown = rows.iter().flat_map(|row| row.1.trim_end_matches(" |").split(", "));
    let mut judges = Vec::new();
    for name in shown {
        match name.strip_prefix('`').and_then(|name| name.strip_suffix('`')) {
            Some(judge) => judges.push(
                Promise::of_name(judge).unwrap_or_else(|| panic!("there is no judge {judge:?}")),
            ),
            None => assert!(tests.contains(&format!("fn {name}()")), "there is no test {name:?}"),
        }
    }
    for promise in Promise::ALL {
        assert!(judges.contains(promise), "{:?} is of no statement", promise.name());
    }
}

#[test]
fn each_fault_can_be_planted() {
    let planted = fs::read_dir(root().join("tests/simulated/planted")).expect("the folder");
    let patches: Vec<_> = planted.map(|it| it.expect("an entry").path()).collect();
    assert!(patches.len() >= 10, "{patches:?}");
    for patch in patches {
        let mut git = Command::new("git");
        let git = git.current_dir(root()).args(["apply", "--check"]).arg(&patch);
        assert!(git.status().expect("git").success(), "{patch:?} does not apply");
    }
}
