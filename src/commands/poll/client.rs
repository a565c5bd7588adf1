//! A blocked client: the command that blocks it, and the reply when it is woken, unless it has disconnected.
//!
//! *The client has disconnected.* The server frees it at the end of the pass of the event loop in which it reads that. Until
//! then it drops replies to it. So a client that is freed in the pass of its reply has not got its elements
//! ([`disconnected`]). They are given back at the end of the next pass, because writes are not allowed when the server
//! reports the disconnection.
//!
//! *It has asked again.* A client that lost its connection may repeat its request over another one, with the same token
//! of its own choice, while elements taken for it are in flight to the first connection. It receives the same elements
//! there, so they are not given back when the first connection turns out to be closed.
//!
//! *The server becomes a replica.* Redis 7.0 replies at the end of the pass in which clients were unblocked. Later servers
//! reply in the next pass, after the commands that have arrived meanwhile. One of these may be REPLICAOF: then the server
//! disconnects all blocked clients, and a replica cannot give their elements back. (REPLICAOF itself is too late: from
//! there on the server sends nothing more to its own replicas, one of which may be the next primary.) So while elements
//! are in flight, a filter checks commands before they run. Before a command that makes this server a replica, all
//! elements in flight are given back.

use std::cell::{Cell, RefCell};
use std::mem;
use std::rc::Rc;

use crate::pending::blocked::{self, Take};
use crate::pending::timer;
use crate::server::blocked_client::{BlockedClient, ClientHandle, UnblockReply};
use crate::server::command_filter::{CommandFilter, CommandObserver, CommandView};
use crate::server::guard::{guard, trap};
use crate::server::{ClientId, CommandContext, Context, Error, Str};
use lawn::Token;

use super::reply::reply_nothing;
use super::taken::TakenElements;

/// A key, and when it can next give something out, in milliseconds since the epoch.
pub(super) type Asked<'a> = (Str<'a>, Option<u64>);

/// Returns whether a client must queue for this key: nothing is due, or others wait already.
pub(super) fn must_wait(context: &Context, (key, next): Asked<'_>, now: u64) -> bool {
    next.is_none_or(|next| next > now) || blocked::is_watched(context, key)
}

/// Blocks the client of this command, by its name, until something is due in one of its keys, which are all different. After
/// `timeout` milliseconds (0: never) it receives the reply for nothing. Returns whether the client is blocked: the server refuses that for
/// some clients.
pub(super) fn sleep(
    context: &CommandContext,
    command: Option<Str<'_>>,
    asked: &[Asked<'_>],
    timeout: u64,
    take: &Take<'_>,
) -> bool {
    let Some(client) = BlockedClient::block::<Woken>(context) else { return false };
    blocked::join(context, client, command, asked, timeout, take);
    true
}

/// Why a client is unblocked.
pub(super) enum Outcome {
    /// Elements were taken for it.
    Given(TakenElements),
    /// Its timeout has passed. Set if its reply would name the key, as MPOLL's does.
    TimedOut { is_named: bool },
    /// There is nothing left to wait for.
    SentAway(Error),
}

/// A woken client, until the server has replied to it or found it disconnected.
struct Woken {
    outcome: RefCell<Outcome>,
    replied: Cell<bool>,
}

/// The elements that have left the lawn and have not arrived.
#[derive(Default)]
struct InFlight {
    /// Clients for which elements were taken, in the order in which they were woken.
    woken: Vec<Rc<Woken>>,
    /// Remembers what was replied in the present pass of the event loop.
    replied: Vec<TakenElements>,
    /// Elements of disconnected clients, to be given back.
    returns: Vec<TakenElements>,
    /// Set while there are any.
    filter: Option<CommandFilter>,
}

thread_local! {
    // Commands, timers and ticks run on the server's main thread alone.
    static IN_FLIGHT: RefCell<InFlight> = RefCell::default();
}

/// Unblocks a client: the server replies the outcome.
pub(super) fn unblock(context: &Context, client: BlockedClient, outcome: Outcome) {
    let is_given = matches!(outcome, Outcome::Given(_));
    let woken = Rc::new(Woken { outcome: RefCell::new(outcome), replied: Cell::new(false) });
    if is_given {
        IN_FLIGHT.with_borrow_mut(|all| {
            all.woken.push(Rc::clone(&woken));
            if !context.serves_after_modules() {
                all.observe_commands(context);
            }
        });
    }
    client.unblock(woken);
}

/// Gives back the elements of disconnected clients.
pub(super) fn give_back(context: &Context) {
    let returns = IN_FLIGHT.with_borrow_mut(|all| mem::take(&mut all.returns));
    blocked::with(|queues| queues.has_returns = false);
    returns.iter().for_each(|taken| taken.give_back(context));
    IN_FLIGHT.with_borrow_mut(|all| all.lift_filter(context));
}

/// Returns whether elements are on their way to a client.
pub fn is_under_way() -> bool {
    IN_FLIGHT.with_borrow(|all| !all.woken.is_empty() || !all.replied.is_empty())
}

/// Records that a pass of the event loop begins: what was replied in the one before has been sent.
pub fn pass_begins() {
    IN_FLIGHT.with_borrow_mut(|all| all.replied.clear());
}

/// Records that the server frees a client. If it was given elements in this pass, they were not sent.
pub fn disconnected(context: &Context, client: ClientId) {
    let is_replied = |all: &InFlight| all.replied.iter().any(|taken| taken.is_for(client));
    if IN_FLIGHT.with_borrow(is_replied)
        && !context.knows_late_who_is_gone()
        && !context.closes_after_reply(client)
    {
        IN_FLIGHT.with_borrow_mut(|all| {
            let lost = all.replied.extract_if(.., |taken| taken.is_for(client));
            all.returns.extend(lost);
            all.note_returns(context);
        });
    }
}

impl InFlight {
    /// Ensures that what is to be given back is given back soon.
    fn note_returns(&mut self, context: &Context) {
        self.observe_commands(context);
        blocked::with(|queues| queues.has_returns = true);
        timer::soon(context);
    }

    /// Installs the command filter, unless it is.
    fn observe_commands(&mut self, context: &Context) {
        if self.filter.is_none() {
            self.filter = CommandFilter::install::<BecomesReplica>(context);
        }
    }

    /// Removes the command filter if nothing is in flight or to be given back.
    fn lift_filter(&mut self, context: &Context) {
        if self.woken.is_empty()
            && self.returns.is_empty()
            && let Some(filter) = self.filter.take()
        {
            filter.remove(context);
        }
    }
}

/// Records that a database was emptied, or all were (`None`): elements taken from it are not given back.
pub fn flushed(db: Option<i32>) {
    each_taken(|taken| taken.flushed(db));
}

/// Records that two databases were swapped.
pub fn swapped(first: i32, second: i32) {
    each_taken(|taken| taken.swapped(first, second));
}

/// Records that a client was sent the elements that it holds in a key of a database under its token. If they are also in
/// flight over another connection, and that one is closed, they are not given back.
pub(super) fn note_resend(db: i32, key: Str<'_>, token: Option<Token>) {
    each_taken(|taken| taken.resent(db, key, token));
}

/// Applies `change` to all elements in flight or to be given back.
fn each_taken(mut change: impl FnMut(&mut TakenElements)) {
    IN_FLIGHT.with_borrow_mut(|all| {
        for woken in &all.woken {
            // Borrowed while it is replied.
            if let Ok(mut outcome) = woken.outcome.try_borrow_mut()
                && let Outcome::Given(taken) = &mut *outcome
            {
                change(taken);
            }
        }
        all.replied.iter_mut().chain(&mut all.returns).for_each(change);
    });
}

impl UnblockReply for Woken {
    /// Replies the outcome. After a panic the elements are given back, as if the client had disconnected: their removal
    /// is replicated by now.
    fn reply(&self, context: &Context) {
        self.replied.set(guard(false, || {
            trap::pass("reply");
            match &*self.outcome.borrow() {
                Outcome::Given(taken) => {
                    taken.reply(context);
                    if let Some((db, key, token)) = taken.held() {
                        note_resend(db, key, token);
                    }
                }
                Outcome::TimedOut { is_named } => reply_nothing(context, *is_named),
                Outcome::SentAway(reason) => context.reply_error(reason),
            }
            true
        }));
        if !self.replied.get() && !context.has_replied() {
            context.reply_error(&Error::INTERNAL);
        }
    }

    /// Queues the elements to be given back, if no reply was sent.
    fn done(self: Rc<Self>, context: &Context) {
        IN_FLIGHT.with_borrow_mut(|all| {
            all.woken.retain(|it| !Rc::ptr_eq(it, &self));
            let outcome = self.outcome.replace(Outcome::TimedOut { is_named: false });
            if let Outcome::Given(taken) = outcome {
                if self.replied.get() {
                    all.replied.push(taken);
                } else {
                    all.returns.push(taken);
                    all.note_returns(context);
                }
            }
            all.lift_filter(context);
        });
    }

    fn on_unblock(context: &Context, client: ClientHandle) {
        // A client that is being unblocked already is in no queue. Any client reads nil.
        reply_nothing(context, blocked::with(|queues| queues.is_named(client)).unwrap_or(true));
        Self::on_disconnect(client);
    }

    fn on_disconnect(client: ClientHandle) {
        if let Some(client) = blocked::with(|queues| queues.leave_by_itself(client)) {
            client.forget();
        }
    }
}

/// Detects the command that makes this server a replica.
struct BecomesReplica;

impl CommandObserver for BecomesReplica {
    fn observe(command: &CommandView) {
        let is_replicaof = command.arg_is(0, b"REPLICAOF") || command.arg_is(0, b"SLAVEOF");
        if is_replicaof && !(command.arg_is(1, b"NO") && command.arg_is(2, b"ONE")) {
            Context::with_detached(give_back_all);
        }
    }
}

/// Gives back all elements in flight and those of disconnected clients, and replicates that at once.
fn give_back_all(context: &Context) {
    if !context.may_replicate() {
        return;
    }
    let (returns, woken) =
        IN_FLIGHT.with_borrow_mut(|all| (mem::take(&mut all.returns), all.woken.clone()));
    blocked::with(|queues| queues.has_returns = false);
    returns.iter().for_each(|taken| taken.give_back(context));
    for woken in woken.iter().filter(|it| !it.replied.get()) {
        // The client receives this only if the server refuses the command. Otherwise the server disconnects it.
        let outcome = woken.outcome.replace(Outcome::SentAway(Error::BECOMES_REPLICA));
        if let Outcome::Given(taken) = outcome {
            taken.give_back(context);
        }
    }
    // Changes made outside of commands are replicated after the next command has run.
    let _ = context.call(c"PING", &[]);
}
