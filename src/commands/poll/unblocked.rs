//! Clients that have been woken: the server is to reply to each what came of its waiting, or finds that it has gone.
//!
//! *It has gone.* What was taken for it is given back at the end of a pass of the event loop: when the server says so,
//! nothing may be written.
//!
//! *The server becomes a replica.* Redis 7.0 replies at the end of the pass in which clients were unblocked; later servers do
//! in the next one, after the commands that have come meanwhile. One of these may be REPLICAOF: then the server hangs up on
//! all clients that are blocked, and a replica cannot give back what was taken for them. (Nor can it while REPLICAOF runs:
//! from there on the server tells its replicas, of which one may be the next primary, nothing more.) So for as long as
//! anything is on its way, the module looks at commands before they run. Before one that makes this server a replica, it
//! gives back all that is on its way.

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;

use hashbrown::HashMap;

use crate::pending::{blocked, timer};
use crate::server::blocked_client::{BlockedClient, ClientHandle, UnblockReply};
use crate::server::command_filter::{CommandFilter, CommandObserver, CommandView};
use crate::server::guard::{guard, trap};
use crate::server::{Context, Error};

use super::parcel::Parcel;

/// Why a client is unblocked.
pub(super) enum Outcome {
    /// Something was taken for it.
    Given(Parcel),
    /// It has waited long enough.
    TimedOut,
    /// There is nothing to wait for any more.
    SentAway(Error),
}

/// A client that was woken, until the server has replied to it or found that it has gone.
pub(super) struct Unblocked {
    client: ClientHandle,
    outcome: RefCell<Outcome>,
    replied: Cell<bool>,
}

thread_local! {
    // Commands, timers and ticks run on the server's main thread alone.
    /// Those of them for whom something was taken.
    static ON_THEIR_WAY: RefCell<HashMap<ClientHandle, Rc<Unblocked>, ahash::RandomState>> =
        RefCell::default();
    /// Set while there are any, or something is to be given back.
    static FILTER: RefCell<Option<CommandFilter>> = const { RefCell::new(None) };
    /// For the filter, which the server calls without a context.
    static CONTEXT: OnceCell<Context> = const { OnceCell::new() };
    /// What was taken for clients that have gone.
    static GIVEN_UP: RefCell<Vec<Parcel>> = const { RefCell::new(Vec::new()) };
}

/// Has the server reply to a client what came of its waiting.
pub(super) fn unblock(context: &Context, client: BlockedClient, outcome: Outcome) {
    let is_given = matches!(outcome, Outcome::Given(_));
    let (outcome, replied) = (RefCell::new(outcome), Cell::new(false));
    let unblocked = Rc::new(Unblocked { client: client.handle(), outcome, replied });
    if is_given {
        ON_THEIR_WAY.with_borrow_mut(|it| it.insert(client.handle(), Rc::clone(&unblocked)));
        if FILTER.with_borrow(Option::is_none) {
            CONTEXT.with(|it| _ = it.get_or_init(|| context.detached()));
            FILTER.set(CommandFilter::install::<BecomesReplica>(context));
        }
    }
    client.unblock(unblocked);
}

/// Returns whether anything is to be given back.
pub(super) fn has_given_up() -> bool {
    GIVEN_UP.with_borrow(|given_up| !given_up.is_empty())
}

/// Forgets what was taken from a database that was emptied, or from all (`None`): nothing of it is given back.
pub fn flushed(db: Option<i32>) {
    each_parcel(|parcel| parcel.flushed(db));
}

/// Notes that the contents of two databases were exchanged.
pub fn swapped(first: i32, second: i32) {
    each_parcel(|parcel| parcel.swapped(first, second));
}

/// Changes all that is on its way, or to be given back.
fn each_parcel(mut change: impl FnMut(&mut Parcel)) {
    ON_THEIR_WAY.with_borrow(|all| {
        for unblocked in all.values() {
            // One that is replied at this moment is not given back.
            if let Ok(mut outcome) = unblocked.outcome.try_borrow_mut()
                && let Outcome::Given(parcel) = &mut *outcome
            {
                change(parcel);
            }
        }
    });
    GIVEN_UP.with_borrow_mut(|all| all.iter_mut().for_each(change));
}

/// Gives back what was taken for clients that had gone.
pub(super) fn give_back(context: &Context) {
    give_back_given_up(context);
    lift_filter(context);
}

fn give_back_given_up(context: &Context) {
    for parcel in GIVEN_UP.take() {
        parcel.give_back(context);
    }
}

/// Stops looking at commands, if nothing is on its way or to be given back.
fn lift_filter(context: &Context) {
    if ON_THEIR_WAY.with_borrow(|it| it.is_empty())
        && !has_given_up()
        && let Some(filter) = FILTER.take()
    {
        filter.remove(context);
    }
}

impl UnblockReply for Unblocked {
    /// Replies what came of its waiting. After a panic what was taken is given back, as if the client had gone: that it was
    /// taken has been written by now.
    fn reply(&self, context: &Context) {
        self.replied.set(guard(false, || {
            trap::pass("reply");
            match &*self.outcome.borrow() {
                Outcome::Given(parcel) => parcel.reply(context),
                Outcome::TimedOut => context.reply_null_array(),
                Outcome::SentAway(reason) => context.reply_error(reason),
            }
            true
        }));
        if !self.replied.get() && !context.has_replied() {
            context.reply_error(&Error::INTERNAL);
        }
    }

    /// Has what was taken be given back, if the client has not been replied to.
    fn done(self: Rc<Self>, context: &Context) {
        ON_THEIR_WAY.with_borrow_mut(|it| {
            // Another client may be called the same by now.
            if it.get(&self.client).is_some_and(|it| Rc::ptr_eq(it, &self)) {
                it.remove(&self.client);
            }
        });
        let outcome = self.outcome.replace(Outcome::TimedOut);
        if let (Outcome::Given(parcel), false) = (outcome, self.replied.get()) {
            GIVEN_UP.with_borrow_mut(|given_up| given_up.push(parcel));
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

/// Looks for the command that makes this server a replica.
struct BecomesReplica;

impl CommandObserver for BecomesReplica {
    fn observe(command: &CommandView) {
        let is_replicaof = command.arg_is(0, b"REPLICAOF") || command.arg_is(0, b"SLAVEOF");
        if is_replicaof && !(command.arg_is(1, b"NO") && command.arg_is(2, b"ONE")) {
            CONTEXT.with(|context| context.get().map(give_back_all));
        }
    }
}

/// Gives back, and tells replicas of it at once, what is on its way to clients, and what was taken for those that have gone.
fn give_back_all(context: &Context) {
    if !context.may_replicate() {
        return;
    }
    give_back_given_up(context);
    let all: Vec<_> = ON_THEIR_WAY.with_borrow(|it| it.values().cloned().collect());
    for unblocked in all.into_iter().filter(|it| !it.replied.get()) {
        // If the server refuses the command, this is what the client is told. If not, the server hangs up.
        let outcome = unblocked.outcome.replace(Outcome::SentAway(Error::SlotMoved));
        if let Outcome::Given(parcel) = outcome {
            parcel.give_back(context);
        }
    }
    // Replicas are told of what is changed outside of commands when the next command has run.
    let _ = context.call(c"PING", &[]);
}
