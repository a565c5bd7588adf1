//! Clients that are being unblocked: what each is told, until the server has told it.
//!
//! Redis 7.0 tells them at the end of the pass of its event loop in which they were unblocked; later servers do in the next one,
//! after the commands that have come meanwhile. One of these may be REPLICAOF: the server hangs up on all clients that are
//! blocked, and what was taken for them cannot be given back on a replica. (Nor while it runs: the server tells its
//! replicas, of which one may be the next primary, nothing more from there on.) So for as long as anything is on its way,
//! the module has a look at commands before they run, and gives back what is when one is about to make this server a
//! replica.

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;

use hashbrown::HashMap;

use crate::pending::{blocked, timer};
use crate::server::blocked_client::{BlockedClient, Handle, Waking};
use crate::server::command_filter::{CommandFilter, Sees, Shown};
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

/// A client that is being unblocked.
pub(super) struct Unblocked {
    client: Handle,
    outcome: RefCell<Outcome>,
    replied: Cell<bool>,
}

thread_local! {
    // Commands, timers and ticks run on the server's main thread alone.
    /// Those for whom something was taken.
    static ON_THEIR_WAY: RefCell<HashMap<Handle, Rc<Unblocked>, ahash::RandomState>> =
        RefCell::default();
    /// Set while there are any, or something is to be given back.
    static FILTER: RefCell<Option<CommandFilter>> = const { RefCell::new(None) };
    /// A filter is called with no context.
    static CONTEXT: OnceCell<Context> = const { OnceCell::new() };
    /// What was taken for clients that have gone.
    static GIVEN_UP: RefCell<Vec<Parcel>> = const { RefCell::new(Vec::new()) };
}

/// Has the server tell a client what came of its waiting.
pub(super) fn unblock(context: &Context, client: BlockedClient, outcome: Outcome) {
    let is_given = matches!(outcome, Outcome::Given(_));
    let (outcome, replied) = (RefCell::new(outcome), Cell::new(false));
    let unblocked = Rc::new(Unblocked { client: client.handle(), outcome, replied });
    if is_given {
        ON_THEIR_WAY.with_borrow_mut(|it| it.insert(client.handle(), Rc::clone(&unblocked)));
        if FILTER.with_borrow(Option::is_none) {
            CONTEXT.with(|it| _ = it.get_or_init(|| context.detached()));
            FILTER.set(CommandFilter::set::<BecomesReplica>(context));
        }
    }
    client.unblock(unblocked);
}

/// Whether anything is to be given back.
pub(super) fn has_given_up() -> bool {
    GIVEN_UP.with_borrow(|given_up| !given_up.is_empty())
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

/// Looks at commands no more, if nothing is on its way or to be given back.
fn lift_filter(context: &Context) {
    if ON_THEIR_WAY.with_borrow(|it| it.is_empty())
        && !has_given_up()
        && let Some(filter) = FILTER.take()
    {
        filter.lift(context);
    }
}

impl Waking for Unblocked {
    /// Otherwise it is given back, as if the client had gone: that it was taken has been written by now.
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

    fn done(self: Rc<Self>, context: &Context) {
        ON_THEIR_WAY.with_borrow_mut(|it| {
            // Another client may be called the same by now.
            if it.get(&self.client).is_some_and(|it| Rc::ptr_eq(it, &self)) {
                it.remove(&self.client);
            }
        });
        let outcome = self.outcome.replace(Outcome::TimedOut);
        if let (Outcome::Given(parcel), false) = (outcome, self.replied.get()) {
            // It went when something had been taken for it. To write is not for this callback.
            GIVEN_UP.with_borrow_mut(|given_up| given_up.push(parcel));
            timer::soon(context);
        }
        lift_filter(context);
    }

    fn on_unblock(context: &Context, client: Handle) {
        context.reply_null_array();
        Self::on_disconnect(client);
    }

    fn on_disconnect(client: Handle) {
        if let Some(client) = blocked::with(|lines| lines.leave_by_itself(client)) {
            client.forget();
        }
    }
}

/// Looks for the command that makes this server a replica.
struct BecomesReplica;

impl Sees for BecomesReplica {
    fn see(command: &Shown) {
        let is_replicaof = command.is(0, b"REPLICAOF") || command.is(0, b"SLAVEOF");
        if is_replicaof && !(command.is(1, b"NO") && command.is(2, b"ONE")) {
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
        // It is told so if the command is refused. If not, the server hangs up.
        let outcome = unblocked.outcome.replace(Outcome::SentAway(Error::Elsewhere));
        if let Outcome::Given(parcel) = outcome {
            parcel.give_back(context);
        }
    }
    // Outside of commands effects are told when the next one has run.
    let _ = context.call(c"PING", &[]);
}
