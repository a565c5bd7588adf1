//! What a user may do to a queue, and the answers that the server gave lately.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::json;

/// How long an answer counts. The server checks each change again.
const FRESH: Duration = Duration::from_secs(5);

/// For each action the reason why it is refused; `None` if it is allowed.
#[derive(Clone, Default)]
pub struct Rights {
    pub reasons: BTreeMap<&'static str, Option<String>>,
    /// Why nothing can be changed here, whatever the user may do.
    pub read_only: Option<String>,
}

impl Rights {
    pub fn json(&self) -> serde_json::Value {
        json!(self.reasons)
    }

    /// Returns why the user may not do this.
    pub fn refuses(&self, action: &str) -> Option<&str> {
        self.reasons.get(action)?.as_deref()
    }
}

/// Answers of the last seconds.
#[derive(Default)]
pub struct Known(Mutex<HashMap<String, (Instant, Rights)>>);

impl Known {
    /// Returns the answer to a question, if it is fresh.
    pub fn find(&self, asked: &str) -> Option<Rights> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, (since, _)| since.elapsed() < FRESH);
        known.get(asked).map(|(_, rights)| rights.clone())
    }

    pub fn keep(&self, asked: String, rights: Rights) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(asked, (Instant::now(), rights));
    }

    /// Forgets all answers, after a change that may have changed a destination.
    pub fn forget(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}
