//! Every link of the pages has a target.

use std::fs;
use std::path::{Path, PathBuf};

fn pages() -> Vec<PathBuf> {
    let in_folder = |folder: &str| {
        let entries = fs::read_dir(folder).expect("a folder").flatten();
        entries
            .map(|entry| entry.path())
            .filter(|path| path.extension().is_some_and(|it| it == "md"))
    };
    let folders = [".", ".github", "docs", "examples", "examples/workers", "grafana", "console"];
    let packages = [
        "python",
        "python-server",
        "node",
        "node-server",
        "go",
        "sidekiq",
        "laravel",
        "symfony",
        "patches",
    ];
    let packages = packages.map(|name| format!("integrations/{name}"));
    folders.into_iter().chain(packages.iter().map(String::as_str)).flat_map(in_folder).collect()
}

/// Returns the anchor of a heading.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|it| it.is_alphanumeric() || matches!(it, ' ' | '-' | '_'));
    kept.map(|it| if it == ' ' { '-' } else { it.to_ascii_lowercase() }).collect()
}

#[test]
fn every_link_has_a_target() {
    let mut links = 0;
    for page in pages() {
        let text = fs::read_to_string(&page).expect("a page");
        for rest in text.split("](").skip(1) {
            let target = rest.split(')').next().expect("an end");
            if target.contains("://") || target.contains(char::is_whitespace) {
                continue;
            }
            links += 1;
            let (file, heading) = target.split_once('#').unwrap_or((target, ""));
            let file = match file {
                "" => page.clone(),
                file => page.parent().unwrap_or(Path::new(".")).join(file),
            };
            let what = format!("{target} in {}", page.display());
            assert!(file.exists(), "{what}: there is no such file");
            if !heading.is_empty() {
                let text = fs::read_to_string(&file).expect("a page");
                let headings = text.lines().filter(|line| line.starts_with('#'));
                let anchors = headings.map(|line| anchor(line.trim_start_matches('#').trim()));
                assert!(anchors.into_iter().any(|it| it == heading), "{what}: no such heading");
            }
        }
    }
    assert!(links > 80, "{links} links were found");
}

/// Returns the files and folders that a page names in code, such as `src/level.rs`.
fn paths_in(page: &str) -> Vec<&str> {
    let folders = ["src/", "tests/", "benches/", "scripts/", "integrations/", "docs/", "examples/"];
    let spans = page.split('`').skip(1).step_by(2);
    // `<verb>` is a placeholder.
    let is_path = |span: &&str| {
        folders.iter().any(|folder| span.starts_with(folder)) && !span.contains([' ', '<', '*'])
    };
    spans.filter(is_path).collect()
}

#[test]
fn every_path_in_the_contributors_pages_exists() {
    for name in ["docs/design.md", "CONTRIBUTING.md"] {
        let page = fs::read_to_string(name).expect("a page").replace("```", "");
        let paths = paths_in(&page);
        assert!(paths.len() > 5, "{name} names {paths:?}");
        for path in paths {
            assert!(Path::new(path).exists(), "{name} names {path}");
        }
    }
}

#[test]
fn the_design_page_draws_a_record_like_the_code() {
    let page = fs::read_to_string("docs/design.md").expect("a page");
    let code = fs::read_to_string("src/lawn/store/records.rs").expect("the code");
    let (_, figure) = code.split_once("//! ```text\n").expect("a figure");
    let lines = figure.lines().map(|line| line.trim_start_matches("//!").trim());
    // Up to the empty line, after which the figure shows a long record.
    let figure: Vec<_> = lines.take_while(|line| !line.is_empty()).collect();
    assert_eq!(figure.len(), 5);
    let drawn: Vec<_> = page.lines().map(str::trim).collect();
    assert!(drawn.windows(figure.len()).any(|lines| lines == figure), "{figure:#?}");
}

#[test]
fn each_package_has_the_licence() {
    let licence = std::fs::read_to_string("LICENSE").expect("a licence");
    let packages = "python python-server node node-server go/dehydrator sidekiq laravel symfony";
    for package in packages.split(' ') {
        let path = format!("integrations/{package}/LICENSE");
        assert_eq!(std::fs::read_to_string(&path).ok().as_ref(), Some(&licence), "{path}");
    }
}
