//! A server's process, which is always ended.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use super::machine::{MACHINE, preload_in};
use super::programs::setting;

/// The maximum life of a server in seconds, unless the settings of a run make it longer: then it is killed, and the
/// test that waits for its reply fails. A timeout of the connection would do that too, but a read with a timeout fails
/// with EINTR if the machine was stopped and continued (signal(7)), as when a host migrates its guests. An alarm would
/// not work: servers handle SIGALRM.
const LIFE: u64 = 600;

/// A configuration file of a test, in the server's folder.
pub const CONFIGURATION: &str = "own.conf";

/// Kills it when its life is over, which is a failure. Its owner kills it before that.
pub struct Process {
    child: Arc<Mutex<Child>>,
    is_over: Arc<AtomicBool>,
    /// Dropped with the process, so that the watcher ends.
    _life: Sender<()>,
}

impl Process {
    pub fn spawn(
        program: &Path,
        folder: &Path,
        module: Option<&Path>,
        port: u16,
        options: &[String],
    ) -> Self {
        let log = fs::File::options().create(true).append(true).open(folder.join("log"));
        // With the signal ignored, a file at its limit makes a write fail, as on a full disk.
        let mut command = Command::new("sh");
        command.args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\""]);
        if preload_in(folder).exists() {
            let mut preload = OsString::from("LD_PRELOAD=");
            preload.push(preload_in(folder));
            command.arg("env").arg(preload).env("DEHYDRATOR_MACHINE", folder.join(MACHINE));
        }
        command.arg(program);
        if folder.join(CONFIGURATION).exists() {
            command.arg(CONFIGURATION);
        }
        command
            .current_dir(folder)
            .args(["--port", &port.to_string(), "--unixsocket", "redis.sock"])
            .args(["--enable-debug-command", "yes", "--repl-diskless-sync-delay", "0"])
            // A server that crashes tests its memory, and does not finish with libc's allocator, or with guard pages
            // that /proc/self/maps does not show (docs/compatibility.md).
            .args(["--crash-memcheck-enabled", "no"]);
        // A configuration of its own determines the persistence, also after CONFIG REWRITE.
        if !folder.join(CONFIGURATION).exists() {
            command.args(["--save", "", "--appendonly", "no"]);
            // The server writes a command before it replies. With `everysec`, it waits while a disk is slow, and a kill
            // loses the unwritten part.
            command.args(["--appendfsync", "no"]);
        }
        if let Some(module) = module {
            command.arg("--loadmodule").arg(module);
        }
        command.args(options).stdout(log.expect("a log")).stderr(Stdio::null());
        Self::spawn_for(life(), &mut command)
    }

    fn spawn_for(life: Duration, command: &mut Command) -> Self {
        let child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let child = Arc::new(Mutex::new(child));
        let is_over = Arc::new(AtomicBool::new(false));
        let (_life, dropped) = channel();
        let process = Self { child: Arc::clone(&child), is_over: Arc::clone(&is_over), _life };
        thread::spawn(move || {
            if dropped.recv_timeout(life) == Err(RecvTimeoutError::Timeout) {
                is_over.store(true, Ordering::Relaxed);
                // A child that has ended and was waited for is not signalled.
                let _ = child.lock().expect("no panic").kill();
            }
        });
        process
    }

    pub fn id(&self) -> u32 {
        self.child.lock().expect("no panic").id()
    }

    pub fn try_wait(&self) -> io::Result<Option<ExitStatus>> {
        self.child.lock().expect("no panic").try_wait()
    }

    /// Kills it, and waits until it has ended.
    pub fn kill(&self) -> io::Result<ExitStatus> {
        let mut child = self.child.lock().expect("no panic");
        child.kill()?;
        child.wait()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Otherwise, a test that waits for a server to end would pass although it had to be killed.
        let is_over = self.is_over.load(Ordering::Relaxed);
        assert!(!is_over || thread::panicking(), "the server did not end, and was killed");
    }
}

/// Returns the maximum life of a server. The settings of `tests/torture` make a run longer.
fn life() -> Duration {
    let longer = setting("DEHYDRATOR_OPERATIONS", 0) / 10 + 60 * setting("DEHYDRATOR_SECONDS", 0);
    let expiring = setting("DEHYDRATOR_EXPIRING", 0) / 10_000;
    Duration::from_secs(LIFE + longer + expiring)
}

#[test]
#[should_panic(expected = "the server did not end, and was killed")]
fn a_process_is_killed_when_its_life_is_over() {
    use std::os::unix::process::ExitStatusExt;

    // Like servers, it ignores an alarm.
    let program = ["-c", "trap '' ALRM; while :; do sleep 0.01; done"];
    let process = Process::spawn_for(Duration::from_millis(50), Command::new("sh").args(program));
    let status = super::until("it ends", || process.try_wait().expect("a child"));
    assert_eq!(status.signal(), Some(9));
}
