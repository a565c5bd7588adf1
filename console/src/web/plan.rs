//! A change of many elements, in small batches.
//!
//! Between the list that a user has seen and the change, an element may have been taken, given out or replaced. What must
//! not meet a held element is checked by a script, in the same moment as the change; what is about a held one names its token.

use std::thread;
use std::time::{Duration, Instant};

use redis::{Connection, RedisResult};

use super::account::Account;
use super::dead;
use super::elements::{self, Filter, STEP, View};
use super::progress::{self, Job};
use super::queue::Queue;
use super::refusal::Refusal;
use crate::destination::Destination;
use crate::facts::Facts;

/// Elements in one batch, at most.
const BATCH: usize = 20;
/// Bytes of elements that one batch reads, about.
const READ: u64 = 128 << 10;
/// The time for counting what a change would touch.
const COUNTING: Duration = Duration::from_millis(400);
/// The shortest rest between two batches of a job. It rests for as long as the last batch took.
const REST: Duration = Duration::from_millis(1);

/// A change, with all that it needs.
#[derive(Clone, Debug)]
pub enum Change {
    RunNow,
    /// To a moment.
    Postpone(u64),
    Cancel {
        even_held: bool,
    },
    Edit(Vec<u8>),
    GiveBack(u64),
    /// A single one perhaps with another element.
    Revive(Option<Vec<u8>>),
    DropDead,
}

/// What it is about.
#[derive(Clone, Debug)]
pub enum Targets {
    Ids(Vec<Vec<u8>>),
    Entries(Vec<String>),
    Matching(View, Filter),
    MatchingDead(Filter),
}

/// A change of elements of one queue.
#[derive(Clone)]
pub struct Plan {
    pub queue: Queue,
    pub facts: Facts,
    pub destination: Destination,
    pub change: Change,
    pub now: u64,
}

/// The outcome of some batches.
#[derive(Clone, Debug, Default)]
pub struct Sum {
    pub done: u64,
    pub missed: u64,
    pub scanned: u64,
    pub problem: Option<String>,
}

impl Sum {
    pub fn add(&mut self, more: &Self) {
        self.done += more.done;
        self.missed += more.missed;
        self.scanned += more.scanned;
        self.problem = more.problem.clone().or(self.problem.take());
    }
}

/// Changes elements that nobody holds, in one moment with the check of that.
const UNLESS_HELD: &str = "local done = 0 \
    for i = 3, #ARGV do \
        local found = redis.call('DEHYDRATOR.LOOK', KEYS[1], ARGV[i], 'FULL') \
        local held = not found \
        for j = 1, found and #found or 0, 2 do \
            if found[j] == 'token' and found[j + 1] then held = true end \
        end \
        if not held then \
            if ARGV[1] == 'run_now' then \
                done = done + redis.call('DEHYDRATOR.TOUCH', KEYS[1], 0, 'LT', ARGV[i]) \
            elseif ARGV[1] == 'cancel' then \
                done = done + redis.call('DEHYDRATOR.REM', KEYS[1], ARGV[i]) \
            else \
                done = done + redis.call('DEHYDRATOR.TOUCH', KEYS[1], ARGV[1], 'AT', ARGV[2], ARGV[i]) \
            end \
        end \
    end \
    return done";

/// An element of a batch, with its token if that is known.
struct Target {
    id: Vec<u8>,
    token: Option<Vec<u8>>,
}

impl Plan {
    /// Returns how many elements a batch has.
    fn batch(&self) -> usize {
        usize::try_from(READ / self.facts.mean_size().max(1)).unwrap_or(1).clamp(1, BATCH)
    }

    /// Returns how many elements it is about, if this is known beforehand.
    pub fn expected(&self, targets: &Targets) -> Option<u64> {
        match targets {
            Targets::Ids(ids) => Some(ids.len() as u64),
            Targets::Entries(entries) => Some(entries.len() as u64),
            Targets::Matching(_, filter) | Targets::MatchingDead(filter) if filter.is_any() => None,
            Targets::Matching(View::Held, _) => Some(self.facts.leased),
            Targets::Matching(View::Due, _) => Some(self.facts.due),
            Targets::Matching(View::Next, _) => Some(match self.change {
                Change::RunNow => self.facts.waiting(),
                Change::Cancel { even_held: true } => self.facts.length,
                _ => self.facts.length.saturating_sub(self.facts.leased),
            }),
            Targets::MatchingDead(_) => None,
        }
    }

    /// Returns how many elements the change would touch, and whether all were counted.
    pub fn count(&self, account: &Account, targets: &Targets) -> Result<(u64, bool), Refusal> {
        if let Some(expected) = self.expected(targets) {
            return Ok((expected, true));
        }
        let begun = Instant::now();
        let mut would = 0;
        let is_complete = self.walk(account, targets, |found| {
            would += found.len() as u64;
            Ok((begun.elapsed() < COUNTING).then_some(0))
        })?;
        Ok((would, is_complete))
    }

    /// Changes all targets, batch by batch, until `goes_on` returns false. Returns whether it came to the end.
    pub fn run(
        &self,
        account: &Account,
        targets: &Targets,
        mut goes_on: impl FnMut(Sum) -> bool,
    ) -> Result<bool, Refusal> {
        self.walk(account, targets, |found| {
            let scanned = Sum { scanned: found.scanned(), ..Sum::default() };
            if !goes_on(scanned) {
                return Ok(None);
            }
            let mut sum = 0;
            match found {
                Found::Targets(targets, _) => {
                    for batch in targets.chunks(self.batch()) {
                        let done =
                            account.on(&self.queue, |connection| self.apply(connection, batch))?;
                        let missed = (batch.len() as u64).saturating_sub(done);
                        sum += done;
                        if !goes_on(Sum { done, missed, ..Sum::default() }) {
                            return Ok(None);
                        }
                    }
                }
                Found::Entries(entries, _) => {
                    for batch in entries.chunks(self.batch()) {
                        let (done, problem) = account
                            .on(&self.queue, |connection| self.apply_to_dead(connection, batch))?;
                        let missed = (batch.len() as u64).saturating_sub(done);
                        sum += done;
                        if !goes_on(Sum { done, missed, problem, scanned: 0 }) {
                            return Ok(None);
                        }
                    }
                }
            }
            Ok(Some(sum))
        })
    }

    /// Finds the targets in small steps. `visit` returns how many it has changed, or `None` to stop. Returns whether it came to
    /// the end.
    fn walk(
        &self,
        account: &Account,
        targets: &Targets,
        mut visit: impl FnMut(Found) -> Result<Option<u64>, Refusal>,
    ) -> Result<bool, Refusal> {
        match targets {
            Targets::Ids(ids) => {
                let target = |id: &Vec<u8>| Target { id: id.clone(), token: None };
                let ids: Vec<_> = ids.iter().map(target).collect();
                let scanned = ids.len();
                Ok(visit(Found::Targets(ids, scanned))?.is_some())
            }
            Targets::Entries(entries) => {
                Ok(visit(Found::Entries(entries.clone(), entries.len()))?.is_some())
            }
            Targets::Matching(view, filter) => {
                // What is due already needs no hurry, and what was hurried is met no more.
                let start = match self.change {
                    Change::RunNow => format!("({}", self.now),
                    _ => "-".to_owned(),
                };
                let end = if *view == View::Due { self.now.to_string() } else { "+".to_owned() };
                let key = &self.queue.key.0;
                let mut steps = elements::Steps::new(key, start, end, filter, &self.facts);
                while steps.start.is_some() {
                    let rows =
                        account.on(&self.queue, |connection| steps.step(connection, STEP))?;
                    let scanned = rows.len();
                    let rows = rows.into_iter().filter(|row| filter.takes(*view, row));
                    let rows = rows.filter(|row| self.concerns(*view, row));
                    let rows = rows.map(|row| Target { id: row.id, token: row.token }).collect();
                    if visit(Found::Targets(rows, scanned))?.is_none() {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Targets::MatchingDead(filter) => {
                let destination = &self.destination;
                let mut steps = account
                    .on(&self.queue, |connection| dead::Steps::forward(connection, destination))?;
                while steps.start.is_some() {
                    let letters =
                        account.on(&self.queue, |connection| steps.step(connection, STEP))?;
                    let scanned = letters.len();
                    let letters = letters.into_iter().filter(|letter| letter.is_taken_by(filter));
                    let entries: Vec<_> = letters.map(|letter| letter.entry).collect();
                    let Some(removed) = visit(Found::Entries(entries, scanned))? else {
                        return Ok(false);
                    };
                    if let (Destination::List(_), Some(start)) = (destination, &mut steps.start) {
                        // What was removed has moved the rest towards the head.
                        let next = start.parse::<u64>().unwrap_or(0);
                        *start = next.saturating_sub(removed).to_string();
                    }
                }
                Ok(true)
            }
        }
    }

    /// Returns whether a row is to be changed, apart from the filter.
    fn concerns(&self, view: View, row: &elements::Row) -> bool {
        match self.change {
            // It has been changed already, and is met again at its new moment.
            Change::Postpone(at) => row.deadline != at && row.token.is_none(),
            Change::Cancel { even_held } => even_held || view == View::Held || row.token.is_none(),
            Change::GiveBack(_) => row.token.is_some(),
            _ => row.token.is_none(),
        }
    }

    /// Changes a batch of elements. Returns how many.
    fn apply(&self, connection: &mut Connection, batch: &[Target]) -> RedisResult<u64> {
        if batch.is_empty() {
            return Ok(0);
        }
        let key = &self.queue.key.0;
        let ids = || batch.iter().map(|target| &target.id).collect::<Vec<_>>();
        let unless_held = |words: [String; 2]| {
            let mut eval = redis::cmd("EVAL");
            eval.arg(UNLESS_HELD).arg(1).arg(key).arg(&words).arg(ids());
            eval
        };
        match &self.change {
            Change::RunNow => unless_held(["run_now".into(), String::new()]).query(connection),
            Change::Postpone(at) => {
                let ttl = at.saturating_sub(self.now);
                unless_held([ttl.to_string(), at.to_string()]).query(connection)
            }
            Change::Cancel { even_held: false } => {
                unless_held(["cancel".into(), String::new()]).query(connection)
            }
            Change::Cancel { even_held: true } => {
                redis::cmd("DEHYDRATOR.REM").arg(key).arg(ids()).query(connection)
            }
            Change::Edit(element) => {
                let mut update = redis::cmd("DEHYDRATOR.UPDATE");
                for target in batch {
                    match update.arg(key).arg(&target.id).arg(element).exec(connection) {
                        Err(error) if error.code() == Some("NOSUCHID") => return Ok(0),
                        result => result?,
                    }
                }
                Ok(batch.len() as u64)
            }
            Change::GiveBack(ms) => {
                let mut release = redis::cmd("DEHYDRATOR.RELEASE");
                release.arg(key).arg(ms);
                let mut is_empty = true;
                for target in batch {
                    let token = match &target.token {
                        Some(token) => Some(token.clone()),
                        None => elements::look_full(connection, key, &target.id)?
                            .and_then(|row| row.token),
                    };
                    if let Some(token) = token {
                        release.arg(token).arg(&target.id);
                        is_empty = false;
                    }
                }
                if is_empty {
                    return Ok(0);
                }
                let given: Vec<u64> = release.query(connection)?;
                Ok(given.iter().sum())
            }
            Change::Revive(_) | Change::DropDead => Ok(0),
        }
    }

    fn apply_to_dead(
        &self,
        connection: &mut Connection,
        entries: &[String],
    ) -> RedisResult<(u64, Option<String>)> {
        match self.change {
            _ if entries.is_empty() => Ok((0, None)),
            Change::Revive(ref element) => {
                let (key, destination) = (&self.queue.key.0, &self.destination);
                dead::revive(connection, key, destination, element.as_deref(), entries)
            }
            _ => Ok((dead::drop_all(connection, &self.destination, entries)?, None)),
        }
    }
}

/// What a step has found, and how many it has looked at.
enum Found {
    Targets(Vec<Target>, usize),
    Entries(Vec<String>, usize),
}

impl Found {
    fn len(&self) -> usize {
        match self {
            Self::Targets(targets, _) => targets.len(),
            Self::Entries(entries, _) => entries.len(),
        }
    }

    fn scanned(&self) -> u64 {
        match self {
            Self::Targets(_, scanned) | Self::Entries(_, scanned) => *scanned as u64,
        }
    }
}

/// Runs a job to its end, or until it is to stop, with a rest after each batch.
pub fn run_job(account: &Account, plan: &Plan, targets: &Targets, job: &Job) {
    let mut begun = Instant::now();
    let result = plan.run(account, targets, |more| {
        {
            let mut progress = job.progress();
            progress.done += more.done;
            progress.missed += more.missed;
            progress.scanned += more.scanned;
            progress.error = more.problem.or(progress.error.take());
        }
        thread::sleep(begun.elapsed().clamp(REST, Duration::from_millis(100)));
        begun = Instant::now();
        !job.is_to_stop()
    });
    // Whoever sees the end sees its outcome too.
    account.reread(&plan.queue);
    let mut progress = job.progress();
    progress.state = match result {
        Ok(true) => progress::State::Done,
        Ok(false) => progress::State::Stopped,
        Err(refusal) => {
            progress.error = Some(refusal.error);
            progress::State::Failed
        }
    };
}
