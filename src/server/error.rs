//! What a client is told when a command is refused.

use std::borrow::Cow;

/// Why a command was refused. Nothing has changed then.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Error {
    /// The number of arguments fits no form of the command.
    Arity,
    /// The key holds something else.
    WrongType,
    /// Another key does, which is named, without the leading `WRONGTYPE`.
    WrongTypeOf(String),
    /// The key's slot is served by another node of the cluster now.
    Elsewhere,
    /// What comes due in the key is delivered, so that no client need wait for it.
    Delivered,
    /// The server has no memory for more data.
    OutOfMemory,
    /// The user has no right to a channel.
    NoChannel,
    /// What a program may want to tell from the rest: a code of its own, and the words behind it.
    Coded(&'static str, Cow<'static, str>),
    /// Anything else, without the leading `ERR`.
    Refused(Cow<'static, str>),
}

/// The reply of a command that went well has been sent when it returns.
pub type Result<T = ()> = std::result::Result<T, Error>;

impl Error {
    /// As a client is told after a panic.
    pub const INTERNAL: Self = Self::Refused(Cow::Borrowed("internal error, see the server's log"));
    /// As a client is told that was asleep when its server became a replica: ask again, and be sent to
    /// the right node.
    pub const ELSEWHERE: &str = "UNBLOCKED the key's slot is served by another node now";
    /// As a client is told that was blocked when a policy was set.
    pub const DELIVERED: &str = "UNBLOCKED ONDUE delivers this key now";
    /// The server's own words.
    pub const OUT_OF_MEMORY: &str = "OOM command not allowed when used memory > 'maxmemory'.";
    /// The server's own words, as of Redis 7.2.
    pub const NO_CHANNEL: &str = "NOPERM No permissions to access a channel";
    /// The words of every built-in type.
    pub const WRONG_TYPE: &str =
        "WRONGTYPE Operation against a key holding the wrong kind of value";
}

impl From<&'static str> for Error {
    fn from(reason: &'static str) -> Self {
        Self::Refused(reason.into())
    }
}

impl From<String> for Error {
    fn from(reason: String) -> Self {
        Self::Refused(reason.into())
    }
}
