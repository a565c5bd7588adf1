//! A server under valgrind's callgrind, and the profile of what it ran.
//!
//! The profile counts the whole process of the server: reading a command, running it, replying, its event loop, and the
//! append-only file, if there is one. It does not count the kernel.

use std::collections::{BTreeSet, HashMap};
use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use redis::Connection;
use tempfile::TempDir;

use crate::load::connect;
use harness::{Server, until};

const CALLGRIND: &str = "--tool=callgrind --dump-line=no";

/// The environment variable that tells the harness which server to run.
pub const SERVER: &str = "DEHYDRATOR_SERVER";

/// Returns the path of the server, even after [`Host::start`] has replaced it by callgrind.
pub fn server_itself() -> PathBuf {
    static FOUND: std::sync::OnceLock<PathBuf> = std::sync::OnceLock::new();
    FOUND.get_or_init(harness::server_program).clone()
}

/// A server under callgrind.
pub struct Host {
    folder: TempDir,
    pub server: Server,
    pub client: Connection,
    /// The number of profiles so far.
    dumps: usize,
}

impl Host {
    /// Starts a server with this module, with or without an append-only file.
    pub fn start(module: &Path, with_file: bool) -> Self {
        let folder = TempDir::new().expect("a temporary folder");
        let launcher = folder.path().join("server");
        let script = format!(
            "#!/bin/sh\nexec valgrind --quiet {CALLGRIND} --callgrind-out-file='{}' '{}' \"$@\"\n",
            folder.path().join("out").display(),
            server_itself().display(),
        );
        fs::write(&launcher, script).expect("a launcher");
        fs::set_permissions(&launcher, fs::Permissions::from_mode(0o755)).expect("a program");
        // SAFETY: this program has one thread.
        unsafe { env::set_var(SERVER, &launcher) };
        // The server's cron runs as rarely as possible, because it is not part of a command.
        let file = if with_file { "yes" } else { "no" };
        let options = ["--hz", "1", "--dynamic-hz", "no", "--appendonly", file];
        let server = Server::start_with_module(module, &options);
        let client = connect(&server);
        Self { folder, server, client, dumps: 0 }
    }

    /// Runs a function, and returns the profile of what the server did meanwhile.
    pub fn profile(&mut self, run: impl FnOnce(&mut Connection)) -> Profile {
        self.tell("zero");
        run(&mut self.client);
        self.tell("dump");
        self.dumps += 1;
        let found = self.folder.path().join(format!("out.{}", self.dumps));
        Profile(until("callgrind's profile", || {
            let text = fs::read_to_string(&found).ok()?;
            text.contains("\ntotals: ").then_some(text)
        }))
    }

    fn tell(&self, what: &str) {
        let pid = format!("--pid={}", self.server.pid());
        let told = Command::new("vgdb").args([&pid, what]).output().expect("valgrind's vgdb");
        assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
    }
}

/// A profile in callgrind's own format.
pub struct Profile(String);

impl Profile {
    pub fn text(&self) -> &str {
        &self.0
    }

    /// Returns the number of instructions.
    pub fn instructions(&self) -> f64 {
        let totals = self.0.lines().find_map(|line| line.strip_prefix("totals: "));
        totals.and_then(|total| total.trim().parse().ok()).expect("a number")
    }

    /// Returns the functions below this folder that ran, each with its file.
    ///
    /// A line `fl=(5) path` names a file and gives it a number, and `fl=(5)` refers to it. `fn=` does the same for
    /// functions, in a list of their own. The lines `cfi=`, `cfl=` and `cfn=`, of a call, use the same numbers, but the
    /// function that is called has a line `fn=` elsewhere.
    pub fn functions_below(&self, folder: &str) -> BTreeSet<(String, String)> {
        let mut names: HashMap<(bool, &str), &str> = HashMap::new();
        let mut functions = BTreeSet::new();
        let mut file = "";
        for line in self.0.lines() {
            let Some((kind, value)) = line.split_once('=') else { continue };
            let is_function = matches!(kind, "fn" | "cfn");
            if !is_function && !matches!(kind, "fl" | "fi" | "fe" | "cfi" | "cfl") {
                continue;
            }
            let (number, name) = value.split_once(' ').unwrap_or((value, ""));
            if !name.is_empty() {
                names.insert((is_function, number), name);
            }
            let name = names.get(&(is_function, number)).copied().unwrap_or("");
            match kind {
                "fl" => file = name,
                "fn" if file.contains(folder) => {
                    functions.insert((file.to_owned(), name.to_owned()));
                }
                _ => {}
            }
        }
        functions
    }
}
