//! Blocking a client that finds nothing due: it joins the queues of its keys.

use crate::pending::{Take, blocked};
use crate::server::blocked_client::BlockedClient;
use crate::server::{CommandContext, Context, Str};

use super::unblocked::Unblocked;

/// A key, and when it can next give something out, in milliseconds since the epoch.
pub(super) type Asked<'a> = (Str<'a>, Option<u64>);

/// Blocks the client of this command until something is due in one of its keys, which are all different. After
/// `timeout` milliseconds (0: never) it receives nil. `word`: the token that the client chose, as it wrote it.
/// `is_named`: the reply names the key. Returns whether the client is blocked: the server refuses that for some clients.
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

/// Returns whether a client must queue for this key: nothing is due, or others wait already.
pub(super) fn must_wait(context: &Context, (key, next): Asked<'_>, now: u64) -> bool {
    next.is_none_or(|next| next > now) || blocked::is_watched(context, key)
}
