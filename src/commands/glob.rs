//! The server's glob patterns, which the module API does not offer: `*`, `?`, `[a-z]`, `[^a]`, `\x`.

/// Returns whether `text` matches `pattern`. O(pattern × text) in the worst case: only the last star is retried, so
/// no pattern makes it exponential.
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    // Where to retry: after the last star, with one more byte of the text matched by it.
    let mut again: Option<(usize, usize)> = None;
    while t < text.len() {
        if pattern.get(p) == Some(&b'*') {
            p += 1;
            again = Some((p, t));
            continue;
        }
        match one(&pattern[p..], text[t]) {
            Some(length) => {
                p += length;
                t += 1;
            }
            None => {
                let Some((star, taken)) = again else { return false };
                again = Some((star, taken + 1));
                (p, t) = (star, taken + 1);
            }
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

/// Returns the length of the pattern's first item, if that matches `byte`.
fn one(pattern: &[u8], byte: u8) -> Option<usize> {
    match *pattern {
        [] => None,
        [b'?', ..] => Some(1),
        [b'[', ref rest @ ..] => {
            let (class, matched) = in_class(rest, byte);
            matched.then_some(1 + class)
        }
        [b'\\', escaped, ..] => (escaped == byte).then_some(2),
        [literal, ..] => (literal == byte).then_some(1),
    }
}

/// Returns the length of a class after its opening bracket, and whether `byte` is in it. As in the server, an unclosed
/// class ends with the pattern, and a range may be reversed.
fn in_class(class: &[u8], byte: u8) -> (usize, bool) {
    let negated = class.first() == Some(&b'^');
    let mut at = usize::from(negated);
    let mut found = false;
    loop {
        match class[at.min(class.len())..] {
            [] => break,
            [b'\\', escaped, ..] => {
                found |= escaped == byte;
                at += 2;
            }
            [b']', ..] => {
                at += 1;
                break;
            }
            [first, b'-', last, ..] => {
                found |= (first.min(last)..=first.max(last)).contains(&byte);
                at += 3;
            }
            [literal, ..] => {
                found |= literal == byte;
                at += 1;
            }
        }
    }
    (at, found != negated)
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns_match_as_the_server_s_do() {
        let cases: [(&str, &[&str], &[&str]); 14] = [
            ("*", &["", "a", "abc"], &[]),
            ("", &[""], &["a"]),
            ("abc", &["abc"], &["ab", "abcd", "abd", ""]),
            ("a?c", &["abc", "a?c"], &["ac", "abbc"]),
            ("a*c", &["ac", "abc", "abcbc"], &["ab", "cab", "acb"]),
            ("*a*b*", &["ab", "xaxbx", "aab"], &["ba", "a", "b"]),
            ("[abc]x", &["ax", "cx"], &["dx", "x", "abx"]),
            ("[^a]x", &["bx", "^x"], &["ax", "x"]),
            ("[a-c]", &["a", "b", "c"], &["d", "-"]),
            ("[c-a]", &["a", "b", "c"], &["d"]),
            ("\\*", &["*"], &["a", "\\*"]),
            ("[\\]]", &["]"], &["a"]),
            ("[abc", &["a", "c"], &["d", "ab"]),
            ("order:*:[0-9]*", &["order:x:7", "order::9a"], &["order:7", "order:x:"]),
        ];
        for (pattern, yes, no) in cases {
            for text in yes {
                assert!(matches(pattern.as_bytes(), text.as_bytes()), "{pattern} and {text}");
            }
            for text in no {
                assert!(!matches(pattern.as_bytes(), text.as_bytes()), "{pattern} and {text}");
            }
        }
        assert!(matches(b"\0*\xff", b"\0abc\xff"));
    }

    #[test]
    fn many_stars_take_no_longer_than_a_few() {
        let pattern = [b"a*".repeat(5000), b"b".to_vec()].concat();
        assert!(!matches(&pattern, &b"a".repeat(20_000)));
    }
}
