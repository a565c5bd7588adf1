//! `make run` without the build: the script that starts the server.

use std::fs;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

use redis::{Connection, Value};
use tempfile::TempDir;

use harness::{Ask, free_port, text, until};

struct Run {
    process: Child,
    port: u16,
}

impl Run {
    fn start(data: &TempDir, port: u16) -> Self {
        Self::start_with(data, port, &[])
    }

    fn start_with(data: &TempDir, port: u16, options: &[&str]) -> Self {
        let output = fs::File::create(data.path().join("output")).expect("a file");
        let process = Command::new("scripts/run.sh")
            .env("PORT", port.to_string())
            .env("DATA", data.path().join("data"))
            .args(options)
            .stdout(output)
            .stderr(Stdio::null())
            .spawn()
            .expect("the script");
        Self { process, port }
    }

    fn connect(&self) -> Connection {
        let client = redis::Client::open(("127.0.0.1", self.port)).expect("an address");
        until("the server is up", || {
            let mut connection = client.get_connection().ok()?;
            redis::cmd("PING").query::<Value>(&mut connection).ok().map(|_| connection)
        })
    }

    /// Stops it like Ctrl-C.
    fn interrupt(mut self) {
        let kill = format!("kill -INT {}", self.process.id());
        Command::new("sh").args(["-c", &kill]).status().expect("a shell");
        until("the server ends", || self.process.try_wait().expect("a child"));
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn a_server_that_is_stopped_and_restarted_keeps_everything() {
    let data = TempDir::new().expect("a folder");
    let port = free_port();
    let run = Run::start(&data, port);
    let mut client = run.connect();
    client.ask("DEHYDRATOR.PUSH k 600000 element id");
    client.ask("DEHYDRATOR.PUSH k 600000 another id2");
    client.ask("DEHYDRATOR.PULL k id2");
    // This writes a loadmodule line, and the module must not be loaded twice.
    client.ask("CONFIG SET dehydrator.max-ttl 700000");
    client.ask("CONFIG REWRITE");
    let before = client.ask("DEHYDRATOR.TTN k");
    run.interrupt();

    let printed = fs::read_to_string(data.path().join("output")).expect("output");
    assert!(printed.contains(&format!("redis-cli -p {port}")), "{printed}");
    let run = Run::start(&data, port);
    client = run.connect();

    // A second server on the same folder would destroy the files of the first.
    let second = Command::new("scripts/run.sh")
        .env("PORT", free_port().to_string())
        .env("DATA", data.path().join("data"))
        .output()
        .expect("the script");
    assert!(!second.status.success());
    assert!(String::from_utf8_lossy(&second.stderr).contains("A server is using"), "{second:?}");

    assert_eq!(client.ask("DEHYDRATOR.LOOK k id"), text("element"));
    assert_eq!(client.ask("DEHYDRATOR.LOOK k id2"), Value::Nil);
    let (Value::Int(before), Value::Int(after)) = (before, client.ask("DEHYDRATOR.TTN k")) else {
        panic!("numbers")
    };
    assert!(after <= before && after > before - 60_000, "{before}, then {after}");
    run.interrupt();
}

#[test]
fn a_port_in_use_is_reported() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = taken.local_addr().expect("an address").port();
    let data = TempDir::new().expect("a folder");
    let mut script = Command::new("scripts/run.sh");
    let output = script.env("PORT", port.to_string()).env("DATA", data.path()).output();
    let output = output.expect("the script");
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains(&format!("Port {port} is in use")), "{said}");
}

#[test]
fn a_dump_from_elsewhere_is_loaded_although_the_append_only_file_is_on() {
    let folder = TempDir::new().expect("a folder");
    let data = folder.path().join("data");
    fs::create_dir(&data).expect("a folder");
    fs::copy("tests/data/rede-0.5-future.rdb", data.join("dump.rdb")).expect("a dump");
    let port = free_port();
    let run = Run::start(&folder, port);
    let mut client = run.connect();
    assert_eq!(client.ask("DEHYDRATOR.LOOK single only"), text("hello world"));
    until("the append-only file is on", || {
        (client.info("persistence", "aof_enabled") == 1
            && client.info("persistence", "aof_rewrite_in_progress") == 0)
            .then_some(())
    });
    client.ask("DEHYDRATOR.PUSH k 600000 element id");
    run.interrupt();
    let run = Run::start(&folder, port);
    client = run.connect();
    assert_eq!(client.ask("DEHYDRATOR.LOOK single only"), text("hello world"));
    assert_eq!(client.ask("DEHYDRATOR.LOOK k id"), text("element"));
    run.interrupt();
}

#[test]
fn a_server_killed_before_the_append_only_file_is_written_loads_the_dump_again() {
    let folder = TempDir::new().expect("a folder");
    let data = folder.path().join("data");
    fs::create_dir(&data).expect("a folder");
    fs::copy("tests/data/rede-0.5-future.rdb", data.join("dump.rdb")).expect("a dump");
    let port = free_port();
    let is_being_written = |client: &mut Connection| {
        until("the append-only file is being written", || {
            (client.info("persistence", "aof_rewrite_in_progress") == 1).then_some(())
        });
    };
    // Slowly, half a second per key, so that it can be killed meanwhile.
    let slowly = ["--rdb-key-save-delay", "500000"];
    for _ in 0..2 {
        let mut run = Run::start_with(&folder, port, &slowly);
        let mut client = run.connect();
        is_being_written(&mut client);
        assert_eq!(client.ask("DEHYDRATOR.LOOK single only"), text("hello world"));
        run.process.kill().expect("a child");
        run.process.wait().expect("a child");
        until("the process that writes has ended too", || {
            let lock = Command::new("flock").arg("-n").arg(data.join(".lock")).arg("true").status();
            lock.expect("flock, of util-linux").success().then_some(())
        });
    }
    let run = Run::start(&folder, port);
    let mut client = run.connect();
    assert_eq!(client.ask("DEHYDRATOR.LOOK single only"), text("hello world"));
    // A server that writes its first append-only file ignores the request to stop.
    until("the append-only file is written", || {
        let is_written = client.info("persistence", "aof_enabled") == 1
            && client.info("persistence", "aof_rewrite_in_progress") == 0
            && client.info("persistence", "aof_rewrite_scheduled") == 0;
        is_written.then_some(())
    });
    run.interrupt();
}
