//! The measured constants of the simulation: a file in the repository, one line per figure.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Figures by name. A name ends with its unit.
pub struct Constants {
    /// The lines above the figures, which describe the machine.
    head: Vec<String>,
    figures: BTreeMap<String, f64>,
}

fn file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("scaling/constants.toml")
}

impl Constants {
    pub fn read() -> Self {
        let text = fs::read_to_string(file()).unwrap_or_default();
        let head = text.lines().map_while(|line| line.strip_prefix("# ")).map(str::to_owned);
        let figure = |line: &str| {
            let (name, value) = line.split_once(" = ")?;
            Some((name.to_owned(), value.parse().expect("a number")))
        };
        Self { head: head.collect(), figures: text.lines().filter_map(figure).collect() }
    }

    pub fn write(&self) {
        let head: String = self.head.iter().map(|line| format!("# {line}\n")).collect();
        let line = |(name, figure): (&String, &f64)| format!("{name} = {}\n", rounded(*figure));
        let lines: String = self.figures.iter().map(line).collect();
        fs::write(file(), format!("{head}\n{lines}")).expect("a file of constants");
    }

    pub fn set_head(&mut self, head: Vec<String>) {
        self.head = head;
    }

    pub fn head(&self) -> &[String] {
        &self.head
    }

    pub fn set(&mut self, name: &str, figure: f64) {
        self.figures.insert(name.to_owned(), figure);
    }

    pub fn get(&self, name: &str) -> f64 {
        self.find(name).unwrap_or_else(|| panic!("{name} was never measured: see benches/scaling"))
    }

    pub fn find(&self, name: &str) -> Option<f64> {
        self.figures.get(name).copied()
    }
}

/// Rounds to four digits, more than the precision of the measurement.
fn rounded(figure: f64) -> f64 {
    if figure == 0.0 {
        return 0.0;
    }
    let scale = 10_f64.powi(3 - figure.abs().log10().floor() as i32);
    // Counts stay whole numbers.
    if scale < 1.0 { figure.round() } else { (figure * scale).round() / scale }
}
