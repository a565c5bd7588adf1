//! What it costs the server to wake a client.

use std::fs;

use redis::Value;

use harness::{Ask, Server, cmd, texts};

/// Returns the number of system calls by which the server has read and written.
fn calls(pid: u64) -> u64 {
    let counts = fs::read_to_string(format!("/proc/{pid}/io")).expect("a kernel that counts");
    let count = |name: &str| {
        let line = counts.lines().find_map(|line| line.strip_prefix(name)).expect("a count");
        line.trim().parse::<u64>().expect("a number")
    };
    count("syscr:") + count("syscw:")
}

#[test]
fn a_push_wakes_a_client_by_two_calls_more_than_the_commands_take() {
    const JOBS: u64 = 200;
    let server = Server::start(&[]);
    let pid = server.info("server", "process_id");
    let (mut asks, mut gives) = (server.connect(), server.connect());
    for block in [0, 60_000] {
        let poll = cmd(&format!("DEHYDRATOR.POLL k BLOCK {block} COUNT 1")).get_packed_command();
        // Connecting is over.
        gives.ask("PING");
        let (before, mut looks) = (calls(pid), 0);
        for job in 0..JOBS {
            asks.send_packed_command(&poll).expect("it is sent");
            loop {
                looks += 1;
                let Value::BulkString(info) = gives.ask("INFO clients") else { panic!("text") };
                if String::from_utf8_lossy(&info).contains("blocked_clients:1\r\n") {
                    break;
                }
            }
            gives.ask(&format!("DEHYDRATOR.PUSH k 0 element {job}"));
            assert_eq!(asks.recv_response().expect("a reply"), texts(&["element"]));
        }
        // Each command is read, and its reply written. The others are the pipe by which the server unblocks a client, and a
        // few of the cron's.
        let each = (calls(pid) - before - 2 * looks) as f64 / JOBS as f64;
        assert!(each < 6.5, "{each} calls to read and write for each job, BLOCK {block}");
        assert!(each > 3.5, "{each}: the clients did not sleep");
    }
}
