//! The promises that the simulation judges, each by its name. docs/guarantees.md has a table of them.

/// A promise that was broken, and how.
#[derive(Clone, Debug)]
pub struct Fault {
    pub promise: Promise,
    pub what: String,
}

macro_rules! promises {
    ($($(#[$doc:meta])* $name:ident = $said:literal,)*) => {
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Promise { $($(#[$doc])* $name,)* }

        impl Promise {
            pub const ALL: &[Promise] = &[$(Promise::$name,)*];

            /// Returns its name, as docs/guarantees.md has it.
            pub fn name(self) -> &'static str {
                match self { $(Promise::$name => $said,)* }
            }
        }
    };
}

promises! {
    /// Replies are what the model says, word by word.
    Reply = "replies",
    Lost = "nothing-lost",
    Early = "nothing-early",
    Twice = "nothing-twice",
    Unknown = "nothing-invented",
    Order = "order",
    Turns = "turns",
    Pause = "pause",
    Dead = "dead-letters",
    End = "no-delivery-after-the-end",
    Limit = "limits",
    GroupLimit = "limits-of-groups",
    Asleep = "nobody-asleep",
    Arrival = "order-of-arrival",
    Unblocked = "block-replies",
    Delivered = "delivered",
    /// Each occurrence of a schedule is stored once, at its moment, or was missed.
    Schedule = "schedules",
    Exact = "exact",
    Replica = "replica-equal",
    Effect = "effect-with-its-reply",
    Tool = "tool-equal",
    Reload = "reload-equal",
    Memory = "memory-returns",
    Work = "bounded-work",
    Idle = "nothing-left-running",
    Ends = "no-end-of-the-server",
}

impl Promise {
    pub fn broken(self, what: impl Into<String>) -> Fault {
        Fault { promise: self, what: what.into() }
    }

    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|it| it.name() == name)
    }
}
