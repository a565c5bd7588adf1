//! Effects: what replicas, files and tools that copy make of them.

use std::collections::HashSet;

use redis::{Connection, Value};

use crate::replication::{KEYS, Load, WORDS, catch_up, parts, replica_of};
use harness::{Ask, Server, cmd, text, until};

/// An id, a token or a group may be any word, also one of our own, and effects say what it is.
#[test]
fn an_id_that_is_one_of_our_words_is_given_back_on_replicas_and_in_files() {
    let mut primary = Server::start_with_port(&["--appendonly", "yes"]);
    let replica = replica_of(&primary, &[]);
    let mut client = primary.connect();
    let words: Vec<&str> = WORDS.split_whitespace().collect();
    for word in &words {
        client.ask(&format!("DEHYDRATOR.PUSH {word} 0 element {word} GROUP {word}"));
        // Behind tokens and ids, these are options.
        let is_option = ["UNCOUNTED", "ELEMENT", "REASON"].contains(&&word.to_uppercase()[..]);
        let token = if is_option { "token" } else { word };
        let poll = |token: &str| format!("DEHYDRATOR.POLL {word} LEASE 60000 TOKEN {token}");
        if is_option {
            let error = client.refused(&poll(word));
            assert_eq!(error, format!("ERR TOKEN '{word}' is the name of an option of RELEASE"));
        }
        client.ask(&poll(token));
        let released = client
            .ask(&format!("DEHYDRATOR.RELEASE {word} 0 {token} {word} UNCOUNTED REASON {word}"));
        assert_eq!(released, Value::Array(vec![Value::Int(1)]), "{word}");
        client.ask(&format!("DEHYDRATOR.TOUCH {word} 600000 {word}"));
    }
    catch_up(&primary, &replica);
    let digests = |server: &Server| -> Vec<Value> {
        let mut client = server.connect();
        words.iter().map(|key| client.digest(key)).collect()
    };
    let before = digests(&primary);
    assert_eq!(digests(&replica), before);
    primary.restart();
    assert_eq!(digests(&primary), before);
}

/// A primary removes it at the next tick or later, and tells replicas: until then the values are equal all the same.
#[test]
fn a_pause_that_has_ended_is_no_difference() {
    let (_server, mut client) = Server::with_client(&["deliver", "no"]);
    for pause in ["PAUSE k FOR 1", "PAUSE k FOR 1 GROUP g", "PAUSE k FOR 1 GROUP limited"] {
        client.ask("DEL k");
        client.ask("DEHYDRATOR.PUSH k 600000 element id GROUP g AT 4102444800000");
        client.ask("DEHYDRATOR.LIMIT k GROUP limited HELD 1");
        let before = client.digest("k");
        client.ask(&format!("DEHYDRATOR.{pause}"));
        until("it has ended", || (client.digest("k") == before).then_some(()));
    }
}

#[test]
fn every_word_of_ours_is_in_the_list() {
    let server = Server::start(&[]);
    let help: Vec<String> = cmd("DEHYDRATOR.HELP").query(&mut server.connect()).expect("lines");
    let known: HashSet<String> = WORDS.split_whitespace().map(str::to_uppercase).collect();
    let syntax = help.iter().step_by(2).flat_map(|line| line.split_once(' ').map(|it| it.1));
    for word in syntax.flat_map(|line| line.split(|it: char| !it.is_ascii_uppercase())) {
        assert!(word.len() < 2 || known.contains(word), "{word} is not in WORDS");
    }
}

/// Returns the files of commands that the server has written: the base, if it is one, and what followed.
fn files_of_commands(server: &Server) -> Vec<u8> {
    let folder = std::fs::read_dir(server.file("appendonlydir")).expect("a folder");
    let mut files: Vec<_> = folder.flatten().map(|entry| entry.path()).collect();
    files.retain(|path| path.extension().is_some_and(|it| it == "aof"));
    // "…base.aof" sorts before "…incr.aof".
    files.sort();
    files.iter().flat_map(|path| std::fs::read(path).expect("a file")).collect()
}

/// As `redis-cli --pipe`, RedisShake or an import do.
#[test]
fn a_tool_that_sends_effects_as_a_client_gets_the_same_value() {
    let options =
        ["--appendonly", "yes", "--appendfsync", "always", "--aof-use-rdb-preamble", "no"];
    for seed in 1..=4 {
        let (server, mut client) = Server::with_client(&options);
        let mut load = Load::new(seed);
        load.send(&mut client, 3000);
        // A pause that ends before the tool comes, and dead letters that are stuck.
        client.ask("DEHYDRATOR.PAUSE k0 FOR 1");
        client.ask("DEHYDRATOR.ONDUE stuck HOLD DELIVERIES 1 STREAM other");
        client.ask("SET other text");
        client.ask("DEHYDRATOR.PUSH stuck 0 element rejected");
        client.ask("DEHYDRATOR.POLL stuck LEASE 60000 TOKEN mine");
        client.ask("DEHYDRATOR.REJECT stuck mine rejected");
        // So that it stays: a tool's ONDUE is checked as any user's is, and must find a stream or nothing.
        client.ask("DEHYDRATOR.PAUSE stuck");
        client.ask("DEL other");
        client.ask("DEHYDRATOR.LIMIT stuck REMEMBER 600000");
        client.ask("DEHYDRATOR.MPUSH stuck 0 a a 0 b b 0 c c");
        client.ask("DEHYDRATOR.XACK stuck a b c");
        let dump: Vec<u8> = cmd("DUMP stuck").query(&mut client).expect("a dump");
        redis::cmd("RESTORE").arg("restored").arg(0).arg(dump).exec(&mut client).expect("OK");
        let keys = [&KEYS[..], &["stuck", "restored"]].concat();
        for rewrites in [false, true] {
            if rewrites {
                client.rewrite_aof();
            }
            until("nothing changes any more", || {
                let first = files_of_commands(&server);
                client.ask("PING");
                (first == files_of_commands(&server)).then_some(())
            });
            let copy = Server::start(&[]);
            let mut tool = copy.connect();
            tool.send_packed_command(&files_of_commands(&server)).expect("they are sent");
            tool.send_packed_command(&cmd("ECHO end").get_packed_command()).expect("it is sent");
            loop {
                match tool.recv_response().expect("a reply") {
                    Value::ServerError(error) => panic!("seed {seed}, {rewrites}: {error:?}"),
                    end if end == text("end") => break,
                    _ => {}
                }
            }
            let digests = |client: &mut Connection| -> Vec<Value> {
                keys.iter().map(|key| client.digest(key)).collect()
            };
            if digests(&mut tool) != digests(&mut client) {
                for key in &keys {
                    assert_eq!(
                        parts(&mut tool, key),
                        parts(&mut client, key),
                        "seed {seed}, {rewrites}"
                    );
                }
            }
            assert_eq!(digests(&mut tool), digests(&mut client), "seed {seed}, {rewrites}");
        }
    }
}
