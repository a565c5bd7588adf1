//! Every link of the pages leads somewhere.

use std::fs;
use std::path::{Path, PathBuf};

fn pages() -> Vec<PathBuf> {
    let in_folder = |folder: &str| {
        let entries = fs::read_dir(folder).expect("a folder").flatten();
        entries
            .map(|entry| entry.path())
            .filter(|path| path.extension().is_some_and(|it| it == "md"))
    };
    let folders = [".", "docs", "examples", "examples/workers", "grafana", "integrations"];
    let packages = ["integrations/python", "integrations/node", "integrations/sidekiq"];
    folders.into_iter().chain(packages).flat_map(in_folder).collect()
}

/// The name by which a heading is linked to.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|it| it.is_alphanumeric() || matches!(it, ' ' | '-' | '_'));
    kept.map(|it| if it == ' ' { '-' } else { it.to_ascii_lowercase() }).collect()
}

#[test]
fn every_link_leads_somewhere() {
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
