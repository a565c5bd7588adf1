//! A full disk, which later has space again.

use redis::{Connection, Value};

use harness::{Ask, Server, cmd, refusal, until};

fn push(client: &mut Connection, number: usize) -> Result<(), String> {
    let mut push = redis::cmd("DEHYDRATOR.PUSH");
    push.arg("k").arg(600_000).arg(vec![b'x'; 1000]).arg(number);
    match refusal(&push, client) {
        Err(reply) => {
            assert_eq!(reply, Value::Okay);
            Ok(())
        }
        Ok(error) => Err(error),
    }
}

#[test]
fn an_append_only_file_that_cannot_grow_refuses_writes_and_continues_later() {
    let mut server = Server::start_with_file_limit(500, &["--appendonly", "yes"]);
    let mut client = server.connect();
    let mut acknowledged = 0;
    let error = loop {
        match push(&mut client, acknowledged) {
            Ok(()) => acknowledged += 1,
            Err(error) => break error,
        }
        assert!(acknowledged < 10_000, "the disk is never full");
    };
    assert!(error.contains("MISCONF"), "{error}");
    // Refused: nothing is taken, and the data can be read.
    let digest = client.digest("k");
    for write in ["DEHYDRATOR.PULL k 3", "DEHYDRATOR.POLL k", "DEHYDRATOR.REM k 3"] {
        assert!(
            refusal(&cmd(write), &mut client).is_ok_and(|it| it.contains("MISCONF")),
            "{write}"
        );
    }
    assert_eq!(client.digest("k"), digest);
    assert_ne!(client.ask("DEHYDRATOR.LOOK k 3"), Value::Nil);

    server.lift_file_limit();
    until("writes are taken again", || push(&mut client, acknowledged).ok());
    let digest = client.digest("k");
    until("the file is written", || {
        (server.info("persistence", "aof_pending_bio_fsync") == 0).then_some(())
    });
    server.crash_and_restart();
    assert_eq!(server.connect().digest("k"), digest);
}

#[test]
fn a_failing_snapshot_leaves_the_previous_one_and_the_server() {
    let options = ["--save", "3600 1000000", "--stop-writes-on-bgsave-error", "no"];
    let (mut server, mut client) = Server::with_client(&options);
    (0..100).for_each(|number| push(&mut client, number).expect("room"));
    client.ask("SAVE");
    let digest = client.digest("k");
    let saved = std::fs::read(server.file("dump.rdb")).expect("a dump");

    let mut limited = Server::start_with_file_limit(100, &options);
    let mut other = limited.connect();
    (0..1000).for_each(|number| push(&mut other, number).expect("room"));
    // Random bytes are incompressible.
    let before = other.digest("k");
    other.ask("CONFIG SET rdbcompression no");
    let error = refusal(&cmd("SAVE"), &mut other);
    assert!(error.is_ok(), "a snapshot of a megabyte in a hundred kilobytes");
    other.ask("BGSAVE");
    until("the snapshot has failed", || {
        (limited.info("persistence", "rdb_bgsave_in_progress") == 0).then_some(())
    });
    assert!(limited.log().contains("Background saving error"), "{}", limited.log());
    assert_eq!(other.digest("k"), before);
    limited.lift_file_limit();
    other.ask("SAVE");
    limited.crash_and_restart();
    assert_eq!(limited.connect().digest("k"), before);

    assert_eq!(std::fs::read(server.file("dump.rdb")).expect("a dump"), saved);
    server.crash_and_restart();
    assert_eq!(server.connect().digest("k"), digest);
}
