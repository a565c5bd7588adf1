//! After everything, memory is where it was before.

use redis::Connection;

use harness::{Ask, Server, until};

const COUNT: usize = 25_000;

fn push_all(client: &mut Connection, key: &str) {
    for chunk in (0..COUNT).collect::<Vec<_>>().chunks(10_000) {
        let mut pipe = redis::pipe();
        for number in chunk {
            let ttl = if number % 2 == 0 { 0 } else { 600_000 + number % 5000 };
            let element = vec![b'x'; number % 200];
            pipe.cmd("DEHYDRATOR.PUSH").arg(key).arg(ttl).arg(element).arg(number);
        }
        pipe.exec(client).expect("pushes");
    }
}

/// Pulls one half and removes the other.
fn remove_all(client: &mut Connection, key: &str) {
    for chunk in (0..COUNT).collect::<Vec<_>>().chunks(10_000) {
        let (pulled, removed) = chunk.split_at(chunk.len() / 2);
        let mut pipe = redis::pipe();
        for number in pulled {
            pipe.cmd("DEHYDRATOR.PULL").arg(key).arg(number);
        }
        pipe.cmd("DEHYDRATOR.REM").arg(key).arg(removed);
        pipe.exec(client).expect("replies");
    }
}

#[test]
fn twenty_cycles_of_everything_leave_used_memory_where_it_was() {
    let (_server, mut client) = Server::with_client(&[]);
    let mut cycle = || {
        push_all(&mut client, "k");
        client.ask("DEBUG RELOAD");
        client.ask("DEHYDRATOR.POLL k");
        remove_all(&mut client, "k");
        assert!(!client.exists("k"));
        push_all(&mut client, "k");
        client.ask("DEL k");
        push_all(&mut client, "k");
        client.ask("COPY k copy");
        client.ask("RENAME copy k");
        client.ask("FLUSHALL ASYNC");
        push_all(&mut client, "k");
        client.ask("FLUSHALL SYNC");
        until("all is freed", || {
            (client.info("memory", "lazyfree_pending_objects") == 0).then_some(())
        });
        // Its own connection leaves no buffers behind.
        until("the old connections are gone", || {
            (client.info("clients", "connected_clients") == 1).then_some(())
        });
        client.info("memory", "used_memory")
    };
    let first = cycle();
    let rest: Vec<_> = (0..19).map(|_| cycle()).collect();
    let last = rest[rest.len() - 1];
    // Two million are pushed. A leak of one in a thousand would be three times that.
    assert!(last < first + 100_000, "{first} bytes, then {rest:?}");
}
