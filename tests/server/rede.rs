//! Migration from ReDe: its dumps load with every element.

use std::path::Path;

use redis::{Connection, Value};

use harness::{Ask, Server, text, texts, until};

const DUE: &str = "tests/data/rede-0.5-due.rdb";
const FUTURE: &str = "tests/data/rede-0.5-future.rdb";

fn start(dump: &str) -> Server {
    let options = ["--save", "3600 1", "--dbfilename", "dump.rdb"];
    Server::start_with_files(&options, &[(Path::new(dump), "dump.rdb")])
}

/// Ids and elements of `sessions`: a hundred for each of three TTLs.
fn sessions() -> Vec<(String, String)> {
    let mut all = Vec::new();
    for ttl in [1000, 60_000, 3_600_000] {
        all.extend((1..=100).map(|n| (format!("id-{n}-{ttl}"), format!("payload-{n}-{ttl}"))));
    }
    all
}

fn look(client: &mut Connection, key: &str, id: &str) -> Value {
    client.ask(&format!("DEHYDRATOR.LOOK {key} {id}"))
}

fn check_all(client: &mut Connection) {
    client.ask("SELECT 0");
    let found = sessions()
        .into_iter()
        .filter(|(id, payload)| look(client, "sessions", id) == text(payload));
    assert_eq!(found.count(), 300, "sessions");
    assert_eq!(look(client, "single", "only"), text("hello world"));
    assert_eq!(look(client, "binary", "bin"), Value::BulkString(b"a\0b\r\nc\xff".to_vec()));
    assert_eq!(look(client, "binary", "empty"), text(""));
    client.ask("SELECT 3");
    assert!(client.exists("in-db-3"));
    client.ask("SELECT 0");
}

#[test]
fn a_dump_with_future_deadlines_loads_and_survives_save_restart_and_load() {
    let mut server = start(FUTURE);
    let mut client = server.connect();
    check_all(&mut client);
    assert_eq!(client.ask("DEHYDRATOR.POLL sessions"), texts(&[]), "seventy years early");
    let before: Vec<_> = ["sessions", "single", "binary"].map(|key| client.digest(key)).into();
    for _ in 0..2 {
        client.ask("SAVE");
        server.restart();
        client = server.connect();
        check_all(&mut client);
        let after: Vec<_> = ["sessions", "single", "binary"].map(|key| client.digest(key)).into();
        assert_eq!(after, before);
    }
    // Saved as ours: the name and the encoding version of the type determine the module id in the file.
    let saved = std::fs::read(server.file("dump.rdb")).expect("a dump");
    assert_ne!(saved, std::fs::read(FUTURE).expect("a dump"));
    let Value::BulkString(dump) = client.ask("DUMP single") else { panic!("a dump") };
    // RDB_TYPE_MODULE_2, then a 64-bit id whose last ten bits are the version.
    assert_eq!((dump[0], dump[1]), (7, 0x81));
    let id = u64::from_be_bytes(dump[2..10].try_into().expect("eight bytes"));
    assert_eq!(id & 1023, 1, "the encoding version");
}

#[test]
fn a_dump_with_past_deadlines_delivers_everything_in_order() {
    let mut server = start(DUE);
    let mut client = server.connect();
    check_all(&mut client);
    client.ask("SAVE");
    server.restart();
    client = server.connect();
    check_all(&mut client);
    let Value::Array(ids) = client.ask("DEHYDRATOR.XPOLL sessions") else { panic!("an array") };
    let Value::Array(polled) = client.ask("DEHYDRATOR.POLL sessions") else { panic!("an array") };
    assert_eq!((ids.len(), polled.len()), (300, 300));
    for (id, payload) in ids.iter().zip(&polled) {
        let (Value::BulkString(id), Value::BulkString(payload)) = (id, payload) else {
            panic!("strings")
        };
        assert_eq!(id[2..], payload[7..], "id and element belong together");
    }
    assert!(!client.exists("sessions"));
}

#[test]
fn empty_dehydrators_load_and_are_deleted_at_the_first_use() {
    for touch in [
        "DEHYDRATOR.POLL emptied",
        "DEHYDRATOR.PULL emptied x",
        "DEHYDRATOR.REM emptied x",
        "DEHYDRATOR.XACK emptied x",
    ] {
        let server = start(DUE);
        let mut client = server.connect();
        assert!(client.exists("emptied"));
        client.ask(touch);
        assert!(!client.exists("emptied"), "after {touch}");
    }
    let mut server = start(DUE);
    let mut client = server.connect();
    assert_eq!(client.refused("DEHYDRATOR.UPDATE emptied x y"), "NOSUCHID no such id 'x'");
    assert!(!client.exists("emptied"));
    server.crash_and_restart();

    // A read cannot delete it, but makes the tick do so. Until then it reads as missing.
    client = server.connect();
    assert_eq!(client.ask("DEHYDRATOR.TTN emptied"), Value::Nil);
    until("the tick has come by", || (!client.exists("emptied")).then_some(()));
    server.crash_and_restart();

    // Saved before its first use, it still exists, and accepts pushes.
    client = server.connect();
    client.ask("SAVE");
    server.crash_and_restart();
    client = server.connect();
    assert!(client.exists("emptied"));
    client.ask("DEHYDRATOR.PUSH emptied 0 element id");
    assert_eq!(client.ask("DEHYDRATOR.POLL emptied"), texts(&["element"]));
    assert!(!client.exists("emptied"));
}

#[test]
fn a_truncated_dump_is_refused_at_startup() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let cut = folder.path().join("cut.rdb");
    let whole = std::fs::read(DUE).expect("a dump");
    std::fs::write(&cut, &whole[..whole.len() / 2]).expect("a file");
    let options = ["--dbfilename", "dump.rdb"];
    let log = Server::start_in_vain(&options, &[(&cut, "dump.rdb")]);
    assert!(log.contains("Short read") || log.contains("end of file"), "{log}");
}

#[test]
fn a_push_by_rede_name_replicates_to_servers_without_rede_names() {
    let options = ["rede-commands", "yes", "--appendonly", "yes"];
    let primary = Server::start_with_port(&options);
    let mut replica = Server::start_with_port(&["--appendonly", "yes"]);
    replica.follow(&primary);
    let mut client = primary.connect();
    for line in [
        "DEHYDRATOR.EFFECT k P0@5,delivered=1 element due",
        "rede.push k 0 element held AT 4102444800000",
        "REDE.PUSH k 0 other held AT 4102444800000 REPLACE",
    ] {
        client.ask(line);
    }
    let digest = client.digest("k");
    until("the replica has it", || {
        let mut there = replica.connect();
        (there.exists("k") && there.digest("k") == digest).then_some(())
    });
    let file = primary.file("appendonlydir").join("appendonly.aof.1.incr.aof");
    until("the file has all three by our name", || {
        let written = std::fs::read(&file).expect("a file").to_ascii_lowercase();
        let written = String::from_utf8_lossy(&written);
        assert!(!written.contains("rede.push"), "{written}");
        (written.matches("dehydrator.effect").count() == 4).then_some(())
    });
    replica.connect().wait_for_rewrite();
    replica.restart();
    assert_eq!(replica.connect().digest("k"), digest);
}
