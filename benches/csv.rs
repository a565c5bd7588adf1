//! Reads and writes the files of docs/figures/: tables in CSV, separated by empty lines, and lines of text that begin with `#`.

/// Returns the tables and lines of a text in Markdown, as CSV.
pub fn of_markdown(text: &str) -> String {
    let mut told = String::new();
    for line in text.trim().lines() {
        let cells = line.strip_prefix('|').and_then(|rest| rest.strip_suffix('|'));
        let line = match cells {
            Some(cells) if cells.chars().all(|it| "-:| ".contains(it)) => continue,
            Some(cells) => {
                cells.split('|').map(|it| quoted(it.trim())).collect::<Vec<_>>().join(",")
            }
            None if line.trim().is_empty() => String::new(),
            None => format!("# {}", line.trim()),
        };
        told.push_str(&line);
        told.push('\n');
    }
    told
}

fn quoted(cell: &str) -> String {
    let is_plain = !cell.contains([',', '"']) && !cell.starts_with('#');
    if is_plain { cell.to_owned() } else { format!("\"{}\"", cell.replace('"', "\"\"")) }
}

/// Returns the tables of a file, each with its head as the first row.
pub fn tables(text: &str) -> Vec<Vec<Vec<String>>> {
    let mut tables = Vec::new();
    let mut is_within = false;
    for line in text.lines() {
        let is_row = !line.is_empty() && !line.starts_with('#');
        if is_row && !is_within {
            tables.push(Vec::new());
        }
        if is_row {
            tables.last_mut().expect("it was begun").push(cells(line));
        }
        is_within = is_row;
    }
    tables
}

/// Splits a row at the commas outside of quotes.
fn cells(line: &str) -> Vec<String> {
    let (mut cells, mut is_quoted) = (vec![String::new()], false);
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        let cell = cells.last_mut().expect("there is one");
        match letter {
            '"' if is_quoted && letters.next_if_eq(&'"').is_some() => cell.push('"'),
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => cells.push(String::new()),
            _ => cell.push(letter),
        }
    }
    cells
}
