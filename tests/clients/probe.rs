//! A probe is a small program for each client library, in `probes/` and `rust/`. Its arguments are the kind of client
//! (`single` or `cluster`), a port, and settings. It prints `ready` and the library's version, then sends each line
//! that it reads as a command, and prints `ok` and the reply in the language's notation, or `error` and the library's
//! message. Everything else is observed from outside.

use std::fmt;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::facts::PHP_TIMEOUT;
use crate::proxy::Proxy;
use harness::{Ask, Server, until};

/// The key of all commands that the proxy should see.
pub const KEY: &str = "watched";

/// How to start a library's probe.
#[derive(Clone, Copy, Debug)]
pub enum Language {
    /// With the folder in target/clients/python that has the library.
    Python(&'static str),
    Node,
    Rust,
    /// With the folder of the library, or nothing for the system's.
    Ruby(&'static str),
    /// With the interpreter, and a folder of includes, or nothing for the system's.
    Php(&'static str, &'static str),
    Perl,
    Go,
}

#[derive(Clone, Copy)]
pub struct Library {
    /// The name in docs/clients.md, without the version.
    pub name: &'static str,
    /// The variant in the words of docs/clients.md: a setting for the timeout, or a cluster client.
    pub way: &'static str,
    /// Whether the client is for a cluster.
    pub is_for_cluster: bool,
    language: Language,
    /// The probe's file, and the arguments before and after the port in all its runs.
    probe: &'static str,
    first: &'static [&'static str],
    settings: &'static [&'static str],
}

impl fmt::Debug for Library {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{} ({}: {})", self.name, self.probe, self.way)
    }
}

/// Returns a library's client for one server.
const fn single(
    (name, way): (&'static str, &'static str),
    language: Language,
    probe: &'static str,
    first: &'static [&'static str],
) -> Library {
    Library { name, way, is_for_cluster: false, language, probe, first, settings: &[] }
}

/// Returns a library's client for a cluster.
const fn cluster(
    (name, way): (&'static str, &'static str),
    language: Language,
    probe: &'static str,
    first: &'static [&'static str],
    settings: &'static [&'static str],
) -> Library {
    Library { name, way, is_for_cluster: true, language, probe, first, settings }
}

use Language::{Go, Node, Perl, Php, Python, Ruby, Rust};

const NEW_RUBY: &str = "target/examples/ruby/lib";
const NEW_PHP: &str = "target/clients/bin/php-8";
const NEW_PREDIS: &str = "target/examples/php/usr/share/php";

/// The libraries that registries provide. Several with one name, version and variant must behave alike.
#[rustfmt::skip]
pub const SINGLES: &[Library] = &[
    single(("redis-py", "socket_timeout"), Python("redis-6"), "redis_py.py", &["redis"]),
    single(("redis-py", "socket_timeout"), Python("redis-6"), "redis_asyncio.py", &["redis"]),
    single(("redis-py", "socket_timeout"), Python("redis-7"), "redis_py.py", &["redis"]),
    single(("redis-py", "socket_timeout"), Python("redis-7"), "redis_asyncio.py", &["redis"]),
    single(("redis-py", "socket_timeout"), Python("redis-8"), "redis_py.py", &["redis"]),
    single(("redis-py", "socket_timeout"), Python("redis-8"), "redis_asyncio.py", &["redis"]),
    single(("valkey-py", "socket_timeout"), Python("valkey"), "redis_py.py", &["valkey"]),
    single(("valkey-py, asyncio", "socket_timeout"), Python("valkey"), "redis_asyncio.py", &["valkey"]),
    single(("valkey-glide for Python", "request_timeout"), Python("glide"), "valkey_glide.py", &[]),
    single(("valkey-glide for Node", "requestTimeout"), Node, "valkey_glide.js", &[]),
    single(("ioredis", "socketTimeout"), Node, "ioredis.js", &["ioredis", "socketTimeout"]),
    single(("ioredis", "commandTimeout"), Node, "ioredis.js", &["ioredis", "commandTimeout"]),
    single(("iovalkey", "socketTimeout"), Node, "ioredis.js", &["iovalkey", "socketTimeout"]),
    single(("iovalkey", "commandTimeout"), Node, "ioredis.js", &["iovalkey", "commandTimeout"]),
    single(("node-redis", "socketTimeout"), Node, "node_redis.js", &[]),
    single(("redis-rs", "set_read_timeout"), Rust, "redis", &[]),
    single(("redis-rs, async", "set_response_timeout"), Rust, "redis-async", &[]),
    single(("redis-rs, async", "set_response_timeout"), Rust, "redis-manager", &[]),
    single(("fred", "default_command_timeout"), Rust, "fred", &[]),
    single(("fred", "default_command_timeout"), Rust, "fred-blocking", &[]),
    single(("redis-rb", "read_timeout"), Ruby(""), "redis_rb.rb", &[]),
    single(("redis-rb", "read_timeout"), Ruby(NEW_RUBY), "redis_rb.rb", &[]),
    single(("phpredis", "OPT_READ_TIMEOUT"), Php("php", ""), "phpredis.php", &[]),
    single(("phpredis", "OPT_READ_TIMEOUT"), Php(NEW_PHP, ""), "phpredis.php", &[]),
    single(("Predis", "read_write_timeout"), Php("php", ""), "predis.php", &[]),
    single(("Predis", "read_write_timeout"), Php("php", NEW_PREDIS), "predis.php", &[]),
    single(("Redis.pm", "read_timeout"), Perl, "redis.pl", &[]),
    single(("redigo", "DialReadTimeout"), Go, "redigo", &[]),
    single(("go-redis", "ReadTimeout"), Go, "go_redis", &[]),
];

/// The libraries with support for clusters.
#[rustfmt::skip]
pub const CLUSTERS: &[Library] = &[
    cluster(("redis-py", "RedisCluster"), Python("redis-6"), "redis_py.py", &["redis"], &[]),
    cluster(("redis-py", "RedisCluster"), Python("redis-7"), "redis_py.py", &["redis"], &[]),
    cluster(("redis-py", "RedisCluster"), Python("redis-8"), "redis_py.py", &["redis"], &[]),
    cluster(("redis-py", "asyncio.RedisCluster"), Python("redis-6"), "redis_asyncio.py", &["redis"], &[]),
    cluster(("redis-py", "asyncio.RedisCluster"), Python("redis-7"), "redis_asyncio.py", &["redis"], &[]),
    cluster(("redis-py", "asyncio.RedisCluster"), Python("redis-8"), "redis_asyncio.py", &["redis"], &[]),
    cluster(("valkey-py", "ValkeyCluster"), Python("valkey"), "redis_py.py", &["valkey"], &[]),
    cluster(("valkey-py", "asyncio.ValkeyCluster"), Python("valkey"), "redis_asyncio.py", &["valkey"], &[]),
    cluster(("valkey-glide for Python", "GlideClusterClient"), Python("glide"), "valkey_glide.py", &[], &[]),
    cluster(("valkey-glide for Node", "GlideClusterClient"), Node, "valkey_glide.js", &[], &[]),
    cluster(("ioredis", "Cluster"), Node, "ioredis.js", &["ioredis", "socketTimeout"], &["route=key"]),
    cluster(("iovalkey", "Cluster"), Node, "ioredis.js", &["iovalkey", "socketTimeout"], &["route=key"]),
    cluster(("node-redis", "createCluster"), Node, "node_redis.js", &[], &[]),
    cluster(("redis-rs", "get_connection"), Rust, "redis", &[], &[]),
    cluster(("redis-rs", "get_async_connection"), Rust, "redis-async", &[], &[]),
    cluster(("fred", "new_clustered"), Rust, "fred", &[], &[]),
    cluster(("redis-rb", "cluster:"), Ruby(""), "redis_rb.rb", &[], &["route=lower"]),
    cluster(("redis-rb", "Redis::Cluster"), Ruby(NEW_RUBY), "redis_rb.rb", &[], &[]),
    cluster(("phpredis", "RedisCluster"), Php("php", ""), "phpredis.php", &[], &[]),
    cluster(("phpredis", "RedisCluster"), Php(NEW_PHP, ""), "phpredis.php", &[], &[]),
    cluster(("Predis", "'cluster' => 'redis'"), Php("php", ""), "predis.php", &[], &["route=handler"]),
    cluster(("Predis", "'cluster' => 'redis'"), Php("php", NEW_PREDIS), "predis.php", &[], &["route=handler"]),
    cluster(("go-redis", "NewClusterClient"), Go, "go_redis", &[], &[]),
];

/// Variants that are not recommended.
#[allow(dead_code)]
pub const ASTRAY: &[Library] = &[
    cluster(("ioredis", "call"), Node, "ioredis.js", &["ioredis", "socketTimeout"], &[]),
    cluster(("iovalkey", "call"), Node, "ioredis.js", &["iovalkey", "socketTimeout"], &[]),
    cluster(("redis-rb", "upper case"), Ruby(""), "redis_rb.rb", &[], &[]),
];

/// A redis-rs that drops its connection at an error.
pub const DROPPING: Library = single(("redis-rs", "dropped"), Rust, "redis-dropping", &[]);

impl Library {
    /// Returns whether the probe takes its settings by name.
    pub fn names_its_way(&self) -> bool {
        self.first.contains(&self.way)
    }

    fn command(&self) -> Command {
        let file = format!("tests/clients/probes/{}", self.probe);
        let mut words = Vec::new();
        let mut environment = Vec::new();
        match self.language {
            Language::Python(folder) => {
                words.extend(["target/clients/python/venv/bin/python".into(), file]);
                environment.push(("PYTHONPATH", format!("target/clients/python/{folder}")));
            }
            Language::Node => words.extend(["node".into(), file]),
            Language::Rust => {
                let probes = "target/clients/debug/dehydrator-probes";
                words.extend([probes.into(), self.probe.into()]);
            }
            Language::Ruby(folder) => {
                words.extend(["ruby".into(), file]);
                if !folder.is_empty() {
                    environment.push(("RUBYLIB", folder.into()));
                }
            }
            Language::Php(interpreter, folder) => {
                words.push(interpreter.into());
                if !folder.is_empty() {
                    words.extend(["-d".into(), format!("include_path={folder}")]);
                }
                // The default is a minute, longer than a test should take.
                words.extend(["-d".into(), format!("default_socket_timeout={PHP_TIMEOUT}")]);
                words.extend(["-d".into(), "display_errors=stderr".into(), file]);
            }
            Language::Perl => words.extend(["perl".into(), file]),
            Language::Go => words.push(format!("target/clients/bin/{}", self.probe)),
        }
        words.extend(self.first.iter().map(|it| (*it).to_owned()));
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).envs(environment);
        command
    }
}

/// The result of a command.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub at: Instant,
    pub reply: Result<String, String>,
}

/// A running probe, which ends when dropped.
pub struct Probe {
    process: Child,
    to: ChildStdin,
    from: Receiver<(Instant, String)>,
    pub version: String,
}

impl Probe {
    pub fn start(library: &Library, port: u16, settings: &[&str]) -> Self {
        let mode = if library.is_for_cluster { "cluster" } else { "single" };
        let mut process = library
            .command()
            .args([mode, &port.to_string()])
            .args(library.settings)
            .args(settings)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|it| panic!("{library:?}: {it}: run it by `make test-clients`"));
        let (send, from) = channel();
        let lines = BufReader::new(process.stdout.take().expect("piped")).lines();
        thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                if send.send((Instant::now(), line)).is_err() {
                    return;
                }
            }
        });
        let to = process.stdin.take().expect("piped");
        let mut probe = Self { process, to, from, version: String::new() };
        let Some(line) = probe.line(Duration::from_secs(240)) else {
            let _ = probe.process.kill();
            let mut said = String::new();
            let stderr = probe.process.stderr.take().expect("piped");
            BufReader::new(stderr)
                .lines()
                .map_while(Result::ok)
                .for_each(|it| said += &(it + "\n"));
            panic!(
                "{library:?}: run it by `make test-clients`, which fetches what it needs\n{said}"
            );
        };
        probe.version = line.1.strip_prefix("ready").expect("it is ready").trim().to_owned();
        probe
    }

    /// Sends a command.
    pub fn say(&mut self, line: &str) {
        writeln!(self.to, "{line}").expect("the probe reads");
    }

    fn line(&self, within: Duration) -> Option<(Instant, String)> {
        self.from.recv_timeout(within).ok()
    }

    /// Returns the result of the next command, if it arrives in time.
    pub fn outcome(&self, within: Duration) -> Option<Outcome> {
        let (at, line) = self.line(within)?;
        let reply = match line.split_once(' ') {
            Some(("ok", reply)) => Ok(reply.to_owned()),
            Some(("error", error)) => Err(error.to_owned()),
            _ => panic!("a probe said {line:?}"),
        };
        Some(Outcome { at, reply })
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A probe, and its server behind a proxy. The probe ends first: otherwise it would reconnect.
pub struct Session {
    pub probe: Probe,
    pub server: Server,
    pub proxy: Proxy,
}

impl Session {
    /// A library's cluster client gets a cluster of a single node, which announces the proxy's address as its own.
    pub fn start(library: &Library, settings: &[&str]) -> Self {
        let options = ["--cluster-enabled", "yes", "--cluster-announce-ip", "127.0.0.1"];
        let server = if library.is_for_cluster {
            Server::start_with_port(&options)
        } else {
            Server::start(&[])
        };
        let proxy = Proxy::start(server.file("redis.sock"), KEY);
        if library.is_for_cluster {
            let mut client = server.connect();
            client.ask(&format!("CONFIG SET cluster-announce-port {}", proxy.port()));
            client.ask("CLUSTER ADDSLOTSRANGE 0 16383");
            until("the cluster is up", || {
                let info = format!("{:?}", client.ask("CLUSTER INFO"));
                info.contains("cluster_state:ok").then_some(())
            });
        }
        let probe = Probe::start(library, proxy.port(), settings);
        Self { probe, server, proxy }
    }
}
