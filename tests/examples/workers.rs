//! The workers in `examples/workers/`: each runs against a server that is killed and over connections that are cut at
//! chosen points, and is killed and stopped itself.
//!
//! A worker records each job as "id deliveries milliseconds" in a set, where the time is read once per run of the work.
//! So the set shows how often a job was done, under which delivery and when, even if the worker had to send the command
//! twice.

use std::collections::{BTreeMap, VecDeque};
use std::env;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use redis::{Connection, Value};
use tempfile::TempDir;

use crate::built_example;
use harness::{Ask, Server, text};

/// Longer than a server takes to start, and shorter than the longest work.
const LEASE: u64 = 4_500;
const BLOCK: u64 = 1_000;
const QUEUE: &str = "{jobs}";
/// How soon a blocked worker must end after a signal: its block, plus the delay of a busy machine.
const PROMPT: Duration = Duration::from_secs(180);

#[test]
fn a_worker_with_redis_rs() {
    let program = built_example("worker");
    hold(&Language::new("redis_rs.rs", &[program.to_str().expect("a path that is text")]));
}

#[test]
fn a_worker_with_phpredis() {
    // If a reply breaks off in the middle, phpredis 5.3.7 waits until its read timeout, or forever.
    let whole = |cut: &Cut| cut.at != Where::Within;
    let cuts = cuts().into_iter().filter(whole).collect();
    hold_with(&Language::new("phpredis.php", &["php", "examples/workers/phpredis.php"]), cuts);
}

/// The system's version.
#[test]
fn a_worker_with_redis_rb() {
    hold(&Language::new("redis_rb.rb", &["ruby", "examples/workers/redis_rb.rb"]));
}

#[test]
fn a_worker_with_redis_rb_5() {
    if is_left_out("ruby") {
        return;
    }
    let library = "RUBYLIB=target/examples/ruby/lib";
    hold(&Language::new("redis_rb.rb", &["env", library, "ruby", "examples/workers/redis_rb.rb"]));
}

#[test]
#[ignore = "needs Jedis 7 and what it depends on: DEHYDRATOR_JEDIS, a class path"]
fn a_worker_with_jedis() {
    let classes = env::var("DEHYDRATOR_JEDIS").expect("DEHYDRATOR_JEDIS, a class path");
    let command = ["java", "-cp", &classes, "examples/workers/JedisWorker.java"];
    hold(&Language::new("JedisWorker.java", &command));
}

#[test]
fn each_worker_runs_as_the_user_that_docs_operations_md_creates() {
    let redis_rs = built_example("worker");
    let ruby = ["env", "RUBYLIB=target/examples/ruby/lib", "ruby", "examples/workers/redis_rb.rb"];
    let mut all = vec![
        Language::new("phpredis.php", &["php", "examples/workers/phpredis.php"]),
        Language::new("redis_rb.rb", &["ruby", "examples/workers/redis_rb.rb"]),
        Language::new("redis_rs.rs", &[redis_rs.to_str().expect("a path that is text")]),
    ];
    if !is_left_out("ruby") {
        all.push(Language::new("redis_rb.rb", &ruby));
    }

    let page = fs::read_to_string("docs/operations.md").expect("the page");
    let user = page.lines().find_map(|line| line.split_once("> ACL SETUSER worker "));
    let (_, rules) = user.expect("the page makes a user for workers");
    let serve = |language: Language| {
        let server = Server::start_with_port(&[]);
        let mut client = server.connect();
        client.ask(&format!("ACL SETUSER worker {rules}"));
        let proxy = Proxy::start(server.port(), VecDeque::new());
        let mut worker = Language { user: "worker:secret2@", ..language }.start(&proxy);
        let mut pushed = Pushed::default();
        pushed.push(&mut client, "mail", 0, "mail");
        pushed.push(&mut client, "fails:1", 0, "fail 2");
        // Longer than its lease, so it is renewed.
        pushed.push(&mut client, "slow", 0, "slow 6000");
        worker.until("all is done", || done(&mut client).len() == 3);
        worker.until("nothing is left", || client.ask("DEHYDRATOR.LEN {jobs}") == Value::Int(0));
        worker.stop();
    };
    thread::scope(|scope| {
        for language in all {
            scope.spawn(|| serve(language));
        }
    });
}

/// Runs all checks of a worker.
fn hold(language: &Language) {
    hold_with(language, cuts());
}

fn hold_with(language: &Language, cuts: VecDeque<Cut>) {
    language.check_length();

    let options = ["--appendonly", "yes", "--appendfsync", "always"];
    let mut server = Server::start_with_port(&options);
    let mut client = server.connect();
    let mut pushed = Pushed::default();
    let proxy = Proxy::start(server.port(), cuts);

    // A worker dies during a job, before it has recorded anything.
    let mut first = language.start(&proxy);
    pushed.push(&mut client, "orphan", 0, "slow 1000");
    first.until("a worker has a job", || is_held(&mut client, "orphan"));
    first.kill();

    // Another one starts during a long script, which blocks the server.
    client.ask("CONFIG SET busy-reply-threshold 10");
    let script = redis::cmd("EVAL").arg("while true do end").arg(0).get_packed_command();
    let mut busy = server.connect();
    busy.send_packed_command(&script).expect("a script");
    let mut second = language.start(&proxy);
    let log = second.log.clone();
    let is_told = || fs::read_to_string(&log).is_ok_and(|log| log.contains("BUSY"));
    second.until("a worker is told that the server is busy", is_told);
    client.ask("SCRIPT KILL");
    // It ends a moment later, with an error.
    let _ = busy.recv_response();

    // Two others do the rest. The current job of one is cancelled: it must stop, or it is late for the rest.
    let mut third = language.start(&proxy);
    pushed.push(&mut client, "cancelled", 0, "slow 120000");
    second.until("a worker has the job that is to be cancelled", || {
        is_held(&mut client, "cancelled")
    });
    assert_eq!(client.ask("DEHYDRATOR.REM {jobs} cancelled"), Value::Int(1));
    for number in 0..30 {
        pushed.push(&mut client, &format!("mail:{number}"), 70 * number, "mail");
    }
    for id in ["fails:1", "fails:2"] {
        pushed.push(&mut client, id, 300, "fail 2");
    }
    pushed.push(&mut client, "dead", 0, "fail 99");
    pushed.push(&mut client, "slow", 500, "slow 6000");

    second.until("some jobs are done", || done(&mut client).len() >= 10);
    server.kill();
    let before = proxy.refused.load(Ordering::Relaxed);
    second.until("a worker finds no server", || proxy.refused.load(Ordering::Relaxed) > before);
    server.relaunch();
    client = server.connect();
    for some in [16, 22, 28] {
        second.until("more jobs are done", || done(&mut client).len() >= some);
        client.ask("CLIENT KILL TYPE normal SKIPME yes");
    }
    second.until("nothing is left", || client.ask("DEHYDRATOR.LEN {jobs}") == Value::Int(0));

    // One is told to stop while it is blocked, one during a job, and leaves later ones.
    second.stop();
    pushed.push(&mut client, "last", 0, "slow 2000");
    third.until("a worker has its last job", || is_held(&mut client, "last"));
    pushed.push(&mut client, "next", 0, "mail");
    third.stop();
    let next = client.ask("DEHYDRATOR.LOOK {jobs} next FULL");
    let Value::Array(next) = next else { panic!("an array") };
    assert!(next.windows(2).any(|pair| pair == [text("deliveries"), Value::Int(0)]), "{next:?}");
    assert_eq!(client.ask("DEHYDRATOR.LEN {jobs}"), Value::Int(1), "the last job is settled");

    // And one while the server is down.
    let mut fourth = language.start(&proxy);
    fourth.until("nothing is left", || client.ask("DEHYDRATOR.LEN {jobs}") == Value::Int(0));
    // It knows that its last job is settled, and asks for another one: it would retry that command.
    fourth.until("the worker sleeps", || server.info("clients", "blocked_clients") == 1);
    let letters = client.ask("XRANGE {jobs}:dead - +");
    let found = done(&mut client);
    server.kill();
    let before = proxy.refused.load(Ordering::Relaxed);
    fourth.until("the worker finds no server", || proxy.refused.load(Ordering::Relaxed) > before);
    // PHP sometimes ignored a signal at this moment, so it may be sent again: README.md describes this.
    let signals = if language.file.ends_with(".php") { 5 } else { 1 };
    fourth.stop_by(signals);

    pushed.check(&found);
    let Value::Array(letters) = letters else { panic!("an array") };
    assert_eq!(letters.len(), 1, "{letters:?}");
    let letter = format!("{:?}", letters[0]);
    assert!(letter.contains("dead") && letter.contains("\"5\""), "{letter}");
    let left = proxy.cuts.lock().expect("no panic");
    assert!(left.is_empty(), "these cuts were never made: {left:?}");
}

/// The jobs: how often each must be done, and the earliest time.
#[derive(Default)]
struct Pushed(BTreeMap<String, u128>);

impl Pushed {
    fn push(&mut self, client: &mut Connection, id: &str, ttl: u128, job: &str) {
        self.0.insert(id.to_owned(), now() + ttl);
        let mut push = redis::cmd("DEHYDRATOR.PUSH");
        push.arg(QUEUE).arg(ttl.to_string()).arg(job).arg(id).exec(client).expect("it is pushed");
    }

    /// Asserts that each job was done once, at the first delivery that could succeed, and not early. A job that waited
    /// for its lease to expire, because a worker lost its connection, would have a later delivery.
    fn check(&self, done: &[String]) {
        let mut left = self.0.clone();
        for line in done {
            let [id, delivery, moment] = line.split(' ').collect::<Vec<_>>()[..] else {
                panic!("{line}")
            };
            let due = left.remove(id).unwrap_or_else(|| panic!("{id} was done twice: {done:?}"));
            assert!(
                moment.parse::<u128>().expect("a number") >= due,
                "{id} was done early: {line}, due {due}"
            );
            let expected = match id {
                "orphan" => "2",
                "fails:1" | "fails:2" => "3",
                _ => "1",
            };
            assert_eq!(delivery, expected, "{id} was done at another delivery: {done:?}");
        }
        let left: Vec<_> = left.keys().collect();
        assert_eq!(left, ["cancelled", "dead"], "what was not done");
    }
}

fn now() -> u128 {
    SystemTime::UNIX_EPOCH.elapsed().expect("a clock").as_millis()
}

fn done(client: &mut Connection) -> Vec<String> {
    redis::cmd("SMEMBERS").arg(format!("{QUEUE}:done")).query(client).expect("a set")
}

/// Returns whether the worker has the job, which was due at once.
fn is_held(client: &mut Connection, id: &str) -> bool {
    matches!(client.ask(&format!("DEHYDRATOR.PTTL {{jobs}} {id}")), Value::Int(1..))
}

/// Returns whether the libraries of a language could not be downloaded: see scripts/examples.sh, which reports this.
pub fn is_left_out(place: &str) -> bool {
    Path::new("target/examples").join(place).join("left-out").exists()
}

/// A worker's source, and the command that runs it.
struct Language {
    file: &'static str,
    command: Vec<String>,
    /// As in a URL, before the host.
    user: &'static str,
}

impl Language {
    fn new(file: &'static str, command: &[&str]) -> Self {
        let command = command.iter().map(|word| (*word).to_owned()).collect();
        Self { file, command, user: "" }
    }

    fn start(&self, proxy: &Proxy) -> Worker {
        let folder = TempDir::new().expect("a temporary folder");
        let log = folder.path().join("log");
        let output = File::create(&log).expect("a log");
        let child = Command::new(&self.command[0])
            .args(&self.command[1..])
            .env("REDIS_URL", format!("redis://{}127.0.0.1:{}", self.user, proxy.port))
            .env("QUEUE", QUEUE)
            .env("BLOCK_MS", BLOCK.to_string())
            .env("LEASE_MS", LEASE.to_string())
            .env("RETRY_MS", "100")
            .stdout(output.try_clone().expect("a log"))
            .stderr(output)
            .spawn();
        let help = "run it by `make test-examples`, which fetches what it needs";
        let child = child.unwrap_or_else(|error| panic!("{}: {error}: {help}", self.file));
        Worker { child, log, _folder: folder }
    }

    /// Asserts sixty lines of code, as examples/workers/README.md states, around the work, which is the reader's own.
    fn check_length(&self) {
        let source =
            fs::read_to_string(format!("examples/workers/{}", self.file)).expect("a worker");
        let mut code = 0;
        let mut lines = source.lines().peekable();
        while let Some(line) = lines.next() {
            let begins =
                |words: &[&str]| words.iter().any(|word| line.trim_start().starts_with(word));
            if line.contains(" work(") && begins(&["def", "function", "fn", "static"]) {
                let indent = |line: &str| line.len() - line.trim_start().len();
                let inside =
                    |next: &&str| next.is_empty() || *next == "{" || indent(next) > indent(line);
                while lines.next_if(inside).is_some() {}
            } else if !begins(&[
                "import ", "from ", "use ", "require ", "using ", "//", "# ", "/*", "*", "\"\"\"",
            ]) && line.chars().any(char::is_alphanumeric)
                && line.trim() != "end"
            {
                code += 1;
            }
        }
        assert!(code <= 60, "{} is said to be short: {code} lines of code", self.file);
    }
}

/// A worker's process. Killed when dropped.
struct Worker {
    child: Child,
    log: PathBuf,
    _folder: TempDir,
}

impl Worker {
    /// Waits for a condition, and fails if the worker has ended.
    fn until(&mut self, what: &str, mut ask: impl FnMut() -> bool) {
        let started = Instant::now();
        while !ask() {
            if let Some(status) = self.child.try_wait().expect("a child") {
                panic!("the worker ended before {what}: {status}");
            }
            assert!(started.elapsed() < Duration::from_secs(180), "waited in vain until {what}");
            thread::park_timeout(Duration::from_millis(20));
        }
    }

    fn kill(&mut self) {
        self.child.kill().expect("a child");
        self.child.wait().expect("a child");
    }

    /// Tells the worker to stop, and waits until it has finished its current job and ended.
    fn stop(&mut self) {
        self.stop_by(1);
    }

    /// Like [`Worker::stop`], with up to this many signals, five seconds apart.
    fn stop_by(&mut self, signals: u32) {
        let pid = rustix::process::Pid::from_child(&self.child);
        let started = Instant::now();
        let mut sent = 0;
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("a child") {
                break status;
            }
            if sent < signals && started.elapsed() >= Duration::from_secs(5) * sent {
                sent += 1;
                rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("it");
            }
            assert!(started.elapsed() < PROMPT, "the worker does not stop");
            thread::park_timeout(Duration::from_millis(20));
        };
        assert_eq!(ExitStatus::code(&status), Some(0), "{status}");
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            eprintln!(
                "--- a worker's log ---\n{}",
                fs::read_to_string(&self.log).unwrap_or_default()
            );
        }
    }
}

/// The point at which a connection is cut.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Where {
    /// The server does not get the command.
    Before,
    /// The server has executed the command, and its reply is lost.
    After,
    /// Half of the reply arrives.
    Within,
}

/// A cut at a command, after this many of the kind have passed.
#[derive(Debug)]
struct Cut {
    verb: &'static str,
    at: Where,
    pass: u32,
}

fn cuts() -> VecDeque<Cut> {
    use Where::{After, Before, Within};
    let cut = |(verb, at, pass)| Cut { verb, at, pass };
    let all = [
        ("DEHYDRATOR.ONDUE", After, 0),
        ("DEHYDRATOR.POLL", After, 0),
        ("DEHYDRATOR.POLL", Within, 3),
        ("DEHYDRATOR.POLL", Before, 6),
        ("DEHYDRATOR.POLL", After, 2),
        ("DEHYDRATOR.RENEW", After, 0),
        ("DEHYDRATOR.RENEW", Before, 1),
        ("DEHYDRATOR.RENEW", Within, 1),
        ("DEHYDRATOR.RELEASE", After, 0),
        ("DEHYDRATOR.RELEASE", Before, 0),
        ("DEHYDRATOR.SETTLE", Before, 1),
        ("DEHYDRATOR.SETTLE", After, 1),
        ("DEHYDRATOR.SETTLE", Within, 2),
        ("SADD", After, 2),
        ("SADD", Before, 3),
        ("SADD", Within, 4),
    ];
    all.into_iter().map(cut).collect()
}

/// A proxy to the server that cuts connections.
struct Proxy {
    port: u16,
    cuts: Arc<Mutex<VecDeque<Cut>>>,
    /// How often the server was unreachable.
    refused: Arc<AtomicU32>,
}

impl Proxy {
    /// Its threads end with the process.
    fn start(server: u16, cuts: VecDeque<Cut>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let cuts = Arc::new(Mutex::new(cuts));
        let refused = Arc::new(AtomicU32::new(0));
        let proxy = Self { port, cuts: cuts.clone(), refused: refused.clone() };
        thread::spawn(move || {
            for client in listener.incoming() {
                let client = client.expect("a client");
                if let Ok(server) = TcpStream::connect(("127.0.0.1", server)) {
                    connect(client, server, &cuts);
                } else {
                    refused.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        proxy
    }
}

/// Forwards data in both directions, until one side hangs up or the connection is cut.
fn connect(client: TcpStream, server: TcpStream, cuts: &Arc<Mutex<VecDeque<Cut>>>) {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let both = [&client, &server].map(|one| one.try_clone().expect("a socket"));
    let hang_up =
        |both: &[TcpStream; 2]| both.iter().for_each(|one| drop(one.shutdown(Shutdown::Both)));

    let ends = [client.try_clone().expect("a socket"), server.try_clone().expect("a socket")];
    let (cuts_there, asked_there) = (cuts.clone(), asked.clone());
    thread::spawn(move || {
        let (mut client, mut server) = (client, server);
        while let Some(request) = read(&mut client) {
            let cut = due_cut(&cuts_there, &request, &[Where::Before]);
            *asked_there.lock().expect("no panic") = request.clone();
            if cut.is_some() || server.write_all(&request).is_err() {
                break;
            }
        }
        hang_up(&both);
    });
    let cuts = cuts.clone();
    thread::spawn(move || {
        let [mut client, mut server] = ends;
        while let Some(reply) = read(&mut server) {
            let request = asked.lock().expect("no panic").clone();
            // Of POLL's replies, only those with an element count.
            let is_empty =
                verb_is(&request, "DEHYDRATOR.POLL") && !reply.starts_with(b"*1\r\n*4\r\n");
            let places: &[_] = if is_empty { &[] } else { &[Where::After, Where::Within] };
            let most = match due_cut(&cuts, &request, places) {
                None => reply.len(),
                Some(Where::Within) => reply.len() / 2,
                Some(_) => 0,
            };
            if client.write_all(&reply[..most]).is_err() || most < reply.len() {
                break;
            }
        }
        hang_up(&[client, server]);
    });
}

fn read(from: &mut TcpStream) -> Option<Vec<u8>> {
    let mut bytes = vec![0; 16_384];
    let count = from.read(&mut bytes).ok().filter(|count| *count > 0)?;
    bytes.truncate(count);
    Some(bytes)
}

fn verb_is(request: &[u8], verb: &str) -> bool {
    request.windows(verb.len()).any(|part| part.eq_ignore_ascii_case(verb.as_bytes()))
}

/// Returns the next cut for a command, if it is at one of these points and enough commands have passed.
fn due_cut(cuts: &Mutex<VecDeque<Cut>>, request: &[u8], places: &[Where]) -> Option<Where> {
    let mut cuts = cuts.lock().expect("no panic");
    let index = cuts.iter().position(|cut| verb_is(request, cut.verb))?;
    let cut = &mut cuts[index];
    if !places.contains(&cut.at) {
        return None;
    }
    if cut.pass > 0 {
        cut.pass -= 1;
        return None;
    }
    cuts.remove(index).map(|cut| cut.at)
}
