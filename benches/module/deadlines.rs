//! The cost of any deadline, compared with a few TTLs.

use std::time::{SystemTime, UNIX_EPOCH};

use redis::Pipeline;

use crate::host::{Host, LARGE};
use crate::ways::FAR;
use benches::load::{element, id, main_cpu_us, pipelines, send};
use benches::table::Table;
use harness::Ask;

pub const COUNT: usize = 400_000;
/// The hour within which elements without a TTL come due, in milliseconds.
const HOUR: u64 = 3_600_000;
/// The number of parts in which elements are sent, to save memory.
const PARTS: usize = 8;

/// How TTLs and deadlines are chosen.
#[derive(Clone, Copy)]
enum Choice {
    EightTtls,
    /// Random `AT`, without a TTL.
    Random,
    /// A different TTL for each.
    Each,
    /// Ascending `AT`, without a TTL.
    Ascending,
}

const CHOICES: [(&str, Choice); 4] = [
    ("eight TTLs", Choice::EightTtls),
    ("`AT` random within an hour, ttl 0", Choice::Random),
    ("a different TTL for each", Choice::Each),
    ("`AT` ascending, then touched at random", Choice::Ascending),
];

/// Returns a number that looks random; a bijection.
fn scattered(number: u64) -> u64 {
    let x = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (x ^ x >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93) >> 16
}

impl Choice {
    /// Returns the TTL and `AT` of an element that is pushed or, if `again`, touched.
    fn of(self, number: usize, now: u64, again: bool) -> (u64, Option<u64>) {
        let (number, count) = (number as u64, COUNT as u64);
        let random = || now + FAR + scattered(2 * number + u64::from(again)) % HOUR;
        match self {
            Self::EightTtls => (FAR + (number + u64::from(again)) % 8, None),
            Self::Each => (FAR + (number + u64::from(again) * count / 2) % count, None),
            Self::Ascending if !again => (0, Some(now + FAR + number)),
            Self::Random | Self::Ascending => (0, Some(random())),
        }
    }
}

/// Returns the numbers below [`COUNT`] in an order that looks random.
fn disorder() -> Vec<usize> {
    let mut numbers: Vec<_> = (0..COUNT).collect();
    numbers.sort_by_key(|number| scattered(*number as u64));
    numbers
}

/// Returns the server's microseconds for each of [`COUNT`] commands, which are made from their numbers.
fn timed(host: &mut Host, mut add: impl FnMut(&mut Pipeline, usize)) -> f64 {
    let part = COUNT / PARTS;
    let mut us = 0.0;
    for first in (0..COUNT).step_by(part) {
        let packed = pipelines(part, |pipe, number| add(pipe, first + number));
        let before = main_cpu_us(&mut host.client);
        send(&mut host.client, &packed);
        us += main_cpu_us(&mut host.client) - before;
    }
    us / COUNT as f64
}

/// Records microseconds of PUSH, TOUCH and PULL, and bytes per element after all were pushed and after all were
/// touched.
pub fn measure(host: &mut Host, table: &mut Table) {
    let order = disorder();
    for (name, choice) in CHOICES {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis();
        let now = now as u64;
        let before = host.emptied();
        let push = timed(host, |pipe, number| {
            let (ttl, at) = choice.of(number, now, false);
            let push = pipe.cmd("DEHYDRATOR.PUSH").arg("k").arg(ttl);
            push.arg(element(number, LARGE)).arg(id(number));
            at.into_iter().for_each(|at| _ = push.arg("AT").arg(at));
        });
        let bytes = |host: &mut Host| (host.used() - before) / COUNT as f64;
        let pushed = bytes(host);
        let touch = timed(host, |pipe, number| {
            let number = order[number];
            let (ttl, at) = choice.of(number, now, true);
            let touch = pipe.cmd("DEHYDRATOR.TOUCH").arg("k").arg(ttl);
            at.into_iter().for_each(|at| _ = touch.arg("AT").arg(at));
            touch.arg(id(number));
        });
        let touched = bytes(host);
        let pull = timed(host, |pipe, number| {
            pipe.cmd("DEHYDRATOR.PULL").arg("k").arg(id(order[number]));
        });
        assert!(!host.client.exists("k"), "all was taken");
        table.note_all(name, 0, &[push, touch, pull, pushed, touched]);
    }
}
