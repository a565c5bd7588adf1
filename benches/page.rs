//! Writes figures into docs/figures/, a file for each section, and into pages, between their markers.
//!
//! Charts are drawn from these files, and docs/benchmarks.md has rows and columns of them. So all agree, and can be made
//! again without measuring.

use std::path::PathBuf;

use crate::csv;

fn docs() -> PathBuf {
    harness::root().join("docs")
}

/// Returns the folder of the charts.
pub fn charts() -> PathBuf {
    let folder = docs().join("charts");
    std::fs::create_dir_all(&folder).expect("a folder for charts");
    folder
}

/// The page with an excerpt of the figures.
const SHORT: &str = "benchmarks.md";

/// The tables on that page: the marker there, the section, and the index of the table in its file. Tables of one marker follow
/// each other.
const SHOWN: [(&str, &str, usize); 4] = [
    ("module", "module", 0),
    ("module", "module", 1),
    ("price", "instructions", 1),
    ("lateness", "lateness", 0),
];

fn text(page: &str) -> String {
    std::fs::read_to_string(docs().join(page)).expect("a page in docs")
}

/// Returns the range between the markers of `section`.
fn place(page: &str, section: &str) -> std::ops::Range<usize> {
    let (open, close) = (format!("<!-- {section} -->\n"), format!("<!-- /{section} -->"));
    let from = page.find(&open).unwrap_or_else(|| panic!("no marker {open}")) + open.len();
    let to = page.find(&close).unwrap_or_else(|| panic!("no marker {close}"));
    from..to
}

/// Returns the file of a section.
fn file(section: &str) -> PathBuf {
    docs().join("figures").join(section.replace(':', "-")).with_extension("csv")
}

/// Replaces the figures of `section`, which are tables in Markdown and lines of text, and their excerpts in docs/benchmarks.md.
pub fn put(section: &str, content: &str) {
    std::fs::write(file(section), csv::of_markdown(content)).expect("a file in docs/figures");
    shorten();
}

/// Writes the tables of docs/benchmarks.md as excerpts of docs/figures/. Leaves out what was not measured.
pub fn shorten() {
    for name in ["module", "price", "lateness"] {
        let of_name = SHOWN.iter().filter(|(marker, ..)| *marker == name);
        let tables = of_name.filter_map(|(_, section, at)| {
            Some(tables(section).into_iter().nth(*at)?.in_markdown())
        });
        let tables: Vec<_> = tables.collect();
        let told = if tables.is_empty() { "Not measured yet.".into() } else { tables.join("\n") };
        put_on(SHORT, name, &told);
    }
}

/// Replaces the content between the markers of `section` in another page.
pub fn put_on(page: &str, section: &str, content: &str) {
    let mut told = text(page);
    told.replace_range(place(&told, section), &format!("\n{}\n\n", content.trim_end()));
    std::fs::write(docs().join(page), told).expect("a page in docs");
}

/// Returns the tables of `section`.
pub fn tables(section: &str) -> Vec<Table> {
    let text = std::fs::read_to_string(file(section)).expect("a file in docs/figures");
    let table = |mut rows: Vec<Vec<String>>| Table { head: rows.remove(0), rows };
    csv::tables(&text).into_iter().map(table).collect()
}

/// A table. The first cell of a row is its name.
pub struct Table {
    head: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Returns the titles of the columns, except that of the names.
    pub fn columns(&self) -> impl Iterator<Item = &str> {
        self.head.iter().skip(1).map(String::as_str)
    }

    pub fn rows(&self) -> impl Iterator<Item = &str> {
        self.rows.iter().map(|row| row[0].as_str())
    }

    fn in_markdown(&self) -> String {
        let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
        let rule = format!("| --- |{}\n", " ---: |".repeat(self.head.len() - 1));
        [line(&self.head), rule].into_iter().chain(self.rows.iter().map(|row| line(row))).collect()
    }

    pub fn cell(&self, row: &str, column: &str) -> Option<&str> {
        let column = self.head.iter().skip(1).position(|title| title == column)? + 1;
        let row = self.rows.iter().find(|cells| cells[0] == row)?;
        row.get(column).map(String::as_str).filter(|cell| !cell.is_empty())
    }

    /// Returns the number at the beginning of a cell, if there is one.
    pub fn number(&self, row: &str, column: &str) -> Option<f64> {
        number(self.cell(row, column)?)
    }
}

/// Returns the number that a text begins with; it may have commas between its digits.
pub fn number(text: &str) -> Option<f64> {
    text.split(' ').next()?.replace(',', "").parse().ok()
}
