//! PURGE, and TOUCH of many elements: a change of a whole group, or of all ids with a prefix, in bounded steps.
//!
//! A few elements are changed at once. For more, the client is blocked, and one step is done at the end of each pass of the
//! event loop, so that other clients' commands run in between. Each step replicates what it did. The client gets its reply
//! when no step finds anything more: whatever was there when its command came is then changed, even if it was given back,
//! leased or moved meanwhile. If the client disconnects, the steps go on.
//!
//! A group is found by its own order. There is no order of ids: for a prefix, all of the key is scanned.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use crate::clock;
use crate::data_type::{Ending, Writing, ends_lease, postponed, set_until};
use crate::pending::timer;
use crate::replicate::Batch;
use crate::server::blocked_client::{BlockedClient, ClientHandle, UnblockReply};
use crate::server::key::Name;
use crate::server::string::Args;
use crate::server::{CommandContext, Context, Error, OwnedStr, Str, error::Result};
use lawn::Lawn;

use super::args::number::milliseconds;
use super::args::options::Options;
use super::args::{exactly, required};
use super::checks;

/// Elements visited between two looks at the clock. Each is a miss of the cache or two, and an effect.
const CHUNK: usize = 64;
/// The length of a step, in microseconds.
const STEP_US: u64 = 500;
/// The most elements that a command visits at once, and all that it may visit in a transaction or a script.
const AT_ONCE_MAX: usize = 1024;
/// The time between two tries while writes are not allowed (CLIENT PAUSE, FAILOVER, too few replicas), in microseconds.
const RETRY_US: u64 = 20_000;

const NOT_PRIMARY: Error = Error::Coded(
    "UNBLOCKED",
    Cow::Borrowed("this server has become a replica before all was done"),
);

/// The elements to change.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Selection {
    Group(Box<[u8]>),
    /// All ids that begin so, and the cursor of the scan that finds them.
    Prefix(Box<[u8]>, u64),
}

#[derive(Clone, Copy)]
enum Change {
    Remove,
    Restart { ttl: u64, deadline: u64 },
}

struct Sweep {
    name: Name,
    selection: Selection,
    change: Change,
    /// The number of elements changed so far.
    count: i64,
    /// `None` after the client has disconnected.
    client: Option<BlockedClient>,
}

thread_local! {
    // Commands and passes of the event loop run on the server's main thread alone.
    static SWEEPS: RefCell<VecDeque<Sweep>> = const { RefCell::new(VecDeque::new()) };
    /// No step is done before this time, on the monotonic clock, in microseconds.
    static RETRY_AT_US: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// Reads `GROUP name` or `PREFIX prefix` from the argument at index 2 on.
fn parse_selection(args: Args<'_>) -> Result<Selection> {
    let mut options = Options::new(args, 2);
    let word = options.next().ok_or(Error::Arity)?;
    match word.name() {
        b"GROUP" => match options.group()? {
            Some(name) => Ok(Selection::Group(name.bytes().into())),
            None => Err("GROUP needs a name here: elements without a group are no group".into()),
        },
        b"PREFIX" => Ok(Selection::Prefix(options.value("PREFIX")?.bytes().into(), 0)),
        _ => Err(word.unexpected()),
    }
}

/// Reads `key <GROUP name | PREFIX prefix>`.
fn parse_purge<'a>(args: Args<'a>) -> Result<(Str<'a>, Selection)> {
    let [key, ..] = exactly::<3>(args)?;
    Ok((key, parse_selection(args)?))
}

/// Returns whether the arguments of TOUCH are `key <GROUP name | PREFIX prefix> ttl`. An id may be called GROUP, so what
/// follows must not be an option.
pub fn is_touch_of_many(args: Args<'_>) -> bool {
    let is = |at, words: &[&[u8]]| {
        let word = args.get(at).map_or(&[][..], Str::bytes);
        words.iter().any(|it| word.eq_ignore_ascii_case(it))
    };
    args.len() == 5 && is(2, &[b"GROUP", b"PREFIX"]) && !is(4, &[b"GT", b"LT"])
}

/// Reads `key <GROUP name | PREFIX prefix> ttl`.
fn parse_touch<'a>(args: Args<'a>) -> Result<(Str<'a>, Selection, u64)> {
    let ttl = milliseconds("ttl", required(args, 4)?.bytes())?;
    Ok((required(args, 1)?, parse_selection(args)?, ttl))
}

/// Runs `PURGE key <GROUP name | PREFIX prefix>`: the number of elements removed, due or not, leased or not.
pub fn purge(context: &CommandContext, args: Args<'_>) -> Result {
    let (key, selection) = parse_purge(args)?;
    begin(context, key, selection, Change::Remove)
}

/// Runs `TOUCH key <GROUP name | PREFIX prefix> ttl`: the number of elements that got another deadline. What is under a
/// live lease is not changed.
pub fn touch(context: &CommandContext, args: Args<'_>) -> Result {
    let (key, selection, ttl) = parse_touch(args)?;
    let deadline = checks::deadline(ttl, ttl, None, clock::now())?;
    begin(context, key, selection, Change::Restart { ttl, deadline })
}

/// Changes a few elements at once. For more, blocks the client.
fn begin(context: &CommandContext, key: Str<'_>, selection: Selection, change: Change) -> Result {
    let name = Name::of(context, key);
    let mut sweep = Sweep { name, selection, change, count: 0, client: None };
    let visited = {
        let dehydrator = Writing::open(context, key)?;
        dehydrator.look().map_or(0, |lawn| sweep.selection.visits(lawn))
    };
    if visited <= AT_ONCE_MAX {
        sweep.step(context, u64::MAX)?;
        context.reply_integer(sweep.count);
        return Ok(());
    }
    if !context.may_block() {
        return Err(format!(
            "in a transaction or a script no more than {AT_ONCE_MAX} elements can be visited, and there are {visited}"
        )
        .into());
    }
    // Refused before anything is changed.
    let client = BlockedClient::block::<Swept>(context);
    sweep.client = Some(client.ok_or("this client cannot wait until all is done")?);
    SWEEPS.with_borrow_mut(|sweeps| sweeps.push_back(sweep));
    timer::soon(context);
    Ok(())
}

/// Returns when a step is next, on the monotonic clock, in microseconds.
pub fn next_us() -> Option<u64> {
    let is_idle = SWEEPS.with_borrow(VecDeque::is_empty);
    (!is_idle).then(|| RETRY_AT_US.get().max(clock::monotonic_us()))
}

/// Does a step of one of the changes, which take turns.
pub fn go_on(context: &Context) {
    let now_us = clock::monotonic_us();
    if RETRY_AT_US.get() > now_us || SWEEPS.with_borrow(VecDeque::is_empty) {
        return;
    }
    if !context.is_primary() {
        // The next primary does not know of them. Most servers have sent their clients away by now.
        let sweeps = SWEEPS.with_borrow_mut(std::mem::take);
        return sweeps.into_iter().for_each(|mut sweep| sweep.reply(Err(NOT_PRIMARY)));
    }
    let Some(mut sweep) = SWEEPS.with_borrow_mut(VecDeque::pop_front) else { return };
    let key = OwnedStr::new(&sweep.name.key);
    let done = if !context.select_db(sweep.name.db) {
        Ok(true)
    } else if context.may_write() && context.lets_clients_write(key.as_str()) {
        sweep.step(context, now_us + STEP_US)
    } else {
        RETRY_AT_US.set(now_us + RETRY_US);
        Ok(false)
    };
    match done {
        Ok(false) => SWEEPS.with_borrow_mut(|sweeps| sweeps.push_back(sweep)),
        done => sweep.reply(done.map(|_| sweep.count)),
    }
}

impl Selection {
    /// Returns the number of elements that are visited to find those selected.
    fn visits(&self, lawn: &Lawn) -> usize {
        match self {
            Self::Group(name) => lawn.group_len(Some(name)),
            Self::Prefix(..) => lawn.len(),
        }
    }

    /// Returns the ids of some elements to change, and whether there are no more.
    fn some(&mut self, lawn: &Lawn, change: Change, now: u64) -> (Vec<Box<[u8]>>, bool) {
        let mut ids = Vec::new();
        match (self, change) {
            (Self::Group(name), Change::Remove) => {
                let all = lawn.group_rows(Some(name), lawn::Start::FIRST, lawn::DEADLINE_MAX);
                ids.extend(all.take(CHUNK).map(|row| row.element.id.into()));
            }
            (Self::Group(name), Change::Restart { deadline, .. }) => {
                let all = lawn.group_at_rest(name, deadline, now);
                ids.extend(all.take(CHUNK).map(|row| row.element.id.into()));
            }
            (Self::Prefix(prefix, cursor), change) => {
                *cursor = lawn.scan(*cursor, CHUNK, |element| {
                    let is_wanted = match change {
                        Change::Remove => true,
                        Change::Restart { deadline, .. } => {
                            let is_held = element.deadline > now && lawn.token(&element).is_some();
                            element.deadline != deadline && !is_held
                        }
                    };
                    if is_wanted && element.id.starts_with(prefix) {
                        ids.push(element.id.into());
                    }
                });
                return (ids, *cursor == 0);
            }
        }
        let is_last = ids.len() < CHUNK;
        (ids, is_last)
    }
}

impl Sweep {
    /// Changes elements until that time, on the monotonic clock, in microseconds. Returns whether all are changed.
    ///
    /// # Errors
    ///
    /// WRONGTYPE, if the key has got another value.
    fn step(&mut self, context: &Context, until_us: u64) -> Result<bool> {
        let key = OwnedStr::new(&self.name.key);
        loop {
            let mut dehydrator = Writing::open(context, key.as_str())?;
            let now = dehydrator.now();
            let Some(lawn) = dehydrator.look() else { return Ok(true) };
            let (ids, is_last) = self.selection.some(lawn, self.change, now);
            if !ids.is_empty() {
                self.count += match self.change {
                    Change::Remove => remove(context, key.as_str(), dehydrator, &ids),
                    Change::Restart { ttl, deadline } => {
                        restart(context, key.as_str(), dehydrator, &ids, (ttl, deadline))
                    }
                };
            }
            if is_last {
                return Ok(true);
            }
            if clock::monotonic_us() >= until_us {
                return Ok(false);
            }
        }
    }

    /// Unblocks the client with a reply, if it is still there.
    fn reply(&mut self, reply: Result<i64>) {
        if let Some(client) = self.client.take() {
            client.unblock(Rc::new(Swept(reply)));
        }
    }
}

/// Removes elements. Returns how many there were.
fn remove(context: &Context, key: Str<'_>, mut dehydrator: Writing<'_>, ids: &[Box<[u8]>]) -> i64 {
    let mut removed = Batch::settled(context, key, None);
    let mut count = 0;
    let Some(lawn) = dehydrator.lawn() else { return 0 };
    for id in ids {
        if lawn.stop(id).is_some() {
            count += 1;
            removed.push(id);
        }
    }
    if removed.finish() {
        dehydrator.finish(Ending::Shrunk, c"dehydrator.purge");
    }
    count
}

/// Restarts the timers of elements. Returns how many there were.
fn restart(
    context: &Context,
    key: Str<'_>,
    mut dehydrator: Writing<'_>,
    ids: &[Box<[u8]>],
    (ttl, deadline): (u64, u64),
) -> i64 {
    let mut restarts = Batch::restarts(context, key);
    let mut count = 0;
    let (now, has_limit) = (dehydrator.now(), dehydrator.rules().limits().held > 0);
    for id in ids {
        let Some(lawn) = dehydrator.lawn() else { break };
        let Some(element) = lawn.look(id) else { continue };
        let is_held = lawn.token(&element).is_some();
        let until = if is_held { None } else { postponed(&element, deadline) };
        let ttl = if ends_lease(lawn, &element, deadline, now, has_limit) { 0 } else { ttl };
        if lawn.restart_at(id, ttl, deadline) {
            let until = until.and_then(|until| set_until(lawn, id, until));
            restarts.restarted(id, ttl, deadline, until);
            count += 1;
        }
    }
    if restarts.finish() {
        dehydrator.finish(Ending::Changed, c"dehydrator.touch");
    }
    count
}

/// The reply to a client that was blocked.
struct Swept(Result<i64>);

impl UnblockReply for Swept {
    fn reply(&self, context: &Context) {
        match &self.0 {
            Ok(count) => context.reply_integer(*count),
            Err(error) => context.reply_error(error),
        }
    }

    fn done(self: Rc<Self>, _context: &Context) {}

    fn on_unblock(context: &Context, client: ClientHandle) {
        context.reply_null();
        Self::on_disconnect(client);
    }

    fn on_disconnect(client: ClientHandle) {
        let gone = SWEEPS.with_borrow_mut(|sweeps| {
            let is_it = |it: &&mut Sweep| it.client.as_ref().is_some_and(|it| it.handle == client);
            sweeps.iter_mut().find(is_it)?.client.take()
        });
        gone.into_iter().for_each(BlockedClient::forget);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::args::testing::*;

    #[test]
    fn a_purge_names_a_group_or_a_prefix() {
        needs_all_of("k GROUP g", only!(parse_purge));
        takes_no_more("k GROUP g", only!(parse_purge));
        let purge = |args: Args<'_>| parse_purge(args).map(|(key, what)| (text(key), what));
        let group = Selection::Group(b"g"[..].into());
        assert_eq!(request("k group g", purge), Ok(("k".into(), group.clone())));
        let prefix = Selection::Prefix(b"p"[..].into(), 0);
        assert_eq!(request("k PREFIX p", purge), Ok(("k".into(), prefix)));
        refuses_each(["k ALL g"], only!(parse_purge));

        let touch = |args: Args<'_>| parse_touch(args).map(|(_, what, ttl)| (what, ttl));
        assert_eq!(request("k GROUP g 5", touch), Ok((group, 5)));
        refuses_each(["k GROUP g x", "k GROUP g -1"], only!(parse_touch));
        for (line, is_many) in [
            ("k group g 5", true),
            ("k GROUP 5 GT", false),
            ("k i 5 GT", false),
            ("k GROUP 5", false),
        ] {
            let found = request(line, |args| Ok(is_touch_of_many(args)));
            assert_eq!(found, Ok(is_many), "{line}");
        }
    }
}
