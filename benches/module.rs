//! The module beside what the server's own types cost, on the same server in the same run.
//!
//! Processor time is the server's own (`INFO cpu`), so it leaves out the client, the kernel's share of
//! another process, and waiting; the sockets' part is in it, for both sides alike. Times differ from
//! machine to machine and from hour to hour: the ratios are the result. Each figure is the median of
//! [`ROUNDS`] rounds, in each of which both sides run one after the other.

#[path = "../tests/server/harness.rs"]
#[allow(dead_code)]
mod harness;

use redis::{Connection, Pipeline, Value};

use harness::{Ask, Server};

const COUNT: usize = 200_000;
const ROUNDS: usize = 7;
/// Commands in a pipeline.
const BATCH: usize = 1000;
/// Ids of 16 bytes, elements of 64.
const ELEMENT: [u8; 64] = [b'x'; 64];

fn id(number: usize) -> String {
    // Not in order of number, as real ids are not.
    format!("{:016x}", (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// Pipelines of commands, packed before anything is timed.
fn pipelines(mut add: impl FnMut(&mut Pipeline, usize)) -> Vec<Vec<u8>> {
    let batches = (0..COUNT).step_by(BATCH).map(|first| {
        let mut pipe = redis::pipe();
        (first..first + BATCH).for_each(|number| add(&mut pipe, number));
        pipe.get_packed_pipeline()
    });
    batches.collect()
}

/// The server's own processor time so far, in microseconds.
fn cpu_us(client: &mut Connection) -> f64 {
    let info: String = redis::cmd("INFO").arg("cpu").query(client).expect("INFO");
    let seconds = |field: &str| -> f64 {
        let line = info.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        line.expect("a field").trim().parse().expect("a number")
    };
    (seconds("used_cpu_user") + seconds("used_cpu_sys")) * 1e6
}

/// Sends everything and returns the server's processor time for each command, in microseconds.
fn timed(client: &mut Connection, pipelines: &[Vec<u8>]) -> f64 {
    let before = cpu_us(client);
    for pipeline in pipelines {
        let replies = client.req_packed_commands_raw(pipeline);
        assert!(replies.iter().all(|reply| !matches!(reply, Value::ServerError(_) | Value::Nil)));
    }
    (cpu_us(client) - before) / COUNT as f64
}

/// Sends one command that gives back all elements.
fn timed_take(client: &mut Connection, command: &[&str]) -> f64 {
    let before = cpu_us(client);
    let mut cmd = redis::cmd(command[0]);
    let taken: Vec<Value> = cmd.arg(&command[1..]).query(client).expect("an array");
    assert_eq!(taken.len(), COUNT, "{command:?}");
    (cpu_us(client) - before) / COUNT as f64
}

trait Raw {
    fn req_packed_commands_raw(&mut self, pipeline: &[u8]) -> Vec<Value>;
}

impl Raw for Connection {
    fn req_packed_commands_raw(&mut self, pipeline: &[u8]) -> Vec<Value> {
        use redis::ConnectionLike;
        self.req_packed_commands(pipeline, 0, BATCH).expect("replies")
    }
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<_> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn report(what: &str, unit: &str, rounds: &[(f64, f64)]) {
    let ours = median(rounds.iter().map(|(ours, _)| *ours));
    let theirs = median(rounds.iter().map(|(_, theirs)| *theirs));
    let ratio = median(rounds.iter().map(|(ours, theirs)| ours / theirs));
    println!("| {what:<34} | {ours:>8.2} | {theirs:>8.2} | {unit:<13} | {ratio:>5.2} |");
}

fn main() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    let set = pipelines(|pipe, n| {
        pipe.cmd("SET").arg(id(n)).arg(&ELEMENT);
    });
    let getdel = pipelines(|pipe, n| {
        pipe.cmd("GETDEL").arg(id(n));
    });
    let push = |ttl: u64| {
        pipelines(move |pipe, n| {
            let ttl = ttl + n as u64 % 8;
            pipe.cmd("DEHYDRATOR.PUSH").arg("k").arg(ttl).arg(&ELEMENT).arg(id(n));
        })
    };
    let (push_far, push_due) = (push(600_000), push(0));
    let pull = pipelines(|pipe, n| {
        pipe.cmd("DEHYDRATOR.PULL").arg("k").arg(id(n));
    });
    let rpush = pipelines(|pipe, _| {
        pipe.cmd("RPUSH").arg("list").arg(&ELEMENT);
    });

    let mut results: [Vec<(f64, f64)>; 5] = Default::default();
    for _ in 0..ROUNDS {
        client.ask("FLUSHALL SYNC");
        let empty = client.info("memory", "used_memory") as f64;
        let each = |client: &mut Connection| {
            (client.info("memory", "used_memory") as f64 - empty) / COUNT as f64
        };
        let set_us = timed(&mut client, &set);
        let set_bytes = each(&mut client);
        let getdel_us = timed(&mut client, &getdel);
        let set_left = each(&mut client);
        client.ask("FLUSHALL SYNC");

        let push_us = timed(&mut client, &push_far);
        let push_bytes = each(&mut client);
        // One element stays, so that the dehydrator does, and shows what it keeps.
        client.ask("DEHYDRATOR.PUSH k 600000 last last");
        let pull_us = timed(&mut client, &pull);
        let push_left = each(&mut client);
        client.ask("FLUSHALL SYNC");

        timed(&mut client, &rpush);
        let lpop_us = timed_take(&mut client, &["LPOP", "list", &COUNT.to_string()]);
        timed(&mut client, &push_due);
        harness::until("all is due", || {
            (client.ask("PING") != Value::Nil
                && redis::cmd("DEHYDRATOR.XPOLL")
                    .arg("k")
                    .query::<Vec<Value>>(&mut client)
                    .is_ok_and(|due| due.len() == COUNT))
            .then_some(())
        });
        let poll_us = timed_take(&mut client, &["DEHYDRATOR.POLL", "k"]);

        results[0].push((push_us, set_us));
        results[1].push((pull_us, getdel_us));
        results[2].push((poll_us, lpop_us));
        results[3].push((push_bytes, set_bytes));
        results[4].push((push_left, set_left));
    }

    println!("{COUNT} elements, ids of 16 bytes, elements of 64, {ROUNDS} rounds, medians");
    println!("{}\n", harness::server_program().display());
    println!(
        "| what, beside what                  |     ours |   theirs | unit          | ratio |"
    );
    println!(
        "|------------------------------------|----------|----------|---------------|-------|"
    );
    report("PUSH, beside SET", "us of CPU", &results[0]);
    report("PULL, beside GETDEL", "us of CPU", &results[1]);
    report("POLL of all, beside LPOP of all", "us/element", &results[2]);
    report("memory, beside SET", "bytes/element", &results[3]);
    let left = median(results[4].iter().map(|(ours, _)| *ours));
    println!("\nmemory left when all but one element are pulled: {left:.2} bytes an element");
}
