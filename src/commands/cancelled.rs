//! Telling workers that what they hold was cancelled: it has left its key, or lost its lease, by a command that showed no
//! token.
//!
//! Each id is a message on a channel of its key. Nothing is kept: a worker that misses one learns the same from its next
//! RENEW.

use crate::server::flags::is_cluster;
use crate::server::{CommandContext, OwnedStr, Str};
use lawn::Lawn;

use super::defaults::stand_in;

/// Returns whether an element is held under a token, so that whoever cancels it has to [`tell`].
pub fn is_held(lawn: &Lawn, id: &[u8]) -> bool {
    lawn.leased() > 0 && lawn.look(id).is_some_and(|element| lawn.token(&element).is_some())
}

/// Publishes the ids of elements that were held until now. In a cluster, the channel is the shard's, and nothing is sent to
/// its other nodes unless somebody listens here. Nothing is published for an effect: the primary has done it.
pub fn tell<'i>(
    context: &CommandContext,
    key: Str<'_>,
    ids: impl IntoIterator<Item = &'i [u8], IntoIter: ExactSizeIterator>,
) {
    let ids = ids.into_iter();
    if ids.len() == 0 || context.is_replaying() {
        return;
    }
    let is_shard = is_cluster();
    let name = [
        format!("__cancelled@{}__:", context.selected_db()).as_bytes(),
        &stand_in(key.bytes(), is_shard),
    ]
    .concat();
    let channel = OwnedStr::new(&name);
    if is_shard && !context.has_shard_subscribers(channel.as_str()) {
        return;
    }
    for id in ids {
        context.publish(channel.as_str(), OwnedStr::new(id).as_str(), is_shard);
    }
}
