//! The second argument of an effect: what happened, when, and the numbers that belong to it. This file writes it and reads
//! it, and nothing else does.
//!
//! It is one word because each argument costs the server some 800 instructions in the append-only file alone, and its length
//! to each replica.
//!
//! | word | further arguments | what happened |
//! |---|---|---|
//! | `P<ttl>@<deadline>[,deliveries=n][,until=ms][,delivered=n][,token=n][,since=ms][,waited=ms]` | `element id [group]` | an element was stored, in the place of one with the same id |
//! | `T<ttl>@<deadline>[,until=ms]` | `id [id ...]` | timers were restarted; a ttl of 0 gives a held element back |
//! | `U<deadline>` | `id [id ...]` | held elements were given back, one after the other before all others with this deadline, and their last delivery does not count |
//! | `R` | `reason id [id ...]` | why elements were given back; an empty reason is none |
//! | `L<ttl>@<deadline>@<token>` | `id [id ...]` | elements were leased |
//! | `S<until>` | `id [id ...]` | elements left, and their ids are remembered |
//! | `G<moment>@<n>` | `[group]` | so many were given out, which counts for a rate |
//! | `H<until>` | `[group]` | a pause began; 2^63 - 1: it lasts until RESUME |
//! | `E` | `name record` | a schedule was set |
//! | `O<moment>@<deadline>@<late>@<next>` | `name` | a schedule occurred, its element was stored, and it occurs next at the last moment, 0 for never |
//! | `M<n>@<next>` | `name` | so many occurrences of a schedule were missed |
//! | `Q` | the words of a policy | a policy came by RESTORE, and is not confirmed |
//! | `N<level>` | `version` | the reader must support this [`level`](crate::level) |
//!
//! Moments are in milliseconds since the epoch, ttls in milliseconds.

use crate::schedule::Step;
use crate::server::string::{Digits, number};
use lawn::{Bounds, Since, Token};

/// An event, and its numbers. See the module documentation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Head {
    Pushed { timer: Timer, bounds: Bounds, delivered: u16, token: Option<Token>, since: Since },
    Restarted { timer: Timer, until: Option<u64> },
    Uncounted { deadline: u64 },
    Reasoned,
    Leased { timer: Timer, token: Token },
    Removed { until: u64 },
    Given { moment: u64, count: u64 },
    Paused { until: u64 },
    Unconfirmed,
    Scheduled,
    Occurred { step: Step },
    Needed { level: u64 },
}

/// A TTL in milliseconds, which names the queue, and a deadline in milliseconds since the epoch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timer {
    pub ttl: u64,
    pub deadline: u64,
}

impl Head {
    /// Returns the head of a push without bounds and deliveries.
    #[inline]
    pub fn pushed(ttl: u64, deadline: u64, bounds: Bounds) -> Self {
        let timer = Timer { ttl, deadline };
        Self::Pushed { timer, bounds, delivered: 0, token: None, since: Since::UNKNOWN }
    }

    /// Returns the head of a push of an element that was given out so often, with the token of its last lease and when that
    /// began, if it is held.
    pub fn of_element(
        ttl: u64,
        deadline: u64,
        bounds: Bounds,
        delivered: u16,
        (token, since): (Option<Token>, Option<Since>),
    ) -> Self {
        let token = token.filter(|_| delivered > 0);
        let since = since.filter(|_| token.is_some()).unwrap_or_default();
        Self::Pushed { timer: Timer { ttl, deadline }, bounds, delivered, token, since }
    }

    /// Returns the head as text.
    #[inline]
    pub fn word(&self) -> Digits {
        match *self {
            Self::Pushed { timer, bounds, delivered, token, since } => {
                let word = timer.word(b'P');
                if bounds.is_none() && delivered == 0 {
                    return word;
                }
                word.option("deliveries", bounds.deliveries.into())
                    .option("until", bounds.until)
                    .option("delivered", delivered.into())
                    .option("token", token.map_or(0, Token::number))
                    .option("since", since.moment)
                    .option("waited", since.waited)
            }
            Self::Restarted { timer, until } => {
                timer.word(b'T').option("until", until.unwrap_or(0))
            }
            Self::Uncounted { deadline } => Digits::after(b'U', deadline),
            Self::Reasoned => Digits::letter(b'R'),
            Self::Leased { timer, token } => timer.word(b'L').and(b'@', token.number()),
            Self::Removed { until } => Digits::after(b'S', until),
            Self::Given { moment, count } => Digits::after(b'G', moment).and(b'@', count),
            Self::Paused { until } => Digits::after(b'H', until),
            Self::Unconfirmed => Digits::letter(b'Q'),
            Self::Scheduled => Digits::letter(b'E'),
            Self::Occurred { step: Step::Stored { moment, deadline, late, next } } => {
                Digits::after(b'O', moment).and(b'@', deadline).and(b'@', late).and(b'@', next)
            }
            Self::Occurred { step: Step::Missed { count, next } } => {
                Digits::after(b'M', count).and(b'@', next)
            }
            Self::Needed { level } => Digits::after(b'N', level),
        }
    }

    /// Reads a head. `None`: it is none, or one of a later version.
    pub fn parse(word: &[u8]) -> Option<Self> {
        let (letter, rest) = word.split_first()?;
        let mut options = rest.split(|byte| *byte == b',');
        let mut numbers = Numbers(options.next());
        let mut options = Named(options);
        let head = match letter {
            b'P' => {
                let timer = numbers.timer()?;
                let deliveries = options.small("deliveries")?;
                let until = options.number("until", Bounds::UNTIL_MAX)?;
                let delivered = options.small("delivered")?;
                let token = Token::new(options.number("token", u64::MAX)?);
                let moment = options.number("since", u64::MAX)?;
                let waited = options.number("waited", u64::MAX)?;
                let since = Since { moment, waited };
                if (token.is_some() && delivered == 0)
                    || (moment > 0 && token.is_none())
                    || (waited > 0 && moment == 0)
                {
                    return None;
                }
                let bounds = Bounds { deliveries, until };
                Self::Pushed { timer, bounds, delivered, token, since }
            }
            b'T' => {
                let timer = numbers.timer()?;
                let until = options.number("until", Bounds::UNTIL_MAX)?;
                Self::Restarted { timer, until: (until > 0).then_some(until) }
            }
            b'U' => Self::Uncounted { deadline: numbers.next()? },
            b'R' if rest.is_empty() => return Some(Self::Reasoned),
            b'L' => Self::Leased { timer: numbers.timer()?, token: Token::new(numbers.next()?)? },
            b'S' => Self::Removed { until: numbers.next()? },
            b'G' => Self::Given { moment: numbers.next()?, count: numbers.positive()? },
            b'H' => Self::Paused { until: numbers.positive()? },
            b'O' => {
                let (moment, deadline) = (numbers.next()?, numbers.next()?);
                let (late, next) = (numbers.next()?, numbers.next()?);
                Self::Occurred { step: Step::Stored { moment, deadline, late, next } }
            }
            b'M' => {
                let (count, next) = (numbers.positive()?, numbers.next()?);
                Self::Occurred { step: Step::Missed { count, next } }
            }
            b'E' if rest.is_empty() => return Some(Self::Scheduled),
            b'Q' if rest.is_empty() => return Some(Self::Unconfirmed),
            b'N' => Self::Needed { level: numbers.positive()? },
            _ => return None,
        };
        (numbers.0.is_none() && options.0.next().is_none()).then_some(head)
    }
}

impl Timer {
    #[inline]
    fn word(self, letter: u8) -> Digits {
        Digits::after(letter, self.ttl).and(b'@', self.deadline)
    }
}

/// Numbers with `@` between them. `None` after the last one.
struct Numbers<'a>(Option<&'a [u8]>);

impl Numbers<'_> {
    fn next(&mut self) -> Option<u64> {
        let rest = self.0.take()?;
        let sign = rest.iter().position(|byte| *byte == b'@');
        let (first, rest) = sign.map_or((rest, None), |at| (&rest[..at], Some(&rest[at + 1..])));
        self.0 = rest;
        number(first).ok()
    }

    fn positive(&mut self) -> Option<u64> {
        self.next().filter(|number| *number > 0)
    }

    fn timer(&mut self) -> Option<Timer> {
        Some(Timer { ttl: self.next()?, deadline: self.next()? })
    }
}

/// The options `name=number` in the order in which they are written.
struct Named<'a, I: Iterator<Item = &'a [u8]> + Clone>(I);

impl<'a, I: Iterator<Item = &'a [u8]> + Clone> Named<'a, I> {
    /// Reads the number of an option, from 1 to `max`, if the next option has this name. 0: it has another. `None`: it is no
    /// such number.
    fn number(&mut self, name: &str, max: u64) -> Option<u64> {
        let mut rest = self.0.clone();
        let digits = rest.next().and_then(|it| it.strip_prefix(name.as_bytes()));
        let Some(digits) = digits.and_then(|it| it.strip_prefix(b"=")) else { return Some(0) };
        self.0 = rest;
        number(digits).ok().filter(|number| (1..=max).contains(number))
    }

    fn small(&mut self, name: &str) -> Option<u16> {
        u16::try_from(self.number(name, u16::MAX.into())?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lawn::DEADLINE_MAX;
    use proptest::prelude::*;

    fn heads() -> impl Strategy<Value = Head> {
        let number = || prop_oneof![Just(0), Just(1), Just(DEADLINE_MAX), 0..=DEADLINE_MAX];
        let positive = || number().prop_map(|number| number.max(1));
        let timer = || (number(), number()).prop_map(|(ttl, deadline)| Timer { ttl, deadline });
        let until = || prop_oneof![Just(0), Just(Bounds::UNTIL_MAX), 0..=Bounds::UNTIL_MAX];
        let token = || positive().prop_map(|number| Token::new(number).expect("it is in range"));
        let bounds =
            (any::<u16>(), until()).prop_map(|(deliveries, until)| Bounds { deliveries, until });
        let since = proptest::option::of((positive(), number()))
            .prop_map(|it| it.map(|(moment, waited)| Since { moment, waited }));
        prop_oneof![
            (timer(), bounds, any::<u16>(), proptest::option::of(token()), since).prop_map(
                |(Timer { ttl, deadline }, bounds, delivered, token, since)| {
                    Head::of_element(ttl, deadline, bounds, delivered, (token, since))
                }
            ),
            (timer(), until()).prop_map(|(timer, until)| {
                Head::Restarted { timer, until: (until > 0).then_some(until) }
            }),
            number().prop_map(|deadline| Head::Uncounted { deadline }),
            (timer(), token()).prop_map(|(timer, token)| Head::Leased { timer, token }),
            number().prop_map(|until| Head::Removed { until }),
            (number(), positive()).prop_map(|(moment, count)| Head::Given { moment, count }),
            positive().prop_map(|until| Head::Paused { until }),
            Just(Head::Unconfirmed),
            Just(Head::Reasoned),
            positive().prop_map(|level| Head::Needed { level }),
        ]
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(head in heads()) {
            prop_assert_eq!(Head::parse(head.word().bytes()), Some(head));
        }

        #[test]
        fn what_is_read_would_be_written_so(word in "[PTURLSGHQN][0-9@,a-z=]{0,40}") {
            if let Some(head) = Head::parse(word.as_bytes()) {
                let written = head.word();
                prop_assert_eq!(written.bytes(), word.as_bytes());
            }
        }
    }

    #[test]
    fn any_other_word_is_refused() {
        let words = "P P5 P5@ P5@9@7 P05@9 P-5@9 P5@9223372036854775808 X5@9 p5@9 P5@9, P5@9,deliveries=0 \
             P5@9,deliveries=65536 P5@9,token=7 P5@9,delivered=1,since=7 P5@9,delivered=1,token=7,waited=3 \
             P5@9,delivered=1,token=0 R5 P5@9,until=9,deliveries=1 P5@9,until=281474976710656 P5@9,new=1 T5 \
             T5@9,until=0 U U5@9 L5@9 L5@9@0 L5@9@7@7 S G5 G5@0 H0 Q5 E5 O1@2@3 O1@2@3@4@5 M0@5 M1 N0 N1,2";
        for word in words.split(' ').chain([""]) {
            assert_eq!(Head::parse(word.as_bytes()), None, "{word}");
        }
    }
}
