//! The principles of docs/commands.md: the reply of each command if there is no such key, no such id, nothing due, and
//! so on, and which errors have a code. The test reads all of it from the page.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use redis::{Connection, Value};

use crate::lines::{self, verb_of};
use harness::{Ask, Server, cmd, refusal};

fn page() -> String {
    fs::read_to_string("docs/commands.md").expect("a page")
}

/// Returns the first figure after these words: its lines, split into cells, without the first.
fn figure(behind: &str) -> Vec<Vec<String>> {
    let page = page();
    let (_, rest) = page.split_once(behind).unwrap_or_else(|| panic!("no {behind:?}"));
    let figure = rest.split("```").nth(1).and_then(|it| it.strip_prefix("text\n"));
    let cells = |line: &str| {
        let cells = line.split("  ").map(str::trim).filter(|cell| !cell.is_empty());
        cells.map(str::to_owned).collect::<Vec<_>>()
    };
    let lines: Vec<_> = figure.expect("a figure").lines().map(cells).collect();
    assert!(lines.iter().all(|line| line.len() == lines[0].len()), "{lines:?}");
    lines[1..].to_vec()
}

/// Returns the commands that reply each code, from the table of codes.
fn codes() -> BTreeMap<String, BTreeSet<String>> {
    let page = page();
    let (_, rest) =
        page.split_once("\n| code | meaning | replied by |\n|---|---|---|\n").expect("it");
    let lines = rest.lines().map_while(|line| line.strip_prefix("| `"));
    let row = |line: &str| {
        let (code, rest) = line.split_once('`').expect("a code");
        let by = rest.trim_end_matches(" |").rsplit(" | ").next().expect("a cell");
        (code.to_owned(), by.split(", ").map(str::to_owned).collect())
    };
    lines.map(row).collect()
}

fn line_of(command: &str) -> &'static str {
    let found = lines::of_page().find(|(name, _)| *name == command);
    found.unwrap_or_else(|| panic!("how is {command} sent?")).1
}

/// Returns the reply of a command, or its error.
fn reply(client: &mut Connection, line: &str) -> Result<Value, String> {
    match refusal(&cmd(&format!("DEHYDRATOR.{line}")), client) {
        Ok(error) => Err(error),
        Err(reply) => Ok(reply),
    }
}

/// Returns whether a reply matches a cell.
pub fn is(reply: &Result<Value, String>, cell: &str) -> bool {
    let Ok(reply) = reply else {
        let code = reply.as_ref().expect_err("an error").split(' ').next();
        return code == Some(cell);
    };
    if let Some(inner) = cell.strip_prefix('[') {
        let cells = parts(inner.strip_suffix(']').expect("it is closed"));
        let Value::Array(items) = reply else { return false };
        return items.len() == cells.len()
            && items.iter().zip(cells).all(|(item, cell)| is(&Ok(item.clone()), &cell));
    }
    match (cell, reply) {
        ("OK", Value::Okay) | ("nil", Value::Nil) => true,
        ("number", Value::Int(number)) => *number > 1,
        ("map", Value::Map(fields)) => !fields.is_empty(),
        ("map", Value::Array(fields)) => !fields.is_empty() && fields.len() % 2 == 0,
        ("row", Value::Array(fields)) => fields.len() == 5,
        ("id", Value::BulkString(id)) => id == b"id" || id.len() == 32,
        ("key", Value::BulkString(key)) => key == b"k",
        (_, Value::BulkString(word)) => word == cell.as_bytes(),
        (_, Value::Int(number)) => number.to_string() == cell,
        _ => false,
    }
}

/// Splits at commas outside of brackets.
fn parts(cells: &str) -> Vec<String> {
    let (mut parts, mut depth) = (vec![String::new()], 0);
    for letter in cells.chars() {
        match letter {
            '[' => depth += 1,
            ']' => depth -= 1,
            _ => {}
        }
        let last = parts.last_mut().expect("there is one");
        match letter {
            ',' if depth == 0 => parts.push(String::new()),
            ' ' => {}
            _ => last.push(letter),
        }
    }
    parts.retain(|part| !part.is_empty());
    parts
}

/// Tests each line of a figure in each of these situations, in both protocols.
fn check(figure: &[Vec<String>], situations: &[&[&str]]) {
    let server = Server::start(&[]);
    for protocol in [2, 3] {
        let mut client = server.connect();
        client.ask(&format!("HELLO {protocol}"));
        for row in figure {
            assert_eq!(row.len(), 1 + situations.len());
            for (cell, situation) in row[1..].iter().zip(situations) {
                client.ask("FLUSHALL");
                situation.iter().for_each(|line| drop(client.ask(&format!("DEHYDRATOR.{line}"))));
                if row[0] == "REJECT" && client.exists("k") {
                    client.ask("DEHYDRATOR.ONDUE k HOLD DELIVERIES 5 DROP");
                }
                let replied = reply(&mut client, line_of(&row[0]));
                let what = format!("{} after {situation:?} in RESP{protocol}", row[0]);
                assert!(is(&replied, cell), "{what}: {replied:?} is not {cell}");
                assert_eq!(client.ask("PING"), Value::SimpleString("PONG".to_owned()), "{what}");
            }
        }
    }
}

#[test]
fn different_cells_are_told_apart() {
    let int = |number| Ok(Value::Int(number));
    assert!(is(&int(0), "0") && !is(&int(0), "1") && !is(&int(0), "nil") && !is(&int(0), "number"));
    assert!(is(&Ok(Value::Nil), "nil") && !is(&Ok(Value::Nil), "[]") && !is(&Ok(Value::Nil), "OK"));
    let array = |items: &[Value]| Ok(Value::Array(items.to_vec()));
    assert!(is(&array(&[]), "[]") && !is(&array(&[]), "[0]") && !is(&array(&[]), "map"));
    let nested = array(&[Value::Nil, Value::Array(vec![Value::Int(1)])]);
    assert!(is(&nested, "[nil, [1]]") && !is(&nested, "[nil, [0]]") && !is(&nested, "[nil]"));
    let error = Err("EXISTS id 'a' is there".to_owned());
    assert!(is(&error, "EXISTS") && !is(&error, "ERR") && !is(&error, "nil"));
}

#[test]
fn each_command_replies_as_the_page_states_by_id() {
    let held = ["PUSH k 0 element id", "POLL k LEASE 600000 TOKEN mine"];
    check(&figure("Replies by id"), &[&[], &["PUSH k 600000 element other"], &held]);
}

#[test]
fn each_command_replies_as_the_page_states_by_key() {
    let due = "PUSH k 5 element id AT 5";
    let situations = [&[][..], &["PUSH k 600000 element id"], &[due], &[due, "PAUSE k"]];
    check(&figure("Replies by key"), &situations);
}

#[test]
fn the_page_covers_every_command() {
    let server = Server::start(&[]);
    let mut verbs: BTreeSet<_> = server.connect().verbs().into_iter().collect();
    // EFFECT is for tools.
    for left_out in ["LATE", "HELP", "EFFECT"] {
        verbs.remove(left_out);
    }
    let rows = [figure("Replies by id"), figure("Replies by key")].concat();
    let of_page: BTreeSet<_> = rows.iter().map(|row| verb_of(&row[0]).to_owned()).collect();
    let differing: Vec<_> = of_page.symmetric_difference(&verbs).collect();
    assert!(
        differing.is_empty(),
        "in HELP or in \"Replies by …\" of the page alone: {differing:?}"
    );
    let tried: BTreeSet<_> = lines::of_page().map(|(name, _)| name.to_owned()).collect();
    let rows: BTreeSet<_> = rows.into_iter().map(|mut row| row.swap_remove(0)).collect();
    let differing: Vec<_> = tried.symmetric_difference(&rows).collect();
    assert!(differing.is_empty(), "in lines.rs or in \"Replies by …\" alone: {differing:?}");
    // A code that a command replies in one of these is in the list of codes, with the command.
    let mut replied: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for row in [figure("Replies by id"), figure("Replies by key")].concat() {
        let is_code = |cell: &&String| cell.len() > 2 && cell.chars().all(char::is_uppercase);
        for code in row[1..].iter().filter(is_code) {
            replied.entry(code.clone()).or_default().insert(verb_of(&row[0]).to_owned());
        }
    }
    let codes = codes();
    assert_eq!(replied.keys().collect::<Vec<_>>(), ["EXISTS", "NORULE", "NOSUCHID"]);
    let are_listed = |(code, verbs): (&String, &BTreeSet<_>)| verbs.is_subset(&codes[code]);
    assert!(replied.iter().all(are_listed), "{replied:?}, {codes:?}");
}

/// Returns the commands that reply this code in any of the lines, each on a server prepared for it. The others reply no
/// error with a code of ours.
fn who_replies(code: &str, server: &Server, prepare: impl Fn(&mut Connection)) -> BTreeSet<String> {
    let mut client = server.connect();
    let mut verbs = BTreeSet::new();
    for line in lines::all() {
        client.ask("CONFIG SET dehydrator.max-elements 0 dehydrator.max-ttl 0 maxmemory 0");
        client.ask("FLUSHALL");
        prepare(&mut client);
        match reply(&mut client, line) {
            Err(error) if error.starts_with(&format!("{code} ")) => {
                verbs.insert(verb_of(line).to_owned());
            }
            Err(error) => assert!(!error.starts_with("ERR"), "{line}: {error}"),
            Ok(_) => {}
        }
    }
    verbs
}

#[test]
fn the_codes_of_limits_are_replied_by_the_commands_that_the_page_lists() {
    let server = Server::start(&["--maxmemory-policy", "noeviction"]);
    let codes = codes();
    let full = who_replies("FULL", &server, |client| {
        client.ask("CONFIG SET dehydrator.max-elements 1");
        // A letter without room, for REVIVE.
        client.ask("DEHYDRATOR.ONDUE k HOLD DELIVERIES 5 STREAM dead");
        client.ask("XADD dead * id letter element e");
        client.ask("DEHYDRATOR.PUSH k 600000 element other");
    });
    assert_eq!(full, codes["FULL"]);
    let limit = who_replies("LIMIT", &server, |client| {
        client.ask("CONFIG SET dehydrator.max-ttl 5");
        client.ask("DEHYDRATOR.PUSH k 5 element id");
    });
    let help: Vec<String> = cmd("DEHYDRATOR.HELP").query(&mut server.connect()).expect("lines");
    let is_timed = |line: &&String| {
        line.starts_with("DEHYDRATOR") && (line.contains(" ttl ") || line.contains("LEASE"))
    };
    let timed = help.iter().filter(is_timed).map(|line| verb_of(line).replace("DEHYDRATOR.", ""));
    assert_eq!(limit, timed.collect());
    assert_eq!(codes["LIMIT"], BTreeSet::from(["all with a ttl or `LEASE`".to_owned()]));
    let no_rule = who_replies("NORULE", &server, |client| {
        client.ask("DEHYDRATOR.PUSH k 5 element id");
    });
    assert_eq!(no_rule, codes["NORULE"]);
    let oom = who_replies("OOM", &server, |client| {
        client.ask("CONFIG SET maxmemory 1");
    });
    assert_eq!(oom, codes["OOM"]);
}

#[test]
fn a_key_of_another_type_is_an_error_for_all_of_them() {
    let (_server, mut client) = Server::with_client(&[]);
    client.ask("SET k text");
    for line in lines::all() {
        let replied = reply(&mut client, line);
        assert!(is(&replied, "WRONGTYPE"), "{line}: {replied:?}");
    }
    // The stream of ONDUE, too.
    client.ask("SET s text");
    let replied = reply(&mut client, "ONDUE other STREAM s");
    assert!(is(&replied, "WRONGTYPE"), "{replied:?}");
    assert_eq!(codes()["WRONGTYPE"], BTreeSet::from(["all with a key".to_owned()]));
}
