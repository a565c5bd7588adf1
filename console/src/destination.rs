//! The destination of dead letters.

use crate::policy::Policy;

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
    pub fn of_dead_letters(policy: &Policy) -> Self {
        let dest = policy.dest.clone().unwrap_or_default();
        match policy.dead_letters.as_deref() {
            Some("STREAM") => Self::Stream(dest),
            Some("LIST") => Self::List(dest),
            Some("DROP") => Self::Drop,
            Some("PUBLISH") => Self::Publish,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dead_letters_have_a_destination_if_their_number_is_limited() {
        let of = |dead_letters: Option<&str>| {
            let dest = Some(b"d".to_vec());
            let dead_letters = dead_letters.map(str::to_owned);
            Destination::of_dead_letters(&Policy { dead_letters, dest, ..Policy::default() })
        };
        assert_eq!(of(None), Destination::None);
        assert_eq!(of(Some("DROP")), Destination::Drop);
        assert_eq!(of(Some("PUBLISH")), Destination::Publish);
        assert_eq!(of(Some("STREAM")), Destination::Stream(b"d".into()));
        assert_eq!(of(Some("LIST")), Destination::List(b"d".into()));
    }
}
