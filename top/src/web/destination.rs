//! The destination of a policy, read from the words of ONDUE as INFO shows them.

/// Where dead letters go.
#[derive(Clone, Debug, PartialEq)]
pub enum Destination {
    Stream(Vec<u8>),
    List(Vec<u8>),
    Drop,
    Publish,
    /// Dead letters have no rule, or the policy delivers every element.
    None,
}

impl Destination {
    /// Reads a policy such as `HOLD DELIVERIES 5 STREAM dest MAXLEN ~ 1000`.
    pub fn of_dead_letters(policy: &[u8]) -> Self {
        let words = words(policy);
        let words: Vec<_> = words.iter().map(Vec::as_slice).collect();
        match &words[..] {
            [b"HOLD", b"DELIVERIES", _, b"STREAM", dest, ..] => Self::Stream(dest.to_vec()),
            [b"HOLD", b"DELIVERIES", _, b"LIST", dest, ..] => Self::List(dest.to_vec()),
            [b"HOLD", b"DELIVERIES", _, b"DROP", ..] => Self::Drop,
            [b"HOLD", b"DELIVERIES", _, b"PUBLISH", ..] => Self::Publish,
            _ => Self::None,
        }
    }

    pub fn kind(&self) -> &'static str {
        match self {
            Self::Stream(_) => "stream",
            Self::List(_) => "list",
            Self::Drop => "drop",
            Self::Publish => "publish",
            Self::None => "none",
        }
    }

    /// Returns the key of a stream or a list.
    pub fn key(&self) -> Option<&[u8]> {
        match self {
            Self::Stream(key) | Self::List(key) => Some(key),
            _ => None,
        }
    }
}

/// Splits a line at its blanks, outside of quotes.
fn words(line: &[u8]) -> Vec<Vec<u8>> {
    let mut words = vec![Vec::new()];
    let (mut rest, mut is_quoted) = (line.iter().copied(), false);
    let digit = |byte: Option<u8>| char::from(byte.unwrap_or_default()).to_digit(16).unwrap_or(0);
    while let Some(byte) = rest.next() {
        let byte = match byte {
            b'"' => {
                is_quoted = !is_quoted;
                continue;
            }
            b' ' if !is_quoted => {
                words.push(Vec::new());
                continue;
            }
            b'\\' if is_quoted => match rest.next() {
                Some(b'x') => (digit(rest.next()) * 16 + digit(rest.next())) as u8,
                escaped => escaped.unwrap_or_default(),
            },
            byte => byte,
        };
        words.last_mut().expect("a word").push(byte);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_destination_of_dead_letters_is_found_whatever_its_name() {
        let read = |policy: &str| Destination::of_dead_letters(policy.as_bytes());
        let stream = |name: &str| Destination::Stream(name.into());
        assert_eq!(read("HOLD"), Destination::None);
        assert_eq!(read("STREAM dest"), Destination::None);
        assert_eq!(read("HOLD DELIVERIES 5 DROP"), Destination::Drop);
        assert_eq!(read("HOLD DELIVERIES 5 PUBLISH \"a b\""), Destination::Publish);
        assert_eq!(read("HOLD DELIVERIES 5 STREAM \"a b\""), stream("a b"));
        assert_eq!(read("HOLD DELIVERIES 5 STREAM \"d MAXLEN ~ 12\""), stream("d MAXLEN ~ 12"));
        assert_eq!(read("HOLD DELIVERIES 5 STREAM \"\" MAXLEN ~ 12"), stream(""));
        assert_eq!(read("HOLD DELIVERIES 5 STREAM \"\\\"\\\\\\x0a\""), stream("\"\\\n"));
        assert_eq!(read("HOLD DELIVERIES 5 STREAM d MAXLEN ~ 12"), stream("d"));
        assert_eq!(read("HOLD DELIVERIES 5 STREAM d MAXLEN = 12 UNCONFIRMED"), stream("d"));
        assert_eq!(read("HOLD DELIVERIES 65535 LIST d LEFT"), Destination::List("d".into()));
        assert_eq!(read("HOLD DELIVERIES 1 LIST d"), Destination::List("d".into()));
    }
}
