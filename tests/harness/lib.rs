//! A server that is started for one test and stopped with it.

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

/// The timeout of every wait. Only a failing test waits that long.
const PATIENCE: Duration = Duration::from_secs(180);

/// A running server with the module loaded. Killed when dropped.
pub struct Server {
    folder: TempDir,
    program: PathBuf,
    /// `None`: the configuration determines which module to load, if any.
    module: Option<PathBuf>,
    options: Vec<String>,
    port: u16,
    process: Process,
}

impl Server {
    /// Starts a server without persistence and without a port, unless `options` change that.
    pub fn start(options: &[&str]) -> Self {
        Self::start_with_files(options, &[])
    }

    /// Does what [`Server::start`] does, and connects.
    pub fn with_client(options: &[&str]) -> (Self, redis::Connection) {
        let server = Self::start(options);
        let client = server.connect();
        (server, client)
    }

    /// Like [`Server::start`], with copies of files in its data folder.
    pub fn start_with_files(options: &[&str], files: &[(&Path, &str)]) -> Self {
        let mut server = Self::launch(release_module(), 0, options, files);
        server.wait_until_up();
        server
    }

    /// Like [`Server::start`], with a port, for replicas and clusters.
    pub fn start_with_port(options: &[&str]) -> Self {
        let mut server = Self::launch(release_module(), free_port(), options, &[]);
        server.wait_until_up();
        server
    }

    /// Like [`Server::start`], with another module.
    pub fn start_with_module(module: &Path, options: &[&str]) -> Self {
        let mut server = Self::launch(module.to_owned(), 0, options, &[]);
        server.wait_until_up();
        server
    }

    /// Like [`Server::start_with_port`], with the server and the module of another architecture: see scripts/arm64.sh.
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

    /// Like [`Server::start_with_port`], with the module's debug build, which has hooks for tests.
    pub fn start_debug(options: &[&str]) -> Self {
        let mut server = Self::launch(debug_module(), free_port(), options, &[]);
        server.wait_until_up();
        server
    }

    /// Like [`Server::start_with_port`], with an additional module that runs given commands at keyspace events: see
    /// tests/modules/listener.rs.
    pub fn start_with_listener(options: &[&str]) -> Self {
        let listener = listener_module();
        let load = ["--loadmodule", listener.to_str().expect("a path that is text")];
        Self::start_with_port(&[options, &load].concat())
    }

    /// Starts a server with its own configuration file, `own.conf`, which must load the module.
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

    /// Starts a server that is expected to exit. Returns its log.
    pub fn start_in_vain(options: &[&str], files: &[(&Path, &str)]) -> String {
        let mut server = Self::launch(release_module(), 0, options, files);
        server.wait_until_it_gives_up()
    }

    /// Like [`Server::start`], where no file may grow beyond this many kilobytes: a full disk. Until
    /// [`Server::lift_file_limit`], or permanently after a restart.
    pub fn start_with_file_limit(kilobytes: u32, options: &[&str]) -> Self {
        let mut server = Self::start(options);
        server.limit_files(&(kilobytes * 1024).to_string());
        server
    }

    /// Removes the limit of file sizes.
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

    /// Shuts down like an operator, saving as configured, and starts again on the same data with another build of the
    /// module.
    pub fn restart_with(&mut self, module: &Path) {
        self.module = Some(module.to_owned());
        self.restart();
    }

    /// Like [`Server::restart_with`], for an expected exit. Returns the new part of the log.
    pub fn restart_in_vain_with(&mut self, module: &Path) -> String {
        let _ = redis::cmd("SHUTDOWN").query::<Value>(&mut self.connect());
        until("the server ends", || self.process.try_wait().expect("a child"));
        let before = self.log().len();
        let port = self.port;
        self.process =
            Process::spawn(&self.program, self.folder.path(), Some(module), port, &self.options);
        let status = until("the server gives up", || self.process.try_wait().expect("a child"));
        // 0 if a dump is refused: the server then runs its check of the file, which finds no error.
        assert!(status.code().is_some_and(|code| code <= 1), "{status}: {}", self.log());
        self.log()[before..].to_owned()
    }

    /// Waits until the server has exited by itself. Returns its log.
    pub fn wait_until_it_gives_up(&mut self) -> String {
        let status = until("the server gives up", || self.process.try_wait().expect("a child"));
        assert_eq!(status.code(), Some(1), "{}", self.log());
        self.log()
    }

    /// Returns the port of the server.
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

    /// Like [`Server::relaunch`], with another build of the module.
    pub fn relaunch_with(&mut self, module: &Path) {
        self.module = Some(module.to_owned());
        self.relaunch();
    }

    /// Kills the process, like a power failure.
    pub fn kill(&mut self) {
        self.process.kill().expect("a child");
    }

    /// Returns a new connection.
    pub fn connect(&self) -> Connection {
        let url = format!("redis+unix://{}", self.socket().display());
        let client = redis::Client::open(url).expect("a url");
        client.get_connection().expect("a connection")
    }

    /// Runs one line in redis-cli, as if typed, and returns its output.
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

    /// Shuts down like an operator, saving as configured, and starts again on the same data.
    pub fn restart(&mut self) {
        // The server hangs up without a reply.
        let _ = redis::cmd("SHUTDOWN").query::<Value>(&mut self.connect());
        self.wait_until_ended();
        self.relaunch();
    }

    /// Waits until the process, which was told to stop, has ended.
    pub fn wait_until_ended(&mut self) {
        until("the server ends", || self.process.try_wait().expect("a child"));
    }

    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Kills the server like a power failure, and starts it again on the same data.
    pub fn crash_and_restart(&mut self) {
        self.kill();
        self.relaunch();
    }

    /// Returns the path of a file in the server's folder.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn log(&self) -> String {
        log_of(self.folder.path())
    }

    /// Returns a field of INFO.
    pub fn info(&self, section: &str, field: &str) -> u64 {
        self.connect().info(section, field)
    }

    /// Returns the name and version of the server.
    pub fn version(&self) -> Version {
        let Value::BulkString(info) = self.connect().ask("INFO server") else { panic!("text") };
        let info = String::from_utf8_lossy(&info).into_owned();
        let field = |name| info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        // Valkey also reports a Redis version, for compatibility.
        let (is_valkey, version) = match field("valkey_version") {
            Some(version) => (true, version),
            None => (false, field("redis_version").expect("a version")),
        };
        let mut parts = version.split('.').map(|part| part.parse().expect("a number"));
        let mut part = || parts.next().expect("major and minor");
        Version { is_valkey, number: (part(), part()) }
    }

    /// Makes this server a replica of `primary`, and waits until it has loaded everything: earlier writes here would be
    /// flushed.
    pub fn follow(&self, primary: &Server) {
        self.connect().ask(&format!("REPLICAOF 127.0.0.1 {}", primary.port()));
        self.wait_for_link();
    }

    /// Waits until this replica is in sync with its primary.
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

/// Returns a free port; for the cluster bus, the port 10,000 above is free too. Both are below the range of ephemeral
/// ports: otherwise, connections of other tests would sometimes take the second one.
pub fn free_port() -> u16 {
    const FIRST: u32 = 11_000;
    const PORTS: u32 = 11_000;
    const BUS: u16 = 10_000;
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let is_free = |port: u16| TcpListener::bind(("0.0.0.0", port)).is_ok();
    // Processes that test at the same time start at different ports.
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

/// Calls a function until it returns a value, or panics at the timeout.
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

/// Waits until the clock has moved on by `time`, where time itself decides what happens next.
pub fn let_pass(time: Duration) {
    let begun = Instant::now();
    until("the clock has moved on", || (begun.elapsed() >= time).then_some(()));
}
