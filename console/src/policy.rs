//! A policy: what ONDUE has set, as INFO shows it.

use redis::Value;

use crate::fields::Fields;

#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// The first word of ONDUE: HOLD, DROP, STREAM, LIST or PUBLISH.
    pub action: String,
    /// How often an element is given out before it is a dead letter, 0 for no limit.
    pub deliveries: u64,
    /// The word for where dead letters go.
    pub dead_letters: Option<String>,
    /// The stream, the list or the channel.
    pub dest: Option<Vec<u8>>,
    /// The end of a list, LEFT or RIGHT.
    pub end: Option<String>,
    /// The length to which a stream is trimmed, 0 for none.
    pub maxlen: u64,
    pub is_approximate: bool,
    /// False if the policy came by RESTORE and nobody has confirmed it.
    pub is_confirmed: bool,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            action: "HOLD".to_owned(),
            deliveries: 0,
            dead_letters: None,
            dest: None,
            end: None,
            maxlen: 0,
            is_approximate: false,
            is_confirmed: true,
        }
    }
}

impl Policy {
    /// Reads a map. Missing fields are as of HOLD.
    pub fn parse(reply: &Value) -> Option<Self> {
        let fields = Fields::of(reply)?;
        Some(Self {
            action: fields.text("action").unwrap_or("HOLD".to_owned()),
            deliveries: fields.count("deliveries"),
            dead_letters: fields.text("dead-letters"),
            dest: fields.bytes("dest"),
            end: fields.text("end"),
            maxlen: fields.count("maxlen"),
            is_approximate: fields.is_set("approximate"),
            is_confirmed: fields.number("confirmed") != Some(0),
        })
    }

    /// Returns the words of ONDUE for people to read.
    pub fn line(&self) -> Vec<u8> {
        let mut words = vec![self.action.clone().into_bytes()];
        if let Some(route) = &self.dead_letters {
            words.push(format!("DELIVERIES {} {route}", self.deliveries).into());
        }
        words.extend(self.dest.as_deref().map(quoted));
        words.extend(self.end.clone().filter(|end| end == "LEFT").map(String::into_bytes));
        if self.maxlen > 0 {
            let exactness = if self.is_approximate { "~" } else { "=" };
            words.push(format!("MAXLEN {exactness} {}", self.maxlen).into());
        }
        if !self.is_confirmed {
            words.push(b"(unconfirmed)".into());
        }
        words.join(&b' ')
    }
}

/// Returns a name in quotes, if it is empty or has blanks.
fn quoted(name: &[u8]) -> Vec<u8> {
    if !name.is_empty() && !name.contains(&b' ') {
        return name.to_vec();
    }
    [&b"\""[..], name, b"\""].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_is_read_from_its_fields_and_shown_in_a_line() {
        let bulk = |word: &str| Value::BulkString(word.into());
        let map = |fields: &[(&str, Value)]| {
            Value::Array(
                fields.iter().flat_map(|(name, value)| [bulk(name), value.clone()]).collect(),
            )
        };
        assert_eq!(Policy::parse(&map(&[])), Some(Policy::default()));
        assert_eq!(Policy::parse(&bulk("HOLD")), None);
        let read = |fields: &[(&str, Value)]| {
            let line = Policy::parse(&map(fields)).expect("a map").line();
            String::from_utf8(line).expect("text")
        };
        assert_eq!(read(&[("action", bulk("DROP")), ("later", Value::Int(7))]), "DROP");
        let stream = [
            ("action", bulk("HOLD")),
            ("deliveries", Value::Int(5)),
            ("dead-letters", bulk("STREAM")),
            ("dest", bulk("a b")),
            ("end", Value::Nil),
            ("maxlen", Value::Int(9)),
            ("approximate", Value::Int(1)),
            ("confirmed", Value::Int(0)),
        ];
        assert_eq!(read(&stream), "HOLD DELIVERIES 5 STREAM \"a b\" MAXLEN ~ 9 (unconfirmed)");
        let list = [("action", bulk("LIST")), ("dest", bulk("l")), ("end", bulk("LEFT"))];
        assert_eq!(read(&list), "LIST l LEFT");
        let list = [("action", bulk("LIST")), ("dest", bulk("")), ("end", bulk("RIGHT"))];
        assert_eq!(read(&list), "LIST \"\"");
    }
}
