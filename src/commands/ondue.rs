//! What becomes of elements when they come due: ONDUE.

use crate::data_type::Writing;
use crate::pending::schedule;
use crate::policy::Policy;
use crate::replicate;
use crate::server::command::access;
use crate::server::key::Name;
use crate::server::string::Args;
use crate::server::{Context, Error, Key, OwnedStr, error::Result};

use super::args::{self, shown};

/// `ONDUE key HOLD | DROP | STREAM dest [MAXLEN [~ | =] n] | PUBLISH channel`: OK.
pub fn ondue(context: &Context, args: Args<'_>) -> Result {
    if context.wants_keys() || context.wants_channels() {
        say_where(context, args);
        return Ok(());
    }
    let args::OnDue { key, policy } = args::OnDue::parse(args)?;
    // A policy that only takes away is allowed to a server that is full.
    let adds = !matches!(policy, Policy::Hold | Policy::Drop);
    if adds && context.is_out_of_memory() && !context.is_replaying() {
        return Err(Error::OutOfMemory);
    }
    if let Policy::Stream { dest, .. } = &policy
        && !context.is_replaying()
        && Key::holds_other_than_stream(context, OwnedStr::new(dest).as_str())
    {
        let dest = shown(dest);
        return Err(Error::WrongTypeOf(format!("'{dest}' holds something else than a stream")));
    }
    let mut dehydrator = Writing::open(context, key)?;

    // What could not be delivered is tried at once, also where it was before.
    schedule::succeeded(&Name::of(context, key));
    if dehydrator.set_policy(policy) {
        replicate::verbatim(context);
        dehydrator.shrunk(c"dehydrator.ondue");
    }
    context.reply_ok();
    Ok(())
}

/// Says which arguments are keys and channels, so that the server checks the user's rights to them, and,
/// in a cluster, that the keys are in one slot.
fn say_where(context: &Context, args: Args<'_>) {
    /// Where the policy stands, and behind it the stream or the channel.
    const POLICY: usize = 2;
    let policy = args.get(POLICY).map(|word| word.bytes().to_ascii_uppercase());
    let names = args.get(POLICY + 1).is_some();
    if context.wants_keys() {
        context.key_at(1, access::TOUCH);
        if names && policy.as_deref() == Some(b"STREAM") {
            context.key_at(POLICY + 1, access::INSERT);
        }
    } else if names && policy.as_deref() == Some(b"PUBLISH") {
        context.published_channel_at(POLICY + 1);
    }
}

impl Policy {
    /// As INFO shows it: the words of ONDUE.
    pub(super) fn line(&self) -> Vec<u8> {
        self.words().join(&b' ')
    }
}
