//! The error that refuses a command.

use std::borrow::Cow;

/// Why a command was refused. A refused command changes nothing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Error {
    /// The number of arguments matches no form of the command.
    Arity,
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
    /// The key holds a value of another type. The text of every built-in type.
    pub const WRONG_TYPE: Self =
        Self::coded("WRONGTYPE", "Operation against a key holding the wrong kind of value");
    /// The server has no memory for more data. The server's own text.
    pub const OUT_OF_MEMORY: Self =
        Self::coded("OOM", "command not allowed when used memory > 'maxmemory'.");
    /// The user may not publish to the channel. The server's own text, as of Redis 7.2.
    pub const NO_CHANNEL: Self = Self::coded("NOPERM", "No permissions to access a channel");
    /// The reply to a blocked client whose node lost the slot. The client's next attempt is redirected to the right node.
    pub const SLOT_MOVED: Self =
        Self::coded("UNBLOCKED", "this node does not serve the key's slot any more");
    /// The reply to a blocked client whose server becomes a replica, or would become one.
    pub const BECOMES_REPLICA: Self = Self::coded("UNBLOCKED", "this server becomes a replica");
    /// The reply to a blocked client while the cluster is down. The server's own text.
    pub const CLUSTER_DOWN: Self = Self::coded("CLUSTERDOWN", "The cluster is down");
    /// The reply to a client that was blocked when a policy was set: waiting is pointless.
    pub const DELIVERED: Self = Self::coded("UNBLOCKED", "ONDUE delivers this key now");

    const fn coded(code: &'static str, reason: &'static str) -> Self {
        Self::Coded(code, Cow::Borrowed(reason))
    }
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
