//! Rows of figures, each shown as the median over all rounds.

#[derive(Default)]
pub struct Table {
    rows: Vec<(String, Vec<Vec<f64>>)>,
}

/// A shown column: its index, title, and number of decimals.
pub struct Column {
    pub at: usize,
    pub title: &'static str,
    pub digits: usize,
    /// Shows the ratio to the first row's figure instead. Both are taken as printed, so that readers who divide them
    /// get the same ratio.
    pub is_ratio: bool,
}

impl Column {
    pub fn new(at: usize, digits: usize, title: &'static str) -> Self {
        Self { at, title, digits, is_ratio: false }
    }

    pub fn ratio(at: usize, digits: usize, title: &'static str) -> Self {
        Self { is_ratio: true, ..Self::new(at, digits, title) }
    }

    fn printed(&self, figures: &[Vec<f64>]) -> Option<String> {
        let figures = figures.get(self.at).filter(|figures| !figures.is_empty())?;
        Some(number(median(figures), self.digits))
    }

    /// Formats a cell, if something was measured.
    fn cell(&self, figures: &[Vec<f64>], first_row: &[Vec<f64>]) -> Option<String> {
        let printed = self.printed(figures)?;
        if !self.is_ratio {
            return Some(printed);
        }
        let value = |text: &str| text.parse::<f64>().ok();
        Some(format!("{:.2}", value(&printed)? / value(&self.printed(first_row)?)?))
    }
}

/// Returns columns from the one `at` on, with `digits` decimals each.
pub fn columns(at: usize, digits: usize, titles: &[&'static str]) -> Vec<Column> {
    (at..).zip(titles).map(|(at, title)| Column::new(at, digits, title)).collect()
}

impl Table {
    pub fn note(&mut self, row: &str, column: usize, figure: f64) {
        let at = self.rows.iter().position(|(name, _)| name == row).unwrap_or_else(|| {
            self.rows.push((row.to_owned(), Vec::new()));
            self.rows.len() - 1
        });
        let columns = &mut self.rows[at].1;
        columns.resize(columns.len().max(column + 1), Vec::new());
        columns[column].push(figure);
    }

    /// Records figures in the columns from `first` on.
    pub fn note_all(&mut self, row: &str, first: usize, figures: &[f64]) {
        (first..).zip(figures).for_each(|(column, figure)| self.note(row, column, *figure));
    }

    /// Returns the table in Markdown. A dash stands for a missing figure.
    pub fn written(&self, corner: &str, columns: &[Column]) -> String {
        let titles: Vec<_> = columns.iter().map(|column| column.title).collect();
        let mut lines = format!("| {corner} | {} |\n", titles.join(" | "));
        lines += &format!("| --- |{}\n", " ---: |".repeat(columns.len()));
        for (name, figures) in &self.rows {
            let cell = |column: &Column| column.cell(figures, &self.rows[0].1);
            let cells = columns.iter().map(|column| cell(column).unwrap_or_else(|| "–".to_owned()));
            lines += &format!("| {name} | {} |\n", cells.collect::<Vec<_>>().join(" | "));
        }
        lines
    }
}

/// Formats a figure with a useful precision: from a hundred on, without decimals.
fn number(figure: f64, digits: usize) -> String {
    let digits = if figure >= 100.0 && digits > 1 { 0 } else { digits };
    format!("{figure:.digits$}")
}

fn median(figures: &[f64]) -> f64 {
    let mut figures = figures.to_vec();
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}
