//! The table of docs/clients.md about commands that are sent twice: each line is tested.

use std::collections::BTreeSet;
use std::fs;

use redis::Value;

use crate::lines::{COMMANDS, Command};
use crate::replies::is;
use harness::{Ask, Server, cmd, refusal, text, texts, until};

/// Returns the commands of the table, by its names.
fn commands_of_the_table() -> BTreeSet<String> {
    let page = fs::read_to_string("docs/clients.md").expect("a page");
    let (_, rest) = page.split_once("\n| command | sent twice |\n|---|---|\n").expect("a table");
    let lines = rest.lines().map_while(|line| line.strip_prefix("| "));
    let cells = lines.map(|line| line.split(" | ").next().expect("a cell"));
    cells.flat_map(|cell| cell.split(", ").map(str::to_owned).collect::<Vec<_>>()).collect()
}

/// All that only read, in the table.
const READERS: &str = "what only reads";

/// What a command of the table does that has no replies in lines.rs, on a key `k` with `a`, which is due, and `b`, which is not.
const TRIED: &[(&str, fn())] = &[
    (READERS, || {
        let readers = COMMANDS.iter().filter(|it| it.flags.contains("readonly"));
        for reader in readers.filter(|it| !it.key.is_empty()) {
            reads(&format!("DEHYDRATOR.{}", reader.line.replace(" id", " a")));
        }
    }),
    ("UNSCHEDULE", || {
        let server = two_elements();
        server.connect().ask("DEHYDRATOR.EVERY k 600000 element n");
        twice(&server, "DEHYDRATOR.UNSCHEDULE k n", Value::Int(1), Value::Int(0));
    }),
    ("RESUME", || {
        let server = two_elements();
        server.connect().ask("DEHYDRATOR.PAUSE k");
        twice(&server, "DEHYDRATOR.RESUME k", Value::Int(1), Value::Int(0));
    }),
    ("TOUCH", || {
        let server = two_elements();
        twice(&server, "DEHYDRATOR.TOUCH k 5000000 b", Value::Int(1), Value::Int(1));
        let Value::Int(left) = server.connect().ask("DEHYDRATOR.PTTL k b") else { panic!() };
        assert!((4_900_000..=5_000_000).contains(&left), "{left}");
    }),
    ("PUSH", || {
        let server = two_elements();
        let mut client = server.connect();
        client.ask("DEHYDRATOR.PUSH k 1000000 C c");
        let refused = refusal(&cmd("DEHYDRATOR.PUSH k 1000000 C c"), &mut client);
        assert_eq!(refused.expect("it is refused"), "EXISTS id 'c' is there already");
        twice(&server, "DEHYDRATOR.PUSH k 1000000 D d NX", Value::Okay, Value::Nil);
        twice(&server, "DEHYDRATOR.PUSH k 1000000 E e REPLACE", Value::Okay, Value::Okay);
        assert_eq!(client.ask("DEHYDRATOR.LEN k"), Value::Int(5));
    }),
    ("MPUSH", || {
        let server = two_elements();
        let mut client = server.connect();
        client.ask("DEHYDRATOR.MPUSH k 1000000 C c 1000000 D d");
        let refused = client.refused("DEHYDRATOR.MPUSH k 1000000 C c 1000000 D d");
        assert_eq!(refused, "EXISTS id 'c' is there already");
        twice(&server, "DEHYDRATOR.MPUSH k 1000000 E e NX", each(1), each(0));
        twice(&server, "DEHYDRATOR.MPUSH k 1000000 F f REPLACE", each(1), each(1));
        assert_eq!(client.ask("DEHYDRATOR.LEN k"), Value::Int(6));
    }),
    ("GIDPUSH", || {
        let server = two_elements();
        let mut client = server.connect();
        let ids = [(); 2].map(|()| client.ask("DEHYDRATOR.GIDPUSH k 1000000 C"));
        assert_ne!(ids[0], ids[1]);
        assert_eq!(client.ask("DEHYDRATOR.LEN k"), Value::Int(4));
    }),
    ("RENEW", || {
        let server = leased();
        twice(&server, "DEHYDRATOR.RENEW k 5000 word a", each(1), each(1));
        twice(&server, "DEHYDRATOR.RENEW k 0 word a", each(1), each(0));
    }),
    ("RELEASE", || {
        let server = leased();
        twice(&server, "DEHYDRATOR.RELEASE k 5000 word a", each(1), each(0));
    }),
    ("REJECT", || {
        let server = leased();
        server.connect().ask("DEHYDRATOR.ONDUE k HOLD DELIVERIES 5 DROP");
        twice(&server, "DEHYDRATOR.REJECT k word a", each(1), each(0));
    }),
    ("REVIVE", || {
        let server = leased();
        let mut client = server.connect();
        client.ask("DEHYDRATOR.ONDUE k HOLD DELIVERIES 5 STREAM d");
        client.ask("DEHYDRATOR.REJECT k word a");
        client.ask("XADD d 9999999999999-0 id c element C");
        let count = |number| Value::Array(vec![Value::Int(number), Value::Nil]);
        twice(&server, "DEHYDRATOR.REVIVE k IDS 1 9999999999999-0", count(1), count(0));
        let last = redis::cmd("XRANGE").arg(&["d", "-", "+"]).query(&mut client);
        let last: Vec<(String, Value)> = last.expect("entries");
        client.ask("XADD d 9999999999999-1 id d element D");
        let first = Value::Array(vec![Value::Int(1), text(&last[0].0)]);
        let second = Value::Array(vec![Value::Int(1), text("9999999999999-1")]);
        twice(&server, "DEHYDRATOR.REVIVE k COUNT 1", first, second);
    }),
    ("POLL and MPOLL without `LEASE`", || {
        replies("DEHYDRATOR.POLL k", texts(&["A"]), texts(&[]));
        let first = Value::Array(vec![text("k"), texts(&["A"])]);
        replies("DEHYDRATOR.MPOLL 1 k", first, Value::Nil);
    }),
    ("POLL and MPOLL with `LEASE`", || {
        for (poll, nothing) in [
            ("DEHYDRATOR.POLL k LEASE 50", texts(&[])),
            ("DEHYDRATOR.MPOLL 1 k LEASE 50", Value::Nil),
        ] {
            let server = two_elements();
            let mut client = server.connect();
            assert!(format!("{:?}", client.ask(poll)).contains("int(1)"), "{poll}");
            until("the lease has run out", || {
                let reply = client.ask(poll);
                // The delivery count goes up.
                let came_again = format!("{reply:?}").contains("int(2)");
                assert!(came_again || reply == nothing, "{reply:?}");
                came_again.then_some(())
            });
        }
    }),
    ("POLL and MPOLL with `LEASE` and `TOKEN`", || {
        for poll in ["DEHYDRATOR.POLL k", "DEHYDRATOR.MPOLL 1 k"] {
            let server = two_elements();
            let mut client = server.connect();
            let replies = [(); 2].map(|()| client.ask(&format!("{poll} LEASE 60000 TOKEN word")));
            assert!(format!("{replies:?}").contains('A'), "{replies:?}");
            assert_eq!(replies[0], replies[1]);
        }
    }),
];

fn two_elements() -> Server {
    let (server, mut client) = Server::with_client(&[]);
    client.ask("DEHYDRATOR.PUSH k 0 A a");
    client.ask("DEHYDRATOR.PUSH k 1000000 B b");
    until("it is due", || (client.ask("DEHYDRATOR.TTN k") == Value::Int(0)).then_some(()));
    server
}

/// Returns a server like [`two_elements`], with `a` leased under the token `word`.
fn leased() -> Server {
    let server = two_elements();
    server.connect().ask("DEHYDRATOR.POLL k LEASE 60000 TOKEN word");
    server
}

/// Returns the reply to a command with several ids that got one.
fn each(number: i64) -> Value {
    Value::Array(vec![Value::Int(number)])
}

fn twice(server: &Server, line: &str, first: Value, second: Value) {
    let mut client = server.connect();
    assert_eq!(client.ask(line), first, "{line}");
    assert_eq!(client.ask(line), second, "{line}, again");
}

fn replies(line: &str, first: Value, second: Value) {
    twice(&two_elements(), line, first, second);
}

/// Returns a reply without the numbers of INFO that grow by themselves.
fn without_age(reply: Value) -> Value {
    let Value::Array(mut fields) = reply else { return reply };
    for name in ["oldest-due-ms", "oldest-held-ms"] {
        if let Some(at) = fields.iter().position(|it| *it == text(name)) {
            fields.remove(at + 1);
        }
    }
    Value::Array(fields)
}

/// Asserts that a command replies the same twice, and leaves the same state.
fn reads(line: &str) {
    let server = two_elements();
    let mut client = server.connect();
    let first = without_age(client.ask(line));
    let digest = client.digest("k");
    assert_eq!(without_age(client.ask(line)), first, "{line}, again");
    assert_eq!(client.digest("k"), digest, "{line}");
}

#[test]
fn a_command_sent_twice_does_what_the_page_states() {
    for (command, does) in TRIED {
        eprintln!("{command}");
        does();
    }
    let (_server, mut client) = Server::with_client(&[]);
    for command in COMMANDS {
        let Some(cells) = command.twice else { continue };
        client.ask("FLUSHALL");
        client.ask("DEHYDRATOR.PUSH k 0 element id");
        client.ask("DEHYDRATOR.POLL k LEASE 600000 TOKEN mine");
        let line = format!("DEHYDRATOR.{}", command.line);
        let digests = cells.map(|cell| {
            let reply = client.ask(&line);
            assert!(is(&Ok(reply.clone()), cell), "{line}: {reply:?} is not {cell}");
            client.digest("k")
        });
        // A ttl counts from a later moment, unless the second one changes nothing.
        let is_later = line.contains(" 600000 ") && cells[0] == cells[1];
        assert!(is_later || digests[0] == digests[1], "{line}");
    }
}

#[test]
fn each_command_for_clients_is_sent_twice() {
    let mut verbs: BTreeSet<_> = Server::start(&[]).connect().verbs().into_iter().collect();
    // HELP has no key. EFFECT is for tools.
    let left_out =
        |it: &&Command| it.flags.contains("readonly") || matches!(it.verb(), "HELP" | "EFFECT");
    for left_out in COMMANDS.iter().filter(left_out) {
        verbs.remove(left_out.verb());
    }
    // "POLL and MPOLL with `LEASE`"
    let is_verb = |word: &&str| word.len() > 2 && word.chars().all(|it| it.is_ascii_uppercase());
    let verbs_of =
        |form: String| form.split(' ').filter(is_verb).map(str::to_owned).collect::<Vec<_>>();
    let of_page: BTreeSet<_> = commands_of_the_table().into_iter().flat_map(verbs_of).collect();
    let differing: Vec<_> = of_page.symmetric_difference(&verbs).collect();
    assert!(differing.is_empty(), "in HELP or in the page's table alone: {differing:?}");
    let tried = TRIED.iter().map(|(command, _)| *command);
    let tried = tried.chain(COMMANDS.iter().filter(|it| it.twice.is_some()).map(Command::verb));
    let tried: BTreeSet<_> = tried.map(str::to_owned).collect();
    let of_page = commands_of_the_table();
    let differing: Vec<_> = tried.symmetric_difference(&of_page).collect();
    assert!(
        differing.is_empty(),
        "in TRIED and lines.rs or in the page's table alone: {differing:?}"
    );
}
