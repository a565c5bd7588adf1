//! A history: the profile of a run, and its steps. Nothing in it depends on what happened before, so that steps can be left out.

use crate::judges::Bytes;
use crate::machine::Kind;
use crate::world::op::Op;
use crate::world::schedule::{Every, OfSchedules};

/// What a directed run is about, which others bring together too seldom.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Theme {
    /// Thousands of groups at a limit, which changes while clients sleep.
    Crowd,
    /// Likewise, and of many groups what is next may be given to nobody.
    Dead,
    /// Slots move while a group is purged.
    Slots,
    /// Hundreds of thousands of elements in one group.
    Walk,
}

/// What a run is about: a few subjects, so that each is met often, alone and beside others.
#[derive(Clone, Debug)]
pub struct Profile {
    pub kind: Kind,
    pub seed: u64,
    /// What a read of the clock takes, in nanoseconds of both clocks: it ends the module's budgets.
    pub read_ns: u64,
    pub keys: Vec<Bytes>,
    pub ids: Vec<Bytes>,
    pub groups: Vec<Bytes>,
    pub tokens: Vec<Bytes>,
    pub has_policies: bool,
    pub has_limits: bool,
    pub has_pauses: bool,
    pub has_ends: bool,
    pub has_sleepers: bool,
    pub has_keyspace: bool,
    pub has_extremes: bool,
    pub has_replica: bool,
    pub has_reloads: bool,
    pub has_tool: bool,
    pub has_clock: bool,
    pub has_operators: bool,
    /// Memory is full, rights go, writes pause.
    pub has_accidents: bool,
    /// Another module writes at events.
    pub has_listener: bool,
    /// Two nodes of a cluster, between which slots move.
    pub has_slots: bool,
    /// A client reads keyspace events.
    pub has_events: bool,
    pub is_big: bool,
    /// All that happens is about one thing.
    pub theme: Option<Theme>,
    /// Schedules of these names; none.
    pub schedules: Vec<Bytes>,
    /// The clock steps by years.
    pub has_years: bool,
    /// Dead letters come back.
    pub has_letters: bool,
}

#[derive(Clone, PartialEq, Debug)]
pub struct Command {
    /// Its number in the history, which its elements bear.
    pub number: usize,
    pub client: usize,
    pub key: Bytes,
    pub op: Op,
    /// In MULTI, where nothing blocks.
    pub in_multi: bool,
}

/// How a server comes back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reload {
    Rdb,
    Aof,
    RewrittenAof,
}

/// Why a server refuses commands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// Its memory is full.
    Full,
    /// The users may not poll.
    Rights,
}

impl Refusal {
    /// Returns the code of the error with which a command is refused. `None`: it is not.
    pub fn code(self, op: &Op) -> Option<&'static str> {
        match (self, op) {
            (Self::Full, Op::Push { .. } | Op::GidPush { .. } | Op::Update(_) | Op::Revive(_)) => {
                Some("OOM")
            }
            (Self::Full, Op::OfSchedules(OfSchedules::Every(_))) => Some("OOM"),
            (Self::Rights, Op::Poll(_)) => Some("NOPERM"),
            _ => None,
        }
    }
}

/// What another module does with the key of an event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Act {
    Delete,
    Overwrite,
    Flush,
    /// Pushes an element with this id.
    Push(Bytes),
}

#[derive(Clone, PartialEq, Debug)]
pub enum Step {
    /// Commands of several clients, which arrive in one pass.
    Batch(Vec<Command>),
    /// One that may take several passes; the next step happens in the middle.
    Begin(Command),
    /// Pushes so many elements, due after so many milliseconds, into each of so many groups of a key; 0 groups: into none.
    Bulk {
        number: usize,
        key: Bytes,
        db: usize,
        groups: usize,
        each: usize,
        ttl: u64,
    },
    /// Sets so many schedules of a key, whose names have a number.
    Schedules {
        number: usize,
        key: Bytes,
        db: usize,
        count: usize,
        every: Box<Every>,
    },
    Advance(u64),
    StepWall(i64),
    HangUp(usize),
    /// Reads everything.
    Compare,
    Reload(Reload),
    /// The replica loses its link, and gets it back.
    Cut,
    Promote,
    /// The slot of a key moves to the other node, and so do all clients.
    MoveSlot(Bytes),
    /// Clients may not write for so many milliseconds, and one tries.
    PauseWrites(u64, Command),
    /// Commands that arrive while the server refuses some of them.
    Refused(Refusal, Vec<Command>),
    /// A command, at whose event another module does something.
    Listen(Command, Act),
    /// A power cut, when so many thousandths of what a command appends to the file have been written.
    CutFile(Command, u64),
}

impl Step {
    /// Returns whether it only reads.
    pub fn reads(&self) -> bool {
        match self {
            Self::Batch(commands) => commands.iter().all(|it| it.op.reads()),
            step => *step == Self::Compare,
        }
    }
}
