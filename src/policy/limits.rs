//! What holds a dehydrator back: how much it holds, how much of that is out at once, and how much is given out in a time.

use std::borrow::Cow;

use super::rate::Rate;

/// See LIMIT. A number of 0 is no limit.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Limits {
    /// So many elements at the most.
    pub length: u64,
    /// So many of them under a lease that runs at the most.
    pub held: u64,
    /// So many given out in any window at the most.
    pub rate: Option<Rate>,
    /// For so many milliseconds the id of what was done with is not taken again.
    pub remember: u64,
}

/// What somebody says of limits: `None` leaves a limit as it is, 0 takes it away.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Change {
    pub length: Option<u64>,
    pub held: Option<u64>,
    /// How many, and in how many milliseconds.
    pub rate: Option<(u64, u64)>,
    pub remember: Option<u64>,
}

impl Limits {
    /// Returns whether there is any limit.
    pub fn is_any(&self) -> bool {
        *self != Self::default()
    }

    /// Returns the limits that hold from here on. What was given out counts on, as long as there is a rate.
    pub fn changed(&self, change: Change) -> Self {
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

    /// Returns the words that ask for those that hold, behind the key, as LIMIT takes them.
    pub fn words(&self) -> Vec<Cow<'static, [u8]>> {
        let (rate, per) = self.rate.as_ref().map_or((0, 0), |rate| (rate.most(), rate.per()));
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

    fn words(limits: &Limits) -> String {
        String::from_utf8(limits.words().join(&b' ')).expect("our own words")
    }

    #[test]
    fn a_change_says_what_it_says_and_leaves_the_rest() {
        let none = Limits::default();
        assert!(!none.is_any() && none.words().is_empty());
        let length = none.changed(Change { length: Some(5), ..Change::default() });
        assert!(length.is_any());
        let all = Change { held: Some(6), rate: Some((7, 8)), remember: Some(9), length: None };
        let all = length.changed(all);
        assert_eq!(words(&all), "LENGTH 5 HELD 6 RATE 7 PER 8 REMEMBER 9");
        assert_eq!(all.changed(Change::default()), all);
        let rate = Change { length: Some(0), held: Some(0), remember: Some(0), rate: None };
        assert_eq!(words(&all.changed(rate)), "RATE 7 PER 8");
        let no_rate = Change { rate: Some((0, 0)), ..Change::default() };
        assert_eq!(words(&all.changed(no_rate)), "LENGTH 5 HELD 6 REMEMBER 9");
        assert_eq!(all.changed(rate).changed(no_rate), none);
    }

    #[test]
    fn what_was_given_out_counts_under_another_rate() {
        let rate = |most, per| Change { rate: Some((most, per)), ..Change::default() };
        let mut limits = Limits::default().changed(rate(2, 100));
        limits.rate.as_mut().expect("a rate").give(1000, 2);
        let faster = limits.changed(rate(3, 100));
        assert_eq!(faster.rate.as_ref().map(|rate| rate.room(1000)), Some(1));
        let anew = limits.changed(rate(0, 0)).changed(rate(2, 100));
        assert_eq!(anew.rate.map(|rate| rate.room(1000)), Some(2));
    }
}
