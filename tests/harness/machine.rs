//! A server's machine whose clock steps and whose forks fail. See tests/preload/machine.c.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use tempfile::TempDir;

use super::{Server, cmd, free_port, release_module, root, server_program, until};

/// The settings of the server's machine, in the server's folder.
pub(crate) const MACHINE: &str = "machine";

impl Server {
    /// Like [`Server::start_with_port`], on a machine whose real-time clock [`Server::shift_clock`] sets, and on which
    /// forks fail after [`Server::fail_forks`]. The monotonic clock is not affected, as when an operator sets the clock
    /// of a machine.
    pub fn start_with_clock(options: &[&str]) -> Self {
        let folder = TempDir::new().expect("a temporary folder");
        fs::write(folder.path().join(MACHINE), [0; 16]).expect("a machine like any other");
        let compiled = Command::new("cc")
            .args(["-O1", "-shared", "-fPIC", "-o"])
            .arg(preload_in(folder.path()))
            .arg(root().join("tests/preload/machine.c"))
            .status()
            .expect("a C compiler, which `make setup` installs");
        assert!(compiled.success(), "tests/preload/machine.c does not compile");
        let mut server =
            Self::launch_in(folder, server_program(), release_module(), free_port(), options);
        server.wait_until_up();
        server
    }

    /// Sets the server's real-time clock this many milliseconds ahead of the true one, or behind it, and waits until
    /// the server notices: Valkey 9 reads the time once per millisecond.
    pub fn shift_clock(&self, milliseconds: i64) {
        // No test steps by less.
        const STEP: u64 = 100;
        self.want_of_machine(0, milliseconds * 1000);
        let mut client = self.connect();
        until("the server has the time", || {
            let reply: (u64, u64) = cmd("TIME").query(&mut client).expect("the time");
            let there = Duration::from_secs(reply.0) + Duration::from_micros(reply.1);
            let here = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
            let ahead = there.as_millis() as i64 - here.expect("after 1970").as_millis() as i64;
            ((ahead - milliseconds).unsigned_abs() < STEP).then_some(())
        });
    }

    /// Makes the server's forks fail, as without memory or processes, or succeed.
    pub fn fail_forks(&self, fail: bool) {
        const ENOMEM: i64 = 12;
        self.want_of_machine(1, if fail { ENOMEM } else { 0 });
    }

    fn want_of_machine(&self, index: u64, number: i64) {
        let file = fs::File::options().write(true).open(self.file(MACHINE)).expect("a machine");
        // In one write, in place: the server has mapped the file.
        file.write_all_at(&number.to_ne_bytes(), index * 8).expect("it is set");
    }
}

/// Returns the library that replaces parts of the machine, compiled.
pub(crate) fn preload_in(folder: &Path) -> PathBuf {
    folder.join("machine.so")
}
