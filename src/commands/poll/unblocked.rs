//! Woken clients: the server sends each its reply, or finds that it has disconnected.
//!
//! *The client has disconnected.* Elements taken for it are given back at the end of a pass of the event loop, because
//! writes are not allowed when the server reports the disconnection.
//!
//! *The server becomes a replica.* Redis 7.0 replies at the end of the pass in which clients were unblocked. Later servers
//! reply in the next pass, after the commands that have arrived meanwhile. One of these may be REPLICAOF: then the server
//! disconnects all blocked clients, and a replica cannot give their elements back. (REPLICAOF itself is too late: from
//! there on the server sends nothing more to its own replicas, one of which may be the next primary.) So while elements
//! are in flight, a filter checks commands before they run. Before a command that makes this server a replica, all
//! elements in flight are given back.

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;

use hashbrown::HashMap;

use crate::pending::{blocked, timer};
use crate::server::blocked_client::{BlockedClient, ClientHandle, UnblockReply};
use crate::server::command_filter::{CommandFilter, CommandObserver, CommandView};
use crate::server::guard::{guard, trap};
use crate::server::{Context, Error};

use super::taken::TakenElements;

/// Why a client is unblocked.
pub(super) enum Outcome {
    /// Elements were taken for it.
    Given(TakenElements),
    /// Its timeout has passed.
    TimedOut,
    /// There is nothing left to wait for.
    SentAway(Error),
}

/// A woken client, until the server has replied to it or found it disconnected.
pub(super) struct Unblocked {
    client: ClientHandle,
    outcome: RefCell<Outcome>,
    replied: Cell<bool>,
}

thread_local! {
    // Commands, timers and ticks run on the server's main thread alone.
    /// Woken clients for which elements were taken.
    static IN_FLIGHT: RefCell<HashMap<ClientHandle, Rc<Unblocked>, ahash::RandomState>> =
        RefCell::default();
    /// Set while elements are in flight or to be given back.
    static FILTER: RefCell<Option<CommandFilter>> = const { RefCell::new(None) };
    /// For the filter, which the server calls without a context.
    static CONTEXT: OnceCell<Context> = const { OnceCell::new() };
    /// Elements of disconnected clients, to be given back.
    static RETURNS: RefCell<Vec<TakenElements>> = const { RefCell::new(Vec::new()) };
}

/// Unblocks a client: the server replies the outcome.
pub(super) fn unblock(context: &Context, client: BlockedClient, outcome: Outcome) {
    let is_given = matches!(outcome, Outcome::Given(_));
    let (outcome, replied) = (RefCell::new(outcome), Cell::new(false));
    let unblocked = Rc::new(Unblocked { client: client.handle(), outcome, replied });
    if is_given {
        IN_FLIGHT.with_borrow_mut(|it| it.insert(client.handle(), Rc::clone(&unblocked)));
        if FILTER.with_borrow(Option::is_none) {
            CONTEXT.with(|it| _ = it.get_or_init(|| context.detached()));
            FILTER.set(CommandFilter::install::<BecomesReplica>(context));
        }
    }
    client.unblock(unblocked);
}

/// Returns whether elements are to be given back.
pub(super) fn has_returns() -> bool {
    RETURNS.with_borrow(|returns| !returns.is_empty())
}

/// Records that a database was emptied, or all were (`None`): elements taken from it are not given back.
pub fn flushed(db: Option<i32>) {
    each_taken(|taken| taken.flushed(db));
}

/// Records that two databases were swapped.
pub fn swapped(first: i32, second: i32) {
    each_taken(|taken| taken.swapped(first, second));
}

/// Applies `change` to all elements in flight or to be given back.
fn each_taken(mut change: impl FnMut(&mut TakenElements)) {
    IN_FLIGHT.with_borrow(|all| {
        for unblocked in all.values() {
            // Borrowed while it is replied: it is not given back.
            if let Ok(mut outcome) = unblocked.outcome.try_borrow_mut()
                && let Outcome::Given(taken) = &mut *outcome
            {
                change(taken);
            }
        }
    });
    RETURNS.with_borrow_mut(|all| all.iter_mut().for_each(change));
}

/// Gives back the elements of disconnected clients.
pub(super) fn give_back(context: &Context) {
    give_back_returns(context);
    lift_filter(context);
}

fn give_back_returns(context: &Context) {
    for taken in RETURNS.take() {
        taken.give_back(context);
    }
}

/// Removes the command filter if nothing is in flight or to be given back.
fn lift_filter(context: &Context) {
    if IN_FLIGHT.with_borrow(|it| it.is_empty())
        && !has_returns()
        && let Some(filter) = FILTER.take()
    {
        filter.remove(context);
    }
}

impl UnblockReply for Unblocked {
    /// Replies the outcome. After a panic the elements are given back, as if the client had disconnected: their removal
    /// is replicated by now.
    fn reply(&self, context: &Context) {
        self.replied.set(guard(false, || {
            trap::pass("reply");
            match &*self.outcome.borrow() {
                Outcome::Given(taken) => taken.reply(context),
                Outcome::TimedOut => context.reply_null_array(),
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
        IN_FLIGHT.with_borrow_mut(|it| {
            // Another client may have the same handle by now.
            if it.get(&self.client).is_some_and(|it| Rc::ptr_eq(it, &self)) {
                it.remove(&self.client);
            }
        });
        let outcome = self.outcome.replace(Outcome::TimedOut);
        if let (Outcome::Given(taken), false) = (outcome, self.replied.get()) {
            RETURNS.with_borrow_mut(|returns| returns.push(taken));
            timer::soon(context);
        }
        lift_filter(context);
    }

    fn on_unblock(context: &Context, client: ClientHandle) {
        context.reply_null_array();
        Self::on_disconnect(client);
    }

    fn on_disconnect(client: ClientHandle) {
        if let Some(client) = blocked::with(|lines| lines.leave_by_itself(client)) {
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
            CONTEXT.with(|context| context.get().map(give_back_all));
        }
    }
}

/// Gives back all elements in flight and those of disconnected clients, and replicates that at once.
fn give_back_all(context: &Context) {
    if !context.may_replicate() {
        return;
    }
    give_back_returns(context);
    let all: Vec<_> = IN_FLIGHT.with_borrow(|it| it.values().cloned().collect());
    for unblocked in all.into_iter().filter(|it| !it.replied.get()) {
        // The client receives this only if the server refuses the command. Otherwise the server disconnects it.
        let outcome = unblocked.outcome.replace(Outcome::SentAway(Error::SLOT_MOVED));
        if let Outcome::Given(taken) = outcome {
            taken.give_back(context);
        }
    }
    // Changes made outside of commands are replicated after the next command has run.
    let _ = context.call(c"PING", &[]);
}
