//! The tables of docs/clients.md, as a reader sees them.

use std::fs;

/// Returns a table's rows, by its heading. Omits the header.
pub fn table(heading: &str) -> Vec<Vec<String>> {
    let section = section(heading);
    let mut rows = section.lines().filter(|line| line.starts_with('|')).map(cells);
    let columns = rows.next().unwrap_or_else(|| panic!("no table under {heading}")).len();
    let rows: Vec<_> = rows.skip(1).collect();
    assert!(
        rows.iter().all(|row| row.len() == columns),
        "a row of {heading} is too short or too long"
    );
    rows
}

/// Returns the text below a heading, one line per paragraph.
pub fn section(heading: &str) -> String {
    let page = fs::read_to_string("docs/clients.md").expect("a page");
    let start = page.find(&format!("\n{heading}\n")).unwrap_or_else(|| panic!("no {heading}"));
    let rest = &page[start + heading.len() + 2..];
    let end = rest.find("\n## ").unwrap_or(rest.len());
    rest[..end].to_owned()
}

fn cells(line: &str) -> Vec<String> {
    let inner = line.trim().trim_start_matches('|').trim_end_matches('|');
    inner.split('|').map(|cell| cell.trim().replace("**", "")).collect()
}

/// Returns the code in a cell.
pub fn code(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}
