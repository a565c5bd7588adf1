//! The Lawn of this project, through the functions that the module calls.

use std::sync::{Arc, OnceLock};

use ahash::RandomState;

use crate::store::{Id, Payload, Store};
use lawn::{Element, Lawn, Shared, SmallMax};

/// The TTL for absolute deadlines.
const NO_TTL: u64 = 0;

/// The keys of the hash: random, drawn once, as in the module.
static HASHER: OnceLock<RandomState> = OnceLock::new();

pub struct Ours(Lawn);

impl Store for Ours {
    const NAME: &'static str = "lawn";
    const LABEL: &'static str = "**our Lawn**";

    fn new(_now: u64) -> Self {
        let hasher = HASHER.get_or_init(RandomState::new).clone();
        Self(Lawn::new(Arc::new(Shared::new(hasher, || SmallMax::USUAL))))
    }

    fn start(&mut self, id: &Id, payload: &Payload, ttl: u64, now: u64) {
        self.0.start_at(id, ttl, payload, now + ttl).expect("an id is started once");
    }

    fn restart(&mut self, id: &Id, ttl: u64, now: u64) -> bool {
        self.0.restart_at(id, ttl, now + ttl)
    }

    fn replace(&mut self, id: &Id, payload: &Payload, ttl: u64, now: u64) {
        self.0.replace(ttl, &Element::new(id, payload, now + ttl)).expect("there is room");
    }

    fn stop(&mut self, id: &Id) -> Option<Payload> {
        let taken = self.0.stop(id)?;
        Some(taken.element().payload.try_into().expect("64 bytes"))
    }

    fn start_at(&mut self, id: &Id, payload: &Payload, deadline: u64, _now: u64) {
        self.0.start_at(id, NO_TTL, payload, deadline).expect("an id is started once");
    }

    fn restart_at(&mut self, id: &Id, deadline: u64, _now: u64) -> bool {
        self.0.restart_at(id, NO_TTL, deadline)
    }

    fn replace_at(&mut self, id: &Id, payload: &Payload, deadline: u64, _now: u64) {
        self.0.replace(NO_TTL, &Element::new(id, payload, deadline)).expect("there is room");
    }

    fn expire(&mut self, now: u64, sink: &mut impl FnMut(&Id, &Payload)) {
        self.0.drain(now, usize::MAX, |_, element| {
            sink(
                element.id.try_into().expect("16 bytes"),
                element.payload.try_into().expect("64 bytes"),
            );
        });
    }

    fn rearm(&mut self, now: u64, ttl: &mut impl FnMut() -> u64) -> usize {
        let mut count = 0;
        // A lease is a TTL: the element moves to another queue, and stays in its place in memory.
        while self.0.next_deadline().is_some_and(|next| next <= now) {
            self.0.lease_due(now, ttl(), None);
            count += 1;
        }
        count
    }
}
