//! Byte strings of Redis in JSON: base64url without padding.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

#[derive(Clone, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Bytes(pub Vec<u8>);

/// Returns base64url without padding.
pub fn encode(bytes: &[u8]) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        BASE64_URL_SAFE_NO_PAD.decode(text).map(Self).map_err(de::Error::custom)
    }
}

/// A plain substring to look for, case-insensitively for ASCII.
#[derive(Clone, Debug)]
pub struct Needle(Vec<u8>);

impl Needle {
    /// Returns a needle; `None` for an empty text, which is everywhere.
    pub fn new(text: &str) -> Option<Self> {
        (!text.is_empty()).then(|| Self(text.to_ascii_lowercase().into_bytes()))
    }

    pub fn is_in(&self, hay: &[u8]) -> bool {
        let Some(first) = self.0.first() else { return true };
        memchr::memchr2_iter(*first, first.to_ascii_uppercase(), hay).any(|at| {
            hay.get(at..at + self.0.len()).is_some_and(|part| part.eq_ignore_ascii_case(&self.0))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_survive_json() {
        let bytes = Bytes(vec![0, 255, b'<', b'\r', b'\n']);
        let json = serde_json::to_string(&bytes).expect("json");
        assert_eq!(json, "\"AP88DQo\"");
        assert_eq!(serde_json::from_str::<Bytes>(&json).expect("bytes"), bytes);
        assert!(serde_json::from_str::<Bytes>("\"a+/=\"").is_err());
    }

    #[test]
    fn a_needle_ignores_the_case_of_ascii_alone() {
        let needle = Needle::new("Ärger A").expect("a needle");
        assert!(needle.is_in("viel Ärger a".as_bytes()));
        assert!(!needle.is_in("viel ärger A".as_bytes()));
        assert!(!needle.is_in("Ärger".as_bytes()));
        assert!(Needle::new("").is_none());
    }
}
