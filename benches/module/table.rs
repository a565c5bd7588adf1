//! Rows of figures, of each of which the median over all rounds is shown.

#[derive(Default)]
pub struct Table {
    rows: Vec<(String, Vec<Vec<f64>>)>,
}

/// Which of a table's columns is shown, under which title, with how many digits after the point.
pub struct Column {
    pub at: usize,
    pub title: &'static str,
    pub digits: usize,
}

/// Columns from the one `at` on, with so many digits each.
pub fn columns(at: usize, digits: usize, titles: &[&'static str]) -> Vec<Column> {
    (at..).zip(titles).map(|(at, title)| Column { at, title, digits }).collect()
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

    /// Notes figures in the columns from `first` on.
    pub fn note_all(&mut self, row: &str, first: usize, figures: &[f64]) {
        (first..).zip(figures).for_each(|(column, figure)| self.note(row, column, *figure));
    }

    /// The table in Markdown. A dash stands where nothing was measured.
    pub fn written(&self, corner: &str, columns: &[Column]) -> String {
        let titles: Vec<_> = columns.iter().map(|column| column.title).collect();
        let mut lines = format!("| {corner} | {} |\n", titles.join(" | "));
        lines += &format!("| --- |{}\n", " ---: |".repeat(columns.len()));
        for (name, figures) in &self.rows {
            let shown = |column: &Column| match figures.get(column.at) {
                Some(figures) if !figures.is_empty() => number(median(figures), column.digits),
                _ => "–".to_owned(),
            };
            let cells: Vec<_> = columns.iter().map(shown).collect();
            lines += &format!("| {name} | {} |\n", cells.join(" | "));
        }
        lines
    }

    /// One column as bars, ours first.
    pub fn bars(&self, column: usize) -> Vec<(String, f64)> {
        let figure = |figures: &[Vec<f64>]| median(&figures[column]);
        let named = |name: &str| match name {
            "dehydrator" => "our dehydrator".to_owned(),
            other => other.to_owned(),
        };
        let mut bars: Vec<_> =
            self.rows.iter().map(|(name, it)| (named(name), figure(it))).collect();
        bars.sort_by_key(|(name, _)| !name.starts_with("our "));
        bars
    }
}

/// A figure as it is worth reading: from a hundred on, nobody asks for what is behind the point.
fn number(figure: f64, digits: usize) -> String {
    let digits = if figure >= 100.0 && digits > 1 { 0 } else { digits };
    format!("{figure:.digits$}")
}

fn median(figures: &[f64]) -> f64 {
    let mut figures = figures.to_vec();
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}
