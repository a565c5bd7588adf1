//! Keeps the dehydrators of one database up to date, with a bounded number of commands at a time: a walk over all keys, and
//! the facts of the dehydrators that it has found.

use std::ops::ControlFlow;
use std::time::Duration;

use redis::{Connection, RedisResult};

use crate::ask;
use crate::dehydrators::Dehydrators;

/// Where the walk, and the asking for facts, continue.
#[derive(Default)]
pub struct Walk {
    cursor: u64,
    /// The dehydrator whose facts are read next.
    next: Vec<u8>,
}

impl Walk {
    /// Begins the walk again, for another connection.
    pub fn restart(&mut self) {
        self.cursor = 0;
    }

    /// Walks on over the keys, for at most this many SCANs. Breaks at the end of the walk.
    pub fn find(
        &mut self,
        connection: &mut Connection,
        scans: usize,
        mut saw: impl FnMut(Vec<u8>),
    ) -> RedisResult<ControlFlow<()>> {
        for _ in 0..scans {
            let (cursor, keys) = ask::keys(connection, self.cursor)?;
            keys.into_iter().for_each(&mut saw);
            self.cursor = cursor;
            if cursor == 0 {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Returns the keys whose facts are to be read now, at most `count`.
    pub fn next(&mut self, dehydrators: &Dehydrators, count: usize) -> Vec<Vec<u8>> {
        let later = dehydrators.all.range(self.next.clone()..);
        let mut keys: Vec<_> = later.map(|(key, _)| key.clone()).take(count + 1).collect();
        self.next = if keys.len() > count { keys.swap_remove(count) } else { Vec::new() };
        keys
    }

    /// Walks on, and reads the facts of at most `count` dehydrators.
    pub fn refresh(
        &mut self,
        connection: &mut Connection,
        dehydrators: &mut Dehydrators,
        (scans, count): (usize, usize),
        now: Duration,
    ) -> RedisResult<()> {
        if self.find(connection, scans, |key| dehydrators.saw(key))?.is_break() {
            dehydrators.end_walk();
        }
        let keys = self.next(dehydrators, count);
        for (key, facts) in keys.iter().zip(ask::facts(connection, &keys)?) {
            if let Some(facts) = facts {
                dehydrators.take_facts(key, facts, now);
            }
        }
        Ok(())
    }
}
