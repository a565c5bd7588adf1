//! What becomes of an element when it comes due without anybody asking for it, whether it may, and how much may at once.
//!
//! | module | noun |
//! |---|---|
//! | this file | the rules of a dehydrator: its policy, and a pause |
//! | `limits` | how much it holds and gives out at the most |
//! | `rate` | how much is given out in a time, and what was |

mod limits;
mod rate;

use std::borrow::Cow;
use std::num::NonZeroU64;

pub use limits::{Change, Limits};
pub use rate::Rate;

/// What is said of a dehydrator as a whole.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Rules {
    pub policy: Policy,
    pub pause: Option<Pause>,
    pub trust: Trust,
    /// `None`: there is none.
    pub limits: Option<Box<Limits>>,
}

impl Rules {
    /// What there is where nobody has said anything.
    pub const DEFAULT: Self =
        Self { policy: Policy::Hold, pause: None, trust: Trust::Confirmed, limits: None };
}

/// Whether a policy that sends elements elsewhere was said by somebody who may write there, as ONDUE asks. The server
/// delivers as nobody, and does not tell a module who runs RESTORE.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Trust {
    /// Somebody said it who may; or it was loaded, or sent by this server's primary or the node that had the slot before.
    #[default]
    Confirmed,
    /// It came by RESTORE: nothing is moved by it until somebody says it by ONDUE.
    Unconfirmed,
    /// It came by RESTORE, and neither replicas nor the append-only file have been told that: they know of the RESTORE
    /// alone.
    Untold,
}

impl Trust {
    /// Returns whether elements may be moved by the policy.
    pub fn is_confirmed(self) -> bool {
        self == Self::Confirmed
    }
}

/// A time in which elements are neither given out nor delivered. See PAUSE.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pause(NonZeroU64);

impl Pause {
    /// Until somebody resumes it. No moment is that late.
    pub const UNTIL_RESUMED: Self = Self(NonZeroU64::MAX);

    /// Makes a pause until that moment, in milliseconds since the epoch.
    pub fn until(moment: u64) -> Self {
        Self(NonZeroU64::new(moment).unwrap_or(NonZeroU64::MIN))
    }

    /// Returns when it ends by itself, in milliseconds since the epoch.
    pub fn end(self) -> Option<u64> {
        (self != Self::UNTIL_RESUMED).then_some(self.0.get())
    }

    /// Returns whether it goes on at this time.
    pub fn is_on(self, now: u64) -> bool {
        now < self.0.get()
    }
}

/// See ONDUE.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub enum Policy {
    /// It waits to be taken.
    #[default]
    Hold,
    /// It waits to be taken, but not once it has been given out so often and is due again: then it is a *dead
    /// letter*, and goes that way. `deliveries` is not 0.
    Limit { deliveries: u16, route: Route },
    /// It goes that way.
    Send(Route),
}

/// Which way an element goes that nobody takes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Route {
    /// It is removed.
    Drop,
    /// It is moved to the end of a stream, which is then trimmed, if a length is given.
    Stream { dest: Box<[u8]>, maxlen: Option<MaxLen> },
    /// It is published to a channel.
    Publish { channel: Box<[u8]> },
    /// It is moved to an end of a list.
    List { dest: Box<[u8]>, end: End },
}

/// An end of a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// The tail, as by RPUSH.
    Right,
    /// The head, as by LPUSH.
    Left,
}

/// XADD's MAXLEN.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MaxLen {
    pub length: u64,
    /// `~`: the stream may be a little longer, if that is cheaper.
    pub approximate: bool,
}

impl MaxLen {
    /// Returns the words of the option, as XADD and ONDUE take them.
    pub fn words(self) -> [Cow<'static, [u8]>; 3] {
        let exactness = if self.approximate { &b"~"[..] } else { b"=" };
        let length = self.length.to_string().into_bytes();
        [b"MAXLEN"[..].into(), exactness.into(), length.into()]
    }
}

impl Policy {
    /// Returns which way elements go, if they do.
    pub fn route(&self) -> Option<&Route> {
        match self {
            Self::Hold => None,
            Self::Limit { route, .. } | Self::Send(route) => Some(route),
        }
    }

    /// Returns whether they go to another key, or to a channel.
    pub fn sends_elsewhere(&self) -> bool {
        !matches!(self.route(), None | Some(Route::Drop))
    }

    /// Returns whether an element that is due, and was given out so often, goes that way.
    pub fn sends(&self, deliveries: u16) -> bool {
        match self {
            Self::Hold => false,
            Self::Limit { deliveries: most, .. } => deliveries >= *most,
            Self::Send(_) => true,
        }
    }

    /// Returns whether elements wait for somebody who takes them.
    pub fn holds(&self) -> bool {
        !matches!(self, Self::Send(_))
    }

    /// Returns whether somebody is given what comes due, without asking.
    pub fn delivers(&self) -> bool {
        matches!(self, Self::Send(route) if *route != Route::Drop)
    }

    /// Returns whether those that were given out often enough wait no more, but go.
    pub fn limits(&self) -> bool {
        matches!(self, Self::Limit { .. })
    }

    /// Returns the words that ask for it, behind the key, as ONDUE takes them.
    pub fn words(&self) -> Vec<Cow<'_, [u8]>> {
        match self {
            Self::Hold => vec![b"HOLD"[..].into()],
            Self::Limit { deliveries, route } => {
                let deliveries = deliveries.to_string().into_bytes();
                let mut words =
                    vec![b"HOLD"[..].into(), b"DELIVERIES"[..].into(), deliveries.into()];
                words.extend(route.words());
                words
            }
            Self::Send(route) => route.words(),
        }
    }

    /// Returns the words as [`Policy::words`] does, and behind them the one that replication, the append-only file and INFO
    /// have for a policy that is not confirmed.
    pub fn words_with(&self, trust: Trust) -> Vec<Cow<'_, [u8]>> {
        let mut words = self.words();
        if !trust.is_confirmed() {
            words.push(b"UNCONFIRMED"[..].into());
        }
        words
    }

    /// Returns how many bytes it has on the heap, in one allocation.
    pub fn memory(&self) -> usize {
        self.route().map_or(0, Route::memory)
    }
}

impl Route {
    fn words(&self) -> Vec<Cow<'_, [u8]>> {
        match self {
            Self::Drop => vec![b"DROP"[..].into()],
            Self::Stream { dest, maxlen } => {
                let mut words = vec![b"STREAM"[..].into(), Cow::from(&dest[..])];
                words.extend(maxlen.map(MaxLen::words).into_iter().flatten());
                words
            }
            Self::Publish { channel } => vec![b"PUBLISH"[..].into(), Cow::from(&channel[..])],
            Self::List { dest, end } => {
                let mut words = vec![b"LIST"[..].into(), Cow::from(&dest[..])];
                words.extend((*end == End::Left).then(|| Cow::from(&b"LEFT"[..])));
                words
            }
        }
    }

    fn memory(&self) -> usize {
        match self {
            Self::Drop => 0,
            Self::Stream { dest: name, .. }
            | Self::Publish { channel: name }
            | Self::List { dest: name, .. } => name.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_says_what_it_is_and_how_much_memory_its_names_take() {
        let stream = |maxlen| Route::Stream { dest: b"dest"[..].into(), maxlen };
        let maxlen = |length, approximate| Some(MaxLen { length, approximate });
        let list = |end| Route::List { dest: b"dest"[..].into(), end };
        let routes = [
            (list(End::Right), "LIST dest", 4),
            (list(End::Left), "LIST dest LEFT", 4),
            (Route::Drop, "DROP", 0),
            (stream(None), "STREAM dest", 4),
            (stream(maxlen(7, false)), "STREAM dest MAXLEN = 7", 4),
            (stream(maxlen(u64::MAX, true)), "STREAM dest MAXLEN ~ 18446744073709551615", 4),
            (Route::Publish { channel: b"channel"[..].into() }, "PUBLISH channel", 7),
        ];
        for (route, words, memory) in routes {
            let limit = Policy::Limit { deliveries: 65_535, route: route.clone() };
            let limited = format!("HOLD DELIVERIES 65535 {words}");
            for (policy, words) in [(Policy::Send(route), words), (limit, &limited)] {
                assert_eq!(policy.words().join(&b' '), words.as_bytes());
                assert_eq!(policy.memory(), memory, "{words}");
            }
        }
        assert_eq!(
            (Policy::default().words().join(&b' '), Policy::Hold.memory()),
            (b"HOLD".into(), 0)
        );
    }

    #[test]
    fn a_pause_ends_at_its_moment_or_never_by_itself() {
        let until = Pause::until(100);
        assert_eq!((until.end(), until.is_on(99), until.is_on(100)), (Some(100), true, false));
        let resumed = Pause::UNTIL_RESUMED;
        assert_eq!((resumed.end(), resumed.is_on(u64::MAX >> 1)), (None, true));
        assert_eq!(Pause::until(0), Pause::until(1));
    }

    #[test]
    fn only_a_limit_both_keeps_and_sends() {
        let limit = Policy::Limit { deliveries: 2, route: Route::Drop };
        let policies = [Policy::Hold, limit, Policy::Send(Route::Drop)];
        assert_eq!(policies.each_ref().map(Policy::holds), [true, true, false]);
        assert_eq!(policies.each_ref().map(Policy::limits), [false, true, false]);
    }

    #[test]
    fn a_limit_sends_what_was_given_out_as_often_and_no_earlier() {
        let limit = Policy::Limit { deliveries: 2, route: Route::Drop };
        assert_eq!(
            [0, 1, 2, 3, u16::MAX].map(|it| limit.sends(it)),
            [false, false, true, true, true]
        );
        assert!([0, u16::MAX].iter().all(|it| !Policy::Hold.sends(*it)));
        assert!([0, u16::MAX].iter().all(|it| Policy::Send(Route::Drop).sends(*it)));
    }
}
