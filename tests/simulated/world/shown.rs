//! Shows histories and faults: bytes as text.

/// Returns the text of a value's `Debug`, with lists of bytes as strings.
pub fn shown(debug: &str) -> String {
    let mut shown = String::new();
    let mut rest = debug;
    while let Some(start) = rest.find('[') {
        let (before, list) = rest.split_at(start);
        shown.push_str(before);
        let bytes = list.find(']').map(|end| &list[1..end]).and_then(|inside| {
            let bytes: Option<Vec<u8>> = inside.split(", ").map(|it| it.parse().ok()).collect();
            if inside.is_empty() { Some(Vec::new()) } else { bytes }
        });
        match bytes {
            Some(bytes) => {
                let text = bytes.escape_ascii().to_string();
                let long = text.len() > 80;
                shown.push_str(&format!(
                    "\"{}{}\"",
                    &text[..text.len().min(80)],
                    if long { "…" } else { "" }
                ));
                rest = &list[list.find(']').expect("it was found") + 1..];
            }
            None => {
                shown.push('[');
                rest = &list[1..];
            }
        }
    }
    shown.push_str(rest);
    shown
}
