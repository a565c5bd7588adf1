//! The workload of Ratas's benchmark program, on a wheel as Ratas describes it and on the Lawn.
//!
//! A tick is 20 us. A unit is a client and a server with five timers each:
//!
//! | timer | ticks | |
//! |---|---|---|
//! | idle | 3,000,000 | restarted at every message sent or received, so it never fires |
//! | close | 9,000,000, then 500,000 | fires twice; after the second time the endpoint is closed |
//! | pace | 10 | started after each message sent, always fires |
//! | request | 50,000 to 50,099, fixed per unit | started after a response of 128 messages, fires |
//! | deadline | 5,120, then 2,560 | started at a request, moved at its first message, stopped at its last |
//!
//! Units are created over the first 50,000 ticks. Then time advances to the next event, by at most 5,000 ticks. The
//! whole run is 15,000,000 ticks; with many units it is shortened, which leaves out the ends of connections.
//!
//! Ratas's timers are objects that the program holds, without names. So the wheel is measured in its intended use, by
//! handle, and also behind a table of ids, like the Lawn.

use std::sync::Arc;

use ahash::RandomState;
use hashbrown::HashMap;

use crate::lists::Lists;
use crate::load::mix;
use crate::named::Scheme;
use crate::stopwatch::Stopwatch;
use crate::stores::hierarchy::Hierarchy;
use lawn::{Lawn, Shared, SmallMax};

const RUN: u64 = 15_000_000;
const CREATION: u64 = 50_000;
const LOOK_AHEAD: u64 = 5_000;
const MESSAGES: u32 = 128;

const IDLE: u32 = 0;
const CLOSE: u32 = 1;
const PACE: u32 = 2;
const REQUEST: u32 = 3;
const DEADLINE: u32 = 4;
const KINDS: u32 = 5;

/// Timers that have numbers. The program knows which of its timers are running, and uses that.
trait Timers {
    fn new(timers: u32) -> Self;
    fn start(&mut self, timer: u32, ticks: u64, now: u64);
    fn restart(&mut self, timer: u32, ticks: u64, now: u64);
    fn stop(&mut self, timer: u32);
    /// Returns the ticks from `now` until something may be due, at most `limit`.
    fn ticks_to_next(&self, now: u64, limit: u64) -> u64;
    fn expire(&mut self, now: u64, fired: &mut Vec<u32>);
}

/// The wheel, whose nodes are the program's own timers.
struct ByHandle {
    wheel: Hierarchy,
    lists: Lists<(), ()>,
}

impl Timers for ByHandle {
    fn new(timers: u32) -> Self {
        let mut lists = Lists::new(Hierarchy::LISTS);
        (0..timers).for_each(|timer| assert_eq!(lists.add(0, ()), timer));
        Self { wheel: Hierarchy::new(0), lists }
    }

    fn start(&mut self, timer: u32, ticks: u64, now: u64) {
        self.lists.get_mut(timer).deadline = now + ticks;
        self.wheel.file(&mut self.lists, timer, ticks);
    }

    fn restart(&mut self, timer: u32, ticks: u64, now: u64) {
        self.stop(timer);
        self.start(timer, ticks, now);
    }

    fn stop(&mut self, timer: u32) {
        self.wheel.unfile(&mut self.lists, timer);
    }

    fn ticks_to_next(&self, _now: u64, limit: u64) -> u64 {
        self.wheel.ticks_to_next(&self.lists, limit)
    }

    fn expire(&mut self, now: u64, fired: &mut Vec<u32>) {
        while let Some(timer) = self.wheel.pop(&mut self.lists, now) {
            fired.push(timer);
        }
    }
}

/// Returns the id of a timer.
fn name(timer: u32) -> u64 {
    mix(timer.into())
}

/// The wheel, with nodes of its own and a table of eight-byte ids.
struct ById {
    wheel: Hierarchy,
    lists: Lists<(), (u64, u32)>,
    table: HashMap<u64, u32, RandomState>,
}

impl Timers for ById {
    fn new(_timers: u32) -> Self {
        let table = HashMap::with_hasher(RandomState::new());
        Self { wheel: Hierarchy::new(0), lists: Lists::new(Hierarchy::LISTS), table }
    }

    fn start(&mut self, timer: u32, ticks: u64, now: u64) {
        let node = self.lists.add(now + ticks, (name(timer), timer));
        self.table.insert(name(timer), node);
        self.wheel.file(&mut self.lists, node, ticks);
    }

    fn restart(&mut self, timer: u32, ticks: u64, now: u64) {
        let node = self.table[&name(timer)];
        self.wheel.unfile(&mut self.lists, node);
        self.lists.get_mut(node).deadline = now + ticks;
        self.wheel.file(&mut self.lists, node, ticks);
    }

    fn stop(&mut self, timer: u32) {
        let node = self.table.remove(&name(timer)).expect("it is running");
        self.wheel.unfile(&mut self.lists, node);
        self.lists.free(node);
    }

    fn ticks_to_next(&self, _now: u64, limit: u64) -> u64 {
        self.wheel.ticks_to_next(&self.lists, limit)
    }

    fn expire(&mut self, now: u64, fired: &mut Vec<u32>) {
        while let Some(node) = self.wheel.pop(&mut self.lists, now) {
            let (id, timer) = self.lists.get(node).item;
            self.table.remove(&id);
            self.lists.free(node);
            fired.push(timer);
        }
    }
}

/// Our Lawn; the payload is the timer's number.
struct InLawn(Lawn);

impl Timers for InLawn {
    fn new(_timers: u32) -> Self {
        Self(Lawn::new(Arc::new(Shared::new(RandomState::new(), || SmallMax::USUAL))))
    }

    fn start(&mut self, timer: u32, ticks: u64, now: u64) {
        let id = name(timer).to_le_bytes();
        self.0.start_at(&id, ticks, &timer.to_le_bytes(), now + ticks).expect("it is not running");
    }

    fn restart(&mut self, timer: u32, ticks: u64, now: u64) {
        let there = self.0.restart_at(&name(timer).to_le_bytes(), ticks, now + ticks);
        assert!(there, "it is running");
    }

    fn stop(&mut self, timer: u32) {
        self.0.stop(&name(timer).to_le_bytes()).expect("it is running");
    }

    fn ticks_to_next(&self, now: u64, limit: u64) -> u64 {
        self.0.next_deadline().map_or(limit, |next| (next - now).clamp(1, limit))
    }

    fn expire(&mut self, now: u64, fired: &mut Vec<u32>) {
        self.0.drain(now, usize::MAX, |_, element| {
            let number = element.payload.try_into().expect("four bytes");
            fired.push(u32::from_le_bytes(number));
        });
    }
}

/// A client or a server. The two of a unit are neighbours.
#[derive(Clone, Default)]
struct Endpoint {
    to_send: u32,
    received: u32,
    may_send: bool,
    waits: bool,
    closing: bool,
    gone: bool,
    running: [bool; KINDS as usize],
}

struct Program<T> {
    timers: T,
    endpoints: Vec<Endpoint>,
    now: u64,
    schedules: u64,
}

impl<T: Timers> Program<T> {
    fn arm(&mut self, endpoint: u32, kind: u32, ticks: u64) {
        self.schedules += 1;
        let running = &mut self.endpoints[endpoint as usize].running[kind as usize];
        let timer = endpoint * KINDS + kind;
        if std::mem::replace(running, true) {
            self.timers.restart(timer, ticks, self.now);
        } else {
            self.timers.start(timer, ticks, self.now);
        }
    }

    fn disarm(&mut self, endpoint: u32, kind: u32) {
        let running = &mut self.endpoints[endpoint as usize].running[kind as usize];
        if std::mem::replace(running, false) {
            self.timers.stop(endpoint * KINDS + kind);
        }
    }

    fn create(&mut self, unit: u32) {
        for endpoint in [2 * unit, 2 * unit + 1] {
            self.endpoints[endpoint as usize].may_send = true;
            self.arm(endpoint, IDLE, 3_000_000);
            self.arm(endpoint, CLOSE, 9_000_000);
        }
        self.request(2 * unit);
    }

    fn request(&mut self, client: u32) {
        if self.endpoints[client as usize].closing {
            return;
        }
        self.arm(client, DEADLINE, 5_120);
        self.endpoints[client as usize].waits = true;
        let server = client ^ 1;
        self.endpoints[server as usize].to_send += MESSAGES;
        self.send(server);
    }

    fn send(&mut self, from: u32) {
        let endpoint = &mut self.endpoints[from as usize];
        if !endpoint.may_send || endpoint.to_send == 0 {
            return;
        }
        endpoint.may_send = false;
        endpoint.to_send -= 1;
        self.arm(from, IDLE, 3_000_000);
        self.arm(from, PACE, 10);
        self.receive(from ^ 1);
    }

    fn receive(&mut self, client: u32) {
        self.arm(client, IDLE, 3_000_000);
        let endpoint = &mut self.endpoints[client as usize];
        endpoint.received += 1;
        let is_last = endpoint.received.is_multiple_of(MESSAGES);
        if std::mem::replace(&mut endpoint.waits, false) {
            self.arm(client, DEADLINE, 2_560);
        }
        if is_last {
            self.disarm(client, DEADLINE);
            let unit = client / 2;
            self.arm(client, REQUEST, 50_000 + mix(unit.into()) % 100);
        }
    }

    fn fire(&mut self, endpoint: u32, kind: u32) {
        match kind {
            PACE => {
                self.endpoints[endpoint as usize].may_send = true;
                self.send(endpoint);
            }
            REQUEST => self.request(endpoint),
            CLOSE if self.endpoints[endpoint as usize].closing => {
                self.endpoints[endpoint as usize].gone = true;
                (0..KINDS).for_each(|kind| self.disarm(endpoint, kind));
            }
            CLOSE => {
                self.endpoints[endpoint as usize].closing = true;
                self.arm(endpoint, CLOSE, 500_000);
            }
            _ => panic!("timer {kind} never fires"),
        }
    }
}

fn play<T: Timers>(units: u32, run: u64, say: &mut dyn FnMut(&str, f64)) {
    let endpoints = vec![Endpoint::default(); 2 * units as usize];
    let timers = T::new(2 * units * KINDS);
    let mut program = Program { timers, endpoints, now: 0, schedules: 0 };
    let mut executions = 0_u64;
    let mut created = 0;
    let mut fired = Vec::new();
    let stopwatch = Stopwatch::start();
    while program.now < run {
        let mut step = 1;
        if program.now < CREATION {
            let until = (program.now + 1) * u64::from(units) / CREATION;
            while u64::from(created) < until {
                program.create(created);
                created += 1;
            }
        } else {
            step = program.timers.ticks_to_next(program.now, LOOK_AHEAD);
        }
        program.now += step;
        program.timers.expire(program.now, &mut fired);
        executions += fired.len() as u64;
        for timer in &fired {
            let running = &mut program.endpoints[(timer / KINDS) as usize].running;
            running[(timer % KINDS) as usize] = false;
        }
        // Closing comes last in a tick, so that the order within the tick makes no difference to any store.
        for closing in [false, true] {
            let now = fired.iter().filter(|timer| (**timer % KINDS == CLOSE) == closing);
            now.for_each(|timer| program.fire(timer / KINDS, timer % KINDS));
        }
        fired.clear();
    }
    let seconds = stopwatch.ns() / 1e9;
    say("seconds", seconds);
    say("schedules", program.schedules as f64);
    say("executions", executions as f64);
    say("ns per schedule", seconds * 1e9 / program.schedules as f64);
    let received = program.endpoints.iter().map(|it| u64::from(it.received)).sum::<u64>();
    let gone = program.endpoints.iter().filter(|it| it.gone).count();
    say("sum", (RandomState::with_seeds(0, 0, 0, 0).hash_one((received, gone)) >> 16) as f64);
}

/// The stores that run this load.
pub const STORES: [&str; 3] = ["lawn", "hierarchy-ids", "hierarchy-handles"];

/// Returns the ticks of a run with this many units, when each unit's full run counts for `full` units.
pub fn ticks(units: u32, full: u32) -> u64 {
    (RUN * u64::from(full) / u64::from(units)).clamp(2 * CREATION, RUN)
}

pub fn run(store: &str, units: u32, ticks: u64, say: &mut dyn FnMut(&str, f64)) {
    match store {
        "lawn" => play::<InLawn>(units, ticks, say),
        "hierarchy-ids" => play::<ById>(units, ticks, say),
        "hierarchy-handles" => play::<ByHandle>(units, ticks, say),
        other => panic!("there is no store called {other}"),
    }
}
