//! Changes of many elements: how far each has come, and its end.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::http::StatusCode;
use serde_json::{Value, json};

use super::queue::Queue;
use super::refusal::Refusal;

/// Jobs that are remembered.
const KEPT: usize = 100;
/// Jobs that run at the same time.
const RUNNING: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum State {
    Running,
    Done,
    Stopped,
    Failed,
}

#[derive(Clone, Debug)]
pub struct Progress {
    pub done: u64,
    /// Elements that had changed, or for which the server refused the change.
    pub missed: u64,
    pub scanned: u64,
    pub state: State,
    pub error: Option<String>,
}

pub struct Job {
    id: String,
    who: String,
    action: &'static str,
    queue: Queue,
    /// What it is about, see `act`.
    on: Value,
    /// How many it is about, if this is known.
    of: Option<u64>,
    progress: Mutex<Progress>,
    is_to_stop: AtomicBool,
}

impl Job {
    pub fn id(&self) -> &str {
        &self.id
    }

    pub fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends it after its present batch.
    pub fn stop(&self) {
        self.is_to_stop.store(true, Ordering::Relaxed);
    }

    pub fn is_to_stop(&self) -> bool {
        self.is_to_stop.load(Ordering::Relaxed)
    }

    pub fn json(&self) -> Value {
        let progress = self.progress().clone();
        json!({
            "job": self.id,
            "who": self.who,
            "action": self.action,
            "queue": self.queue,
            "on": self.on,
            "of": self.of,
            "done": progress.done,
            "missed": progress.missed,
            "scanned": progress.scanned,
            "state": match progress.state {
                State::Running => "running",
                State::Done => "done",
                State::Stopped => "stopped",
                State::Failed => "failed",
            },
            "error": progress.error,
        })
    }
}

#[derive(Default)]
pub struct Jobs {
    all: Mutex<VecDeque<Arc<Job>>>,
    last: AtomicU64,
}

impl Jobs {
    pub fn all(&self) -> MutexGuard<'_, VecDeque<Arc<Job>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a job that runs.
    pub fn begin(
        &self,
        who: &str,
        action: &'static str,
        queue: &Queue,
        on: &Value,
        of: Option<u64>,
    ) -> Result<Arc<Job>, Refusal> {
        let mut all = self.all();
        let running = all.iter().filter(|job| job.progress().state == State::Running).count();
        if running >= RUNNING {
            let error = format!("{RUNNING} batches run already. Stop one, or wait for its end.");
            return Err(Refusal::new(StatusCode::TOO_MANY_REQUESTS, "JOBS", error));
        }
        let job = Arc::new(Job {
            id: (self.last.fetch_add(1, Ordering::Relaxed) + 1).to_string(),
            who: who.to_owned(),
            action,
            queue: queue.clone(),
            on: on.clone(),
            of,
            progress: Mutex::new(Progress {
                done: 0,
                missed: 0,
                scanned: 0,
                state: State::Running,
                error: None,
            }),
            is_to_stop: AtomicBool::new(false),
        });
        all.push_front(Arc::clone(&job));
        if all.len() > KEPT {
            let oldest = all.iter().rposition(|job| job.progress().state != State::Running);
            oldest.map(|at| all.remove(at));
        }
        Ok(job)
    }

    pub fn find(&self, id: &str) -> Result<Arc<Job>, Refusal> {
        let found = self.all().iter().find(|job| job.id == id).cloned();
        found.ok_or_else(|| Refusal::missing(format!("There is no batch {id}.")))
    }
}
