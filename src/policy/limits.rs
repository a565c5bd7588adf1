//! The limits of a dehydrator: its length, its leases, its rate, and how long it remembers ids.

use std::borrow::Cow;

use lawn::Rate;

/// The limits of a dehydrator. See LIMIT. 0 means no limit.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Limits {
    /// The maximum number of elements.
    pub length: u64,
    /// The maximum number of elements under a live lease.
    pub held: u64,
    /// The maximum number of elements given out in a window.
    pub rate: Option<Rate>,
    /// How long the id of a finished element is refused, in milliseconds.
    pub remember: u64,
}

/// No limits.
pub static NONE: Limits = Limits { length: 0, held: 0, rate: None, remember: 0 };

/// A change of limits: `None` keeps a limit, 0 removes it.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct LimitChange {
    pub length: Option<u64>,
    pub held: Option<u64>,
    /// A number of elements, and a window in milliseconds.
    pub rate: Option<(u64, u64)>,
    pub remember: Option<u64>,
}

impl Limits {
    pub fn has_any(&self) -> bool {
        *self != NONE
    }

    /// Returns the changed limits. A changed rate keeps counting the elements given out before.
    pub fn changed(&self, change: LimitChange) -> Self {
        let Self { length, held, rate, remember } = self;
        let rate = match (change.rate, rate) {
            (None, rate) => rate.clone(),
            (Some((0, _)), _) => None,
            (Some((most, per)), None) => Some(Rate::new(most, per)),
            (Some((most, per)), Some(rate)) => Some(rate.changed(most, per)),
        };
        Self {
            length: change.length.unwrap_or(*length),
            held: change.held.unwrap_or(*held),
            rate,
            remember: change.remember.unwrap_or(*remember),
        }
    }

    /// Returns the maximum of the rate and its window in milliseconds, or zeros.
    pub fn rate_per(&self) -> (u64, u64) {
        self.rate.as_ref().map_or((0, 0), |rate| (rate.max(), rate.per()))
    }

    /// Returns the arguments of LIMIT, after the key, that set these limits.
    pub fn words(&self) -> Vec<Cow<'static, [u8]>> {
        let (rate, per) = self.rate_per();
        let named = [
            (&b"LENGTH"[..], self.length),
            (b"HELD", self.held),
            (b"RATE", rate),
            (b"PER", per),
            (b"REMEMBER", self.remember),
        ];
        let those = named.into_iter().filter(|(_, number)| *number > 0);
        those
            .flat_map(|(name, number)| [name.into(), number.to_string().into_bytes().into()])
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_rate_keeps_counting() {
        let rate = |most, per| LimitChange { rate: Some((most, per)), ..LimitChange::default() };
        let mut limits = Limits::default().changed(rate(2, 100));
        limits.rate.as_mut().expect("a rate").record(1000, 2);
        let faster = limits.changed(rate(3, 100));
        assert_eq!(faster.rate.as_ref().map(|rate| rate.room(1000)), Some(1));
        let anew = limits.changed(rate(0, 0)).changed(rate(2, 100));
        assert_eq!(anew.rate.map(|rate| rate.room(1000)), Some(2));
    }
}
