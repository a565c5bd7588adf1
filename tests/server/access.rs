//! ACL users with few permissions: those of docs/operations.md, and selectors.

use std::fs;
use std::process::Command;

use redis::{Connection, Value};

use harness::{Ask, Server, cli_program, cmd, text, texts, until};

use crate::sleeper::Sleeper;

/// Creates the users of the page.
fn users_of_the_page(client: &mut Connection) {
    let page = fs::read_to_string("docs/operations.md").expect("the page");
    for line in page.lines().filter_map(|line| line.split_once("> ACL SETUSER ")) {
        client.ask(&format!("ACL SETUSER {}", line.1));
    }
}

fn connect_as(server: &Server, user: &str) -> Connection {
    let mut client = server.connect();
    client.ask(&format!("AUTH {user}"));
    client
}

#[test]
fn the_users_of_the_page_can_do_their_work_and_nothing_else() {
    let server = Server::start(&[]);
    users_of_the_page(&mut server.connect());
    let mut producer = connect_as(&server, "producer secret1");
    let mut worker = connect_as(&server, "worker secret2");
    let mut operator = connect_as(&server, "operator secret3");

    // Like the workers in examples/workers: dead letters, one job that succeeds, and one that fails.
    worker.ask("DEHYDRATOR.ONDUE {jobs} HOLD DELIVERIES 2 STREAM {jobs}:dead");
    producer.ask("DEHYDRATOR.PUSH {jobs} 0 element one");
    producer.ask("DEHYDRATOR.MPUSH {jobs} 1 element two 600000 element three");
    let poll = "DEHYDRATOR.POLL {jobs} COUNT 1 BLOCK 5000 LEASE 60000 TOKEN token";
    let Value::Array(given) = worker.ask(poll) else { panic!("an array") };
    assert_eq!(given.len(), 1);
    assert_eq!(
        worker.ask("DEHYDRATOR.RENEW {jobs} 60000 token one"),
        Value::Array(vec![Value::Int(1)])
    );
    worker.ask("SADD {jobs}:done one");
    worker.ask("DEHYDRATOR.SETTLE {jobs} token one");
    for _ in 0..2 {
        worker.ask("DEHYDRATOR.POLL {jobs} COUNT 1 BLOCK 5000 LEASE 60000 TOKEN token");
        worker.ask("DEHYDRATOR.RELEASE {jobs} 0 token two");
    }
    worker.ask("DEHYDRATOR.POLL {jobs} COUNT 1 BLOCK 1 LEASE 60000 TOKEN token");
    assert_eq!(server.connect().ask("XLEN {jobs}:dead"), Value::Int(1));
    assert_eq!(producer.ask("DEHYDRATOR.REM {jobs} three"), Value::Int(1));

    producer.ask("DEHYDRATOR.PUSH {jobs} 600000 element four");
    for line in ["INFO", "SCAN 0 TYPE dehy-type", "TYPE {jobs}"] {
        operator.ask(line);
    }
    for line in
        ["INFO {jobs}", "RANGE {jobs} - +", "LOOK {jobs} four", "PAUSE {jobs}", "RESUME {jobs}"]
    {
        operator.ask(&format!("DEHYDRATOR.{line}"));
    }

    for (client, lines) in [
        (&mut producer, &["DEHYDRATOR.POLL {jobs}", "DEHYDRATOR.PUSH other 0 element id"][..]),
        (&mut worker, &["DEHYDRATOR.PUSH {jobs} 0 element id", "DEHYDRATOR.POLL other", "KEYS *"]),
        (&mut operator, &["CONFIG GET dir", "DEHYDRATOR.POLL {jobs}", "DEL {jobs}"]),
    ] {
        for line in lines {
            let refused = client.refused(line);
            assert!(refused.starts_with("NOPERM"), "{line}: {refused}");
        }
    }
}

#[test]
fn a_user_can_get_all_commands_by_name_as_the_page_shows() {
    let server = Server::start(&[]);
    let page = fs::read_to_string("docs/operations.md").expect("the page");
    let line = page.lines().find(|line| line.contains("COMMAND LIST FILTERBY")).expect("a line");
    let cli = format!("'{}' -s '{}'", cli_program().display(), server.file("redis.sock").display());
    let line = line.replace("redis-cli", &cli);
    assert!(Command::new("sh").args(["-ec", &line]).status().expect("a shell").success());
    let mut user = connect_as(&server, "app secret");
    user.ask("DEHYDRATOR.PUSH jobs:1 0 element id");
    assert_eq!(user.ask("DEHYDRATOR.POLL jobs:1"), texts(&["element"]));
    let refused = user.refused("GET jobs:1");
    assert!(refused.starts_with("NOPERM"), "{refused}");
}

#[test]
fn a_selector_grants_a_command_for_its_own_keys_only() {
    let (server, mut client) = Server::with_client(&[]);
    client.ask(
        "ACL SETUSER chosen on nopass resetkeys -@all ~other* +get (~jobs:* +DEHYDRATOR.POLL +DEHYDRATOR.MPOLL) \
         (%R~seen:* +DEHYDRATOR.LOOK +DEHYDRATOR.POLL) (~from +DEHYDRATOR.ONDUE) (~from ~to +DEHYDRATOR.ONDUE &news)",
    );
    for key in ["jobs:1", "jobs:2", "seen:1", "other", "from"] {
        client.ask(&format!("DEHYDRATOR.PUSH {key} 0 element id"));
    }
    let mut user = connect_as(&server, "chosen any");
    assert_eq!(user.ask("DEHYDRATOR.POLL jobs:1 BLOCK 1"), texts(&["element"]));
    user.ask("DEHYDRATOR.MPOLL 2 jobs:1 jobs:2");
    assert_eq!(user.ask("DEHYDRATOR.LOOK seen:1 id"), text("element"));
    // No stream except its own, and no channel except its own.
    user.ask("DEHYDRATOR.ONDUE from HOLD DELIVERIES 5 STREAM to");
    user.ask("DEHYDRATOR.ONDUE from LIST to LEFT");
    user.ask("DEHYDRATOR.ONDUE from PUBLISH news");
    for line in [
        "POLL other",
        "POLL seen:1",
        "MPOLL 2 jobs:1 other",
        "LOOK jobs:2 id",
        "PUSH jobs:1 0 element id",
        "ONDUE from STREAM jobs:1",
        "ONDUE from HOLD DELIVERIES 5 STREAM other",
        "ONDUE from LIST other",
        "ONDUE from HOLD DELIVERIES 5 LIST other LEFT",
        "ONDUE from PUBLISH olds",
    ] {
        let refused = user.refused(&format!("DEHYDRATOR.{line}"));
        assert!(refused.starts_with("NOPERM"), "{line}: {refused}");
    }
    assert_eq!(client.ask("DEHYDRATOR.LEN seen:1"), Value::Int(1));
}

#[test]
fn late_lists_only_what_its_user_may_read() {
    let (server, mut client) = Server::with_client(&[]);
    for (user, rights) in [
        ("all", "~* +@all"),
        ("some", "~mine:* +DEHYDRATOR.LATE"),
        ("some-more", "~mine:* +DEHYDRATOR.LATE +DEHYDRATOR.INFO"),
        ("reader", "%R~mine:* %W~* +@all"),
        ("nobody", "+@all"),
    ] {
        client.ask(&format!("ACL SETUSER {user} on nopass {rights}"));
    }
    // More keys of others that are older than all that LATE shows by default.
    for number in 0..20 {
        client.ask(&format!("DEHYDRATOR.PUSH others:{number} 0 element id"));
        client.ask(&format!("DEHYDRATOR.PUSH mine:{number} 1 element id"));
    }
    let listed = |user: &str| -> Vec<String> {
        let rows: Vec<(Option<String>, Value, Value, Value)> =
            cmd("DEHYDRATOR.LATE COUNT 50").query(&mut connect_as(&server, user)).expect("rows");
        rows.into_iter().flat_map(|row| row.0).collect()
    };
    until("all are late, and found", || (listed("all any").len() == 40).then_some(()));
    assert_eq!(listed("nobody any"), [""; 0]);
    for user in ["some-more", "reader"] {
        let listed = listed(&format!("{user} any"));
        assert!(listed.len() == 20 && listed.iter().all(|key| key.starts_with("mine:")), "{user}");
    }
    // Permissions for databases, where there are some, need the command with a key.
    let has_dbs =
        cmd("ACL SETUSER first on nopass ~* +@all resetdbs db=0").exec(&mut client).is_ok();
    assert_eq!(listed("some any").len(), if has_dbs { 0 } else { 20 });
    if has_dbs {
        let mut other = connect_as(&server, "default any");
        other.ask("SELECT 3");
        other.ask("DEHYDRATOR.PUSH elsewhere 0 element id");
        let all = || listed("all any");
        until("it is late too", || all().contains(&"elsewhere".to_owned()).then_some(()));
        let first = listed("first any");
        assert!(first.len() == 40 && !first.contains(&"elsewhere".to_owned()), "{first:?}");
    }
    // A user may ask without a refusal in the server's log of them.
    assert_eq!(client.ask("ACL LOG"), Value::Array(vec![]));
}

#[test]
fn late_is_for_all_shards_of_a_cluster() {
    let server = Server::start(&[]);
    let reply = format!("{:?}", server.connect().ask("COMMAND INFO DEHYDRATOR.LATE"));
    for tip in ["request_policy:all_shards", "response_policy:special"] {
        assert!(reply.contains(tip), "{reply}");
    }
}

#[test]
fn permissions_revoked_from_a_blocked_client_count_when_it_is_served() {
    let (server, mut client) = Server::with_client(&[]);
    client.ask("ACL SETUSER eve on nopass ~k ~k2 +@all");
    client.ask("ACL SETUSER adam on nopass ~k +@all");
    let with_key =
        Sleeper::start_with(&server, connect_as(&server, "eve any"), "DEHYDRATOR.POLL k BLOCK 0");
    let with_two = Sleeper::start_with(
        &server,
        connect_as(&server, "eve any"),
        "DEHYDRATOR.MPOLL 2 k k2 BLOCK 0 LEASE 60000",
    );
    let without_command =
        Sleeper::start_with(&server, connect_as(&server, "adam any"), "DEHYDRATOR.POLL k BLOCK 0");
    let allowed = Sleeper::start(&server, "DEHYDRATOR.POLL k BLOCK 0");
    client.ask("ACL SETUSER eve resetkeys ~k2");
    client.ask("ACL SETUSER adam -dehydrator.poll");
    client.ask("DEHYDRATOR.PUSH k 0 element id");
    for refused in [with_key, with_two, without_command] {
        let error = refused.error();
        assert!(error.starts_with("NoPerm: "), "{error}");
    }
    assert_eq!(allowed.reply(), texts(&["element"]));
    assert_eq!(client.ask("DEHYDRATOR.LEN k"), Value::Int(0));
}

/// The stream of dead letters belongs to whoever set the policy: a worker neither reads nor writes it itself.
#[test]
fn a_worker_needs_nothing_but_our_commands_on_its_key() {
    let (server, mut client) = Server::with_client(&[]);
    let commands: Vec<String> = client.verbs().into_iter().map(|it| it.to_lowercase()).collect();
    let rights = commands.iter().map(|verb| format!("+dehydrator.{verb}")).collect::<Vec<_>>();
    client.ask(&format!(
        "ACL SETUSER worker on >secret resetkeys resetchannels ~jobs -@all {}",
        rights.join(" ")
    ));
    client.ask("DEHYDRATOR.ONDUE jobs HOLD DELIVERIES 5 STREAM dead");
    client.ask("DEHYDRATOR.MPUSH jobs 0 A a 0 B b 0 C c 0 D d");
    let mut worker = connect_as(&server, "worker secret");
    for line in [
        "XRANGE dead - +",
        "DEHYDRATOR.ONDUE jobs NX HOLD DELIVERIES 9 STREAM dead",
        "SUBSCRIBE __cancelled@0__:jobs",
        "DEHYDRATOR.PUSH others 0 element id",
    ] {
        assert!(worker.refused(line).starts_with("NOPERM"), "{line}");
    }
    worker.ask("DEHYDRATOR.ONDUE jobs NX HOLD DELIVERIES 9 DROP");
    worker.ask("DEHYDRATOR.POLL jobs LEASE 60000 TOKEN t");
    let one = Value::Array(vec![Value::Int(1)]);
    for line in [
        "RENEW jobs 60000 t c",
        "SETTLE jobs t c",
        "RELEASE jobs 0 t d UNCOUNTED",
        "EVERY jobs 60000 element name MISSED ALL",
        "PAUSE jobs SCHEDULE name",
        "RESUME jobs SCHEDULE name",
        "SCHEDULES jobs name",
        "UNSCHEDULE jobs name",
    ] {
        let reply = worker.ask(&format!("DEHYDRATOR.{line}"));
        let done = [one.clone(), Value::Int(1), Value::Okay].contains(&reply);
        let done = done || line.starts_with("SCHEDULES");
        assert!(done, "{line}: {reply:?}");
    }
    assert_eq!(worker.ask("DEHYDRATOR.RELEASE jobs 60000 t a ELEMENT again REASON timeout"), one);
    assert_eq!(worker.ask("DEHYDRATOR.REJECT jobs t b REASON no-such-user"), one);
    assert_eq!(client.ask("XLEN dead"), Value::Int(1));
    let revived = worker.ask("DEHYDRATOR.REVIVE jobs");
    assert_eq!(revived, Value::Array(vec![Value::Int(1), Value::Nil]));
    assert_eq!(client.ask("XLEN dead"), Value::Int(0));
    // One more right, to hear at once of cancelled jobs.
    client.ask("ACL SETUSER worker +subscribe &__cancelled@*");
    worker.ask("SUBSCRIBE __cancelled@0__:jobs");
}
