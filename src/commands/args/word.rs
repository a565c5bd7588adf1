//! A word that a client sent, in what it is told.

/// Returns what a client sent, as it is shown to it: printable, and no more of it than helps.
pub fn shown(word: &[u8]) -> String {
    const SHOWN: usize = 32;
    match word.get(..SHOWN) {
        Some(start) if word.len() > SHOWN => format!("{}...", start.escape_ascii()),
        _ => word.escape_ascii().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_long_is_shown_by_its_beginning() {
        let short = "x".repeat(32);
        assert_eq!(shown(short.as_bytes()), short);
        assert_eq!(shown("x".repeat(33).as_bytes()), format!("{short}..."));
        assert_eq!(shown(b"\0\n"), "\\x00\\n");
    }
}
