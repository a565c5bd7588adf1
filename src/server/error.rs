//! The error that refuses a command.

use std::borrow::Cow;

/// Why a command was refused. A refused command changes nothing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Error {
    /// The number of arguments matches no form of the command.
    Arity,
    /// The key holds a value of another type.
    WrongType,
    /// Another key holds a value of another type. The text names that key, without the leading `WRONGTYPE`.
    WrongTypeOf(String),
    /// Another node of the cluster now serves the key's slot.
    SlotMoved,
    /// ONDUE now delivers the key's elements, so waiting for them is pointless.
    Delivered,
    /// The server has no memory for more data.
    OutOfMemory,
    /// The user may not publish to the channel.
    NoChannel,
    /// An error with its own code, for programs, and the text after the code.
    Coded(&'static str, Cow<'static, str>),
    /// Any other reason, without the leading `ERR`.
    Refused(Cow<'static, str>),
}

/// The result of a command. On `Ok` the reply has been sent.
pub type Result<T = ()> = std::result::Result<T, Error>;

impl Error {
    /// The reply after a panic.
    pub const INTERNAL: Self = Self::Refused(Cow::Borrowed("internal error, see the server's log"));
    /// The reply to a blocked client whose server became a replica or lost the slot. The client's next attempt is
    /// redirected to the right node.
    pub const SLOT_MOVED: &str = "UNBLOCKED the key's slot is served by another node now";
    /// The reply to a client that was blocked when a policy was set.
    pub const DELIVERED: &str = "UNBLOCKED ONDUE delivers this key now";
    /// The server's own text.
    pub const OUT_OF_MEMORY: &str = "OOM command not allowed when used memory > 'maxmemory'.";
    /// The server's own text, as of Redis 7.2.
    pub const NO_CHANNEL: &str = "NOPERM No permissions to access a channel";
    /// The text of every built-in type.
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
