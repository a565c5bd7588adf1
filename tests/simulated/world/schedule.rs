//! The operations on schedules, on dead letters that come back, and their words.

use super::op::At;
use crate::judges::Bytes;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Missed {
    One,
    All,
    None,
}

/// EVERY, with its options.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Every {
    pub name: Bytes,
    pub plan: Bytes,
    pub zone: Option<Bytes>,
    pub from: Option<At>,
    pub until: Option<At>,
    pub times: Option<u64>,
    pub missed: Option<Missed>,
    pub skips: Option<bool>,
    pub jitter: Option<u64>,
    pub most: Option<u64>,
    pub within: Option<u64>,
    pub group: Option<Bytes>,
    /// One of a few elements.
    pub variant: u64,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum OfSchedules {
    Every(Box<Every>),
    /// SCHEDULES: of all, or of these.
    List(Vec<Bytes>),
    Remove(Vec<Bytes>),
    Pause(Bytes),
    Resume(Bytes),
}

/// REVIVE, with its options. Letters are the ids of entries.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Revive {
    /// Behind one of those that were listed last.
    pub from: Option<usize>,
    pub count: Option<u64>,
    /// Of those that were listed last.
    pub letters: Vec<usize>,
    pub has_element: bool,
}

/// The options of RELEASE.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Back {
    pub is_uncounted: bool,
    pub has_element: bool,
    pub reason: Option<Bytes>,
}

fn text(text: &str) -> Bytes {
    text.as_bytes().to_vec()
}

/// Returns an option, if it is set.
fn option(name: &str, value: Option<Bytes>) -> Vec<Bytes> {
    value.map(|value| vec![text(name), value]).unwrap_or_default()
}

fn numbered(name: &str, value: Option<u64>) -> Vec<Bytes> {
    option(name, value.map(|value| value.to_string().into_bytes()))
}

impl Every {
    fn words(&self, key: &Bytes, now: u64, element: &Bytes) -> Vec<Bytes> {
        let missed = self.missed.map(|it| match it {
            Missed::One => text("ONE"),
            Missed::All => text("ALL"),
            Missed::None => text("NONE"),
        });
        let overlap = self.skips.map(|skips| text(if skips { "SKIP" } else { "ALLOW" }));
        [
            vec![
                text("DEHYDRATOR.EVERY"),
                key.clone(),
                self.plan.clone(),
                element.clone(),
                self.name.clone(),
            ],
            option("ZONE", self.zone.clone()),
            numbered("FROM", self.from.map(|at| at.moment(now))),
            numbered("UNTIL", self.until.map(|at| at.moment(now))),
            numbered("TIMES", self.times),
            option("MISSED", missed),
            option("OVERLAP", overlap),
            numbered("JITTER", self.jitter),
            numbered("DELIVERIES", self.most),
            numbered("WITHIN", self.within),
            option("GROUP", self.group.clone()),
        ]
        .concat()
    }

    /// Returns the element of a schedule. It differs where it may not be taken for another one.
    pub fn element(&self, key: &Bytes, db: usize) -> Bytes {
        let Self { name, group, variant, .. } = self;
        let group = group.clone().unwrap_or_default();
        [&format!("E{variant}.{db}.").into_bytes()[..], key, b"/", name, b"/", &group, b"||"]
            .concat()
    }
}

impl OfSchedules {
    pub fn words(&self, key: &Bytes, now: u64, elements: &[Bytes]) -> Vec<Bytes> {
        let verb = |verb: &str| vec![text(&format!("DEHYDRATOR.{verb}")), key.clone()];
        let of = |name: &Bytes| vec![text("SCHEDULE"), name.clone()];
        match self {
            Self::Every(every) => every.words(key, now, &elements[0]),
            Self::List(names) => [verb("SCHEDULES"), names.clone()].concat(),
            Self::Remove(names) => [verb("UNSCHEDULE"), names.clone()].concat(),
            Self::Pause(name) => [verb("PAUSE"), of(name)].concat(),
            Self::Resume(name) => [verb("RESUME"), of(name)].concat(),
        }
    }
}

impl Revive {
    /// Returns the words, with the letters that were listed last.
    pub fn words(&self, key: &Bytes, elements: &[Bytes], listed: &[Bytes]) -> Vec<Bytes> {
        let letter = |at: &usize| {
            listed.get(at % listed.len().max(1)).cloned().unwrap_or_else(|| text("1-1"))
        };
        let mut words = vec![text("DEHYDRATOR.REVIVE"), key.clone()];
        words.extend(option("FROM", self.from.as_ref().map(letter)));
        words.extend(numbered("COUNT", self.count));
        words.extend(option("ELEMENT", self.has_element.then(|| elements[0].clone())));
        if !self.letters.is_empty() {
            words.extend([text("IDS"), self.letters.len().to_string().into_bytes()]);
            words.extend(self.letters.iter().map(letter));
        }
        words
    }
}

impl Back {
    /// Returns the options behind tokens and ids.
    pub fn words(&self, elements: &[Bytes]) -> Vec<Bytes> {
        let mut words = if self.is_uncounted { vec![text("UNCOUNTED")] } else { Vec::new() };
        words.extend(option("ELEMENT", self.has_element.then(|| elements[0].clone())));
        words.extend(option("REASON", self.reason.clone()));
        words
    }
}
