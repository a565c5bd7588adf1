//! The commands of a worker, and their replies.

use redis::{Cmd, Connection, FromRedisValue, Value};

/// A leased element. The element itself is its deadline, or is ignored.
pub struct Held {
    pub id: String,
    pub element: Vec<u8>,
    pub deliveries: u64,
    pub token: String,
}

/// Parses the reply to a POLL with LEASE. Nil means no element.
pub fn held(reply: Value) -> Vec<Held> {
    let rows = Option::<Vec<(String, Vec<u8>, u64, String)>>::from_redis_value(reply);
    let rows = rows.expect("id, element, deliveries and token").unwrap_or_default();
    let held = |(id, element, deliveries, token)| Held { id, element, deliveries, token };
    rows.into_iter().map(held).collect()
}

/// Sends POLL with LEASE for up to `count` elements. `block_ms` 0: does not wait.
pub fn poll(
    client: &mut Connection,
    key: &str,
    count: usize,
    lease_ms: u64,
    block_ms: u64,
) -> Vec<Held> {
    let mut poll = redis::cmd("DEHYDRATOR.POLL");
    poll.arg(key).arg("COUNT").arg(count).arg("LEASE").arg(lease_ms);
    if block_ms > 0 {
        poll.arg("BLOCK").arg(block_ms);
    }
    held(poll.query(client).expect("a reply"))
}

pub fn settle(key: &str, held: &[Held]) -> Cmd {
    let mut settle = redis::cmd("DEHYDRATOR.SETTLE");
    settle.arg(key);
    held.iter().for_each(|held| _ = settle.arg(&held.token).arg(&held.id));
    settle
}

pub fn renew(key: &str, ttl_ms: u64, held: &[Held]) -> Cmd {
    let mut renew = redis::cmd("DEHYDRATOR.RENEW");
    renew.arg(key).arg(ttl_ms);
    held.iter().for_each(|held| _ = renew.arg(&held.token).arg(&held.id));
    renew
}
