//! The drawing of a real server, and of replies that a test makes up.

mod schedules;
mod tls;

use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent};
use redis::{Connection, Value};

use crate::facts::Facts;
use crate::model::{Model, Order};
use crate::policy::Policy;
use crate::watch::Watch;
use crate::{pressed, view};
use harness::{Ask, Server, cmd, until};

const SECOND: Duration = Duration::from_secs(1);

/// Returns the contents of a terminal with this many columns and 24 lines, as a string per line.
fn drawn_in(columns: u16, model: &Model) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(columns, 24)).expect("a terminal");
    terminal.draw(|frame| view::draw(frame, model)).expect("no I/O");
    let buffer = terminal.backend().buffer().clone();
    let lines = buffer.content().chunks(usize::from(columns));
    lines.map(|line| line.iter().map(|cell| cell.symbol()).collect()).collect()
}

fn drawn(model: &Model) -> Vec<String> {
    drawn_in(100, model)
}

/// Returns all words of a drawing, without frames and line breaks.
fn words(drawn: &[String]) -> String {
    let text = drawn.join(" ").replace(['│', '─', '┌', '┐', '└', '┘'], " ");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the words of the line that contains this one.
fn line_with<'a>(drawn: &'a [String], word: &str) -> Vec<&'a str> {
    let mut lines =
        drawn.iter().map(|line| line.split([' ', '│']).filter(|it| !it.is_empty()).collect());
    let found = lines.find(|words: &Vec<&str>| words.contains(&word));
    found.unwrap_or_else(|| panic!("no {word} in\n{}", drawn.join("\n")))
}

fn watch(server: &Server) -> Watch {
    let url = format!("redis://127.0.0.1:{}", server.port());
    Watch::new(redis::Client::open(url).expect("a url"))
}

fn push(client: &mut Connection, key: &[u8], ttl: u64, ids: std::ops::Range<u32>) {
    let mut pipe = redis::pipe();
    for id in ids {
        pipe.cmd("DEHYDRATOR.PUSH").arg(key).arg(ttl).arg("element").arg(id).ignore();
    }
    pipe.query::<()>(client).expect("pushed");
}

#[test]
fn shows_what_a_server_holds() {
    let server = Server::start_with_port(&[]);
    let mut client = server.connect();
    push(&mut client, b"jobs", 7_200_000, 0..1500);
    push(&mut client, b"jobs", 5_400_000, 1500..1520);
    push(&mut client, b"\x1b[31mred\xff", 0, 0..3);
    client.ask("SET other value");
    client.ask("DEHYDRATOR.PUSH leases 0 element id");
    client.ask("DEHYDRATOR.POLL leases LEASE 60000");

    let (mut watch, mut model) = (watch(&server), Model::default());
    watch.refresh(&mut model, SECOND);
    let first = drawn(&model);
    assert!(first[0].contains("Dehydrator on Redis") || first[0].contains("Dehydrator on Valkey"));
    assert!(first.concat().contains(" dehydrators: 3 "), "{first:#?}");
    let jobs = line_with(&first, "jobs");
    assert_eq!(jobs[..7], ["jobs", "1,520", "0", "0", "-", "2", "1.5"], "{jobs:?}");
    assert_eq!(line_with(&first, "leases")[..5], ["leases", "1", "0", "1", "-"]);
    // An escape sequence in a key must not reach the terminal.
    let binary = line_with(&first, r"\x1b[31mred\xff");
    assert_eq!(binary[1..7], ["3", "3", "0", "-", "1", "0"]);

    // The longest is selected, and its TTLs are shown, with bars in proportion to the number of elements.
    assert!(first.concat().contains("TTLs of jobs"));
    assert_eq!(line_with(&first, "1.5")[0], "jobs");
    let bar = |words: &str| {
        let line = first.iter().find(|line| line.contains(words));
        line.unwrap_or_else(|| panic!("{first:#?}")).matches('█').count()
    };
    let (hour, minutes) = (bar(" 2 h        1,500 █"), bar(" 1.5 h           20 "));
    assert!(hour > 60 && minutes <= 2, "{first:#?}");

    // Another one is selected: its TTLs are shown before the next refresh.
    model.select(1);
    watch.refresh_selected(&mut model);
    assert_eq!(
        (model.selected.as_deref(), model.parts.by_ttl.len()),
        (Some(&b"\x1b[31mred\xff"[..]), 1)
    );

    // A second later: some elements came, and one key lost its last element.
    push(&mut client, b"jobs", 5_400_000, 1520..1540);
    client.ask("DEHYDRATOR.XACK leases id");
    watch.refresh(&mut model, 3 * SECOND);
    let second = drawn(&model);
    assert_eq!(line_with(&second, "jobs")[..5], ["jobs", "1,540", "0", "0", "+10.0"]);
    assert!(second.concat().contains(" dehydrators: 2 "), "{second:#?}");
}

#[test]
fn shows_how_many_groups_a_key_has_and_the_greatest_of_the_selected() {
    let server = Server::start_with_port(&[]);
    let mut client = server.connect();
    push(&mut client, b"plain", 600_000, 0..1);
    let (mut watch, mut model) = (watch(&server), Model::default());
    watch.refresh(&mut model, SECOND);
    assert!(!words(&drawn_in(80, &model)).contains("groups"), "there are none");

    // The tenant number 3 has 1,003 elements, and so on; the first two have few.
    let mut pipe = redis::pipe();
    for id in 0..12_u32 {
        let tenant = if id == 11 {
            b"\x1b[31mred\xff".to_vec()
        } else {
            format!("tenant-{id}").into_bytes()
        };
        for element in 0..(1000 + id) / (1 + 99 * u32::from(id < 2)) {
            let push = pipe.cmd("DEHYDRATOR.PUSH").arg("jobs").arg(600_000).arg("element");
            push.arg(format!("{id}-{element}")).arg("GROUP").arg(&tenant).ignore();
        }
    }
    pipe.query::<()>(&mut client).expect("pushed");
    watch.refresh(&mut model, 2 * SECOND);
    model.select(-1);
    watch.refresh_selected(&mut model);
    let drawn = drawn_in(80, &model);
    let row = line_with(&drawn, "jobs");
    assert_eq!(row[5..8], ["1", "12", "10"], "ttls, groups and the next deadline: {row:?}");
    assert_eq!(line_with(&drawn, "plain")[5..8], ["1", "0", "10"]);
    let all = words(&drawn);
    assert!(all.contains("ttls groups next in"), "{drawn:#?}");
    assert!(
        all.contains("TTLs of jobs") && all.contains("groups: 12, the greatest:"),
        "{drawn:#?}"
    );
    // An escape sequence in a name must not reach the terminal either.
    let greatest = drawn.iter().position(|line| line.contains(r"\x1b[31mred\xff")).expect("a line");
    assert!(drawn[greatest].trim_end_matches('│').ends_with("1,011"), "{drawn:#?}");
    assert!(drawn[greatest + 1].trim_end_matches('│').ends_with("1,010"), "{drawn:#?}");
    assert!(!all.contains("tenant-0"), "it is not among the ten greatest: {drawn:#?}");

    // Where the column has no room, the others keep theirs.
    let facts =
        Facts { length: 1_234_567_890, due: 9_999_999, given_out: 1_234_567, ..Facts::default() };
    let facts = Facts { ttls: 1_234_567, groups: 1_234_567, memory: 999_900_000, ..facts };
    model.dehydrators.take_facts(b"plain", facts, 3 * SECOND);
    let drawn = drawn_in(80, &model);
    let all = words(&drawn);
    assert!(all.contains("1,234,567 - 999.9 MB") && !all.contains("ttls groups"), "{drawn:#?}");
    assert!(words(&drawn_in(100, &model)).contains("1,234,567 1,234,567 - 999.9 MB"), "{drawn:#?}");

    // Another one is selected: its groups are shown, and it has none.
    model.select(-1);
    watch.refresh_selected(&mut model);
    assert_eq!((model.selected.as_deref(), model.parts.groups.len()), (Some(&b"plain"[..]), 0));
    assert!(!words(&drawn_in(80, &model)).contains("the greatest"));
}

#[test]
fn shows_overdue_keys_and_the_oldest_of_them() {
    let server = Server::start_with_port(&[]);
    let mut client = server.connect();
    push(&mut client, b"jobs", 0, 0..7);
    push(&mut client, b"later", 60_000, 0..7);
    until("it is overdue, and found", || {
        let late: Vec<Value> = cmd("DEHYDRATOR.LATE").query(&mut client).expect("rows");
        let Value::Array(first) = late.into_iter().next()? else { panic!("a row") };
        (first[0] != Value::Nil).then_some(())
    });
    let (mut watch, mut model) = (watch(&server), Model::default());
    watch.refresh(&mut model, SECOND);
    let drawn = drawn(&model);
    let all = words(&drawn);
    // An element must wait for a second to count as overdue.
    for by in ["overdue: jobs (db 0) ", "7 overdue, by "] {
        let (_, after) = all.split_once(by).unwrap_or_else(|| panic!("no {by:?} in {drawn:#?}"));
        let (seconds, _) = after.split_once(" s").expect("a unit");
        let seconds: f64 = seconds.parse().expect("a number of seconds");
        assert!((1.0..60.0).contains(&seconds), "{drawn:#?}");
    }
    assert!(all.contains("leased 0 given back 0"), "{drawn:#?}");

    // A user without this permission sees the rest.
    client.ask("ACL SETUSER looker on >secret ~* +info +scan +dehydrator.info");
    let url = format!("redis://looker:secret@127.0.0.1:{}", server.port());
    let client = redis::Client::open(url).expect("a url");
    let (mut watch, mut model) = (Watch::new(client), Model::default());
    watch.refresh(&mut model, SECOND);
    assert_eq!((model.trouble, model.worst, model.dehydrators.all.len()), (None, vec![], 2));
}

#[test]
fn handles_keys_that_change_and_servers_that_stop() {
    let mut server = Server::start_with_port(&[]);
    let mut client = server.connect();
    client.ask("DEHYDRATOR.PUSH jobs 60000 element id");
    let (mut watch, mut model) = (watch(&server), Model::default());
    watch.refresh(&mut model, SECOND);
    assert_eq!(model.selected.as_deref(), Some(&b"jobs"[..]));

    client.ask("DEL jobs");
    cmd("SET jobs string").query::<()>(&mut client).expect("set");
    watch.refresh(&mut model, 2 * SECOND);
    assert_eq!((model.trouble.clone(), model.selected.clone()), (None, None));
    assert!(drawn(&model).concat().contains(" dehydrators: 0 "));

    server.kill();
    watch.refresh(&mut model, 3 * SECOND);
    assert!(words(&drawn(&model)).contains("127.0.0.1"), "nothing says what is wrong");
    server.relaunch();
    watch.refresh(&mut model, 4 * SECOND);
    assert_eq!(model.trouble, None);
}

#[test]
fn walks_over_many_keys_in_steps() {
    let server = Server::start_with_port(&[]);
    let mut client = server.connect();
    let mut pipe = redis::pipe();
    for number in 0..60_000 {
        pipe.cmd("SET").arg(number).arg("value").ignore();
    }
    for number in 0..1200 {
        let key = format!("jobs:{number}");
        pipe.cmd("DEHYDRATOR.PUSH").arg(key).arg(60_000).arg("element").arg("id").ignore();
    }
    pipe.query::<()>(&mut client).expect("pushed");

    let (mut watch, mut model) = (watch(&server), Model::default());
    watch.refresh(&mut model, SECOND);
    assert_eq!(model.dehydrators.walks, 0, "one refresh walks over 60,000 keys");
    assert!(drawn(&model).concat().contains("dehydrators so far: "));
    for second in 2..10 {
        watch.refresh(&mut model, second * SECOND);
    }
    assert_eq!(model.dehydrators.all.len(), 1200);
    assert!(model.dehydrators.all.values().all(|it| it.facts.length == 1), "some were never asked");
}

/// INFO of a module with counters.
fn counters(pushes: u64, elements: u64) -> String {
    format!(
        "# Server\r\nredis_version:8.0.2\r\nserver_time_usec:1700000000000000\r\n\r\n\
         # dehydrator\r\ndehydrator_elements:{elements}\r\ndehydrator_pushes:{pushes}\r\n\
         dehydrator_pulls:7\r\ndehydrator_lateness_p99_us:2360\r\ndehydrator_new:text\r\n"
    )
}

#[test]
fn calculates_rates_from_two_readings_of_the_counters() {
    let mut model = Model::default();
    model.figures.take(&counters(1_000_000, 50), SECOND);
    assert_eq!((model.figures.rate("pushes"), model.figures.out()), (None, None));
    model.figures.take(&counters(1_000_300, 80), 3 * SECOND);
    let drawn = drawn(&model);
    // Of 300 that arrived in two seconds, 270 have left.
    assert_eq!(line_with(&drawn, "150/s")[..6], ["in", "150/s", "out", "135/s", "pulls", "0.0/s"]);
    assert_eq!(line_with(&drawn, "elements")[..2], ["elements", "80"]);
    let late = line_with(&drawn, "p99");
    assert!(late.windows(3).any(|words| words == ["p99", "2.4", "ms"]), "{late:?}");
    // Fields that the module does not report.
    assert!(late.windows(3).any(|words| words == ["late:", "last", "-"]), "{late:?}");

    // Read again at once, as after a change: no peak from one element in a millisecond.
    let soon = 3 * SECOND + Duration::from_millis(1);
    model.figures.take(&counters(1_000_301, 81), soon);
    assert_eq!(
        (model.figures.fields["elements"], model.figures.rate("pushes")),
        (81.0, Some(150.0))
    );
    // An answer that was asked for before, and has been overtaken.
    model.figures.take(&counters(1_000_300, 80), 3 * SECOND);
    assert_eq!(model.figures.fields["elements"], 81.0);
    model.figures.take(&counters(1_000_310, 80), 4 * SECOND);
    assert_eq!(model.figures.rate("pushes"), Some(10.0));

    // The server was restarted.
    model.figures.take(&counters(5, 5), 5 * SECOND);
    assert_eq!(model.figures.rate("pushes"), None);
}

#[test]
fn a_dehydrator_grows_by_what_is_counted_over_some_time() {
    let mut model = Model::default();
    model.dehydrators.saw(b"k".into());
    let mut take = |length, ms| {
        let facts = Facts { length, ..Facts::default() };
        model.dehydrators.take_facts(b"k", facts, Duration::from_millis(ms));
        let dehydrator = &model.dehydrators.all[b"k".as_slice()];
        (dehydrator.facts.length, dehydrator.net)
    };
    assert_eq!(take(10, 1_000), (10, None));
    assert_eq!(take(30, 3_000), (30, Some(10.0)));
    assert_eq!(take(20, 3_001), (20, Some(10.0)));
    // It has been overtaken.
    assert_eq!(take(30, 3_000), (20, Some(10.0)));
    assert_eq!(take(20, 4_000), (20, Some(-10.0)));
}

#[test]
fn sorts_and_selects() {
    let mut model = Model::default();
    for (key, length, due) in [("a", 1, 3), ("b", 3, 2), ("c", 2, 1)] {
        model.dehydrators.saw(key.into());
        let facts = Facts { length, due, ..Facts::default() };
        model.dehydrators.take_facts(key.as_bytes(), facts, SECOND);
    }
    let keys = |model: &Model| -> String {
        model.sorted().iter().map(|(key, _)| view::shown(key)).collect()
    };
    let press = |code: char, model: &mut Model| {
        pressed(KeyEvent::from(KeyCode::Char(code)), model);
        (keys(model), model.selected.clone().map(|key| view::shown(&key)))
    };
    let at = |keys: &str, selected: &str| (keys.to_owned(), Some(selected.to_owned()));
    model.select(0);
    assert_eq!(press('j', &mut model), at("bca", "c"));
    // The selection follows its key.
    assert_eq!(press('s', &mut model), at("abc", "c"));
    assert_eq!(press('k', &mut model), at("abc", "b"));
    for _ in 0..5 {
        press('k', &mut model);
    }
    assert_eq!(press('k', &mut model), at("abc", "a"));
    assert_eq!(Order::ALL.iter().fold(model.order, |order, _| order.next()), model.order);
}

/// Returns everything that a module reports, in the longest possible numbers.
fn long_info(seconds: u64) -> String {
    let counters = ["pushes", "pulls", "polls", "deliveries", "redeliveries"];
    let counters = counters.map(|name| format!("dehydrator_{name}:{}\r\n", seconds * 1_234_567));
    let times = ["lateness_last", "lateness_p50", "lateness_p99", "lateness_max", "tick_last"];
    let times = times.map(|name| format!("dehydrator_{name}_us:59940000\r\n"));
    format!(
        "redis_version:7.0.15\r\nserver_time_usec:1700000600000000\r\n{}{}\
         dehydrator_elements:1234567890\r\ndehydrator_given_out:1234567890\r\n\
         dehydrator_blocked_clients:10000\r\ndehydrator_retries:1234567890\r\n\
         dehydrator_dead_letters:1234567890\r\n\
         dehydrator_tick_longest_us:59940000\r\n",
        counters.concat(),
        times.concat()
    )
}

#[test]
fn eighty_columns_hold_every_figure_and_cut_no_text_without_an_ellipsis() {
    let mut model = Model::default();
    model.figures.take(&long_info(1), SECOND);
    model.figures.take(&long_info(3), 2 * SECOND);
    let key =
        "a:key:that:is:longer:than:the:column:of:keys:and:than:the:whole:terminal:is:wide:too";
    let facts = Facts {
        length: 1_234_567_890,
        due: 9_999_999,
        given_out: 1_234_567,
        ttls: 1_234_567,
        next_deadline: Some(1_700_000_600_000 + 59_940),
        memory: 999_900_000,
        policy: Policy {
            action: "STREAM".to_owned(),
            dest: Some(b"another:name:that:is:longer:than:anybody:would:like:it".into()),
            ..Policy::default()
        },
        ..Facts::default()
    };
    model.dehydrators.saw(key.into());
    for (second, length) in [(3, 0), (4, 1_234_567_890)] {
        let facts = Facts { length, ..facts.clone() };
        model.dehydrators.take_facts(key.as_bytes(), facts, second * SECOND);
    }
    model.parts.by_ttl = (1..100).map(|ttl| (ttl * 60_000, ttl)).collect();
    model.select(0);

    let drawn = drawn_in(80, &model);
    let all = words(&drawn);
    for (name, value) in [
        ("elements", "1,234,567,890"),
        ("given out", "1,234,567,890"),
        ("blocked", "10,000"),
        ("retries", "1,234,567,890"),
        ("dead letters", "1,234,567,890"),
        ("in", "2,469,134/s"),
        ("out", "2,469,134/s"),
        ("pulls", "2,469,134/s"),
        ("polls", "2,469,134/s"),
        ("deliveries", "2,469,134/s"),
        ("redeliveries", "2,469,134/s"),
        ("late: last", "59.9 s"),
        ("p50", "59.9 s"),
        ("p99", "59.9 s"),
        ("max", "59.9 s"),
        ("tick: last", "59.9 s"),
        ("longest", "59.9 s"),
    ] {
        assert!(all.contains(&format!("{name} {value}")), "no {name} {value} in {drawn:#?}");
    }
    let titles = "key length due given out net/s ttls next in memory";
    assert!(all.contains(titles), "{drawn:#?}");
    let row = "… 1234.6 M 9,999,999 1,234,567 +1234.6M 1,234,567 59.9 s 999.9 MB";
    assert!(all.contains(row), "{drawn:#?}");
    let title = drawn.iter().find(|line| line.contains("TTLs of")).expect("a title");
    assert!(title.contains("a:key:") && title.contains('…'), "{title}");
    assert!(drawn.last().expect("24 lines").contains("q: quit"), "{drawn:#?}");
}

#[test]
fn a_refused_connection_is_shown_with_its_address_and_advice() {
    let port = harness::free_port();
    let client = redis::Client::open(format!("redis://127.0.0.1:{port}")).expect("a url");
    let (mut watch, mut model) = (Watch::new(client), Model::default());
    watch.refresh(&mut model, SECOND);
    let drawn = drawn_in(80, &model);
    let all = words(&drawn);
    let what = format!("Cannot connect to 127.0.0.1:{port}: Connection refused");
    assert!(all.contains(&what), "{drawn:#?}");
    assert!(all.contains("Is a server running there?") && all.contains("rediss://"), "{drawn:#?}");
    assert!(all.contains("Trying again."), "{drawn:#?}");
}

#[test]
fn a_server_without_the_module_differs_from_one_without_dehydrators() {
    let server = Server::start_with_configuration("");
    let socket = server.file("redis.sock").canonicalize().expect("a socket");
    let url = format!("redis+unix://{}", socket.display());
    let client = redis::Client::open(url).expect("a url");
    let (mut watch, mut model) = (Watch::new(client), Model::default());
    watch.refresh(&mut model, SECOND);
    let drawn = drawn_in(80, &model);
    let all = words(&drawn);
    assert!(all.contains("has no module called dehydrator"), "{drawn:#?}");
    assert!(all.contains("loadmodule /path/to/libdehydrator.so"), "{drawn:#?}");
    assert!(!all.contains("dehydrators: 0"), "{drawn:#?}");
}

#[test]
fn missing_permissions_are_shown() {
    let server = Server::start_with_port(&[]);
    let mut client = server.connect();
    client.ask("ACL SETUSER looker on >secret ~* +ping");
    let of = |user: &str| {
        let url = format!("redis://{user}@127.0.0.1:{}", server.port());
        let (mut watch, mut model) =
            (Watch::new(redis::Client::open(url).expect("a url")), Model::default());
        watch.refresh(&mut model, SECOND);
        words(&drawn_in(80, &model))
    };
    let refused = of("looker:secret");
    assert!(refused.contains("needs +info +scan +dehydrator.info, and ~*"), "{refused}");
    let unknown = of("looker:wrong");
    assert!(unknown.contains("wants another user or password"), "{unknown}");
}

#[test]
fn a_paused_dehydrator_is_counted_and_marked_below_its_row() {
    let server = Server::start_with_port(&[]);
    let mut client = server.connect();
    push(&mut client, b"jobs", 600_000, 0..3);
    push(&mut client, b"mails", 600_000, 0..2);
    push(&mut client, b"other", 600_000, 0..1);
    client.ask("DEHYDRATOR.PAUSE jobs");
    client.ask("DEHYDRATOR.PAUSE mails FOR 7200000");
    client.ask("DEHYDRATOR.ONDUE other HOLD DELIVERIES 1 DROP");
    client.ask("DEHYDRATOR.EFFECT other P0@5,delivered=1 element dead");
    harness::until("it has died", || {
        (client.ask("DEHYDRATOR.LEN other") == Value::Int(1)).then_some(())
    });
    let (mut watch, mut model) = (watch(&server), Model::default());
    watch.refresh(&mut model, SECOND);
    let drawn = drawn_in(80, &model);
    let all = words(&drawn);
    assert!(all.contains("paused 2") && all.contains("dead letters 1"), "{drawn:#?}");
    let below = |key: &str| {
        let row = drawn.iter().position(|line| line.contains(key)).expect("a row");
        drawn[row + 1].clone()
    };
    assert!(below("jobs ").contains("paused until it is resumed"), "{drawn:#?}");
    let left = below("mails ");
    assert!(left.contains("paused for 2 h more") || left.contains("paused for 1.9"), "{drawn:#?}");
    assert!(!below("other ").contains("paused"), "{drawn:#?}");
    for key in ["jobs", "mails"] {
        client.ask(&format!("DEHYDRATOR.RESUME {key}"));
    }
    watch.refresh(&mut model, 2 * SECOND);
    assert!(!words(&drawn_in(80, &model)).contains("paused"));
}

#[test]
fn the_selected_dehydrator_tells_its_state_dead_letters_and_limits() {
    let server = Server::start_with_port(&[]);
    let mut client = server.connect();
    push(&mut client, b"jobs", 0, 0..7);
    client.ask("DEHYDRATOR.ONDUE jobs HOLD DELIVERIES 3 STREAM dead");
    client.ask("XADD dead * id 7 element x");
    client.ask("DEHYDRATOR.LIMIT jobs LENGTH 5000 HELD 3 RATE 10 PER 60000 REMEMBER 60000");
    client.ask("DEHYDRATOR.LIMIT jobs EACH HELD 1");
    client.ask("DEHYDRATOR.POLL jobs COUNT 2 LEASE 600000");
    client.ask("DEHYDRATOR.PAUSE jobs");
    let (mut watch, mut model) = (watch(&server), Model::default());
    watch.refresh(&mut model, SECOND);
    let drawn = drawn_in(80, &model);
    let told = "paused, dead letters 1, length 7 of 5,000, held 2 of 3, rate 2 of 10 in 1 min, \
                each held 1, remember 1 min";
    assert!(words(&drawn).contains(told), "{drawn:#?}");
    client.ask("DEL dead");
    client.ask("SET dead text");
    watch.refresh(&mut model, 2 * SECOND);
    assert!(!words(&drawn_in(80, &model)).contains("paused, dead letters"));
}

#[test]
fn a_dehydrator_with_failing_deliveries_is_counted_and_explained_below_its_row() {
    let info = |stuck: &str| format!("server_time_usec:1700000600000000\r\n{stuck}dehydrator_x:1");
    let mut model = Model::default();
    for (key, length) in [("jobs", 3), ("mails", 2), ("other", 1)] {
        model.dehydrators.saw(key.into());
        let failing_since = (key == "mails").then_some(1_700_000_480_000);
        // One that has failed once and recovered is not failing.
        let last_failure = (key != "other").then(|| b"WRONGTYPE the stream is a \xff".to_vec());
        let facts = Facts { length, failures: 12, failing_since, last_failure, ..Facts::default() };
        model.dehydrators.take_facts(key.as_bytes(), facts, SECOND);
    }

    model.figures.take(&info("dehydrator_failing:1\r\n"), SECOND);
    let drawn = drawn_in(80, &model);
    assert!(words(&drawn).contains("failing 1"), "{drawn:#?}");
    let row = drawn.iter().position(|line| line.contains("mails")).expect("a row");
    let why = r"not delivered for 2 min, 12 failures: WRONGTYPE the stream is a \xff";
    assert!(drawn[row + 1].contains(why), "{drawn:#?}");
    assert_eq!(words(&drawn).matches("not delivered").count(), 1, "{drawn:#?}");

    // None is failing, or the module is too old to report it.
    for older in ["dehydrator_failing:0\r\n", ""] {
        model.figures.take(&info(older), 2 * SECOND);
        assert!(!words(&drawn_in(80, &model)).contains("failing"), "{older}");
    }
}
