//! A server that is started for one test and ends with it.

mod ask;
mod machine;
pub mod nodes;
mod process;
mod programs;

use std::env;
use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use redis::{Connection, Value};
use tempfile::TempDir;

pub use ask::*;
use process::{CONFIGURATION, Process};
pub use programs::*;

/// How long anything may take that is waited for. Only a failing test waits that long.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running server with the module loaded. Killed when dropped.
pub struct Server {
    folder: TempDir,
    program: PathBuf,
    /// `None`: the configuration says what to load, if anything.
    module: Option<PathBuf>,
    options: Vec<String>,
    port: u16,
    process: Process,
}

impl Server {
    /// A server without persistence and without a port, unless `options` say otherwise.
    pub fn start(options: &[&str]) -> Self {
        Self::start_with_files(options, &[])
    }

    /// As [`Server::start`], with copies of files in its data folder.
    pub fn start_with_files(options: &[&str], files: &[(&Path, &str)]) -> Self {
        let mut server = Self::launch(release_module(), 0, options, files);
        server.wait_until_up();
        server
    }

    /// As [`Server::start`], with a port, for those that others connect to.
    pub fn start_with_port(options: &[&str]) -> Self {
        let mut server = Self::launch(release_module(), free_port(), options, &[]);
        server.wait_until_up();
        server
    }

    /// As [`Server::start`], with a module that is not ours.
    pub fn start_with_module(module: &Path, options: &[&str]) -> Self {
        let mut server = Self::launch(module.to_owned(), 0, options, &[]);
        server.wait_until_up();
        server
    }

    /// As [`Server::start_with_port`], with another architecture's server and module: see scripts/arm64.sh.
    pub fn start_of_other_architecture(options: &[&str]) -> Self {
        let variable =
            |name| PathBuf::from(env::var_os(name).unwrap_or_else(|| panic!("no {name}")));
        let program = variable("DEHYDRATOR_OTHER_SERVER");
        let module = variable("DEHYDRATOR_OTHER_MODULE");
        let folder = TempDir::new().expect("a temporary folder");
        let mut server = Self::launch_in(folder, program, module, free_port(), options);
        server.wait_until_up();
        server
    }

    /// As [`Server::start_with_port`], with the module's debug build, which has hooks for tests.
    pub fn start_debug(options: &[&str]) -> Self {
        let mut server = Self::launch(debug_module(), free_port(), options, &[]);
        server.wait_until_up();
        server
    }

    /// As [`Server::start_with_port`], with a module beside ours that does as it is told when something happens
    /// to a key: see tests/modules/listener.rs.
    pub fn start_with_listener(options: &[&str]) -> Self {
        let listener = listener_module();
        let load = ["--loadmodule", listener.to_str().expect("a path that is text")];
        Self::start_with_port(&[options, &load].concat())
    }

    /// A server with a configuration file of its own, `own.conf`, which is to load the module.
    pub fn start_with_configuration(lines: &str) -> Self {
        let folder = TempDir::new().expect("a temporary folder");
        fs::write(folder.path().join(CONFIGURATION), lines).expect("a configuration");
        let program = server_program();
        let process = Process::spawn(&program, folder.path(), None, 0, &[]);
        let mut server =
            Self { folder, program, module: None, options: Vec::new(), port: 0, process };
        server.wait_until_up();
        server
    }

    /// Starts a server that is expected to give up. Returns its log.
    pub fn start_in_vain(options: &[&str], files: &[(&Path, &str)]) -> String {
        let mut server = Self::launch(release_module(), 0, options, files);
        server.wait_until_it_gives_up()
    }

    /// As [`Server::start`], where no file may grow beyond so many kilobytes: a disk that is full. Until
    /// [`Server::lift_file_limit`], or for good after a restart.
    pub fn start_with_file_limit(kilobytes: u32, options: &[&str]) -> Self {
        let mut server = Self::start(options);
        server.limit_files(&(kilobytes * 1024).to_string());
        server
    }

    /// The disk has room again.
    pub fn lift_file_limit(&mut self) {
        self.limit_files("unlimited");
    }

    fn limit_files(&mut self, bytes: &str) {
        let pid = self.process.id().to_string();
        let limit = format!("--fsize={bytes}:unlimited");
        let status = Command::new("prlimit").args(["--pid", &pid, &limit]).status();
        assert!(status.expect("prlimit, of util-linux").success());
    }

    fn launch(module: PathBuf, port: u16, options: &[&str], files: &[(&Path, &str)]) -> Self {
        let folder = TempDir::new().expect("a temporary folder");
        for (file, name) in files {
            fs::copy(file, folder.path().join(name)).expect("a file to copy");
        }
        Self::launch_in(folder, server_program(), module, port, options)
    }

    fn launch_in(
        folder: TempDir,
        program: PathBuf,
        module: PathBuf,
        port: u16,
        options: &[&str],
    ) -> Self {
        let options: Vec<_> = options.iter().map(|option| (*option).to_owned()).collect();
        let process = Process::spawn(&program, folder.path(), Some(&module), port, &options);
        Self { folder, program, module: Some(module), options, port, process }
    }

    /// Shuts down as an operator would, saving as configured, and starts again on the same data with another build of
    /// the module.
    pub fn restart_with(&mut self, module: &Path) {
        self.module = Some(module.to_owned());
        self.restart();
    }

    /// As [`Server::restart_with`], on an expected end. Returns what was logged since.
    pub fn restart_in_vain_with(&mut self, module: &Path) -> String {
        let _ = redis::cmd("SHUTDOWN").query::<Value>(&mut self.connect());
        until("the server ends", || self.process.try_wait().expect("a child"));
        let before = self.log().len();
        let port = self.port;
        self.process =
            Process::spawn(&self.program, self.folder.path(), Some(module), port, &self.options);
        let status = until("the server gives up", || self.process.try_wait().expect("a child"));
        // 0 where a dump is refused: the check of the file, which the server runs then, finds it in order.
        assert!(status.code().is_some_and(|code| code <= 1), "{status}: {}", self.log());
        self.log()[before..].to_owned()
    }

    /// Waits until the server has given up by itself. Returns its log.
    pub fn wait_until_it_gives_up(&mut self) -> String {
        let status = until("the server gives up", || self.process.try_wait().expect("a child"));
        assert_eq!(status.code(), Some(1), "{}", self.log());
        self.log()
    }

    /// The port that the server listens on.
    pub fn port(&self) -> u16 {
        assert_ne!(self.port, 0, "this server has no port");
        self.port
    }

    /// Waits until the process has ended by itself.
    pub fn wait_for_end(&mut self) {
        until("the server ends", || self.process.try_wait().expect("a child"));
    }

    /// Starts again on the same data, after the process has ended.
    pub fn relaunch(&mut self) {
        let module = self.module.as_deref();
        self.process =
            Process::spawn(&self.program, self.folder.path(), module, self.port, &self.options);
        self.wait_until_up();
    }

    /// As [`Server::relaunch`], with another build of the module.
    pub fn relaunch_with(&mut self, module: &Path) {
        self.module = Some(module.to_owned());
        self.relaunch();
    }

    /// Stops the process dead, as a power cut would.
    pub fn kill(&mut self) {
        self.process.kill().expect("a child");
    }

    /// A connection of its own.
    pub fn connect(&self) -> Connection {
        let url = format!("redis+unix://{}", self.socket().display());
        let client = redis::Client::open(url).expect("a url");
        client.get_connection().expect("a connection")
    }

    /// Runs one line in redis-cli, as if typed, and returns what it prints.
    pub fn cli(&self, line: &str) -> String {
        let mut cli = Command::new(cli_program())
            .arg("-s")
            .arg(self.socket())
            .arg("--no-raw")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("redis-cli, which `make setup` installs");
        writeln!(cli.stdin.take().expect("piped"), "{line}").expect("redis-cli reads");
        let output = cli.wait_with_output().expect("redis-cli ends").stdout;
        String::from_utf8(output).expect("redis-cli escapes what is not text")
    }

    /// Shuts down as an operator would, saving as configured, and starts again on the same data.
    pub fn restart(&mut self) {
        // The server hangs up without a reply.
        let _ = redis::cmd("SHUTDOWN").query::<Value>(&mut self.connect());
        self.wait_until_ended();
        self.relaunch();
    }

    /// Waits until the process has ended, which was told to.
    pub fn wait_until_ended(&mut self) {
        until("the server ends", || self.process.try_wait().expect("a child"));
    }

    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Kills the server as a power cut would, and starts it again on the same data.
    pub fn crash_and_restart(&mut self) {
        self.kill();
        self.relaunch();
    }

    /// A file in the server's folder.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn log(&self) -> String {
        log_of(self.folder.path())
    }

    /// A field of INFO.
    pub fn info(&self, section: &str, field: &str) -> u64 {
        self.connect().info(section, field)
    }

    /// What server it is.
    pub fn version(&self) -> Version {
        let Value::BulkString(info) = self.connect().ask("INFO server") else { panic!("text") };
        let info = String::from_utf8_lossy(&info).into_owned();
        let field = |name| info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        // Valkey says for which Redis it passes, too.
        let (is_valkey, version) = match field("valkey_version") {
            Some(version) => (true, version),
            None => (false, field("redis_version").expect("a version")),
        };
        let mut parts = version.split('.').map(|part| part.parse().expect("a number"));
        let mut part = || parts.next().expect("major and minor");
        Version { is_valkey, number: (part(), part()) }
    }

    /// Makes this server a replica of `primary`, and waits until it has loaded all of it: what is written here before
    /// that would be flushed.
    pub fn follow(&self, primary: &Server) {
        self.connect().ask(&format!("REPLICAOF 127.0.0.1 {}", primary.port()));
        self.wait_for_link();
    }

    /// Waits until this replica is in step with its primary.
    pub fn wait_for_link(&self) {
        until("the link is up", || {
            let Value::Array(role) = self.connect().ask("ROLE") else { panic!("an array") };
            (role.get(3) == Some(&text("connected"))).then_some(())
        });
    }

    fn socket(&self) -> PathBuf {
        self.file("redis.sock")
    }

    fn wait_until_up(&mut self) {
        let url = format!("redis+unix://{}", self.socket().display());
        let client = redis::Client::open(url).expect("a url");
        until("the server is up", || {
            if let Some(status) = self.process.try_wait().expect("a child") {
                panic!("the server ended with {status}:\n{}", self.log());
            }
            let mut connection = client.get_connection().ok()?;
            redis::cmd("PING").query::<Value>(&mut connection).ok()
        });
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        if std::thread::panicking() {
            eprintln!("--- the server's log ---\n{}", self.log());
        }
    }
}

/// A port that nobody listens on at this moment, and for a cluster's bus the one 10,000 above it. Both lie below the ports that
/// the kernel gives to clients: a connection of another test's would have taken the second one now and then.
pub fn free_port() -> u16 {
    const FIRST: u32 = 11_000;
    const PORTS: u32 = 11_000;
    const BUS: u16 = 10_000;
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let is_free = |port: u16| TcpListener::bind(("0.0.0.0", port)).is_ok();
    // Processes that test at the same time begin at other places.
    let begin = std::process::id().wrapping_mul(7919);
    let ports = (0..PORTS).map(|_| {
        let number = begin.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
        (FIRST + number % PORTS) as u16
    });
    let mut free = ports.filter(|port| is_free(*port) && is_free(port + BUS));
    free.next().expect("a free port")
}

fn log_of(folder: &Path) -> String {
    String::from_utf8_lossy(&fs::read(folder.join("log")).unwrap_or_default()).into_owned()
}

/// Asks until there is an answer, or patience is at its end.
pub fn until<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(started.elapsed() < PATIENCE, "waited in vain until {what}");
        std::thread::park_timeout(Duration::from_millis(2));
    }
}
