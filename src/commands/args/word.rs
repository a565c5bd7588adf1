//! A word that a client sent, in what it is told.

/// What a client sent, as it is shown to it: printable, and no more of it than helps.
pub fn shown(word: &[u8]) -> String {
    const SHOWN: usize = 32;
    match word.get(..SHOWN) {
        Some(start) if word.len() > SHOWN => format!("{}...", start.escape_ascii()),
        _ => word.escape_ascii().to_string(),
    }
}
