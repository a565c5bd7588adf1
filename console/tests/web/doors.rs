//! Who may use the page, from where.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::{Page, change, named, node};
use harness::{Ask, Server};

const JSON: (&str, &str) = ("content-type", "application/json");
const OURS: (&str, &str) = ("x-dehydrator", "1");

fn refused(options: &[&str]) -> String {
    let mut top = Command::new(env!("CARGO_BIN_EXE_dehydrator-top"));
    let output = top.args(options).output().expect("a program");
    assert!(!output.status.success(), "{options:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn beyond_loopback_a_door_is_needed() {
    for address in ["0.0.0.0:0", "[::]:0"] {
        let said = refused(&["--web", address]);
        assert!(said.contains("--login, --token-file or --user-header"), "{said}");
    }
    let folder = TempDir::new().expect("a folder");
    let short = folder.path().join("short").display().to_string();
    fs::write(&short, "secret\n").expect("a file");
    for (options, expected) in [
        (&["--web", "127.0.0.1"][..], "such as 127.0.0.1:8380"),
        (&["--web", "127.0.0.1:0", "--token-file", &short], "16 characters"),
        (&["--web", "127.0.0.1:0", "--token-file", "/none"], "No such file"),
        (&["--web", "127.0.0.1:0", "--user-header", "a b"], "header"),
        (&["--web", "127.0.0.1:0", "--user-header", "X-User", "--login"], "only one"),
        (&["--login"], "--web"),
        (&["--web", "127.0.0.1:0", "redis-sentinel://host"], "host:port/name"),
    ] {
        let said = refused(options);
        assert!(said.contains(expected), "{options:?}: {said}");
    }
}

#[test]
fn foreign_names_and_pages_are_refused() {
    let server = Server::start_with_port(&[]);
    let url = format!("redis://{}", node(&server));
    let page = Page::start(&["--host", "jobs.example.org", &url]);
    let body = change(&server, "jobs", "pause", json!({}), Value::Null).to_string();
    let post = |headers: &[(&str, &str)]| page.request("POST", "api/act", headers, &body).0;
    let get = |headers: &[(&str, &str)]| page.request("GET", "api/session", headers, "").0;
    let own = page.address.clone();
    let origin = format!("http://{own}");

    // A name that was rebound to this address.
    for host in ["evil.example", "evil.example:8380", "127.0.0.1.evil.example", "example.org"] {
        assert_eq!(get(&[("host", host)]), 403, "{host}");
        assert_eq!(page.request("GET", "", &[("host", host)], "").0, 403, "{host}");
        assert_eq!(post(&[("host", host), JSON, OURS]), 403, "{host}");
    }
    for host in ["localhost:8380", "jobs.example.org", "JOBS.example.org:443", "[::1]:8380"] {
        assert_eq!(get(&[("host", host)]), 200, "{host}");
    }
    // A page of another origin, and a form.
    for headers in [
        &[JSON][..],
        &[OURS],
        &[OURS, ("content-type", "text/plain")],
        &[OURS, ("content-type", "application/x-www-form-urlencoded")],
        &[JSON, ("x-dehydrator", "0")],
        &[JSON, OURS, ("origin", "http://evil.example")],
        &[JSON, OURS, ("origin", "null")],
        &[JSON, OURS, ("origin", "http://127.0.0.1")],
        &[JSON, OURS, ("sec-fetch-site", "cross-site")],
        &[JSON, OURS, ("sec-fetch-site", "same-site")],
    ] {
        assert_eq!(post(headers), 403, "{headers:?}");
    }
    assert_eq!(get(&[("sec-fetch-site", "cross-site")]), 403);
    assert_eq!(get(&[("origin", "http://evil.example")]), 403);
    assert_eq!(page.request("POST", "", &[JSON, OURS], "").0, 400);
    assert_eq!(page.request("GET", "api/act", &[], "").0, 405);
    assert!(!server.connect().exists("jobs"), "nothing was paused");
    // A link from elsewhere leads to the page.
    assert_eq!(page.request("GET", "", &[("sec-fetch-site", "cross-site")], "").0, 200);
    assert_eq!(post(&[JSON, OURS, ("origin", &origin), ("sec-fetch-site", "same-origin")]), 200);
    assert_eq!(post(&[JSON, OURS, ("origin", "https://jobs.example.org")]), 200);
    assert!(server.connect().exists("jobs"));
    // No answer is for other origins.
    let (_, headers, _) = page.request("GET", "api/session", &[], "");
    assert!(!headers.contains_key("access-control-allow-origin"));
}

#[test]
fn a_token_opens_the_page() {
    let server = Server::start_with_port(&[]);
    let folder = TempDir::new().expect("a folder");
    let file = folder.path().join("token").display().to_string();
    fs::write(&file, "0123456789abcdef0123\n").expect("a file");
    let url = format!("redis://{}", node(&server));
    let mut page = Page::start(&["--token-file", &file, &url]);
    let questions = [
        "overview",
        "history",
        "queue",
        "elements",
        "element",
        "dead",
        "timeline",
        "jobs",
        "jobs/1",
        "log",
        "schedules",
        "find",
    ];
    for question in questions {
        let (status, answer) = page.try_get(&format!("api/{question}?{}", named(&server, "jobs")));
        assert_eq!((status, &answer["code"]), (401, &json!("LOGIN")), "{question}: {answer}");
    }
    let pause = change(&server, "jobs", "pause", json!({}), Value::Null);
    assert_eq!(page.try_post("api/act", &pause).0, 401);
    assert_eq!(page.try_post("api/jobs/1/stop", &json!({})).0, 401);
    let session = page.get("api/session");
    assert_eq!(
        (&session["logged_in"], &session["token"], &session["user"]),
        (&json!(false), &json!(true), &Value::Null)
    );
    assert_eq!(page.log_in(&json!({ "token": "0123456789abcdef0124" })), 401);
    assert!(page.cookie.is_none());
    page.cookie =
        Some(format!("dehydrator-{}=AAAA", page.address.rsplit(':').next().expect("a port")));
    assert_eq!(page.try_get("api/overview").0, 401);
    page.cookie = None;
    assert_eq!(page.log_in(&json!({ "token": "0123456789abcdef0123" })), 204);
    page.get("api/overview");
    page.post("api/act", &pause);
    let cookie = page.cookie.clone();
    assert_eq!(page.try_post("api/logout", &json!({})).0, 204);
    page.cookie = cookie;
    assert_eq!(page.try_get("api/overview").0, 401, "the session has ended");
}

#[test]
fn a_proxy_names_the_user() {
    let server = Server::start_with_port(&[]);
    let page =
        Page::start(&["--user-header", "X-Remote-User", &format!("redis://{}", node(&server))]);
    assert_eq!(page.try_get("api/overview").0, 401);
    let anna = ("x-remote-user", "anna");
    let pause = change(&server, "jobs", "pause", json!({}), Value::Null).to_string();
    assert_eq!(page.request("GET", "api/overview", &[anna], "").0, 200);
    assert_eq!(page.request("POST", "api/act", &[anna, JSON, OURS], &pause).0, 200);
    let (_, _, log) = page.request("GET", &format!("api/log?{}", named(&server, "")), &[anna], "");
    let log: Value = serde_json::from_str(&log).expect("json");
    assert_eq!(
        (&log["rows"][0]["who"], &log["rows"][0]["user"]),
        (&json!("anna"), &json!("default"))
    );
}

#[test]
fn everybody_logs_in_as_a_redis_user() {
    let server = Server::start_with_port(&[]);
    let mut client = server.connect();
    client.ask("DEHYDRATOR.PUSH anna:jobs 600000 element id");
    client.ask("DEHYDRATOR.PUSH bert:jobs 600000 element id");
    client.ask("ACL SETUSER anna on >anna's ~anna:* ~dehydrator:log +@all");
    client.ask("ACL SETUSER bert on >bert's ~bert:* ~dehydrator:log +@all -dehydrator.pause");
    let url = format!("redis://{}", node(&server));
    let (mut anna, mut nobody) = (Page::start(&["--login", &url]), None);
    assert_eq!(anna.try_get("api/overview").0, 401);
    assert_eq!(anna.log_in(&json!({ "user": "anna", "password": "bert's" })), 401);
    assert_eq!(anna.log_in(&json!({ "user": "", "password": "" })), 401);
    assert_eq!(anna.log_in(&json!({ "user": "anna", "password": "anna's" })), 204);
    let session = anna.get("api/session");
    assert_eq!(
        (&session["user"], &session["who"], &session["login"]),
        (&json!("anna"), &json!("anna"), &json!(true))
    );
    let annas = anna.cookie.replace(String::new()).expect("a cookie");
    let keys = |page: &Page| {
        harness::until("a queue is seen", || {
            let overview = page.get("api/overview");
            let queues = overview["queues"].as_array()?;
            (queues.len() == 1).then(|| super::bytes(&queues[0]["key_b64"]))
        })
    };
    assert_eq!(anna.log_in(&json!({ "user": "bert", "password": "bert's" })), 204);
    assert_eq!(keys(&anna), b"bert:jobs");
    let pause = |key: &str| change(&server, key, "pause", json!({}), Value::Null);
    assert_eq!(anna.try_post("api/act", &pause("bert:jobs")).0, 403);
    nobody = nobody.or(anna.cookie.replace(annas));
    assert_eq!(keys(&anna), b"anna:jobs");
    anna.post("api/act", &pause("anna:jobs"));
    assert_eq!(anna.try_post("api/act", &pause("bert:jobs")).0, 403);
    let log = anna.get(&format!("api/log?{}", named(&server, "")));
    assert_eq!((&log["rows"][0]["who"], &log["rows"][0]["user"]), (&json!("anna"), &json!("anna")));

    // Attempts are limited.
    anna.cookie = None;
    let statuses: Vec<_> =
        (0..12).map(|_| anna.log_in(&json!({ "user": "anna", "password": "?" }))).collect();
    assert_eq!((statuses[0], statuses[11]), (401, 429), "{statuses:?}");
    assert_eq!(anna.log_in(&json!({ "user": "anna", "password": "anna's" })), 429);
    drop(nobody);
    // What is too large is refused before it is read.
    let long = "x".repeat(100_000);
    assert_eq!(anna.log_in(&json!({ "user": long })), 413);
}
