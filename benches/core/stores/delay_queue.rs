//! tokio-util's `DelayQueue` with a table of ids beside it.
//!
//! Its time is tokio's clock, which the bench stops and moves by hand. Moving it costs some hundreds of nanoseconds per
//! tick, which a program in tokio's runtime does not pay. So its ticks cannot be compared; its operations can.

use std::task::{Context, Poll, Waker};
use std::time::Duration;

use ahash::RandomState;
use hashbrown::HashMap;
use tokio::runtime::{Builder, Runtime};
use tokio::time::Instant;
use tokio_util::time::DelayQueue;
use tokio_util::time::delay_queue::Key;

use crate::store::{Id, Payload, Store};

pub struct Delayed {
    runtime: Runtime,
    queue: DelayQueue<(Id, Payload)>,
    table: HashMap<Id, Key, RandomState>,
    epoch: Instant,
    now: u64,
}

impl Delayed {
    fn instant(&self, time: u64) -> Instant {
        self.epoch + Duration::from_millis(time)
    }

    fn advance(&mut self, now: u64) {
        if self.now < now {
            let step = Duration::from_millis(now - self.now);
            self.runtime.block_on(tokio::time::advance(step));
            self.now = now;
        }
    }
}

impl Store for Delayed {
    const NAME: &'static str = "delay-queue";
    const LABEL: &'static str = "7 tokio-util DelayQueue";
    /// The limit of its wheel: 64^6 ms.
    const MAX_TTL: u64 = (1 << 36) - 1;

    fn new(now: u64) -> Self {
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build();
        let runtime = runtime.expect("a runtime");
        let entered = runtime.enter();
        let epoch = Instant::now() - Duration::from_millis(now);
        let queue = DelayQueue::new();
        drop(entered);
        Self { runtime, queue, table: HashMap::with_hasher(RandomState::new()), epoch, now }
    }

    fn start(&mut self, id: &Id, payload: &Payload, ttl: u64, now: u64) {
        let at = self.instant(now + ttl);
        let _entered = self.runtime.enter();
        let key = self.queue.insert_at((*id, *payload), at);
        let before = self.table.insert(*id, key);
        assert!(before.is_none(), "an id is started twice");
    }

    fn restart(&mut self, id: &Id, ttl: u64, now: u64) -> bool {
        let at = self.instant(now + ttl);
        let _entered = self.runtime.enter();
        let Some(key) = self.table.get(id) else { return false };
        self.queue.reset_at(key, at);
        true
    }

    fn stop(&mut self, id: &Id) -> Option<Payload> {
        let _entered = self.runtime.enter();
        let key = self.table.remove(id)?;
        Some(self.queue.remove(&key).into_inner().1)
    }

    fn expire(&mut self, now: u64, sink: &mut impl FnMut(&Id, &Payload)) {
        self.advance(now);
        let _entered = self.runtime.enter();
        let mut context = Context::from_waker(Waker::noop());
        while let Poll::Ready(Some(expired)) = self.queue.poll_expired(&mut context) {
            let (id, payload) = expired.into_inner();
            self.table.remove(&id).expect("a timer's id is in the table");
            sink(&id, &payload);
        }
    }

    fn rearm(&mut self, now: u64, ttl: &mut impl FnMut() -> u64) -> usize {
        self.advance(now);
        let epoch = self.epoch;
        let _entered = self.runtime.enter();
        let mut context = Context::from_waker(Waker::noop());
        let mut count = 0;
        // An element that it returns has left it, so restarting is an insertion, with a new key.
        while let Poll::Ready(Some(expired)) = self.queue.poll_expired(&mut context) {
            let (id, payload) = expired.into_inner();
            let at = epoch + Duration::from_millis(now + ttl());
            let key = self.queue.insert_at((id, payload), at);
            *self.table.get_mut(&id).expect("a timer's id is in the table") = key;
            count += 1;
        }
        count
    }
}
