//! The fields of a map that the server replies. Unknown ones are passed over; missing ones are `None`, or 0.

use redis::{Value, from_redis_value_ref};

pub struct Fields<'a>(Vec<(&'a [u8], &'a Value)>);

impl<'a> Fields<'a> {
    /// Returns the fields of a map; `None` if the reply is none.
    pub fn of(reply: &'a Value) -> Option<Self> {
        let fields = reply.as_map_iter()?.filter_map(|(name, value)| match name {
            Value::BulkString(name) => Some((name.as_slice(), value)),
            _ => None,
        });
        Some(Self(fields.collect()))
    }

    pub fn get(&self, name: &str) -> Option<&'a Value> {
        self.0.iter().find(|(it, _)| *it == name.as_bytes()).map(|(_, value)| *value)
    }

    pub fn number(&self, name: &str) -> Option<u64> {
        number(self.get(name)?)
    }

    pub fn count(&self, name: &str) -> u64 {
        self.number(name).unwrap_or(0)
    }

    pub fn is_set(&self, name: &str) -> bool {
        self.count(name) == 1
    }

    pub fn bytes(&self, name: &str) -> Option<Vec<u8>> {
        bytes(self.get(name)?)
    }

    pub fn text(&self, name: &str) -> Option<String> {
        Some(String::from_utf8_lossy(&self.bytes(name)?).into_owned())
    }
}

pub fn number(value: &Value) -> Option<u64> {
    from_redis_value_ref::<Option<u64>>(value).ok().flatten()
}

pub fn bytes(value: &Value) -> Option<Vec<u8>> {
    from_redis_value_ref::<Option<Vec<u8>>>(value).ok().flatten()
}
