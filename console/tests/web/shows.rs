//! What is shown.

use redis::Connection;
use serde_json::{Value, json};

use super::{Page, b64, bytes, named, node};
use harness::{Ask, Server, until};

/// An element that would be a script if it were shown as HTML.
const SCRIPT: &[u8] = b"<script>alert(1)</script>\x00\xff\r\n";

fn push(client: &mut Connection, key: &[u8], ttl: u64, id: &[u8], element: &[u8]) {
    let mut push = redis::cmd("DEHYDRATOR.PUSH");
    push.arg(key).arg(ttl).arg(element).arg(id).exec(client).expect("pushed");
}

/// Returns the queues of the overview, when there are as many.
fn queues(page: &Page, query: &str, count: usize) -> Vec<Value> {
    until("the queues are found", || {
        let overview = page.get(&format!("api/overview?{query}"));
        let queues = overview["queues"].as_array().expect("queues").clone();
        (overview["total"] == count).then_some(queues)
    })
}

#[test]
fn the_overview_shows_nodes_and_queues_of_all_databases() {
    let server = Server::start_with_port(&[]);
    let mut client = server.connect();
    for id in 0..5 {
        client.ask(&format!("DEHYDRATOR.PUSH jobs 600000 element {id}"));
    }
    client.ask("DEHYDRATOR.PUSH jobs 0 element due");
    client.ask("DEHYDRATOR.PUSH jobs 0 element held");
    client.ask("DEHYDRATOR.POLL jobs COUNT 1 LEASE 60000");
    client.ask("DEHYDRATOR.LIMIT jobs LENGTH 100 HELD 7 RATE 5 PER 1000 REMEMBER 9");
    client.ask("DEHYDRATOR.LIMIT jobs EACH HELD 2 RATE 3 PER 500");
    client.ask("DEHYDRATOR.PAUSE jobs");
    client.ask("SET other value");
    client.ask("SELECT 3");
    push(&mut client, b"\x1b[31mred\xff", 0, b"id", b"element");
    let page = Page::of(&[&server]);
    let found = queues(&page, "", 2);
    let jobs = &found[0];
    assert_eq!((&jobs["key_b64"], &jobs["db"]), (&json!(b64("jobs")), &json!(0)));
    assert_eq!(
        (&jobs["length"], &jobs["due"], &jobs["waiting"], &jobs["held"]),
        (&json!(7), &json!(1), &json!(5), &json!(1))
    );
    assert!(jobs["oldest_held_ms"].as_u64().is_some_and(|ms| ms < 60_000), "{jobs}");
    assert_eq!((&jobs["running"], &jobs["paused"]), (&json!(1), &json!(true)));
    let limits = json!({ "length": 100, "held": 7, "rate": 5, "per": 1000, "remember": 9 });
    assert_eq!(jobs["limits"], limits);
    let each = json!({ "length": 0, "held": 2, "rate": 3, "per": 500, "remember": 0 });
    assert_eq!(jobs["each"], each);
    assert_eq!(
        (bytes(&found[1]["key_b64"]), &found[1]["db"]),
        (b"\x1b[31mred\xff".to_vec(), &json!(3))
    );
    let overview = page.get("api/overview");
    let shown = &overview["nodes"][0];
    assert_eq!(
        (&shown["node"], &shown["role"], &shown["trouble"]),
        (&json!(node(&server)), &json!("master"), &Value::Null)
    );
    assert_eq!(shown["fields"]["elements"], json!(8.0));
    assert!(overview["now"].as_u64() > Some(1_700_000_000_000), "{overview}");

    // Sorted, filtered, and page by page.
    let by_key = queues(&page, "sort=key&desc=1", 2);
    assert_eq!(by_key[0]["key_b64"], b64("jobs"));
    assert_eq!(queues(&page, "sort=due&desc=0&match=RED", 1)[0]["db"], 3);
    let second = page.get("api/overview?sort=length&offset=1&limit=1");
    assert_eq!((second["queues"].as_array().map(Vec::len), &second["total"]), (Some(1), &json!(2)));

    // A queue that goes is no longer shown, and a rate is calculated.
    client.ask("DEL other");
    client.ask("SELECT 0");
    client.ask("DEL jobs");
    queues(&page, "", 1);
    until("rates are known", || page.get("api/overview")["nodes"][0]["rates"]["pushes"].as_f64());
}

#[test]
fn a_server_that_ends_is_told_and_found_again() {
    let mut server = Server::start_with_port(&[]);
    server.connect().ask("DEHYDRATOR.PUSH jobs 600000 element id");
    let page = Page::of(&[&server]);
    queues(&page, "", 1);
    server.kill();
    let trouble = until("it is told", || {
        let overview = page.get("api/overview");
        overview["nodes"][0]["trouble"].as_str().map(str::to_owned)
    });
    assert!(trouble.contains(&node(&server)), "{trouble}");
    let (status, answer) = page.try_get(&format!("api/queue?{}", named(&server, "jobs")));
    assert_eq!((status, &answer["code"]), (502, &json!("UNREACHABLE")), "{answer}");
    server.relaunch();
    until("it is found", || {
        page.get("api/overview")["nodes"][0]["trouble"].is_null().then_some(())
    });
}

#[test]
fn elements_are_shown_in_order_page_by_page_whatever_their_bytes() {
    let server = Server::start_with_port(&[]);
    let mut client = server.connect();
    for id in 0..500_u64 {
        let element = if id == 250 { SCRIPT } else { b"plain" };
        push(
            &mut client,
            b"jobs",
            600_000 + id * 1000,
            &[&[0xff, 0][..], &id.to_be_bytes()].concat(),
            element,
        );
    }
    let page = Page::of(&[&server]);
    let queue = named(&server, "jobs");
    let ids = all(&page, &format!("{queue}&count=70"));
    let expected: Vec<_> =
        (0..500_u64).map(|id| [&[0xff, 0][..], &id.to_be_bytes()].concat()).collect();
    assert_eq!(ids, expected);

    // By a part of an element, in any case, and by its id; from a moment on.
    let found = page.get(&format!("api/elements?{queue}&text=%3CSCRIPT%3E"));
    assert_eq!(
        (&found["shown"], &found["next"], &found["scanned"]),
        (&json!(1), &Value::Null, &json!(500))
    );
    let row = &found["rows"][0];
    assert_eq!(
        (bytes(&row["element_b64"]), &row["element_bytes"]),
        (SCRIPT.to_vec(), &json!(SCRIPT.len()))
    );
    assert_eq!(
        (&row["leased"], &row["token_b64"], &row["deliveries"]),
        (&json!(false), &Value::Null, &json!(0))
    );
    let moment = row["deadline"].as_u64().expect("a moment");
    let later = page.get(&format!("api/elements?{queue}&start=~{moment}&count=1"));
    assert_eq!(later["rows"][0]["id_b64"], row["id_b64"]);
    let id = row["id_b64"].as_str().expect("text");
    let one = page.get(&format!("api/element?{queue}&id={id}"));
    assert_eq!((bytes(&one["element_b64"]), &one["deadline"]), (SCRIPT.to_vec(), &json!(moment)));
    let (status, _) = page.try_get(&format!("api/element?{queue}&id={}", b64("none")));
    assert_eq!(status, 404);
    assert!(page.request("GET", &format!("api/elements?{queue}&text=script"), &[], "").1["content-type"]
        .to_str().expect("text").starts_with("application/json"));
}

#[test]
fn held_and_due_elements_have_views_of_their_own() {
    let server = Server::start_with_port(&[]);
    let mut client = server.connect();
    for id in 0..3000 {
        client.ask(&format!("DEHYDRATOR.PUSH jobs 600000 element later:{id}"));
    }
    for id in 0..400 {
        client.ask(&format!("DEHYDRATOR.PUSH jobs 0 element now:{id}"));
    }
    client.ask("DEHYDRATOR.POLL jobs COUNT 300 LEASE 60000 TOKEN 77");
    let page = Page::of(&[&server]);
    let queue = named(&server, "jobs");
    let held = page.get(&format!("api/elements?{queue}&view=held&count=500"));
    assert_eq!((&held["shown"], &held["next"]), (&json!(300), &Value::Null));
    assert_eq!(held["scanned"], 400, "those later need not be looked at");
    let row = &held["rows"][0];
    assert_eq!(bytes(&row["token_b64"]), b"77");
    // Renewals move the deadline, and not since when it is held.
    let since = row["held_since"].as_u64().expect("a moment");
    assert_eq!(row["deadline"], since + 60_000);
    let id = bytes(&row["id_b64"]);
    let mut renew = redis::cmd("DEHYDRATOR.RENEW");
    renew.arg("jobs").arg(600_000).arg(77).arg(&id).exec(&mut client).expect("it is held");
    let one = page.get(&format!("api/element?{queue}&id={}", b64(&id)));
    assert!(one["held_since"] == since && one["deadline"].as_u64() > Some(since + 500_000));
    assert_eq!(one["reason_b64"], Value::Null);
    client.ask("DEHYDRATOR.PUSH failed 0 element id");
    client.ask("DEHYDRATOR.POLL failed LEASE 60000 TOKEN 78");
    client.ask("DEHYDRATOR.RELEASE failed 60000 78 id REASON timeout");
    let failed = format!("api/element?{}&id={}", named(&server, "failed"), b64(b"id"));
    assert_eq!(bytes(&page.get(&failed)["reason_b64"]), b"timeout");
    // And beside those of all queues, in each database: the longest first.
    client.ask("SELECT 3");
    client.ask("DEHYDRATOR.PUSH jobs 0 element other");
    client.ask("DEHYDRATOR.POLL jobs LEASE 60000 TOKEN 79");
    let all_held = until("both queues are known", || {
        let all = page.get("api/held");
        (all["rows"].as_array().map(Vec::len) == Some(301) && all["complete"] == true)
            .then_some(all)
    });
    let last = &all_held["rows"][300];
    assert_eq!(
        (bytes(&last["id_b64"]), bytes(&last["token_b64"])),
        (b"other".into(), b"79".into())
    );
    let of = json!({ "node": node(&server), "db": 3, "key_b64": b64("jobs") });
    assert_eq!(last["queue"], of);
    assert!(all_held["rows"][0]["held_since"].as_u64() <= last["held_since"].as_u64());
    assert!(last["held_since"].as_u64() <= all_held["now"].as_u64(), "{last}");
    let due = page.get(&format!("api/elements?{queue}&view=due&count=500"));
    assert_eq!((&due["shown"], &due["next"]), (&json!(100), &Value::Null));
    assert_eq!(all(&page, &format!("{queue}&view=held&count=20")).len(), 300);
    // 7, and 70 to 79.
    assert_eq!(all(&page, &format!("{queue}&view=held&count=20&id=W:7")).len(), 11);
}

/// Returns the ids of all pages.
fn all(page: &Page, query: &str) -> Vec<Vec<u8>> {
    let mut ids = Vec::new();
    let mut start = String::new();
    loop {
        let answer = page.get(&format!("api/elements?{query}&start={start}"));
        let rows = answer["rows"].as_array().expect("rows");
        ids.extend(rows.iter().map(|row| bytes(&row["id_b64"])));
        match answer["next"].as_str() {
            Some(next) => start = next.to_owned(),
            None => return ids,
        }
    }
}

#[test]
fn schedules_are_told_with_their_upcoming_occurrences() {
    let server = Server::start_with_port(&[]);
    let mut client = server.connect();
    let mut every = redis::cmd("DEHYDRATOR.EVERY");
    every.arg(&["jobs", "60000", "<script>", "often", "FROM", "4000000000000", "GROUP", "anna"]);
    every.arg(&["UNTIL", "4000000120000"]).exec(&mut client).expect("set");
    client.ask("DEHYDRATOR.EVERY jobs 3600000 element hourly");
    client.ask("DEHYDRATOR.PAUSE jobs SCHEDULE hourly");
    let page = Page::of(&[&server]);
    let schedules =
        |key: &str| page.get(&format!("api/schedules?{}", named(&server, key)))["rows"].clone();
    let rows = schedules("jobs");
    let expected = json!({
        "name_b64": b64("often"), "when": "every 1 min", "zone": null,
        "next": 4_000_000_000_000_u64, "last": null, "late": null, "stored": 0, "missed": 0,
        "paused": false, "ended": false, "element_b64": b64("<script>"), "group_b64": b64("anna"),
        "upcoming": [4_000_000_000_000_u64, 4_000_000_060_000_u64, 4_000_000_120_000_u64],
    });
    assert_eq!(rows[0], expected);
    let row = &rows[1];
    assert_eq!(
        (&row["paused"], &row["ended"], &row["next"], &row["upcoming"]),
        (&json!(true), &json!(false), &Value::Null, &json!([]))
    );
    assert_eq!(schedules("none"), json!([]));
    let shown = page.get(&format!("api/queue?{}", named(&server, "jobs")));
    assert_eq!((&shown["queue"]["schedules"], &shown["exists"]), (&json!(2), &json!(true)));

    let mut pipe = redis::pipe();
    for number in 0..450_u64 {
        let every = pipe.cmd("DEHYDRATOR.EVERY").arg("many").arg(60_000).arg("element").arg(number);
        every.arg("FROM").arg(4_000_000_000_000 + number).ignore();
    }
    pipe.exec(&mut client).expect("set");
    let (mut start, mut pages) = (String::new(), Vec::new());
    loop {
        let answer = page.get(&format!("api/schedules?{}{start}", named(&server, "many")));
        assert_eq!(answer["total"], json!(450));
        pages.push(answer["rows"].as_array().expect("rows").clone());
        let Some(next) = answer["next"].as_str() else { break };
        start = format!("&start={next}");
    }
    assert_eq!(pages.iter().map(Vec::len).collect::<Vec<_>>(), [200, 200, 50]);
    let names: Vec<_> = pages.concat().iter().map(|row| row["name_b64"].clone()).collect();
    assert_eq!(names, (0..450).map(|number| b64(number.to_string())).collect::<Vec<_>>());
}

#[test]
fn an_id_is_found_in_all_queues() {
    let server = Server::start_with_port(&[]);
    let mut client = server.connect();
    let id = b"\xff<b>";
    for key in 0..120 {
        push(&mut client, format!("jobs:{key:03}").as_bytes(), 600_000, b"other", b"element");
    }
    push(&mut client, b"jobs:007", 600_000, id, b"element");
    push(&mut client, b"jobs:117", 0, id, b"element");
    client.ask("SELECT 3");
    push(&mut client, b"mails", 600_000, id, b"element");
    let page = Page::of(&[&server]);
    queues(&page, "", 121);
    let found = page.get(&format!("api/find?id={}", b64(id)));
    let row = |db: u64, key: &str| json!({ "node": node(&server), "db": db, "key_b64": b64(key) });
    let rows = json!([row(0, "jobs:007"), row(0, "jobs:117"), row(3, "mails")]);
    assert_eq!(found, json!({ "rows": rows, "complete": true }));
    assert_eq!(page.get(&format!("api/find?id={}", b64("none")))["rows"], json!([]));
    let (status, answer) = page.try_get("api/find?id=*");
    assert_eq!((status, &answer["code"]), (400, &json!("BAD")), "{answer}");
}

#[test]
fn a_large_element_is_cut_in_the_list_and_whole_by_itself() {
    let server = Server::start_with_port(&[]);
    let mut client = server.connect();
    let mut large = vec![b'x'; 3 << 20];
    large.push(b'Y');
    for id in 0..10 {
        push(&mut client, b"large", 600_000, &[id], &large);
    }
    let page = Page::of(&[&server]);
    let queue = named(&server, "large");
    let list = page.get(&format!("api/elements?{queue}"));
    assert_eq!(list["rows"].as_array().map(Vec::len), Some(10));
    assert_eq!(list["rows"][9]["element_bytes"], large.len());
    assert_eq!(bytes(&list["rows"][9]["element_b64"]).len(), 64 << 10);
    // Also in the part that is not shown.
    assert_eq!(all(&page, &format!("{queue}&text=Xy")).len(), 10);
    let one = page.get(&format!("api/element?{queue}&id={}", b64([9])));
    assert_eq!(bytes(&one["element_b64"]), large);
}

#[test]
fn dead_letters_are_shown_from_streams_and_lists() {
    let server = Server::start_with_port(&[]);
    let mut client = server.connect();
    client.ask("DEHYDRATOR.ONDUE jobs HOLD DELIVERIES 5 STREAM jobs:dead");
    client.ask("DEHYDRATOR.ONDUE mails HOLD DELIVERIES 5 LIST mails:dead LEFT");
    for id in 0..30 {
        for key in ["jobs", "mails"] {
            client.ask(&format!("DEHYDRATOR.PUSH {key} 0 element:{id} id:{id}"));
            client.ask(&format!("DEHYDRATOR.POLL {key} LEASE 60000 TOKEN t"));
            client.ask(&format!("DEHYDRATOR.REJECT {key} t id:{id}"));
        }
    }
    redis::cmd("XADD")
        .arg(&["jobs:dead", "*", "id", "own", "element", "x", "reason", "Boom"])
        .exec(&mut client)
        .expect("added");
    let page = Page::of(&[&server]);
    let queue = named(&server, "jobs");
    let first = page.get(&format!("api/dead?{queue}&count=20"));
    assert_eq!(
        (&first["kind"], bytes(&first["dest_b64"])),
        (&json!("stream"), b"jobs:dead".to_vec())
    );
    let rows = first["rows"].as_array().expect("rows");
    assert_eq!(
        (bytes(&rows[0]["id_b64"]), bytes(&rows[0]["reason_b64"])),
        (b"own".to_vec(), b"Boom".to_vec())
    );
    assert_eq!((bytes(&rows[1]["id_b64"]), &rows[1]["deliveries"]), (b"id:29".to_vec(), &json!(1)));
    assert!(rows[1]["moment"].as_u64() > Some(1_700_000_000_000));
    let next = first["next"].as_str().expect("more");
    let rest = page.get(&format!("api/dead?{queue}&count=20&start={next}"));
    assert_eq!((rest["rows"].as_array().map(Vec::len), &rest["next"]), (Some(11), &Value::Null));
    let found = page.get(&format!("api/dead?{queue}&text=boom"));
    assert_eq!(found["rows"].as_array().map(Vec::len), Some(1));
    let found = page.get(&format!("api/dead?{queue}&id=ID:7"));
    assert_eq!(found["rows"].as_array().map(Vec::len), Some(1));
    let list = page.get(&format!("api/dead?{}&count=100", named(&server, "mails")));
    assert_eq!((&list["kind"], list["rows"].as_array().map(Vec::len)), (&json!("list"), Some(30)));
    let shown = page.get(&format!("api/queue?{queue}"));
    assert_eq!(shown["queue"]["dead"]["count"], 31);
}

#[test]
fn a_queue_has_its_ttls_a_timeline_and_a_history() {
    let server = Server::start_with_port(&[]);
    let mut client = server.connect();
    for id in 0..1000 {
        let ttl = if id % 4 == 0 { 3_600_000 } else { 600_000 };
        client.ask(&format!("DEHYDRATOR.PUSH jobs {ttl} element {id}"));
    }
    let page = Page::of(&[&server]);
    let queue = named(&server, "jobs");
    let shown = page.get(&format!("api/queue?{queue}"));
    assert_eq!(shown["by_ttl"], json!([[600_000, 750], [3_600_000, 250]]));
    assert_eq!((&shown["queue"]["groups"], &shown["greatest_groups"]), (&json!(0), &json!([])));
    let missing = page.get(&format!("api/queue?{}", named(&server, "missing")));
    assert_eq!((&missing["exists"], &missing["queue"]["length"]), (&json!(false), &json!(0)));
    let now = shown["now"].as_u64().expect("a moment");
    let timeline = until("all is counted", || {
        let timeline = page.get(&format!("api/timeline?{queue}"));
        (timeline["complete"] == true).then_some(timeline)
    });
    let count = |from: u64, to: u64| {
        let buckets = timeline["buckets"].as_array().expect("buckets").iter();
        let inside =
            buckets.filter(|it| it["from"].as_u64() >= Some(from) && it["to"].as_u64() <= Some(to));
        inside.map(|it| it["count"].as_u64().expect("a number")).sum::<u64>()
    };
    assert_eq!(
        (count(0, now + 1_800_000), count(now + 1_800_000, u64::MAX)),
        (750, 250),
        "{timeline}"
    );
    let half = page.get(&format!(
        "api/timeline?{queue}&start={}&end={}",
        now + 1_800_000,
        now + 7_200_000
    ));
    let half = half["buckets"].as_array().expect("buckets").iter();
    assert_eq!(half.map(|it| it["count"].as_u64().expect("a number")).sum::<u64>(), 250);
    until("a sample is there", || {
        let history = page.get(&format!("api/history?{queue}"));
        history["series"]["waiting"].as_array()?.contains(&json!(1000.0)).then_some(())
    });
    let all = page.get("api/history");
    assert_eq!(
        all["times"].as_array().map(Vec::len),
        all["series"]["pushes"].as_array().map(Vec::len)
    );
}

#[test]
fn a_queue_has_its_number_of_groups_and_the_greatest_of_them_whatever_their_bytes() {
    let server = Server::start_with_port(&[]);
    let mut client = server.connect();
    let mut pipe = redis::pipe();
    for id in 0..100_u8 {
        let group = if id < 40 { SCRIPT.to_vec() } else { vec![0xff, id / 5] };
        let push = pipe.cmd("DEHYDRATOR.PUSH").arg("jobs").arg(600_000).arg("element").arg(id);
        push.arg("GROUP").arg(group).ignore();
    }
    pipe.exec(&mut client).expect("pushed");
    let page = Page::of(&[&server]);
    let shown = page.get(&format!("api/queue?{}", named(&server, "jobs")));
    assert_eq!(shown["queue"]["groups"], 13);
    let greatest = shown["greatest_groups"].as_array().expect("groups");
    assert_eq!(greatest.len(), 10, "{greatest:?}");
    assert_eq!(
        (bytes(&greatest[0]["group_b64"]), &greatest[0]["length"]),
        (SCRIPT.to_vec(), &json!(40))
    );
    assert!(greatest[1..].iter().all(|group| group["length"] == 5), "{greatest:?}");
    assert_eq!(queues(&page, "", 1)[0]["groups"], 13);
    let id = b64([b'3', b'9']);
    let queue = named(&server, "jobs");
    let one = page.get(&format!("api/element?{queue}&id={id}"));
    assert_eq!(bytes(&one["group_b64"]), SCRIPT);
    // The elements of one group, and its facts.
    let group = b64([0xff, 9]);
    assert_eq!(all(&page, &format!("{queue}&group={group}&count=2")).len(), 5);
    client.ask("DEHYDRATOR.LIMIT jobs EACH HELD 2");
    let told = page.get(&format!("api/queue?{queue}&group={group}"))["group"].clone();
    assert_eq!(
        (&told["group_b64"], &told["length"], &told["paused"], &told["limits"]["held"]),
        (&json!(group), &json!(5), &json!(false), &json!(2))
    );
    assert!(told["next_deadline"].as_u64() > Some(1_700_000_000_000), "{told}");
    client.ask("DEHYDRATOR.PUSH jobs 600000 element none");
    let one = page.get(&format!("api/element?{queue}&id={}", b64("none")));
    assert_eq!(one["group_b64"], Value::Null);
}

#[test]
fn the_files_of_the_page_are_in_the_program() {
    let server = Server::start_with_port(&[]);
    let page = Page::of(&[&server]);
    let (status, headers, body) = page.request("GET", "", &[], "");
    assert_eq!(status, 200);
    assert!(body.contains("<!doctype html>"), "{body}");
    let csp = headers["content-security-policy"].to_str().expect("text");
    assert!(csp.starts_with("default-src 'none'; script-src 'self'; style-src 'self'"), "{csp}");
    assert_eq!(headers["x-content-type-options"], "nosniff");
    assert_eq!(headers["referrer-policy"], "no-referrer");
    // No inline script: the policy would refuse it.
    assert!(!body.contains("<script>"), "{body}");
    let sources = body.split("src=\"").skip(1).filter_map(|rest| rest.split('"').next());
    let sources = sources.filter(|source| source.ends_with("js"));
    for source in sources {
        let (status, headers, _) = page.request("GET", source, &[], "");
        assert_eq!(
            (status, headers["content-type"].to_str().expect("text")),
            (200, "text/javascript; charset=utf-8"),
            "{source}"
        );
    }
    for outside in ["nothing.js", "../Cargo.toml", "..%2fCargo.toml", "/etc/passwd"] {
        assert_eq!(page.request("GET", outside, &[], "").0, 404, "{outside}");
    }
    let (_, headers, session) = page.request("GET", "api/session", &[], "");
    assert_eq!(headers["cache-control"], "no-store");
    // The page is released with the module.
    let info = redis::cmd("INFO").arg("dehydrator").query::<String>(&mut server.connect());
    let info = info.expect("text");
    let version = info.lines().find_map(|line| line.strip_prefix("dehydrator_version:"));
    let version = version.expect("a version").trim();
    assert!(session.contains(&format!("\"version\":\"{version}\"")), "{session}");
}
