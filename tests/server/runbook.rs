//! What docs/operations.md tells an operator to do, done to the letter: its shell lines are run, by a `redis-cli`, a
//! `sudo` and a `systemctl` that know the test's server.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command};

use redis::{Connection, Value};

use harness::{Ask, Server, cli_program, cmd, release_module, text, until};

const PAGE: &str = "docs/operations.md";
const CONF: &str = "own.conf";
/// Keys enough that a server which dawdles at each has not written them before it can be killed.
const KEYS: u64 = 100;
const ELEMENTS: u64 = 100_000;

/// The page's block of shell lines in which there are these words.
fn block(words: &str) -> String {
    let page = fs::read_to_string(PAGE).expect("the page");
    let blocks = page.split("```sh\n").skip(1).filter_map(|block| block.split("```").next());
    let found = blocks.filter(|block| block.contains(words)).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(found.len(), 1, "{words} is in these blocks of the page: {found:?}");
    found[0].clone()
}

/// Runs shell lines as an operator of Debian's redis-server would, if that were this server.
fn begin(server: &Server, lines: &str) -> Child {
    let bin = server.file("bin");
    fs::create_dir_all(&bin).expect("a folder");
    // By the path from before there were these: `redis-cli` would be the one below.
    let path = std::env::var("PATH").expect("a path");
    let socket = server.file("redis.sock");
    let cli = format!("PATH='{path}' '{}' -s '{}'", cli_program().display(), socket.display());
    // What systemctl sends is SIGTERM. The start is for the test.
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
        .replace("/var/lib/redis/", &folder.display().to_string());
    let mut shell = Command::new("timeout");
    shell.args(["60", "sh", "-euc", &lines]).env("PATH", format!("{}:{path}", bin.display()));
    shell.current_dir(server.file(""));
    shell.spawn().expect("a shell")
}

fn run(server: &Server, lines: &str) {
    let status = begin(server, lines).wait().expect("a child");
    assert!(status.success(), "{status}: {lines}");
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
fn the_append_only_file_is_turned_on_as_the_page_says_and_a_kill_at_any_moment_loses_nothing() {
    let mut server = start("save 3600 1\n");
    let mut client = server.connect();
    fill(&mut client);
    client.ask("SAVE");
    // So that there are moments to choose from.
    let slowly = "CONFIG SET rdb-key-save-delay 5000";
    client.ask(slowly);
    let on = block("CONFIG SET appendonly yes");

    let mut shell = begin(&server, &on);
    until("the file is being written", || {
        (client.info("persistence", "aof_rewrite_in_progress") == 1).then_some(())
    });
    server.kill();
    // Not by SIGKILL: `timeout` hands this on.
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
fn a_server_that_started_empty_gets_its_data_back_as_the_page_says() {
    let mut server = start("save 3600 1\nappendonly no\n");
    fill(&mut server.connect());
    server.restart();
    edit(&server, |conf| conf.replace("appendonly no", "appendonly yes"));
    server.crash_and_restart();
    assert_eq!(elements(&server), 0, "this is what the page warns of");
    // Somebody notices late.
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
fn a_backup_is_made_and_loaded_as_the_page_says() {
    let mut server = start("save 3600 1\nappendonly yes\n");
    fill(&mut server.connect());
    run(&server, "redis-cli --rdb /var/lib/redis/backup");
    server.connect().ask("FLUSHALL");
    let lines = block("rescued.rdb")
        .replace("cp -p /var/lib/redis/dump.rdb", "cp -p /var/lib/redis/backup");
    run(&server, &lines);
    server.wait_until_ended();
    server.relaunch();
    assert_eq!(elements(&server), ELEMENTS);
    run(&server, &block("CONFIG SET appendonly yes"));
    server.crash_and_restart();
    assert_eq!(elements(&server), ELEMENTS);
}

/// Uninstalls by the page a server whose users were made by the page, and starts it without the module.
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
    // And some by hand: a selector, what the default user may not do, a category where there is one.
    client.ask("ACL SETUSER chosen on >secret ~a* +get (~jobs:* +DEHYDRATOR.POLL +set)");
    client.ask("ACL SETUSER default -dehydrator.lease");
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
    let out = [block("TYPE dehy-type"), block("UNLINK \"$key\"")];
    for (database, out) in ["0", "3"].into_iter().flat_map(|it| out.clone().map(|out| (it, out))) {
        let mut out = out;
        for name in ["-n ", "keys-", "elements-"] {
            out = out.replace(&format!("{name}0"), &format!("{name}{database}"));
        }
        run(&server, &out);
    }
    // Byte for byte: not all of them are text.
    let read = |name: &str| {
        let bytes = fs::read(server.file(name)).expect("a file");
        bytes.into_iter().map(char::from).collect::<String>()
    };
    assert_eq!(read("keys-0"), " a key\njobs\n");
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
    let waiting = waiting.replace("redis-cli CONFIG REWRITE\n", "");
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
    // The users are there, and may do what else they might.
    client.ask("AUTH worker secret2");
    client.ask("SADD {jobs}:done 1");
    client.ask("AUTH chosen secret");
    client.ask("SET jobs:1 value");
    client.ask("GET a");
}

#[test]
fn a_server_starts_after_the_module_was_uninstalled_as_the_page_says() {
    uninstalled(false);
}

#[test]
fn a_server_with_an_aclfile_starts_after_the_module_was_uninstalled_as_the_page_says() {
    uninstalled(true);
}
