//! The page that figures are written into: docs/benchmarks.md, between its markers.

use std::path::{Path, PathBuf};

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("docs")
}

/// Where charts go.
pub fn charts() -> PathBuf {
    let folder = docs().join("charts");
    std::fs::create_dir_all(&folder).expect("a folder for charts");
    folder
}

/// Puts `content` between the markers of `section`.
pub fn put(section: &str, content: &str) {
    let path = docs().join("benchmarks.md");
    let mut page = std::fs::read_to_string(&path).expect("docs/benchmarks.md");
    let (open, close) = (format!("<!-- {section} -->\n"), format!("<!-- /{section} -->"));
    let from = page.find(&open).unwrap_or_else(|| panic!("no marker {open}")) + open.len();
    let to = page.find(&close).unwrap_or_else(|| panic!("no marker {close}"));
    page.replace_range(from..to, &format!("\n{}\n\n", content.trim_end()));
    std::fs::write(&path, page).expect("docs/benchmarks.md");
}
