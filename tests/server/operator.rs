//! Information for operators and their tools: descriptions, ACLs, INFO.

use std::collections::{BTreeMap, HashMap};

use redis::{Connection, Value};

use crate::lines::{self, COMMANDS, verb_of};
use crate::replication::replica_of;
use harness::{Ask, Server, cmd, text, texts, until};

#[test]
fn the_server_knows_the_properties_of_each_command() {
    let (_server, mut client) = Server::with_client(&[]);
    let help: Vec<String> = cmd("DEHYDRATOR.HELP").query(&mut client).expect("an array");
    let mut left_out = client.verbs();
    left_out.retain(|verb| !COMMANDS.iter().any(|it| it.verb() == verb));
    assert_eq!(left_out, [""; 0], "not in lines.rs");
    for command in COMMANDS {
        let name = format!("DEHYDRATOR.{}", command.verb());
        let Value::Array(infos) = client.ask(&format!("COMMAND INFO {name}")) else {
            panic!("an array")
        };
        let Value::Array(info) = &infos[0] else { panic!("{name}: {infos:?}") };
        let syntax = help.iter().find_map(|line| line.strip_prefix(&name)).expect("it is in HELP");
        assert_eq!(info[1], Value::Int(arity(syntax)), "arity of {name}");
        let mut shown = words(&info[2]);
        shown.retain(|flag| flag != "module");
        assert_eq!(shown.join(" "), command.flags, "flags of {name}");
        assert_eq!(words(&info[7]).join(" "), command.tips, "tips of {name}");
        if command.key.is_empty() {
            continue;
        }
        assert_eq!(info[3..6], [Value::Int(1), Value::Int(1), Value::Int(1)], "keys of {name}");
        let Value::Array(specs) = &info[8] else { panic!("key specs") };
        assert_eq!(specs.len(), 1, "key specs of {name}");
        let fields = match &specs[0] {
            Value::Array(fields) => fields[1].clone(),
            Value::Map(fields) => fields[0].1.clone(),
            other => panic!("{other:?}"),
        };
        assert_eq!(words(&fields).join(" "), command.key, "access of {name}");
    }
    for (line, keys) in [
        ("k STREAM d", &["k", "d"][..]),
        ("k stream STREAM MAXLEN ~ 5", &["k", "STREAM"]),
        ("k LIST d", &["k", "d"]),
        ("k list STREAM LEFT", &["k", "STREAM"]),
        ("k STREAM LIST", &["k", "LIST"]),
        ("list LIST LIST RIGHT", &["list", "LIST"]),
        ("k HOLD DELIVERIES 5 LIST d LEFT", &["k", "d"]),
        ("k HOLD DELIVERIES 5 PUBLISH LIST", &["k"]),
        ("k PUBLISH stream", &["k"]),
        ("k PUBLISH c", &["k"]),
        ("k DROP", &["k"]),
        ("k HOLD DELIVERIES 5 STREAM d MAXLEN 5", &["k", "d"]),
        ("k HOLD DELIVERIES 5 PUBLISH STREAM", &["k"]),
        ("stream HOLD", &["stream"]),
    ] {
        let found = client.ask(&format!("COMMAND GETKEYS DEHYDRATOR.ONDUE {line}"));
        assert_eq!(found, texts(keys), "{line}");
    }
    let keys = client.ask("COMMAND GETKEYS DEHYDRATOR.XACK k a b");
    assert_eq!(keys, texts(&["k"]));
}

/// Returns the arity of a command: its least number of words, with its name, negative if it may have more.
fn arity(syntax: &str) -> i64 {
    let (mut least, mut depth, mut choices) = (1, 0, vec![]);
    for word in syntax.split(' ').filter(|word| !word.is_empty()) {
        if word.starts_with('<') && depth == 0 {
            choices.push(0);
        }
        let is_choice = !choices.is_empty();
        depth += word.matches('[').count();
        match word.trim_start_matches('<') {
            "|" if is_choice && depth == 0 => choices.push(0),
            _ if depth > 0 => {}
            _ if is_choice => *choices.last_mut().expect("one") += 1,
            _ => least += 1,
        }
        depth -= word.matches(']').count();
        if word.ends_with('>') && depth == 0 {
            least += choices.drain(..).min().unwrap_or(0);
        }
    }
    if syntax.contains(['[', '<']) { -least } else { least }
}

fn words(value: &Value) -> Vec<String> {
    let (Value::Array(items) | Value::Set(items)) = value else { panic!("{value:?}") };
    let word = |item: &Value| match item {
        Value::SimpleString(word) => word.clone(),
        Value::BulkString(word) => String::from_utf8_lossy(word).into_owned(),
        other => panic!("{other:?}"),
    };
    items.iter().map(word).collect()
}

/// Returns the fields of an entry of COMMAND DOCS, which RESP2 has as an array of names and values.
fn fields(entry: &Value) -> HashMap<String, Value> {
    let Value::Array(items) = entry else { panic!("{entry:?}") };
    let name = |name: &Value| redis::from_redis_value::<String>(name.clone()).expect("text");
    items.chunks_exact(2).map(|pair| (name(&pair[0]), pair[1].clone())).collect()
}

/// Formats a list of arguments like HELP.
fn written(arguments: &Value) -> String {
    let Value::Array(arguments) = arguments else { panic!("{arguments:?}") };
    let one = |argument: &Value| {
        let fields = fields(argument);
        let word = |name: &str| match fields.get(name) {
            Some(value) => redis::from_redis_value::<String>(value.clone()).expect("text"),
            None => String::new(),
        };
        let flags = fields.get("flags").map(words).unwrap_or_default();
        let kind = word("type");
        let inner = match &kind[..] {
            "pure-token" => String::new(),
            "block" => written(&fields["arguments"]),
            "oneof" => {
                let Value::Array(parts) = &fields["arguments"] else { panic!("parts") };
                let parts = parts.iter().map(|part| written(&Value::Array(vec![part.clone()])));
                parts.collect::<Vec<_>>().join(" | ")
            }
            _ => word("name"),
        };
        let all = format!("{} {inner}", word("token")).trim().to_owned();
        let is = |flag: &str| flags.iter().any(|it| it == flag);
        let all =
            if is("multiple") && kind != "oneof" { format!("{all} [{all} ...]") } else { all };
        match (is("optional"), &kind[..]) {
            (true, _) => format!("[{all}]"),
            (false, "oneof") => format!("<{all}>{}", if is("multiple") { " [...]" } else { "" }),
            _ => all,
        }
    };
    arguments.iter().map(one).collect::<Vec<_>>().join(" ")
}

#[test]
fn the_server_describes_each_commands_arguments_like_help() {
    let (_server, mut client) = Server::with_client(&[]);
    let help: Vec<String> = cmd("DEHYDRATOR.HELP").query(&mut client).expect("an array");
    for pair in help.chunks_exact(2) {
        let (name, syntax) = pair[0].split_once(' ').unwrap_or((&pair[0], ""));
        let docs = client.ask(&format!("COMMAND DOCS {name}"));
        let docs = fields(&docs).remove(&name.to_lowercase()).expect("it is there");
        let docs = fields(&docs);
        let arguments = docs.get("arguments").map(written).unwrap_or_default();
        assert_eq!(arguments, syntax, "{name}");
        assert_eq!(docs["summary"], text(pair[1].trim()));
        assert_eq!(docs["since"], text("0.1.0"));
        // As in the page's table of costs: commands that set a deadline may need to search the timeline.
        let complexity = format!("{:?}", docs["complexity"]);
        let places = ["PUSH", "GIDPUSH", "MPUSH", "TOUCH", "RENEW", "RELEASE", "EFFECT"];
        let is_placing = places.iter().any(|verb| name == format!("DEHYDRATOR.{verb}"));
        assert!(!is_placing || complexity.contains("log("), "{name}: {complexity}");
    }
}

#[test]
fn the_server_knows_the_commands_of_rede() {
    let (_server, mut client) = Server::with_client(&[]);
    let help: Vec<String> = cmd("DEHYDRATOR.HELP").query(&mut client).expect("an array");
    let of_rede = "push pull poll look update ttn gidpush xpoll xack";
    let is_one = |list: &str, verb: &str| list.split(' ').any(|it| it == verb);
    for pair in help.chunks_exact(2) {
        let name = pair[0].split(' ').next().expect("a name").to_lowercase();
        let verb = &name["dehydrator.".len()..];
        let docs = client.ask(&format!("COMMAND DOCS {name}"));
        let docs = fields(&fields(&docs).remove(&name).expect("it is there"));
        let history = docs.get("history").map(|history| format!("{history:?}"));
        assert_eq!(history.is_some(), is_one(of_rede, verb), "{verb}: {history:?}");
        assert!(history.is_none_or(|it| it.contains("0.1.0") && it.contains("As ReDe has it")));
        // Commands for ReDe's users have the descriptions of ours.
        let says_so = pair[1].starts_with("    For users of ReDe; others use ");
        assert_eq!(says_so, is_one("gidpush xpoll xack", verb), "{}", pair[1]);
    }
}

/// Returns the name of each command, in alphabetical order, with its flags.
fn flags_of_all(client: &mut Connection) -> BTreeMap<String, Vec<String>> {
    let verbs = client.verbs().into_iter();
    let flags = |verb: String| {
        let name = format!("dehydrator.{}", verb.to_lowercase());
        let Value::Array(infos) = client.ask(&format!("COMMAND INFO {name}")) else { panic!("it") };
        let Value::Array(info) = &infos[0] else { panic!("{name}: {infos:?}") };
        (name, words(&info[2]))
    };
    verbs.map(flags).collect()
}

#[test]
fn acl_categories_contain_the_commands_by_their_effects() {
    let (server, mut client) = Server::with_client(&[]);
    let mut other = server.connect();
    let mut in_category = |category: &str| -> Vec<String> {
        let listed = cmd(&format!("ACL CAT {category}")).query(&mut other);
        let mut names: Vec<String> = listed.unwrap_or_default();
        names.retain(|name| name.starts_with("dehydrator."));
        names.sort();
        names
    };
    let version = server.version();
    // Redis 7.0 puts no command of a module into any category, and allows no module to do so. ACL CAT of Redis 7.2 and
    // 7.4 and of Valkey 7.2 and 8.0 does not list them.
    let lists = if version.is_valkey { version >= (8, 1) } else { version >= (8, 0) };
    if lists {
        let flags = flags_of_all(&mut client);
        let with = |is_in: &dyn Fn(&[String]) -> bool| -> Vec<String> {
            flags.iter().filter(|(_, flags)| is_in(flags)).map(|(name, _)| name.clone()).collect()
        };
        let has = |flags: &[String], flag: &str| flags.iter().any(|it| it == flag);
        assert_eq!(in_category("read"), with(&|flags| has(flags, "readonly")));
        assert_eq!(in_category("write"), with(&|flags| has(flags, "write")));
        let blocking = ["dehydrator.mpoll", "dehydrator.poll"];
        assert_eq!(in_category("blocking"), blocking);
        assert_eq!(in_category("fast"), with(&|flags| has(flags, "fast")));
        assert_eq!(in_category("slow"), with(&|flags| !has(flags, "fast")));
        assert_eq!(in_category("dehydrator"), with(&|_| true));
        assert_eq!(in_category("dangerous"), ["dehydrator.effect"]);
        assert_eq!(in_category("admin"), ["dehydrator.effect"]);
    }

    if version >= (7, 2) {
        client.ask("ACL SETUSER looker on nopass -@all +@read ~*");
        let mut looker = server.connect();
        looker.ask("AUTH looker any");
        looker.ask("DEHYDRATOR.LEN k");
        let refused = looker.refused("DEHYDRATOR.PUSH k 0 element id");
        assert!(refused.starts_with("NOPERM"), "{refused}");
    }
    // The server rejects unknown categories.
    assert!(!server.log().contains("categories"), "{}", server.log());

    // Key permissions apply, separately for reading and writing.
    client.ask("ACL SETUSER reader on nopass +@all %R~k");
    client.ask("ACL SETUSER writer on nopass +@all %W~k");
    let mut users = ["reader", "writer"].map(|name| {
        let mut user = server.connect();
        user.ask(&format!("AUTH {name} any"));
        user
    });
    let [reader, writer] = &mut users;
    writer.ask("DEHYDRATOR.PUSH k 0 element id");
    reader.ask("DEHYDRATOR.LOOK k id");
    reader.ask("DEHYDRATOR.INFO k");
    for line in ["PUSH k 0 element id", "PULL k id", "REM k id", "TOUCH k 0 id", "ONDUE k DROP"] {
        let refused = reader.refused(&format!("DEHYDRATOR.{line}"));
        assert!(refused.starts_with("NOPERM"), "{line}: {refused}");
    }
    // Taking an element reads and writes.
    for line in ["LOOK k id", "PULL k id", "POLL k", "UPDATE k id other", "XACK k id", "INFO k"] {
        let refused = writer.refused(&format!("DEHYDRATOR.{line}"));
        assert!(refused.starts_with("NOPERM"), "{line}: {refused}");
    }
    // These read no element.
    for line in ["LEN k", "TTN k"] {
        writer.ask(&format!("DEHYDRATOR.{line}"));
    }
    writer.ask("DEHYDRATOR.TOUCH k 0 id");
    assert_eq!(writer.ask("DEHYDRATOR.REM k id"), Value::Int(1));
}

#[test]
fn no_command_accesses_a_key_without_permission() {
    let (server, mut client) = Server::with_client(&[]);
    client.ask("DEHYDRATOR.PUSH other 600000 element id");
    let before = client.digest("other");
    client.ask("ACL SETUSER eve on nopass +@all ~k allchannels");
    let mut eve = server.connect();
    eve.ask("AUTH eve any");
    let more = ["MPOLL 2 k other", "MPOLL 2 other k BLOCK 1"].map(str::to_owned);
    let lines = lines::all().map(|line| line.replacen(" k", " other", 1)).chain(more);
    let lines: Vec<_> = lines.collect();
    for verb in eve.verbs() {
        if matches!(&verb[..], "LATE" | "HELP") {
            // These have no key.
            continue;
        }
        let of_verb = |line: &&String| verb_of(line) == verb;
        let mut tried = 0;
        for line in lines.iter().filter(of_verb) {
            let refused = eve.refused(&format!("DEHYDRATOR.{line}"));
            assert!(refused.starts_with("NOPERM"), "{line}: {refused}");
            eve.ask("MULTI");
            let refused = eve.refused(&format!("DEHYDRATOR.{line}"));
            assert!(refused.starts_with("NOPERM"), "{line} in MULTI: {refused}");
            let _ = cmd("DISCARD").query::<Value>(&mut eve);
            tried += 1;
        }
        assert!(tried > 0, "{verb} is not among the lines");
    }
    assert_eq!(client.digest("other"), before);
}

#[test]
fn info_counts_elements_and_operations() {
    let (mut server, mut client) = Server::with_client(&["--save", "3600 1"]);
    for id in 0..10 {
        client.ask(&format!("DEHYDRATOR.PUSH a {} element {id}", id % 2 * 600_000));
    }
    client.ask("DEHYDRATOR.MPUSH b 600000 e 1 600000 e 2 600000 e 2 NX");
    client.ask("DEHYDRATOR.GIDPUSH b 600000 e");
    client.ask("DEHYDRATOR.PULL b 1");
    client.ask("DEHYDRATOR.PULL b 1");
    until("the first are due", || (client.ask("DEHYDRATOR.TTN a") == Value::Int(0)).then_some(()));
    client.ask("DEHYDRATOR.POLL a COUNT 2");
    client.ask("DEHYDRATOR.POLL a COUNT 2 LEASE 1");
    until("the lease is over", || {
        (client.ask("DEHYDRATOR.XPOLL a") == texts(&["8", "4", "6"])).then_some(())
    });
    client.ask("DEHYDRATOR.POLL a LEASE 600000 COUNT 3");
    client.ask("COPY b c DB 3");
    let expect = |client: &mut _, fields: &[(&str, u64)]| {
        for (field, expected) in fields {
            let found = Ask::info(client, "dehydrator", &format!("dehydrator_{field}"));
            assert_eq!(found, *expected, "{field}");
        }
    };
    let there = [("dehydrators", 3), ("elements", 12), ("given_out", 3), ("ttls", 3)];
    expect(&mut client, &there);
    let done = [("pushes", 13), ("pulls", 1), ("polls", 7), ("redeliveries", 2), ("deliveries", 0)];
    expect(&mut client, &done);
    server.restart();
    let mut client = server.connect();
    expect(&mut client, &there);
    expect(&mut client, &[("pushes", 0)]);
    client.ask("DEL b");
    client.ask("FLUSHALL");
    until("all is freed", || (client.info("dehydrator", "dehydrator_elements") == 0).then_some(()));
    expect(&mut client, &there.map(|(field, _)| (field, 0)));
}

#[test]
fn info_shows_the_lateness() {
    let (server, mut client) = Server::with_client(&[]);
    let mut lateness =
        |field: &str| client.info("dehydrator", &format!("dehydrator_lateness_{field}_us"));
    for field in ["last", "p50", "p99", "p999", "max"] {
        assert_eq!(lateness(field), 0);
    }
    let mut client = server.connect();
    client.ask("DEHYDRATOR.ONDUE k DROP");
    // Two seconds late, because the server is busy, and then on time.
    client.ask("DEHYDRATOR.PUSH k 500 element id");
    client.ask("DEBUG SLEEP 2.5");
    until("it is gone", || (client.ask("DEHYDRATOR.LEN k") == Value::Int(0)).then_some(()));
    assert!((1_900_000..100_000_000).contains(&lateness("max")), "{}", lateness("max"));
    let mut sleeper = server.connect();
    for _ in 0..9 {
        client.ask("DEHYDRATOR.PUSH other 5 element id");
        sleeper.ask("DEHYDRATOR.POLL other BLOCK 0");
    }
    assert!(lateness("last") <= lateness("p99"));
    assert!(lateness("p50") < 1_900_000);
    assert!(lateness("p999") >= 1_900_000);
    // All of it is recent.
    assert_eq!(lateness("recent_p50"), lateness("p50"));
    assert_eq!(lateness("recent_max"), lateness("max"));
}

#[test]
fn a_crash_report_has_the_section_too() {
    let (server, mut client) = Server::with_client(&[]);
    client.ask("DEHYDRATOR.PUSH k 600000 element id");
    let _ = cmd("DEBUG SEGFAULT").query::<Value>(&mut client);
    let log = until("the report is written", || {
        Some(server.log()).filter(|log| log.contains("BUG REPORT END"))
    });
    assert!(log.contains("dehydrator_elements:1"), "{log}");
}

#[test]
fn limits_can_be_read_where_writing_is_not_allowed() {
    let primary = Server::start_with_port(&[]);
    let replica = replica_of(&primary, &[]);
    let mut client = primary.connect();
    client.ask("DEHYDRATOR.LIMIT k HELD 5 LENGTH 7");
    let script = "return redis.call('DEHYDRATOR.INFO', KEYS[1])";
    let info =
        cmd("EVAL_RO").arg(script).arg(1).arg("k").query::<HashMap<String, Value>>(&mut client);
    let info = info.expect("a script that only reads may ask");
    assert_eq!((&info["held-limit"], &info["length-limit"]), (&Value::Int(5), &Value::Int(7)));
    until("the replica has it", || {
        let info = cmd("DEHYDRATOR.INFO k").query(&mut replica.connect());
        let info: HashMap<String, Value> = info.expect("a replica shows it");
        (info.get("held-limit") == Some(&Value::Int(5))).then_some(())
    });
}
