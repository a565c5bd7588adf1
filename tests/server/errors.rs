//! Invalid input gets a clear error, changes nothing, and leaves the connection in sync.

use redis::{Connection, Value};

use crate::lines;
use harness::{Ask, Server, cmd, refusal, text, until};

/// Each verb with the fewest arguments that it accepts, on a key `k`.
fn verbs() -> impl Iterator<Item = String> {
    let lines = lines::of_page().filter(|(name, _)| !name.contains(' '));
    lines.map(|(name, line)| match name {
        "MPOLL" => "DEHYDRATOR.MPOLL 1 k".to_owned(),
        _ => format!("DEHYDRATOR.{line}"),
    })
}

/// Returns a word as errors show it: unprintable bytes are escaped.
fn shown(word: &str) -> String {
    let printable = |byte: u8| byte.is_ascii_graphic() || byte == b' ';
    let one = |byte: u8| {
        if printable(byte) { char::from(byte).to_string() } else { format!("\\x{byte:02x}") }
    };
    word.bytes().map(one).collect()
}

#[test]
fn errors_show_only_the_beginning_of_a_long_word() {
    let (_server, mut client) = Server::with_client(&[]);
    let long = "x".repeat(1 << 20);
    let cut = format!("{}...", "x".repeat(32));
    let exact = "y".repeat(32);
    for (word, shown) in [(&long, &cut), (&exact, &exact)] {
        for (start, name, range) in [
            ("PUSH k ", "ttl", "of milliseconds from 0 on"),
            ("PUSH k 5 element id AT ", "AT", "of unix milliseconds from 0 on"),
            ("PUSH k 5 element id SLACK ", "SLACK", "of milliseconds from 0 on"),
            ("PUSH k 5 element id DELIVERIES ", "DELIVERIES", "from 1 to 65535"),
            ("POLL k COUNT ", "COUNT", "from 1 on"),
            ("MPOLL 1 k COUNT ", "COUNT", "from 1 on"),
            ("POLL k BLOCK ", "BLOCK", "of milliseconds from 0 on"),
            ("POLL k LEASE ", "LEASE", "of milliseconds from 1 on"),
            ("ONDUE k STREAM s MAXLEN ", "MAXLEN", "from 1 on"),
            ("ONDUE k HOLD DELIVERIES ", "DELIVERIES", "from 1 to 65535"),
            ("ONDUE k HOLD DELIVERIES 5 STREAM s MAXLEN ", "MAXLEN", "from 1 on"),
        ] {
            let end = if name == "ttl" { " element id" } else { "" };
            let error = client.refused(&format!("DEHYDRATOR.{start}{word}{end}"));
            assert_eq!(error, format!("ERR {name} '{shown}' is not a whole number {range}"));
        }
        let error = client.refused(&format!("DEHYDRATOR.SCAN k {word}"));
        assert_eq!(error, format!("ERR invalid cursor '{shown}'"));
    }
    assert!(!client.exists("k"));
}

#[test]
fn invalid_ttls_are_refused() {
    let (_server, mut client) = Server::with_client(&[]);
    let bad = [
        "ten",
        "",
        "1.5",
        "-1",
        " 5",
        "5 ",
        "+5",
        "0x10",
        "1e3",
        "05",
        "-0",
        "9223372036854775807",
        "9223372036854775808",
        "18446744073709551616",
        "99999999999999999999999999",
        "5\0",
        "\0",
        "inf",
        "nan",
        "１",
    ];
    for ttl in bad {
        for verb in ["PUSH", "GIDPUSH", "MPUSH", "TOUCH"] {
            let mut command = redis::cmd(&format!("DEHYDRATOR.{verb}"));
            match verb {
                "GIDPUSH" => command.arg("k").arg(ttl).arg("element"),
                "TOUCH" => command.arg("k").arg(ttl).arg("id"),
                _ => command.arg("k").arg(ttl).arg("element").arg("id"),
            };
            let error = refusal(&command, &mut client).expect("an error");
            let start = format!("ERR ttl '{}' is ", shown(ttl));
            assert!(error.starts_with(&start), "{verb} {ttl:?}: {error}");
            let is_number = ttl.len() > 1 && ttl.bytes().all(|it| it.is_ascii_digit());
            let expected = if is_number && !ttl.starts_with('0') {
                "too large: now + ttl must fit in 63 bits"
            } else {
                "not a whole number of milliseconds from 0 on"
            };
            assert_eq!(error, format!("{start}{expected}"));
            // The next reply belongs to the next command.
            assert_eq!(client.ask("ECHO in-step"), text("in-step"));
        }
    }
    assert!(!client.exists("k"));
}

#[test]
fn invalid_deadlines_are_refused() {
    let (_server, mut client) = Server::with_client(&[]);
    for at in ["ten", "", "1.5", "-1", " 5", "9223372036854775808", "5\0"] {
        let mut command = cmd("DEHYDRATOR.PUSH k 5 element id AT");
        let error = refusal(command.arg(at), &mut client).expect("an error");
        let start = format!("ERR AT '{}' is ", shown(at));
        assert!(error.starts_with(&start), "{at:?}: {error}");
        if at.len() < 10 {
            let expected = "not a whole number of unix milliseconds from 0 on";
            assert_eq!(error, format!("{start}{expected}"));
        }
    }
    let seconds = ["PUSH k 5 x id AT", "MPUSH k 5 x id AT", "TOUCH k 5 AT"];
    for (command, at) in
        seconds.iter().flat_map(|it| [(it, 1_000_000_000_u64), (it, 100_000_000_000)])
    {
        let id = if command.starts_with("TOUCH") { " id" } else { "" };
        let error = client.refused(&format!("DEHYDRATOR.{command} {at}{id}"));
        assert_eq!(error, format!("ERR AT '{at}' looks like seconds: it must be in milliseconds"));
    }
    assert!(!client.exists("k"));
    // With AT, the ttl only selects the queue, so the largest one is valid.
    client.ask("DEHYDRATOR.PUSH k 9223372036854775807 element id AT 5");
    assert_eq!(client.ask("DEHYDRATOR.TTN k"), Value::Int(0));
}

#[test]
fn every_command_refuses_a_key_of_another_type() {
    let (_server, mut client) = Server::with_client(&[]);
    client.ask("SET text value");
    client.ask("RPUSH list value");
    client.ask("XADD stream * field value");
    for key in ["text", "list", "stream"] {
        let before = client.digest(key);
        for verb in verbs() {
            let error = client.refused(&verb.replace(" k", &format!(" {key}")));
            assert!(error.starts_with("WRONGTYPE Operation against a key"), "{verb}: {error}");
            assert_eq!(client.ask("ECHO in-step"), text("in-step"));
        }
        assert_eq!(client.digest(key), before, "{key} was changed");
    }
}

#[test]
fn every_command_refuses_too_few_and_too_many_arguments() {
    let (_server, mut client) = Server::with_client(&[]);
    let help: Vec<String> = cmd("DEHYDRATOR.HELP").query(&mut client).expect("lines");
    // One word may be repeated, and no number says how often.
    let takes_any_number = |verb: &str| {
        let syntax = help.iter().find(|line| line.split(' ').next() == Some(verb));
        let words: Vec<_> = syntax.expect("it is in HELP").split(' ').collect();
        words.windows(4).any(|it| {
            let (before, word) = (it[0], it[1].trim_start_matches('['));
            !matches!(before, "n" | "numkeys")
                && it[2].strip_prefix('[') == Some(word)
                && it[3].starts_with("...")
        })
    };
    for verb in verbs() {
        let words: Vec<_> = verb.split(' ').collect();
        for count in 1..words.len() {
            let error = client.refused(&words[..count].join(" "));
            let expected = format!("wrong number of arguments for '{}'", words[0].to_lowercase());
            assert!(error.contains(&expected), "{count} words of {verb}: {error}");
            assert_eq!(client.ask("ECHO in-step"), text("in-step"));
        }
        if !takes_any_number(words[0]) {
            let error = client.refused(&format!("{verb} surplus"));
            assert!(error.starts_with("ERR "), "{verb} surplus: {error}");
            let surplus = "x".repeat(5000);
            let error = client.refused(&format!("{verb} {surplus}"));
            assert!(error.len() < 200, "{error}");
        }
    }
    assert!(!client.exists("k"));
    assert_eq!(client.ask("DBSIZE"), Value::Int(0));
}

#[test]
fn errors_in_a_pipeline_do_not_affect_other_commands() {
    let (_server, mut client) = Server::with_client(&[]);
    let mut pipe = redis::pipe();
    pipe.ignore_errors();
    for number in 0..100 {
        pipe.cmd("DEHYDRATOR.PUSH").arg("k").arg("ten").arg("e").arg(number);
        pipe.cmd("DEHYDRATOR.PUSH").arg("k").arg(0).arg(format!("element-{number}")).arg(number);
        pipe.cmd("DEHYDRATOR.POLL").arg("k").arg("nonsense");
        pipe.cmd("DEHYDRATOR.POLL").arg("k");
    }
    let replies: Vec<Value> = pipe.query(&mut client).expect("replies");
    assert_eq!(replies.len(), 400);
    for (number, replies) in replies.chunks(4).enumerate() {
        assert!(matches!(replies[0], Value::ServerError(_)), "{replies:?}");
        assert_eq!(replies[1], Value::Okay);
        assert!(matches!(replies[2], Value::ServerError(_)), "{replies:?}");
        assert_eq!(replies[3], Value::Array(vec![text(&format!("element-{number}"))]));
    }
}

#[test]
fn a_server_out_of_memory_refuses_to_add_and_allows_to_take() {
    let (_server, mut client) = Server::with_client(&["--maxmemory-policy", "noeviction"]);
    client.ask("DEHYDRATOR.MPUSH k 0 element id 600000 element kept");
    client.ask("CONFIG SET maxmemory 1");
    for verb in verbs() {
        let line = verb.replace(" id", " other");
        let is_flagged = |it: &lines::Command| {
            it.flags.contains("denyoom")
                && lines::verb_of(&verb) == ["DEHYDRATOR.", it.verb()].concat()
        };
        let adds = lines::COMMANDS.iter().any(is_flagged);
        let refused = refusal(&cmd(&line), &mut client);
        assert_eq!(refused.is_ok_and(|error| error.starts_with("OOM")), adds, "{verb}");
    }
    for policy in ["STREAM s", "LIST s", "PUBLISH c", "HOLD DELIVERIES 5 STREAM s"] {
        let refused = client.refused(&format!("DEHYDRATOR.ONDUE k {policy}"));
        assert!(refused.starts_with("OOM"), "{refused}");
    }
}

#[test]
fn a_server_out_of_memory_lets_workers_repeat_what_is_set() {
    let (_server, mut client) = Server::with_client(&["--maxmemory-policy", "noeviction"]);
    client.ask("DEHYDRATOR.PUSH k 0 element id");
    let policies = ["STREAM s MAXLEN ~ 5", "LIST s", "PUBLISH c", "HOLD DELIVERIES 5 STREAM s"];
    for policy in policies {
        client.ask("CONFIG SET maxmemory 0");
        client.ask("DEL k");
        let all = [
            format!("ONDUE k {policy}"),
            "LIMIT k LENGTH 5 HELD 3 RATE 5 PER 7 REMEMBER 9".to_owned(),
            "LIMIT k EACH HELD 1".to_owned(),
            "LIMIT k GROUP g SHARE 2".to_owned(),
            "PAUSE k AT 4102444800000".to_owned(),
            "PAUSE k AT 4102444800000 GROUP g".to_owned(),
        ]
        .map(|line| format!("DEHYDRATOR.{line}"));
        for is_full in [false, true] {
            client.ask(&format!("CONFIG SET maxmemory {}", u8::from(is_full)));
            for line in &all {
                assert_eq!(client.ask(line), Value::Okay, "{line}, full: {is_full}");
            }
        }
        // Another value in the same place, and less than before, take no memory.
        for line in [
            "ONDUE k STREAM t",
            "ONDUE k HOLD",
            "LIMIT k EACH HELD 2",
            "LIMIT k GROUP g SHARE 3",
            "LIMIT k GROUP other SHARE 1",
            "PAUSE k AT 4102444800001 GROUP g",
        ] {
            assert_eq!(client.ask(&format!("DEHYDRATOR.{line}")), Value::Okay, "{line}");
        }
    }
}

#[test]
fn a_server_out_of_memory_takes_no_further_group() {
    let (_server, mut client) = Server::with_client(&["--maxmemory-policy", "noeviction"]);
    client.ask("DEHYDRATOR.PUSH k 0 element id GROUP there");
    let adding = ["LIMIT k GROUP {} HELD 1", "LIMIT k GROUP {} SHARE 2", "PAUSE k GROUP {}"];
    let refuses = |client: &mut Connection, line: &str| {
        let refused = client.refused(&format!("DEHYDRATOR.{line}"));
        assert!(refused.starts_with("OOM"), "{line}: {refused}");
    };
    client.ask("CONFIG SET maxmemory 1");
    refuses(&mut client, "LIMIT k EACH RATE 5 PER 60000");
    for line in adding {
        ["there", "new"].iter().for_each(|group| refuses(&mut client, &line.replace("{}", group)));
    }
    client.ask("CONFIG SET maxmemory 0");
    client.ask("DEHYDRATOR.LIMIT k EACH RATE 5 PER 60000");
    client.ask("DEHYDRATOR.LIMIT k RATE 5 PER 60000");
    client.ask("CONFIG SET maxmemory 1");
    let before = client.ask("MEMORY USAGE k");
    refuses(&mut client, "EFFECT k G4102444800000@1 new");
    refuses(&mut client, "EFFECT k G4102444800000@1");
    assert_eq!(client.ask("MEMORY USAGE k"), before);
}

#[test]
fn a_server_out_of_memory_remembers_only_existing_ids_and_leases_only_for_replication() {
    let primary = Server::start_with_port(&["--maxmemory-policy", "noeviction"]);
    let replica = Server::start_with_port(&[]);
    replica.follow(&primary);
    let mut client = primary.connect();
    client.ask("DEHYDRATOR.LIMIT k REMEMBER 600000");
    client.ask("DEHYDRATOR.MPUSH k 600000 element id 0 element due 600000 element kept");
    primary.connect().ask("CONFIG SET maxmemory 1");
    replica.connect().ask("CONFIG SET maxmemory 1");
    let oom = "OOM command not allowed when used memory > 'maxmemory'.";
    for line in [
        "EFFECT k S4102444800000 never-there",
        "EFFECT k S4102444800000 id never-there",
        "EFFECT k L5@4102444800000@7 kept",
    ] {
        assert_eq!(client.refused(&format!("DEHYDRATOR.{line}")), oom, "{line}");
    }
    assert_eq!(client.ask("DEHYDRATOR.EFFECT k S4102444800000 id"), Value::Int(1));
    let Value::Array(leased) = client.ask("DEHYDRATOR.POLL k LEASE 60000") else {
        panic!("leased")
    };
    assert_eq!(leased.len(), 1, "a worker goes on");
    until("the replica is equal", || {
        let digests = [&primary, &replica].map(|it| it.connect().ask("DEBUG DIGEST"));
        (digests[0] == digests[1]).then_some(())
    });
}

#[test]
fn a_server_out_of_memory_creates_no_key_but_applies_replicated_ones() {
    let primary = Server::start_with_port(&["--maxmemory-policy", "noeviction"]);
    // By default, a full replica accepts everything from its primary.
    let replica = Server::start_with_port(&[]);
    replica.follow(&primary);
    let mut client = primary.connect();
    client.ask("DEHYDRATOR.PUSH k 600000 element id");
    client.ask("CONFIG SET maxmemory 1");
    let policies = ["PAUSE", "PAUSE FOR 5000", "ONDUE DROP", "ONDUE HOLD DELIVERIES 3 DROP"];
    let on = |policy: &str, key: &str| {
        let (verb, rest) = policy.split_once(' ').unwrap_or((policy, ""));
        format!("DEHYDRATOR.{verb} {key} {rest}").trim_end().to_owned()
    };
    for policy in policies {
        let refused = client.refused(&on(policy, "new"));
        let oom = "OOM command not allowed when used memory > 'maxmemory'.";
        assert_eq!(refused, oom, "{policy}");
        assert!(!client.exists("new"), "{policy}");
        // Commands that would create no key are not refused, nor are changes of an existing key.
        assert_eq!(client.ask("DEHYDRATOR.ONDUE new HOLD"), Value::Okay);
        assert_eq!(client.ask("DEHYDRATOR.RESUME new"), Value::Int(0));
        assert_eq!(client.ask(&on(policy, "k")), Value::Okay, "{policy}");
    }
    client.ask("CONFIG SET maxmemory 0");
    replica.connect().ask("CONFIG SET maxmemory 1");
    for (number, policy) in policies.iter().enumerate() {
        client.ask(&on(policy, &format!("new-{number}")));
    }
    let all = client.ask("DBSIZE");
    until("the replica has them", || (replica.connect().ask("DBSIZE") == all).then_some(()));
}

#[test]
fn an_id_that_is_named_twice_is_touched_once() {
    let (_server, mut client) = Server::with_client(&[]);
    client.ask("DEHYDRATOR.MPUSH k 600000 x a 600000 x b");
    assert_eq!(client.ask("DEHYDRATOR.TOUCH k 700000 IDS 5 a b a none a"), Value::Int(2));
}

#[test]
fn conflicting_and_repeated_options_are_named_in_the_error() {
    let (_server, mut client) = Server::with_client(&[]);
    for (line, expected) in [
        ("PUSH k 5 x id NX REPLACE", "NX and REPLACE exclude each other"),
        ("MPUSH k 5 x id REPLACE NX", "NX and REPLACE exclude each other"),
        ("PUSH k 5 x id nx NX", "'NX' is given twice"),
        ("PUSH k 5 x id SLACK 5 slack 5", "'slack' is given twice"),
        ("ONDUE k DELIVERIES 5", "DELIVERIES needs HOLD before it"),
        ("ONDUE k HOLD STREAM s", "STREAM needs DELIVERIES and a number before it, after HOLD"),
        ("ONDUE k 5", "unexpected '5': the name of an option is missing: HOLD DELIVERIES"),
        ("ONDUE k HOLD 5 STREAM s", "unexpected '5': the name of an option is missing: DELIVERIES"),
        ("POLL k 1", "unexpected '1': the name of an option is missing: COUNT, BLOCK or LEASE"),
        ("MPOLL 1 k 1", "unexpected '1': the name of an option is missing: COUNT, BLOCK or LEASE"),
        ("XPOLL k 1", "unexpected '1': the name of an option is missing: COUNT"),
        ("RANGE k - + 1", "unexpected '1': the name of an option is missing: COUNT"),
        ("SCAN k 0 1", "unexpected '1': the name of an option is missing: COUNT"),
        ("LATE 1", "unexpected '1': the name of an option is missing: COUNT"),
        (
            "PUSH k 5 x id 1",
            "unexpected '1': the name of an option is missing: SLACK, AT, DELIVERIES or WITHIN",
        ),
        (
            "GIDPUSH k 5 x 1",
            "unexpected '1': the name of an option is missing: SLACK, AT, DELIVERIES or WITHIN",
        ),
        ("GIDPUSH k 5 x NX", "NX and REPLACE are not for GIDPUSH, whose ids are new"),
        (
            "TOUCH k 5 1 id",
            "unexpected '1': the name of an option is missing: AT, or IDS before several ids",
        ),
        ("TOUCH k 5 IDS 2 a b GT", "GT must be before IDS"),
        ("TOUCH k 5 GROUP g AT 9", "AT must be before GROUP"),
        ("TOUCH k 5 GT GROUP g", "GT and LT are not for a GROUP"),
        ("TOUCH k 5 COUNT 9 id", "COUNT needs GROUP and a name before it"),
        ("PAUSE k 5", "unexpected '5': the name of an option is missing: FOR or AT"),
        ("PAUSE k FOR 5 AT 9", "FOR and AT exclude each other"),
        ("POLL k LEASE 5 WITHIDS", "WITHIDS is not for LEASE, whose reply always has ids"),
        ("MPOLL 1 k WITHIDS LEASE 5", "WITHIDS is not for LEASE, whose reply always has ids"),
        (
            "LIMIT k 5 LENGTH",
            "unexpected '5': the name of an option is missing: LENGTH, HELD, RATE or REMEMBER",
        ),
        ("LIMIT k GROUP g", "LIMIT needs LENGTH, HELD, RATE or SHARE: INFO shows them"),
        ("LIMIT k HELD 1 EACH", "EACH must follow the key, before the limits"),
        ("LIMIT k HELD 1 GROUP g", "GROUP must follow the key, before the limits"),
        ("LIMIT k EACH SHARE 2", "SHARE needs GROUP before it"),
        ("LIMIT k SHARE 2", "SHARE needs GROUP before it"),
        ("LIMIT k GROUP g REMEMBER 5", "REMEMBER is for a key, not for groups"),
        ("LIMIT k PER 5", "PER needs RATE before it"),
        ("TOUCH k 5 GT LT id", "GT and LT exclude each other"),
        ("TOUCH k 5 GT GT id", "'GT' is given twice"),
        ("POLL k COUNT 5 COUNT 5", "'COUNT' is given twice"),
        ("LIMIT k HELD 5 HELD 5", "'HELD' is given twice"),
        ("POLL k COUNTS", "unexpected 'COUNTS'"),
    ] {
        let error = client.refused(&format!("DEHYDRATOR.{line}"));
        assert_eq!(error, format!("ERR syntax error, {expected}"), "{line}");
    }
    assert!(!client.exists("k"));
}

#[test]
fn full_errors_show_the_limit_and_help_shows_one_command() {
    let (_server, mut client) = Server::with_client(&["--dehydrator.max-elements", "3"]);
    client.ask("DEHYDRATOR.LIMIT k LENGTH 1");
    client.ask("DEHYDRATOR.PUSH k 5 x a");
    let error = client.refused("DEHYDRATOR.PUSH k 5 x b");
    assert_eq!(
        error,
        "FULL the dehydrator holds 1 elements already, which is the LENGTH that LIMIT set"
    );
    client.ask("DEHYDRATOR.MPUSH other 5 x a 5 x b 5 x c");
    let error = client.refused("DEHYDRATOR.PUSH other 5 x d");
    assert_eq!(
        error,
        "FULL the dehydrator holds 3 elements already, which is dehydrator.max-elements"
    );
    for word in ["PUSH", "push", "DEHYDRATOR.PUSH"] {
        let help: Vec<String> =
            cmd(&format!("DEHYDRATOR.HELP {word}")).query(&mut client).expect("lines");
        assert_eq!(help.len(), 2);
        assert!(help[0].starts_with("DEHYDRATOR.PUSH key ttl element id"), "{help:?}");
    }
    assert_eq!(client.refused("DEHYDRATOR.HELP PUSHES"), "ERR there is no command 'pushes'");
}
