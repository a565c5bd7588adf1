//! Schedules, as the package for Python writes them.

use redis::Connection;

use super::{SECOND, drawn_in, line_with, watch, words};
use crate::model::Model;
use crate::schedule::Schedule;
use crate::watch::Watch;
use harness::{Ask, Server};

const DAY: u64 = 86_400_000;

fn now(client: &mut Connection) -> u64 {
    let (seconds, _): (u64, u64) = redis::cmd("TIME").query(client).expect("a time");
    seconds * 1000
}

fn put(client: &mut Connection, key: &[u8], name: &[u8], at: u64, element: &[u8]) {
    let mut push = redis::cmd("DEHYDRATOR.PUSH");
    push.arg(key).arg(0).arg(element).arg(name).arg("AT").arg(at).exec(client).expect("pushed");
}

/// Stores schedules of each kind, and elements that are none.
fn fill(client: &mut Connection, key: &[u8]) {
    let now = now(client);
    let [soon, later, far] = [now + DAY * 3 / 2, now + 3 * DAY, now + 40 * DAY];
    let last = now - 3 * 3_600_000;
    // The last one is looked at before its next occurrence.
    let state = format!(r#"{{"next":{far}}}"#);
    let plan = br#"{"cron":"0 0 1 jan *","missed":"all","until":4000000000000,"zone":"America/Sao_Paulo"}"#;
    put(client, key, b"yearly", now + DAY, &[state.as_bytes(), b"\n", plan, b"\nx"].concat());
    let state = format!(r#"{{"next":{soon},"last":{last},"late":1234,"missed":3210}}"#);
    let plan = r#"{"attempts":3,"cron":"0 9 * * 1-5","zone":"Europe/Berlin"}"#;
    put(client, key, b"report", soon, format!("{state}\n{plan}\n{{\"a\":1}}").as_bytes());
    let state = format!(r#"{{"next":{later},"last":{last},"count":5}}"#);
    let plan = r#"{"ms":90000,"times":7}"#;
    put(client, key, b"often", later, format!("{state}\n{plan}\n").as_bytes());
    let state = format!(r#"{{"next":{later},"paused":true}}"#);
    // The name of a group can be any bytes.
    let plan = b"{\"cron\":\"*/5 * * * *\",\"group\":\"\xff<b>\"}";
    let element = [state.as_bytes(), b"\n", plan, b"\n\x00\n\n"].concat();
    put(client, key, b"\x1b[31m<b>\xff", later + 1, &element);
    let state = r#"{"last":1700000599999,"late":1,"count":7,"ended":true}"#;
    let element = format!("{state}\n{}\nx", r#"{"ms":1500,"times":7}"#);
    put(client, key, b"over", now + 30 * DAY, element.as_bytes());
    let state = format!(r#"{{"next":{}}}"#, later + 2);
    let plan = r#"{"cron":"\u001b[2J * * * *","zone":"<b>"}"#;
    put(client, key, b"cleared", later + 2, format!("{state}\n{plan}\n").as_bytes());
}

/// Elements that are not schedules: each lacks something, or is not JSON of the right types.
const OTHERS: [&[u8]; 9] = [
    b"element",
    b"",
    br#"{"next":1}"#,
    b"{\"next\":1}\n{\"ms\":1000}",
    b"{\"next\":-1}\n{\"ms\":1000}\n",
    b"{}\n{\"ms\":1000}\n",
    b"{\"next\":1}\n{\"ms\":1000,\"cron\":\"* * * * *\"}\n",
    b"[1]\n[\"* * * * *\"]\n",
    b"{\"next\":1}\n{\"cron\":\"\xff\"}\n",
];

#[test]
fn a_key_of_schedules_lists_them_in_the_order_of_their_occurrences() {
    let server = Server::start_with_port(&[]);
    let mut client = server.connect();
    fill(&mut client, b"{jobs}:schedules");
    for (number, element) in OTHERS.iter().enumerate() {
        let later = now(&mut client) + 20 * DAY;
        put(&mut client, b"{jobs}:schedules", number.to_string().as_bytes(), later, element);
    }
    let (mut watch, mut model) = (watch(&server), Model::default());
    watch.refresh(&mut model, SECOND);
    let drawn = drawn_in(80, &model);
    let title = " schedules of {jobs}:schedules: 6, the next 4; 9 other elements ";
    assert!(drawn.concat().contains(title), "{drawn:#?}");
    let all = words(&drawn);
    assert!(all.contains("schedule occurs next in last late missed"), "{drawn:#?}");
    for row in [
        "report 0 9 * * 1-5 Europe/Berlin 1.5 d 3 h ago 1.2 s 3,210",
        "often every 90 s 3 d 3 h ago 0 ms 0",
        // No escape sequence reaches the terminal.
        r"\x1b[31m<b>\xff */5 * * * * UTC paused - - 0",
        r"cleared \x1b[2J * * * * <b> 3 d - - 0",
    ] {
        assert!(all.contains(row), "no {row:?} in {drawn:#?}");
    }
    let names = ["report", "often", "cleared"];
    let place = |name: &&str| drawn.iter().position(|line| line.contains(*name)).expect("a row");
    assert!(names.each_ref().map(place).is_sorted(), "{drawn:#?}");
    assert!(drawn.iter().all(|line| line.chars().count() == 80), "{drawn:#?}");

    // In the far future, and ended.
    for name in ["report", "often", "cleared"] {
        client.ask(&format!("DEHYDRATOR.REM {{jobs}}:schedules {name}"));
    }
    watch.refresh(&mut model, 2 * SECOND);
    let drawn = drawn_in(80, &model);
    let all = words(&drawn);
    let far = "yearly 0 0 1 jan * America/Sao_Paulo 40 d - - 0 over every 1500 ms ended ";
    assert!(all.contains(far) && all.contains(" d ago 1 ms 0"), "{drawn:#?}");
    assert!(all.contains("schedules of {jobs}:schedules: 3; 9 other elements"), "{drawn:#?}");

    // Where they have no room, names and times end in an ellipsis.
    let drawn = drawn_in(60, &model);
    let all = words(&drawn);
    assert!(all.contains("yearly 0 0 1 jan *") && all.contains("… 40 d - - 0"), "{drawn:#?}");
}

/// Plans of Celery's beat and of the gem for Sidekiq, as they write them.
#[test]
fn the_schedules_of_celery_and_sidekiq_are_shown() {
    let when = |plan: &str| {
        let element = format!("{{\"next\":1}}\n{plan}\n{{}}");
        Schedule::parse(element.as_bytes()).map(|schedule| schedule.when)
    };
    for (plan, told) in [
        (
            r#"{"by":"celery","crontab":["*/15",[1,2],"mon-fri","*","*"],"zone":"Europe/Berlin"}"#,
            "*/15 1,2 * * mon-fri Europe/Berlin",
        ),
        (
            r#"{"by":"celery","crontab":[0,0,"*","25-31","*"],"zone":"local"}"#,
            "0 0 25-31 * * local",
        ),
        (r#"{"by":"celery","ms":90000}"#, "every 90 s"),
        (r#"{"by":"celery","ms":86400000,"relative":true,"zone":"Europe/Berlin"}"#, "every 1 d"),
        (r#"{"by":"celery","solar":["sunrise",51.5,-0.25]}"#, "sunrise at 51.5, -0.25"),
        (r#"{"by":"celery","solar":["dusk_civil",52,13]}"#, "dusk_civil at 52, 13"),
        (r#"{"by":"celery","class":"app.Moon","shown":"<Moon: full>"}"#, "<Moon: full>"),
        (r#"{"by":"celery","class":"app.Moon"}"#, "app.Moon"),
        (r#"{"cron":"0 9 * * 1-5 Europe/Berlin","source":"file"}"#, "0 9 * * 1-5 Europe/Berlin"),
        (r#"{"cron":"*/30 * * * *","source":"file","zone":"UTC"}"#, "*/30 * * * * UTC"),
        (r#"{"cron":"5 * * * * *","zone":"Asia/Tokyo"}"#, "5 * * * * * Asia/Tokyo"),
    ] {
        assert_eq!(when(plan).as_deref(), Some(told), "{plan}");
    }
    for plan in [
        r#"{"by":"celery"}"#,
        r#"{"ms":1,"solar":["sunrise",1,2]}"#,
        r#"{"crontab":[0,0,"*","*"]}"#,
        r#"{"crontab":[0,0,"*","*",{}]}"#,
    ] {
        assert_eq!(when(plan), None, "{plan}");
    }
    // Sidekiq's file has it no more: it does not occur.
    let gone = br#"{"next":1764147600000,"last":1764061200000,"late":3,"gone":1764061300000}"#;
    let element = [&gone[..], b"\n{\"cron\":\"* * * * *\",\"zone\":\"UTC\"}\n{}"].concat();
    assert!(Schedule::parse(&element).expect("a schedule").state.ended);
}

#[test]
fn other_keys_and_other_elements_are_not_shown_as_schedules() {
    let server = Server::start_with_port(&[]);
    let mut client = server.connect();
    fill(&mut client, b"jobs");
    let later = now(&mut client) + DAY;
    for (number, element) in OTHERS.iter().enumerate() {
        put(&mut client, b"others:schedules", number.to_string().as_bytes(), later, element);
    }
    let (mut watch, mut model) = (watch(&server), Model::default());
    watch.refresh(&mut model, SECOND);
    for key in ["others:schedules", "jobs"] {
        let drawn = drawn_in(80, &model);
        assert!(drawn.concat().contains(&format!(" TTLs of {key},")), "{drawn:#?}");
        assert!(!words(&drawn).contains("occurs"), "{drawn:#?}");
        model.select(1);
        watch.refresh_selected(&mut model);
    }
}

#[test]
fn of_many_schedules_the_first_hundred_are_read() {
    let server = Server::start_with_port(&[]);
    let mut client = server.connect();
    let later = now(&mut client) + DAY;
    for number in 0..2500 {
        let element = format!("{{\"next\":{}}}\n{{\"ms\":1000}}\n", later + number);
        let name = format!("schedule-{number}");
        put(&mut client, b"jobs:schedules", name.as_bytes(), later + number, element.as_bytes());
    }
    let (mut watch, mut model) = (watch(&server), Model::default());
    watch.refresh(&mut model, SECOND);
    assert_eq!(model.parts.schedules.all.len(), 100);
    let drawn = drawn_in(80, &model);
    let title = " schedules of jobs:schedules: 2,500, the next 4 ";
    assert!(drawn.concat().contains(title), "{drawn:#?}");
    assert_eq!(line_with(&drawn, "schedule-3")[..4], ["schedule-3", "every", "1", "s"]);

    // Nobody writes a plan of this length.
    let long =
        format!("{{\"next\":1}}\n{{\"zone\":\"UTC\",\"cron\":\"{}\"}}\n", "x".repeat(20_000));
    assert_eq!(Schedule::parse(long.as_bytes()), None);
    // Few large elements are read at once.
    let payload = "x".repeat(300_000);
    for number in 0..3 {
        let element = format!("{{\"next\":{later}}}\n{{\"ms\":1000}}\n{payload}");
        put(&mut client, b"big:schedules", &[number], later, element.as_bytes());
    }
    watch.refresh(&mut model, 2 * SECOND);
    model.select(1);
    assert_eq!(model.selected.as_deref(), Some(&b"big:schedules"[..]));
    watch.refresh_selected(&mut model);
    assert_eq!(model.parts.schedules.all.len(), 1);

    // A user without RANGE sees the rest.
    client.ask("ACL SETUSER looker on >secret ~* +info +scan +dehydrator.info");
    let url = format!("redis://looker:secret@127.0.0.1:{}", server.port());
    let (mut watch, mut model) =
        (Watch::new(redis::Client::open(url).expect("a url")), Model::default());
    watch.refresh(&mut model, SECOND);
    assert_eq!((model.trouble.clone(), model.parts.schedules.all.len()), (None, 0));
    assert!(words(&drawn_in(80, &model)).contains("TTLs of jobs:schedules"));
}
