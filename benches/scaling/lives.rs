//! The bytes that an element's life sends to replicas and adds to the append-only file.

use redis::{Connection, ConnectionLike};

use crate::job::{self, Held};
use crate::probe::Probe;
use benches::load::{element, id, pipelines, send};
use harness::{Ask, cmd, until};

const COUNT: usize = 20_000;
const LEASE_MS: u64 = 60_000;

/// A life, with the name of its figures.
pub struct Life {
    pub name: &'static str,
    pub told: &'static str,
    live: fn(&mut Connection),
}

pub const LIVES: [Life; 7] = [
    Life {
        name: "poll_1",
        told: "PUSH, POLL",
        live: |client| {
            push(client, "jobs", 0);
            polls(client, 1, "");
        },
    },
    Life {
        name: "poll_100",
        told: "the same, a hundred at a time",
        live: |client| {
            push(client, "jobs", 0);
            polls(client, 100, "");
        },
    },
    Life {
        name: "settle_1",
        told: "PUSH, POLL LEASE, SETTLE",
        live: |client| {
            push(client, "jobs", 0);
            let held = leases(client, 1);
            settle(client, &held);
        },
    },
    Life {
        name: "settle_100",
        told: "the same, a hundred at a time",
        live: |client| {
            push(client, "jobs", 0);
            let held = leases(client, 100);
            settle(client, &held);
        },
    },
    Life {
        name: "cancel",
        told: "PUSH, cancelled by REM",
        live: |client| {
            push(client, "jobs", 3_600_000);
            let rem = |pipe: &mut redis::Pipeline, number| {
                _ = pipe.cmd("DEHYDRATOR.REM").arg("jobs").arg(id(number));
            };
            send(client, &pipelines(COUNT, rem));
        },
    },
    Life {
        name: "retry",
        told: "PUSH, POLL LEASE, SETTLE, with three retries",
        live: |client| {
            push(client, "jobs", 0);
            for _ in 0..3 {
                let held = leases(client, 1);
                let renew = |pipe: &mut redis::Pipeline, at: usize| {
                    pipe.add_command(job::renew("jobs", 0, &held[at]));
                };
                send(client, &pipelines(held.len(), renew));
            }
            let held = leases(client, 1);
            settle(client, &held);
        },
    },
    Life {
        name: "stream",
        told: "PUSH, delivered by ONDUE STREAM",
        live: |client| {
            push(client, "later", 0);
            client.ask("DEHYDRATOR.ONDUE later STREAM stream");
            until("all is in the stream", || {
                (client.ask("DEHYDRATOR.LEN later") == redis::Value::Int(0)).then_some(())
            });
        },
    },
];

fn push(client: &mut Connection, key: &str, ttl: u64) {
    let push = |pipe: &mut redis::Pipeline, number| {
        let push = pipe.cmd("DEHYDRATOR.PUSH").arg(key).arg(ttl);
        push.arg(element(number, 64)).arg(id(number));
    };
    send(client, &pipelines(COUNT, push));
}

fn polls(client: &mut Connection, many: usize, options: &str) -> Vec<redis::Value> {
    let poll = cmd(&format!("DEHYDRATOR.POLL jobs COUNT {many}{options}"));
    let packed = pipelines(COUNT / many, |pipe, _| _ = pipe.add_command(poll.clone()));
    let replies = packed.iter().flat_map(|(pipeline, count)| {
        client.req_packed_commands(pipeline, 0, *count).expect("replies")
    });
    replies.collect()
}

fn leases(client: &mut Connection, many: usize) -> Vec<Vec<Held>> {
    let replies = polls(client, many, &format!(" LEASE {LEASE_MS}"));
    replies.into_iter().map(job::held).collect()
}

fn settle(client: &mut Connection, held: &[Vec<Held>]) {
    let settle = |pipe: &mut redis::Pipeline, at: usize| {
        pipe.add_command(job::settle("jobs", &held[at]));
    };
    send(client, &pipelines(held.len(), settle));
}

/// Measures bytes per element: to a replica, and in the append-only file.
pub fn measure(life: &Life, probe: &Probe) -> [f64; 2] {
    let mut client = probe.connect();
    let sizes = |client: &mut Connection| {
        // While the disk is busy, data is written later.
        until("all is written", || {
            (client.info("persistence", "aof_buffer_length") == 0).then_some(())
        });
        [
            client.info("replication", "master_repl_offset"),
            client.info("persistence", "aof_current_size"),
        ]
    };
    let before = sizes(&mut client);
    (life.live)(&mut client);
    let after = sizes(&mut client);
    assert!(!client.exists("jobs"), "each has ended");
    client.ask("DEL later stream");
    [0, 1].map(|at| (after[at] - before[at]) as f64 / COUNT as f64)
}
