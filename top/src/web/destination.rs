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
        let Some(rest) = policy.strip_prefix(b"HOLD DELIVERIES ") else { return Self::None };
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let route = rest[digits..].strip_prefix(b" ").unwrap_or_default();
        let route = route.strip_suffix(b" UNCONFIRMED").unwrap_or(route);
        if let Some(dest) = route.strip_prefix(b"STREAM ") {
            return Self::Stream(without_maxlen(dest).to_vec());
        }
        if let Some(dest) = route.strip_prefix(b"LIST ") {
            return Self::List(dest.strip_suffix(b" LEFT").unwrap_or(dest).to_vec());
        }
        match route {
            b"DROP" => Self::Drop,
            _ if route.starts_with(b"PUBLISH ") => Self::Publish,
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

/// Removes ` MAXLEN = n` or ` MAXLEN ~ n` from the end.
fn without_maxlen(dest: &[u8]) -> &[u8] {
    let digits = dest.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    if digits == 0 {
        return dest;
    }
    let rest = &dest[..dest.len() - digits];
    let rest = rest.strip_suffix(b" MAXLEN = ").or_else(|| rest.strip_suffix(b" MAXLEN ~ "));
    rest.unwrap_or(dest)
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
        assert_eq!(read("HOLD DELIVERIES 5 PUBLISH a b"), Destination::Publish);
        assert_eq!(read("HOLD DELIVERIES 5 STREAM a b"), stream("a b"));
        assert_eq!(read("HOLD DELIVERIES 5 STREAM jobs 7"), stream("jobs 7"));
        assert_eq!(read("HOLD DELIVERIES 5 STREAM d MAXLEN ~ 12"), stream("d"));
        assert_eq!(read("HOLD DELIVERIES 5 STREAM d MAXLEN = 12 UNCONFIRMED"), stream("d"));
        assert_eq!(read("HOLD DELIVERIES 65535 LIST d LEFT"), Destination::List("d".into()));
        assert_eq!(read("HOLD DELIVERIES 1 LIST d"), Destination::List("d".into()));
    }
}
