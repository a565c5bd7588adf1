//! The pages that figures are written into, between their markers: docs/benchmarks.md, docs/scaling.md.
//!
//! Charts are drawn from the tables that stand there, so that both tell the same, and so that they can be
//! drawn again without measuring again.

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

/// The page that most figures stand on.
const BENCHMARKS: &str = "benchmarks.md";

fn text(page: &str) -> String {
    std::fs::read_to_string(docs().join(page)).expect("a page in docs")
}

/// The part of the page between the markers of `section`.
fn place(page: &str, section: &str) -> std::ops::Range<usize> {
    let (open, close) = (format!("<!-- {section} -->\n"), format!("<!-- /{section} -->"));
    let from = page.find(&open).unwrap_or_else(|| panic!("no marker {open}")) + open.len();
    let to = page.find(&close).unwrap_or_else(|| panic!("no marker {close}"));
    from..to
}

/// Puts `content` between the markers of `section` in docs/benchmarks.md.
pub fn put(section: &str, content: &str) {
    put_on(BENCHMARKS, section, content);
}

/// Puts `content` between the markers of `section` in another page.
pub fn put_on(page: &str, section: &str, content: &str) {
    let mut told = text(page);
    told.replace_range(place(&told, section), &format!("\n{}\n\n", content.trim_end()));
    std::fs::write(docs().join(page), told).expect("a page in docs");
}

/// The tables between the markers of `section` in docs/benchmarks.md.
pub fn tables(section: &str) -> Vec<Table> {
    let page = text(BENCHMARKS);
    let mut tables = Vec::new();
    let mut is_within = false;
    for line in page[place(&page, section)].lines() {
        let cells = line.strip_prefix('|').and_then(|rest| rest.strip_suffix('|'));
        let Some(cells) = cells else {
            is_within = false;
            continue;
        };
        let cells: Vec<_> = cells.split('|').map(|cell| cell.trim().to_owned()).collect();
        match tables.last_mut() {
            Some(Table { rows, .. }) if is_within => rows.push(cells),
            _ => tables.push(Table { head: cells, rows: Vec::new() }),
        }
        is_within = true;
    }
    // The line between the head and the rest is no row.
    tables.iter_mut().for_each(|table| _ = table.rows.remove(0));
    tables
}

/// A table as it stands on the page. The first cell of a row is its name.
pub struct Table {
    head: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// The titles of the columns, without that of the names.
    pub fn columns(&self) -> impl Iterator<Item = &str> {
        self.head.iter().skip(1).map(String::as_str)
    }

    pub fn rows(&self) -> impl Iterator<Item = &str> {
        self.rows.iter().map(|row| row[0].as_str())
    }

    pub fn cell(&self, row: &str, column: &str) -> Option<&str> {
        let column = self.head.iter().skip(1).position(|title| title == column)? + 1;
        let row = self.rows.iter().find(|cells| cells[0] == row)?;
        row.get(column).map(String::as_str).filter(|cell| !cell.is_empty())
    }

    /// The number at the beginning of a cell. `None`: there is none.
    pub fn number(&self, row: &str, column: &str) -> Option<f64> {
        number(self.cell(row, column)?)
    }
}

/// The number that a text begins with, which may have commas between its digits.
pub fn number(text: &str) -> Option<f64> {
    text.split(' ').next()?.replace(',', "").parse().ok()
}
