//! Formats numbers and tables for docs/figures/.

use std::fmt::Write as _;

/// Formats a number with a useful precision: two digits, or all digits before the point; whole numbers unchanged.
pub fn number(value: f64) -> String {
    let digits = match value.abs() {
        _ if value.fract() == 0.0 => 0,
        below if below < 1.0 => 2,
        below if below < 10.0 => 1,
        _ => 0,
    };
    let text = format!("{value:.digits$}");
    let (whole, rest) = text.split_once('.').map_or((text.as_str(), ""), |split| split);
    let mut grouped = String::new();
    for (place, digit) in whole.chars().enumerate() {
        if place > 0 && (whole.len() - place).is_multiple_of(3) && digit.is_ascii_digit() {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    if rest.is_empty() { grouped } else { format!("{grouped}.{rest}") }
}

pub fn cell(value: Option<f64>) -> String {
    value.map_or_else(String::new, number)
}

/// Stands for a missing value in a cell of several values.
pub const NOTHING: &str = "–";

pub fn cell_or_dash(value: Option<f64>) -> String {
    value.map_or_else(|| NOTHING.into(), number)
}

/// Joins several values into one cell.
pub fn join(values: impl IntoIterator<Item = String>) -> String {
    values.into_iter().collect::<Vec<_>>().join(" / ")
}

/// Formats a count for a column title: powers of ten as such.
pub fn short(count: usize) -> String {
    let power = count.ilog10();
    let is_power = count >= 1_000 && count == 10_usize.pow(power);
    if is_power { format!("10^{power}") } else { count.to_string() }
}

pub fn table(head: &[String], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut text = String::new();
    let mut line = |cells: &[String]| {
        writeln!(text, "| {} |", cells.join(" | ")).expect("a string takes it");
    };
    line(head);
    let rules: Vec<String> =
        (0..head.len()).map(|column| if column == 0 { "---" } else { "---:" }.into()).collect();
    line(&rules);
    rows.into_iter().for_each(|row| line(&row));
    text
}

pub fn head(first: &str, rest: &[&str]) -> Vec<String> {
    std::iter::once(first).chain(rest.iter().copied()).map(Into::into).collect()
}
