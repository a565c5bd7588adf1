//! A word that a client sent, as errors quote it.

/// Returns the printable form of a word, cut after 32 bytes.
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
    fn a_long_word_is_cut() {
        let short = "x".repeat(32);
        assert_eq!(shown(short.as_bytes()), short);
        assert_eq!(shown("x".repeat(33).as_bytes()), format!("{short}..."));
        assert_eq!(shown(b"\0\n"), "\\x00\\n");
    }
}
