//! The rules of a dehydrator.
//!
//! | module | contents |
//! |---|---|
//! | this file | the policy for due elements and dead letters (ONDUE, HOLD DELIVERIES), and a pause (PAUSE) |
//! | `limits` | the limits (LIMIT) |
//!
//! The rate limit and its log are [`lawn::Rate`], in `src/lawn/rate.rs`.

mod limits;

use std::borrow::Cow;
use std::num::NonZeroU64;

pub use limits::{LimitChange, Limits};

use lawn::{DEADLINE_MAX, Element};

/// The rules of a dehydrator.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Rules {
    pub policy: Policy,
    pub pause: Option<Pause>,
    pub trust: Trust,
    pub limits: Option<Box<Limits>>,
}

/// The rules of a new dehydrator.
pub static DEFAULT: Rules =
    Rules { policy: Policy::Hold, pause: None, trust: Trust::Confirmed, limits: None };

impl Rules {
    /// Returns whether nothing is given out or delivered at `now`.
    pub fn is_paused(&self, now: u64) -> bool {
        self.pause.is_some_and(|pause| pause.is_on(now))
    }

    #[inline]
    pub fn limits(&self) -> &Limits {
        match &self.limits {
            Some(limits) => limits,
            None => &limits::NONE,
        }
    }

    pub fn limit(&mut self, change: LimitChange) {
        let new = self.limits().changed(change);
        self.limits = new.has_any().then(|| Box::new(new));
    }
}

/// The origin of a policy that sends elements elsewhere: a user with the rights for it, as ONDUE requires, or not. Deliveries run
/// without a user, and a module cannot find out which user runs RESTORE.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Trust {
    /// Set by such a user; or loaded from a file, or sent by this server's primary or by the slot's previous node.
    #[default]
    Confirmed,
    /// Set by RESTORE: it moves no element until ONDUE sets it.
    Unconfirmed,
    /// [`Trust::Unconfirmed`], but not yet replicated: replicas and the append-only file have only the RESTORE.
    Unannounced,
}

impl Trust {
    /// Returns whether the policy may move elements.
    pub fn is_confirmed(self) -> bool {
        matches!(self, Self::Confirmed)
    }
}

/// A period in which elements are neither given out nor delivered. See PAUSE.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pause(NonZeroU64);

impl Pause {
    /// A pause without an end.
    pub const UNTIL_RESUMED: Self = Self(NonZeroU64::MAX);

    /// Creates a pause until `moment`, in milliseconds since the epoch.
    pub fn until(moment: u64) -> Self {
        Self(NonZeroU64::new(moment).unwrap_or(NonZeroU64::MIN))
    }

    /// Returns the pause of a group, from [`GroupSettings::paused_until`](lawn::GroupSettings::paused_until).
    pub fn of_group(paused_until: u64) -> Option<Self> {
        match paused_until {
            0 => None,
            DEADLINE_MAX => Some(Self::UNTIL_RESUMED),
            moment => Some(Self::until(moment)),
        }
    }

    /// Returns the inverse of [`Pause::of_group`]. A group is never resumed at the last moment of all.
    pub fn group_end(self) -> u64 {
        self.end().map_or(DEADLINE_MAX, |end| end.min(DEADLINE_MAX - 1))
    }

    /// Returns the end of the pause in milliseconds since the epoch, if it has one.
    pub fn end(self) -> Option<u64> {
        (self != Self::UNTIL_RESUMED).then_some(self.0.get())
    }

    pub fn is_on(self, now: u64) -> bool {
        now < self.0.get()
    }
}

/// The policy for due elements. See ONDUE.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub enum Policy {
    /// Elements wait for a client.
    #[default]
    Hold,
    /// Elements wait for a client. An element that is due again after `deliveries` deliveries, not 0, is a *dead letter*, and
    /// takes the route.
    HoldDeliveries { deliveries: u16, route: Route },
    /// Elements take the route.
    Send(Route),
}

/// The destination of elements.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Route {
    /// Elements are removed.
    Drop,
    /// Elements are appended to a stream, which is then trimmed to `maxlen`, if set.
    Stream { dest: Box<[u8]>, maxlen: Option<MaxLen> },
    /// Elements are published to a channel.
    Publish { channel: Box<[u8]> },
    /// Elements are pushed to a list.
    List { dest: Box<[u8]>, end: End },
}

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
    /// `~`: the stream may stay a little longer, which is cheaper.
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
    pub fn route(&self) -> Option<&Route> {
        match self {
            Self::Hold => None,
            Self::HoldDeliveries { route, .. } | Self::Send(route) => Some(route),
        }
    }

    /// Returns whether the route leads to another key or a channel.
    pub fn sends_elsewhere(&self) -> bool {
        !matches!(self.route(), None | Some(Route::Drop))
    }

    /// Returns the route that a due element takes at `now`, by its own bounds before those of the policy. `None`: it waits
    /// for a client.
    #[inline]
    pub fn route_of(&self, element: &Element<'_>, now: u64) -> Option<&Route> {
        match self {
            Self::Hold | Self::Send(_) if element.is_expired(now) => Some(&Route::Drop),
            Self::Hold => None,
            Self::HoldDeliveries { route, .. } => self.is_dead(element, now).then_some(route),
            Self::Send(route) => Some(route),
        }
    }

    /// Returns whether a due element is given out no more at `now`: it is too late, or was given out too often.
    #[inline]
    pub fn is_dead(&self, element: &Element<'_>, now: u64) -> bool {
        element.is_expired(now) || self.is_exhausted(element)
    }

    /// Returns whether an element was given out as often as its own bound allows, or else this limit.
    pub fn is_exhausted(&self, element: &Element<'_>) -> bool {
        match self {
            Self::HoldDeliveries { deliveries: most, .. } => {
                let own = element.bounds.deliveries;
                element.deliveries >= if own > 0 { own } else { *most }
            }
            _ => false,
        }
    }

    /// Returns whether due elements wait for a client.
    pub fn holds(&self) -> bool {
        !matches!(self, Self::Send(_))
    }

    /// Returns whether due elements are delivered without a request.
    pub fn delivers(&self) -> bool {
        matches!(self, Self::Send(route) if *route != Route::Drop)
    }

    /// Returns whether this is [`Policy::HoldDeliveries`].
    pub fn limits_deliveries(&self) -> bool {
        matches!(self, Self::HoldDeliveries { .. })
    }

    /// Returns the arguments of ONDUE, after the key, that set this policy, with `UNCONFIRMED` if it is not confirmed: for
    /// replication, the append-only file and digests.
    pub fn words(&self, trust: Trust) -> Vec<Cow<'_, [u8]>> {
        let mut words = match self {
            Self::Hold => vec![b"HOLD"[..].into()],
            Self::HoldDeliveries { deliveries, .. } => {
                let deliveries = deliveries.to_string().into_bytes();
                vec![b"HOLD"[..].into(), b"DELIVERIES"[..].into(), deliveries.into()]
            }
            Self::Send(_) => Vec::new(),
        };
        words.extend(self.route().map(Route::words).into_iter().flatten());
        if !trust.is_confirmed() {
            words.push(b"UNCONFIRMED"[..].into());
        }
        words
    }

    /// Returns the size of the policy's heap allocation, in bytes.
    pub fn memory(&self) -> usize {
        match self.route() {
            None | Some(Route::Drop) => 0,
            Some(
                Route::Stream { dest: name, .. }
                | Route::Publish { channel: name }
                | Route::List { dest: name, .. },
            ) => name.len(),
        }
    }
}

impl End {
    /// Returns the option of ONDUE.
    pub fn name(self) -> &'static [u8] {
        match self {
            Self::Right => b"RIGHT",
            Self::Left => b"LEFT",
        }
    }
}

impl Route {
    /// Returns the first of the words.
    pub fn name(&self) -> &'static [u8] {
        match self {
            Self::Drop => b"DROP",
            Self::Stream { .. } => b"STREAM",
            Self::Publish { .. } => b"PUBLISH",
            Self::List { .. } => b"LIST",
        }
    }

    fn words(&self) -> Vec<Cow<'_, [u8]>> {
        match self {
            Self::Drop => vec![self.name().into()],
            Self::Stream { dest, maxlen } => {
                let mut words = vec![self.name().into(), Cow::from(&dest[..])];
                words.extend(maxlen.map(MaxLen::words).into_iter().flatten());
                words
            }
            Self::Publish { channel } => vec![self.name().into(), Cow::from(&channel[..])],
            Self::List { dest, end } => {
                let mut words = vec![self.name().into(), Cow::from(&dest[..])];
                words.extend((*end == End::Left).then(|| Cow::from(end.name())));
                words
            }
        }
    }
}

/// Returns policies with each kind of route, for tests.
#[cfg(test)]
pub fn of_every_kind() -> Vec<Policy> {
    let stream = |maxlen| Route::Stream { dest: b"d\0\xff"[..].into(), maxlen };
    let maxlen = |length, approximate| stream(Some(MaxLen { length, approximate }));
    let routes = [
        Route::Drop,
        stream(None),
        maxlen(1, false),
        maxlen(i64::MAX as u64, true),
        Route::Publish { channel: b""[..].into() },
        Route::Publish { channel: b"STREAM"[..].into() },
        Route::List { dest: b""[..].into(), end: End::Right },
        Route::List { dest: b"left"[..].into(), end: End::Right },
        Route::List { dest: b"d\0\xff"[..].into(), end: End::Left },
    ];
    let limit =
        |deliveries, route: &Route| Policy::HoldDeliveries { deliveries, route: route.clone() };
    let limits = routes.iter().flat_map(|route| [limit(1, route), limit(u16::MAX, route)]);
    let sends = routes.iter().map(|route| Policy::Send(route.clone()));
    limits.chain(sends).chain([Policy::Hold]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_ends_at_its_moment_or_never_by_itself() {
        let until = Pause::until(100);
        assert_eq!((until.end(), until.is_on(99), until.is_on(100)), (Some(100), true, false));
        let resumed = Pause::UNTIL_RESUMED;
        assert_eq!((resumed.end(), resumed.is_on(u64::MAX >> 1)), (None, true));
        assert_eq!(Pause::until(0), Pause::until(1));
        for pause in [until, resumed, Pause::until(DEADLINE_MAX - 1)] {
            assert_eq!(Pause::of_group(pause.group_end()), Some(pause));
        }
        assert_eq!(Pause::until(DEADLINE_MAX).group_end(), DEADLINE_MAX - 1);
        assert_eq!(Pause::of_group(0), None);
    }
}
