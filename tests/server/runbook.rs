//! The procedures of docs/operations.md, run literally: their shell lines, with a `redis-cli`, a `sudo` and a
//! `systemctl` that use the test's server.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::process::{Child, Command};

use redis::{Connection, Value};

use harness::{
    Ask, Server, cli_program, cmd, free_port, release_module, server_program, text, until,
};

const PAGE: &str = "docs/operations.md";
const CONF: &str = "own.conf";
/// Enough keys that a server that delays at each has not written them all before it can be killed.
const KEYS: u64 = 100;
const ELEMENTS: u64 = 100_000;

/// Returns the page's block of shell lines that contains these words.
fn block(words: &str) -> String {
    let page = fs::read_to_string(PAGE).expect("the page");
    let blocks = page.split("```sh\n").skip(1).filter_map(|block| block.split("```").next());
    let found = blocks.filter(|block| block.contains(words)).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(found.len(), 1, "{words} is in these blocks of the page: {found:?}");
    found[0].clone()
}

/// Runs shell lines like an operator of Debian's redis-server, as if that were this server.
fn begin(server: &Server, lines: &str) -> Child {
    let bin = server.file("bin");
    fs::create_dir_all(&bin).expect("a folder");
    // With the original path: `redis-cli` would be the wrapper below.
    let path = std::env::var("PATH").expect("a path");
    let socket = server.file("redis.sock");
    let cli = format!("PATH='{path}' '{}' -s '{}'", cli_program().display(), socket.display());
    // systemctl sends SIGTERM. The start is for the test.
    let stop = format!(
        "[ $1 = start ] || kill -TERM {}; while {cli} PING >/dev/null 2>&1 && [ $1 = stop ]; do sleep 0.02; done",
        server.pid()
    );
    let programs =
        [("redis-cli", format!("{cli} \"$@\"")), ("sudo", "\"$@\"".into()), ("systemctl", stop)];
    for (name, line) in programs {
        let program = bin.join(name);
        fs::write(&program, format!("#!/bin/sh\n{line}\n")).expect("a program");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("it is executable");
    }
    let folder = server.file("");
    let lines = lines
        .replace("/etc/redis/redis.conf", &server.file(CONF).display().to_string())
        .replace("/var/lib/redis", &folder.display().to_string());
    let mut shell = Command::new("timeout");
    shell.args(["60", "sh", "-euc", &lines]).env("PATH", format!("{}:{path}", bin.display()));
    shell.current_dir(server.file(""));
    shell.spawn().expect("a shell")
}

fn run(server: &Server, lines: &str) {
    let status = begin(server, lines).wait().expect("a child");
    assert!(status.success(), "{status}: {lines}");
}

/// Runs shell lines in the server's folder, with the system's own programs.
fn run_elsewhere(server: &Server, lines: &str) {
    let mut shell = Command::new("timeout");
    let status = shell.args(["60", "sh", "-euc", lines]).current_dir(server.file("")).status();
    assert!(status.is_ok_and(|it| it.success()), "{lines}");
}

fn start(more: &str) -> Server {
    let module = release_module();
    Server::start_with_configuration(&format!("loadmodule {}\n{more}", module.display()))
}

fn edit(server: &Server, change: impl FnOnce(String) -> String) {
    let conf = server.file(CONF);
    let text = fs::read_to_string(&conf).expect("a configuration");
    fs::write(conf, change(text)).expect("a configuration");
}

fn fill(client: &mut Connection) {
    let mut pipe = redis::pipe();
    for number in 0..ELEMENTS {
        let key = format!("k{}", number % KEYS);
        pipe.cmd("DEHYDRATOR.PUSH").arg(key).arg(600_000).arg("element").arg(number).ignore();
    }
    pipe.exec(client).expect("pushes");
}

fn elements(server: &Server) -> u64 {
    server.info("dehydrator", "dehydrator_elements")
}

#[test]
fn the_append_only_file_is_turned_on_as_the_page_shows_and_a_kill_at_any_moment_loses_nothing() {
    let mut server = start("save 3600 1\n");
    let mut client = server.connect();
    fill(&mut client);
    client.ask("SAVE");
    // To have moments to choose from.
    let slowly = "CONFIG SET rdb-key-save-delay 5000";
    client.ask(slowly);
    let on = block("CONFIG SET appendonly yes");

    let mut shell = begin(&server, &on);
    until("the file is being written", || {
        (client.info("persistence", "aof_rewrite_in_progress") == 1).then_some(())
    });
    server.kill();
    // Not with SIGKILL: `timeout` forwards this signal.
    let pid = rustix::process::Pid::from_child(&shell);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("a child");
    shell.wait().expect("a child");
    server.relaunch();
    assert_eq!(elements(&server), ELEMENTS);

    client = server.connect();
    client.ask(slowly);
    run(&server, &on);
    client.ask("DEHYDRATOR.PUSH k0 600000 element last");
    server.crash_and_restart();
    assert_eq!(elements(&server), ELEMENTS + 1);
    assert_eq!(server.info("persistence", "aof_enabled"), 1);
}

#[test]
fn the_lines_that_turn_it_on_end_with_an_error_if_a_password_is_missing() {
    let server = start("save 3600 1\n");
    server.connect().ask("CONFIG SET requirepass secret");
    let status = begin(&server, &block("CONFIG SET appendonly yes")).wait().expect("a child");
    assert!(!status.success());
    let conf = fs::read_to_string(server.file(CONF)).expect("a configuration");
    assert!(!conf.contains("CONFIG REWRITE"), "{conf}");
    run(&server, &format!("export REDISCLI_AUTH=secret\n{}", block("CONFIG SET appendonly yes")));
    let conf = fs::read_to_string(server.file(CONF)).expect("a configuration");
    assert!(conf.contains("appendonly yes"), "{conf}");
}

#[test]
fn a_server_that_started_empty_gets_its_data_back_as_the_page_shows() {
    let mut server = start("save 3600 1\nappendonly no\n");
    fill(&mut server.connect());
    server.restart();
    edit(&server, |conf| conf.replace("appendonly no", "appendonly yes"));
    server.crash_and_restart();
    assert_eq!(elements(&server), 0, "this is what the page warns of");
    // The operator notices late.
    server.connect().ask("SET something else");

    run(&server, &block("rescued.rdb"));
    server.wait_until_ended();
    server.relaunch();
    assert_eq!(elements(&server), ELEMENTS);
    run(&server, &block("CONFIG SET appendonly yes"));
    server.connect().ask("DEHYDRATOR.PUSH k0 600000 element last");
    server.crash_and_restart();
    assert_eq!(elements(&server), ELEMENTS + 1);
}

#[test]
fn a_backup_is_made_and_loaded_as_the_page_shows() {
    let mut server = start("save 3600 1\nappendonly yes\n");
    fill(&mut server.connect());
    run(&server, "umask 077; redis-cli --rdb /var/lib/redis/backup");
    server.connect().ask("FLUSHALL");
    // As on Debian, where the folder does not belong to the operator.
    let folder = server.file("");
    if rustix::process::geteuid().is_root() {
        chown(&folder, Some(65_534), Some(65_534)).expect("root may");
    }
    let lines =
        block("rescued.rdb").replace("cp /var/lib/redis/dump.rdb", "cp /var/lib/redis/backup");
    run(&server, &lines);
    let owner = |name: &str| server.file(name).metadata().expect("a file").uid();
    assert_eq!(owner("dump.rdb"), owner(""), "the server may read it");
    assert_eq!(
        fs::read(server.file("rescued.rdb")).expect("the copy is kept"),
        fs::read(server.file("backup")).expect("a file")
    );
    server.wait_until_ended();
    server.relaunch();
    assert_eq!(elements(&server), ELEMENTS);
    run(&server, &block("CONFIG SET appendonly yes"));
    server.crash_and_restart();
    assert_eq!(elements(&server), ELEMENTS);
}

#[test]
fn a_drill_counts_the_contents_of_a_backup() {
    let server = start("");
    let mut client = server.connect();
    // Due elements are still there when they are counted.
    client.ask("DEHYDRATOR.ONDUE k DROP");
    client.ask("DEHYDRATOR.PUSH k 3000 element one");
    client.ask("DEHYDRATOR.PUSH other 600000 element two");
    let page = fs::read_to_string(PAGE).expect("the page");
    let user =
        page.lines().find_map(|line| line.split_once("> ACL SETUSER backup")).expect("a user");
    client.ask(&format!("ACL SETUSER backup{}", user.1));
    run(&server, "redis-cli --user backup --pass secret4 --rdb backup.rdb");
    until("it is due", || (client.ask("DEHYDRATOR.LEN k") == Value::Int(0)).then_some(()));
    // Another server than that of `run`.
    let cli = |arguments: &str| format!("'{}' {arguments}", cli_program().display());
    let lines = block("mkdir drill")
        .replace("redis-server ", &format!("'{}' ", server_program().display()))
        .replace("/usr/lib/redis/modules/libdehydrator.so", &release_module().display().to_string())
        .replace("redis-cli ", &cli(""))
        .replace("6390", &free_port().to_string());
    run_elsewhere(&server, &format!("({lines}) >counted"));
    let counted = fs::read_to_string(server.file("counted")).expect("what it prints");
    let counted = counted.replace('\r', "");
    // Some servers first warn about the machine.
    assert!(counted.ends_with("dehydrator_dehydrators:2\ndehydrator_elements:2\n"), "{counted}");
}

#[test]
fn tls_is_turned_on_as_the_page_shows() {
    // Without a certificate, a server exits; one built without TLS says so.
    let arguments = ["--port", "0", "--tls-port", &free_port().to_string()];
    let said = Command::new(server_program()).args(arguments).output().expect("a server").stdout;
    if !String::from_utf8_lossy(&said).contains("Failed to configure TLS") {
        return;
    }
    let mut server = start("");
    let port = free_port();
    let lines = block("tls-port 6379")
        .replace("6379", &port.to_string())
        .replace("/etc/redis/tls", &server.file("").display().to_string());
    run(
        &server,
        "openssl req -x509 -newkey rsa:2048 -nodes -keyout server.key -out server.crt -subj /CN=here -days 1 2>/dev/null
         cp server.crt ca.crt",
    );
    run(&server, &lines);
    server.wait_until_ended();
    server.relaunch();
    let tls = format!("-p {port} --tls --cacert ca.crt --insecure PING");
    run_elsewhere(&server, &format!("'{}' {tls} | grep PONG", cli_program().display()));
}

/// Runs shell lines like [`run`], as the operator of the page, and returns their output.
fn printed_to_the_operator(server: &Server, lines: &str) -> String {
    let page = fs::read_to_string(PAGE).expect("the page");
    let user =
        page.lines().find_map(|line| line.split_once("> ACL SETUSER operator")).expect("a user");
    server.connect().ask(&format!("ACL SETUSER operator{}", user.1));
    let lines =
        lines.replace("redis-cli", "redis-cli --user operator --pass secret3 --no-auth-warning");
    // A pipe: `tee` would truncate a file.
    run(server, &format!("({lines}) 2>&1 | cat >printed"));
    fs::read_to_string(server.file("printed")).expect("what it prints")
}

#[test]
fn elements_due_before_a_moment_are_removed_as_the_page_shows() {
    let server = start("");
    let mut client = server.connect();
    let mut pipe = redis::pipe();
    for id in 0..2500 {
        let deadline = 1_794_999_998_500_u64 + id;
        pipe.cmd("DEHYDRATOR.PUSH")
            .arg("jobs")
            .arg(0)
            .arg("x")
            .arg(id)
            .arg("AT")
            .arg(deadline)
            .ignore();
    }
    pipe.exec(&mut client).expect("pushes");
    let lines = block("'DEHYDRATOR.REM'");
    assert_eq!(printed_to_the_operator(&server, &lines), "1000\n501\n0\n");
    assert_eq!(client.ask("DEHYDRATOR.LEN jobs"), Value::Int(999));
    client.ask("DEL jobs");
    client.ask("SET jobs text");
    assert!(printed_to_the_operator(&server, &lines).contains("WRONGTYPE"));
}

#[test]
fn leases_from_a_clock_that_was_ahead_are_moved_back_as_the_page_shows() {
    let server = Server::start_with_clock(&[]);
    let mut client = server.connect();
    for (id, ttl) in [("before", 0), ("meanwhile", 600_000), ("waits", 9_000_000)] {
        client.ask(&format!("DEHYDRATOR.PUSH jobs {ttl} x {id}"));
    }
    client.ask("DEHYDRATOR.POLL jobs LEASE 7200000");
    server.shift_clock(1_800_000);
    client.ask("DEHYDRATOR.POLL jobs LEASE 300000");
    server.shift_clock(0);
    let mut minutes = || {
        ["before", "meanwhile", "waits"].map(|id| {
            let Value::Int(ttl) = client.ask(&format!("DEHYDRATOR.PTTL jobs {id}")) else {
                panic!("a ttl")
            };
            (ttl + 30_000) / 60_000
        })
    };
    assert_eq!(minutes(), [120, 35, 150], "this is what the page warns of");
    for _ in 0..2 {
        printed_to_the_operator(&server, &block("'DEHYDRATOR.TOUCH'"));
        assert_eq!(minutes(), [120, 5, 150]);
    }
}

/// Uninstalls from a server, whose users were created as on the page, as the page describes, and starts it without the
/// module.
fn uninstalled(aclfile: bool) {
    let mut server = start("save 3600 1\nappendonly yes\ndehydrator.max-ttl 700000\n");
    if aclfile {
        let acl = server.file("users.acl");
        fs::write(&acl, "").expect("a file");
        edit(&server, |conf| format!("{conf}aclfile {}\n", acl.display()));
        server.restart();
    }
    let mut client = server.connect();
    client.ask("CONFIG SET dehydrator.max-elements 100");
    let page = fs::read_to_string(PAGE).expect("the page");
    let users = page.lines().filter_map(|line| line.split_once("> ACL SETUSER "));
    let mut made = 0;
    for (_, user) in users {
        client.ask(&format!("ACL SETUSER {user}"));
        made += 1;
    }
    assert!(made >= 3, "the page has {made} users");
    // And some created by hand: a selector, a restricted default user, a category where there is one.
    client.ask("ACL SETUSER chosen on >secret ~a* +get (~jobs:* +DEHYDRATOR.POLL +set)");
    client.ask("ACL SETUSER default -dehydrator.renew");
    let _ = cmd("ACL SETUSER all on >secret ~* +@read +@dehydrator").query::<Value>(&mut client);
    client.ask(if aclfile { "ACL SAVE" } else { "CONFIG REWRITE" });
    server.restart();
    client = server.connect();
    assert_eq!(client.ask("ACL DRYRUN worker DEHYDRATOR.POLL {jobs}"), Value::Okay, "they last");
    client.ask("DEHYDRATOR.PUSH jobs 600000 element id");
    cmd("DEHYDRATOR.PUSH")
        .arg(" a key")
        .arg(0)
        .arg(b"\x00\xff")
        .arg("a\"b")
        .arg("AT")
        .arg(5)
        .exec(&mut client)
        .expect("push");
    client.ask("SELECT 3");
    client.ask("DEHYDRATOR.PUSH jobs 600000 element id");
    client.ask("DEHYDRATOR.PUSH jobs 600000 element two");
    client.ask("SET kept value");

    // Step 1, in each database, and 2. The limit must not hold back any of the elements.
    client.ask("CONFIG SET dehydrator.reply-max 1");
    let run_in_each = |lines: &str| {
        for database in ["0", "3"] {
            let mut lines = lines.to_owned();
            for name in ["-n ", "keys-", "elements-"] {
                lines = lines.replace(&format!("{name}0"), &format!("{name}{database}"));
            }
            run(&server, &lines);
        }
    };
    run_in_each(&block("TYPE dehy-type"));
    run(&server, &format!("({}) >counts", block("reduce inputs")));
    run_in_each(&block("UNLINK \"$key\""));
    // Byte for byte: not all of them are text.
    let read = |name: &str| {
        let bytes = fs::read(server.file(name)).expect("a file");
        bytes.into_iter().map(char::from).collect::<String>()
    };
    assert_eq!(read("keys-0"), " a key\njobs\n");
    assert_eq!(read("counts"), "4\ndehydrator_elements:4\r\n");
    let elements = read("elements-0.json");
    let (first, second) = elements.split_once('\n').expect("two lines");
    assert_eq!(first, "[null,[[\"a\\\"b\",5,0,0,0,\"\\u0000\u{ff}\"]]]");
    assert!(
        second.starts_with(r#"[null,[["id","#) && second.ends_with(",\"element\"]]]\n"),
        "{second}"
    );
    assert!(read("elements-3.json").contains(r#",["two",1"#));
    assert_eq!(server.info("dehydrator", "dehydrator_dehydrators"), 0);
    client.ask("BGREWRITEAOF");
    let waiting = block("CONFIG SET appendonly yes");
    let (_, waiting) = waiting.split_once('\n').expect("lines");
    let waiting = waiting.replace(" && redis-cli CONFIG REWRITE", "");
    run(&server, &waiting);
    client.ask("SAVE");
    // Step 3 and 4.
    let sed = block("loadmodule .*libdehydrator");
    run(&server, &sed);
    if aclfile {
        run(&server, &sed.replace("/etc/redis/redis.conf", "/var/lib/redis/users.acl"));
    }
    server.restart();
    client = server.connect();
    assert!(client.refused("DEHYDRATOR.HELP").contains("unknown command"));
    client.ask("SELECT 3");
    assert_eq!(client.ask("GET kept"), text("value"));
    // The users exist, and keep their other permissions.
    client.ask("AUTH worker secret2");
    client.ask("SADD {jobs}:done 1");
    client.ask("AUTH chosen secret");
    client.ask("SET jobs:1 value");
    client.ask("GET a");
}

#[test]
fn a_server_starts_after_the_module_was_uninstalled_as_the_page_shows() {
    uninstalled(false);
}

#[test]
fn a_server_with_an_aclfile_starts_after_the_module_was_uninstalled_as_the_page_shows() {
    uninstalled(true);
}
