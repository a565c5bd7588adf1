//! Runs histories in a process of their own, so that one that ends the server ends nothing else.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::FromRawFd;
use std::path::Path;

use super::draw::Drawer;
use super::run::World;
use super::step::{Profile, Step};
use crate::judges::{Fault, Promise};

/// How long one run may take, in seconds of the processor.
const RUN_S: libc::time_t = 120;

/// What a child tells its parent, in lines.
#[derive(Debug)]
pub enum Said {
    /// It begins with this seed.
    Began(u64),
    /// It ran so many operations.
    Did(u64),
    Broke(Fault),
}

/// Runs `work` in a child, and calls `hear` with what it says. A child that ends otherwise than by returning has broken
/// [`Promise::Ends`].
pub fn in_child(work: impl FnOnce(&mut dyn FnMut(Said)), mut hear: impl FnMut(Said)) {
    let mut ends = [0; 2];
    // SAFETY: there is room for two descriptors.
    assert_eq!(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) }, 0, "a pipe");
    // SAFETY: there is only one thread.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "a process");
    // SAFETY: each end has one owner in each process.
    let [from, to] = ends.map(|end| unsafe { File::from_raw_fd(end) });
    if child == 0 {
        drop(from);
        let mut to = to;
        work(&mut |said| {
            let line = match said {
                Said::Began(seed) => format!("S {seed}\n"),
                Said::Did(count) => format!("D {count}\n"),
                Said::Broke(fault) => {
                    format!("F {} {}\n", fault.promise.name(), fault.what.replace('\n', " "))
                }
            };
            to.write_all(line.as_bytes()).expect("the parent reads");
        });
        to.write_all(b"E\n").expect("the parent reads");
        // SAFETY: nothing of the libraries is run any more.
        unsafe { libc::_exit(0) };
    }
    drop(to);
    let mut is_over = false;
    for line in BufReader::new(from).lines() {
        let line = line.expect("the child writes lines");
        let (kind, rest) = line.split_at(1);
        let rest = rest.trim_start();
        match kind {
            "S" => hear(Said::Began(rest.parse().expect("a seed"))),
            "D" => hear(Said::Did(rest.parse().expect("a number"))),
            "F" => {
                let (name, what) = rest.split_once(' ').unwrap_or((rest, ""));
                let promise = Promise::of_name(name).expect("a promise");
                hear(Said::Broke(promise.broken(what)));
            }
            _ => is_over = true,
        }
    }
    let mut status = 0;
    // SAFETY: it is our own child.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    if !is_over {
        let how = if libc::WIFSIGNALED(status) {
            format!("by signal {}", libc::WTERMSIG(status))
        } else {
            format!("with status {}", libc::WEXITSTATUS(status))
        };
        hear(Said::Broke(Promise::Ends.broken(format!("the server ended {how}"))));
    }
}

/// Runs a history. Returns how many operations that were, and what was broken.
pub fn run(library: &Path, profile: &Profile, steps: &[Step]) -> (u64, Result<(), Fault>) {
    let never = libc::timeval { tv_sec: 0, tv_usec: 0 };
    let most = libc::timeval { tv_sec: RUN_S, tv_usec: 0 };
    let timer = libc::itimerval { it_interval: never, it_value: most };
    // SAFETY: the timer lives for the call. It ends a run that hangs.
    unsafe { libc::setitimer(libc::ITIMER_PROF, &raw const timer, std::ptr::null_mut()) };
    let mut world = World::new(library, profile);
    let result = world.run(steps);
    (world.operations, result)
}

/// Runs a history in a child. Returns what was broken.
pub fn run_apart(library: &Path, profile: &Profile, steps: &[Step]) -> Option<Fault> {
    let mut fault = None;
    let work = |say: &mut dyn FnMut(Said)| {
        if let Err(fault) = run(library, profile, steps).1 {
            say(Said::Broke(fault));
        }
    };
    in_child(work, |said| {
        if let Said::Broke(broken) = said {
            fault.get_or_insert(broken);
        }
    });
    fault
}

/// Draws the history of a seed.
pub fn history(seed: u64) -> (Profile, Vec<Step>) {
    let profile = Profile::draw(seed);
    let steps = Drawer::new(&profile).steps();
    (profile, steps)
}
