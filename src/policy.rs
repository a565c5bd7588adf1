//! What becomes of an element when it comes due without anybody asking for it.

use std::borrow::Cow;

/// See ONDUE.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub enum Policy {
    /// It waits to be taken.
    #[default]
    Hold,
    /// It is removed.
    Drop,
    /// It is moved to the end of a stream, which is then trimmed, if a length is given.
    Stream { dest: Box<[u8]>, maxlen: Option<MaxLen> },
    /// It is published to a channel.
    Publish { channel: Box<[u8]> },
}

/// XADD's MAXLEN.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MaxLen {
    pub length: u64,
    /// `~`: the stream may be a little longer, if that is cheaper.
    pub approximate: bool,
}

impl MaxLen {
    /// The words of the option, as XADD and ONDUE take them.
    pub fn words(self) -> [Cow<'static, [u8]>; 3] {
        let exactness = if self.approximate { &b"~"[..] } else { b"=" };
        let length = self.length.to_string().into_bytes();
        [b"MAXLEN"[..].into(), exactness.into(), length.into()]
    }
}

impl Policy {
    /// The words that ask for it, behind the key, as ONDUE takes them: in replication, in the
    /// append-only file, in INFO.
    pub fn words(&self) -> Vec<Cow<'_, [u8]>> {
        match self {
            Self::Hold => vec![b"HOLD"[..].into()],
            Self::Drop => vec![b"DROP"[..].into()],
            Self::Stream { dest, maxlen } => {
                let mut words = vec![b"STREAM"[..].into(), Cow::from(&dest[..])];
                words.extend(maxlen.map(MaxLen::words).into_iter().flatten());
                words
            }
            Self::Publish { channel } => vec![b"PUBLISH"[..].into(), Cow::from(&channel[..])],
        }
    }

    /// Bytes on the heap.
    pub fn memory(&self) -> usize {
        match self {
            Self::Hold | Self::Drop => 0,
            Self::Stream { dest: name, .. } | Self::Publish { channel: name } => name.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_says_what_it_is_and_how_much_memory_its_names_take() {
        let stream = |maxlen| Policy::Stream { dest: b"dest"[..].into(), maxlen };
        let maxlen = |length, approximate| Some(MaxLen { length, approximate });
        let policies = [
            (Policy::default(), "HOLD", 0),
            (Policy::Drop, "DROP", 0),
            (stream(None), "STREAM dest", 4),
            (stream(maxlen(7, false)), "STREAM dest MAXLEN = 7", 4),
            (stream(maxlen(u64::MAX, true)), "STREAM dest MAXLEN ~ 18446744073709551615", 4),
            (Policy::Publish { channel: b"channel"[..].into() }, "PUBLISH channel", 7),
        ];
        for (policy, words, memory) in policies {
            assert_eq!(policy.words().join(&b' '), words.as_bytes());
            assert_eq!(policy.memory(), memory, "{words}");
        }
    }
}
