//! Falling asleep: a client that finds nothing due joins the lines of its keys.

use crate::pending::{Take, blocked};
use crate::server::blocked_client::BlockedClient;
use crate::server::{CommandContext, Context, Str};

use super::unblocked::Unblocked;

/// A key, and when something can be given out, in milliseconds since the epoch.
pub(super) type Asked<'a> = (Str<'a>, Option<u64>);

/// Has the client of this command sleep until something is due in one of its keys, which are all different, or for
/// `timeout` milliseconds (0: for ever), when it is replied nil. `word`: the token
/// that it has chosen, as it wrote it. `is_named`: it is told from which key it is served.
/// Returns whether it sleeps: the server refuses that to some clients.
pub(super) fn sleep(
    context: &CommandContext,
    asked: &[Asked<'_>],
    timeout: u64,
    (take, word): (Take, Option<Str<'_>>),
    is_named: bool,
) -> bool {
    let Some(client) = BlockedClient::block::<Unblocked>(context) else { return false };
    blocked::join(context, client, asked, timeout, take, word, is_named);
    true
}

/// Returns whether who asks for this key now joins its line: nothing is due, or others came before.
pub(super) fn has_to_wait(context: &Context, (key, next): Asked<'_>, now: u64) -> bool {
    next.is_none_or(|next| next > now) || blocked::is_watched(context, key)
}
