//! Changes: of a queue's settings, of some elements, or of all that match, in small batches.
//!
//! Between the list that a user has seen and the change, an element may have been taken, given out or replaced. What must
//! not meet a held element is checked by a script, in the same moment as the change; what is about a held one names its token.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use axum::Json;
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{Query, State};
use axum::http::StatusCode;
use redis::{Cmd, Connection, RedisResult};
use serde::Deserialize;
use serde_json::{Value, json};

use super::account::{Account, Queue};
use super::bytes::Bytes;
use super::dead;
use super::destination::Destination;
use super::elements::{self, Filter, STEP, View};
use super::jobs::{self, Job};
use super::log::{self, Entry};
use super::queues::facts_of;
use super::refusal::Refusal;
use super::session::Caller;
use super::{Page, blocking, rights};
use crate::facts::Facts;

/// Elements in one batch, at most.
const BATCH: usize = 20;
/// Bytes of elements that one batch reads, about.
const READ: u64 = 128 << 10;
/// Elements that are changed before the answer; more become a job.
const AT_ONCE: usize = 100;
/// The time for counting what a change would touch.
const COUNTING: Duration = Duration::from_millis(400);
/// The shortest rest between two batches of a job. It rests for as long as the last batch took.
const REST: Duration = Duration::from_millis(1);

#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "snake_case")]
enum Action {
    RunNow,
    Postpone,
    Cancel,
    Edit,
    GiveBack,
    Revive,
    DropDead,
    Pause,
    Resume,
    Limit,
    Ondue,
}

impl Action {
    fn name(self) -> &'static str {
        match self {
            Self::RunNow => "run_now",
            Self::Postpone => "postpone",
            Self::Cancel => "cancel",
            Self::Edit => "edit",
            Self::GiveBack => "give_back",
            Self::Revive => "revive",
            Self::DropDead => "drop_dead",
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Limit => "limit",
            Self::Ondue => "ondue",
        }
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
struct Args {
    ms: Option<u64>,
    at: Option<u64>,
    /// Cancel elements that are held too.
    #[serde(default)]
    held: bool,
    element_b64: Option<Bytes>,
    length: Option<u64>,
    #[serde(rename = "held_limit")]
    held_limit: Option<u64>,
    rate: Option<u64>,
    per: Option<u64>,
    remember: Option<u64>,
    words: Option<Vec<String>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct Match {
    #[serde(default)]
    view: MatchView,
    #[serde(default)]
    id: String,
    #[serde(default)]
    text: String,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "snake_case")]
enum MatchView {
    #[default]
    Next,
    Held,
    Due,
    Dead,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct On {
    ids_b64: Option<Vec<Bytes>>,
    entries: Option<Vec<String>>,
    #[serde(rename = "match")]
    matching: Option<Match>,
}

#[derive(Deserialize)]
pub struct Request {
    queue: Queue,
    action: Action,
    #[serde(default)]
    args: Value,
    on: Option<On>,
    #[serde(default)]
    dry: bool,
}

#[derive(Deserialize)]
pub struct Dry {
    #[serde(default)]
    count: u8,
}

/// A change, with all that it needs.
#[derive(Clone, Debug)]
enum Change {
    RunNow,
    /// To a moment.
    Postpone(u64),
    Cancel {
        even_held: bool,
    },
    Edit(Vec<u8>),
    GiveBack(u64),
    Revive(u64),
    DropDead,
}

/// What it is about.
#[derive(Clone, Debug)]
enum Targets {
    Ids(Vec<Vec<u8>>),
    Entries(Vec<String>),
    Matching(View, Filter),
    MatchingDead(Filter),
}

/// A change of elements of one queue.
#[derive(Clone)]
struct Plan {
    queue: Queue,
    facts: Facts,
    destination: Destination,
    change: Change,
    now: u64,
}

pub async fn act(
    State(page): State<Arc<Page>>,
    caller: Caller,
    dry: Result<Query<Dry>, QueryRejection>,
    request: Result<Json<Request>, JsonRejection>,
) -> Result<Json<Value>, Refusal> {
    let is_dry = dry?.0.count != 0;
    let Json(request) = request?;
    let is_dry = is_dry || request.dry;
    blocking(move || perform(&page, &caller, request, is_dry).map(Json)).await
}

fn perform(
    page: &Arc<Page>,
    caller: &Caller,
    request: Request,
    is_dry: bool,
) -> Result<Value, Refusal> {
    let Request { queue, action, args: words, on, .. } = request;
    let account = &caller.account;
    let (node, facts) = facts_of(account, &queue)?;
    let queue = Queue { node: node.name.clone(), ..queue };
    let destination = Destination::of_dead_letters(facts.policy.as_deref().unwrap_or_default());
    let rights = rights::of(page, account, &node, &queue, &destination)?;
    if let Some(reason) = rights.refuses(action.name()) {
        let code = if rights.read_only.is_some() { "READONLY" } else { "NOPERM" };
        return Err(Refusal::forbidden(code, reason));
    }
    let args: Args = match &words {
        Value::Null => Args::default(),
        words => serde_json::from_value(limits_aside(action, words.clone()))
            .map_err(|error| Refusal::bad(format!("args: {error}.")))?,
    };
    let said = shown(&words);
    let entry = |count: u64, args: String| Entry {
        who: &caller.who,
        action: action.name(),
        queue: &queue,
        count,
        args,
    };

    let Some(change) = change(action, &args, || account.on(&queue, elements::time))? else {
        let command = setting(action, &args, &queue.key.0)?;
        if is_dry {
            return Ok(json!({ "would": 1, "complete": true }));
        }
        log::record(page, account, &entry(1, said))?;
        let reply: redis::Value = account.on(&queue, |connection| command.query(connection))?;
        account.rights.forget();
        let missed = u64::from(reply == redis::Value::Int(0));
        return Ok(json!({ "done": 1 - missed, "missed": missed }));
    };
    let targets = targets(&change, on)?;
    let now = account.on(&queue, elements::time)?;
    let plan = Plan { queue: queue.clone(), facts, destination, change, now };
    if is_dry {
        let (would, complete) = plan.count(account, &targets)?;
        return Ok(json!({ "would": would, "complete": complete }));
    }
    let at_once = match &targets {
        Targets::Ids(ids) => ids.len() <= AT_ONCE,
        Targets::Entries(entries) => entries.len() <= AT_ONCE,
        _ => false,
    };
    let of = plan.expected(&targets);
    if at_once {
        log::record(page, account, &entry(of.unwrap_or(0), said))?;
        let mut sum = Sum::default();
        plan.run(account, &targets, |more| {
            sum.add(&more);
            true
        })?;
        return match sum.problem {
            Some(problem) if sum.done == 0 => {
                Err(Refusal::new(StatusCode::CONFLICT, "REFUSED", problem))
            }
            problem => Ok(json!({ "done": sum.done, "missed": sum.missed, "problem": problem })),
        };
    }
    let job = account.jobs.begin(&caller.who, action.name(), &queue, of)?;
    if let Err(refusal) =
        log::record(page, account, &entry(of.unwrap_or(0), format!("job {} {said}", job.id())))
    {
        let mut progress = job.progress();
        (progress.state, progress.error) = (jobs::State::Failed, Some(refusal.error.clone()));
        drop(progress);
        return Err(refusal);
    }
    let (page, account, who) = (Arc::clone(page), Arc::clone(account), caller.who.clone());
    let answer = json!({ "job": job.id() });
    thread::spawn(move || {
        run_job(&account, &plan, &targets, &job);
        let progress = job.progress().clone();
        let args = format!("job {} {:?}, missed {}", job.id(), progress.state, progress.missed)
            .to_lowercase();
        let entry = Entry {
            who: &who,
            action: action.name(),
            queue: &plan.queue,
            count: progress.done,
            args,
        };
        // The change is recorded already; this only tells how it ended.
        let _ = log::record(&page, &account, &entry);
    });
    Ok(answer)
}

/// Renames the `held` of limits, which is a number there.
fn limits_aside(action: Action, mut words: Value) -> Value {
    if action == Action::Limit
        && let Some(words) = words.as_object_mut()
        && let Some(held) = words.remove("held")
    {
        words.insert("held_limit".into(), held);
    }
    words
}

/// Returns the arguments for the log, without the bytes of elements.
fn shown(words: &Value) -> String {
    let mut words = words.clone();
    if let Some(words) = words.as_object_mut() {
        words.remove("element_b64");
    }
    if words.is_null() { String::new() } else { words.to_string() }
}

/// Returns the change of elements; `None` for a change of settings.
fn change(
    action: Action,
    args: &Args,
    now: impl FnOnce() -> Result<u64, Refusal>,
) -> Result<Option<Change>, Refusal> {
    let ms = args.ms.unwrap_or(0);
    Ok(Some(match action {
        Action::RunNow => Change::RunNow,
        Action::Postpone => Change::Postpone(match (args.at, args.ms) {
            (Some(at), None) => at,
            (None, Some(ms)) => now()?.saturating_add(ms),
            _ => return Err(Refusal::bad("postpone needs ms or at.")),
        }),
        Action::Cancel => Change::Cancel { even_held: args.held },
        Action::Edit => {
            let element = args.element_b64.clone();
            Change::Edit(element.ok_or_else(|| Refusal::bad("edit needs element_b64."))?.0)
        }
        Action::GiveBack => Change::GiveBack(ms),
        Action::Revive => Change::Revive(ms),
        Action::DropDead => Change::DropDead,
        Action::Pause | Action::Resume | Action::Limit | Action::Ondue => return Ok(None),
    }))
}

/// Returns the command of a setting.
fn setting(action: Action, args: &Args, key: &[u8]) -> Result<Cmd, Refusal> {
    let command = |name: &str| {
        let mut command = redis::cmd(name);
        command.arg(key);
        command
    };
    Ok(match action {
        Action::Pause => {
            let mut pause = command("DEHYDRATOR.PAUSE");
            match (args.ms, args.at) {
                (Some(ms), None) => pause.arg(ms),
                (None, Some(at)) => pause.arg("AT").arg(at),
                _ => &mut pause,
            };
            pause
        }
        Action::Resume => command("DEHYDRATOR.RESUME"),
        Action::Limit => {
            let mut limit = command("DEHYDRATOR.LIMIT");
            let rate = args.rate.zip(args.per.or((args.rate == Some(0)).then_some(0)));
            let pairs =
                [("LENGTH", args.length), ("HELD", args.held_limit), ("REMEMBER", args.remember)];
            let pairs: Vec<_> =
                pairs.iter().filter_map(|(name, it)| Some((name, (*it)?))).collect();
            if pairs.is_empty() && rate.is_none() {
                return Err(Refusal::bad("limit needs length, held, rate with per, or remember."));
            }
            for (name, number) in pairs {
                limit.arg(name).arg(number);
            }
            if let Some((rate, per)) = rate {
                // A rate of 0 ends the limit, whatever the time.
                limit.arg("RATE").arg(rate).arg("PER").arg(per.max(1));
            }
            limit
        }
        _ => {
            let words = args.words.as_deref().filter(|words| !words.is_empty());
            let words = words.ok_or_else(|| Refusal::bad("ondue needs words."))?;
            let mut ondue = command("DEHYDRATOR.ONDUE");
            ondue.arg(words);
            ondue
        }
    })
}

/// Returns what the change is about.
fn targets(change: &Change, on: Option<On>) -> Result<Targets, Refusal> {
    let on = on.unwrap_or_default();
    let is_dead = matches!(change, Change::Revive(_) | Change::DropDead);
    match on {
        On { ids_b64: Some(ids), entries: None, matching: None } if !is_dead && !ids.is_empty() => {
            if matches!(change, Change::Edit(_)) && ids.len() != 1 {
                return Err(Refusal::bad("One element is edited at a time."));
            }
            Ok(Targets::Ids(ids.into_iter().map(|id| id.0).collect()))
        }
        On { ids_b64: None, entries: Some(entries), matching: None }
            if is_dead && !entries.is_empty() =>
        {
            Ok(Targets::Entries(entries))
        }
        On { ids_b64: None, entries: None, matching: Some(it) } => {
            let filter = Filter::new(&it.id, &it.text);
            let view = match it.view {
                _ if is_dead => return Ok(Targets::MatchingDead(filter)),
                _ if matches!(change, Change::Edit(_)) => {
                    return Err(Refusal::bad("One element is edited at a time."));
                }
                _ if matches!(change, Change::GiveBack(_)) => View::Held,
                MatchView::Held => View::Held,
                MatchView::Due => View::Due,
                MatchView::Next => View::Next,
                MatchView::Dead => {
                    return Err(Refusal::bad("Dead letters are revived or dropped."));
                }
            };
            Ok(Targets::Matching(view, filter))
        }
        _ if is_dead => Err(Refusal::bad("The change needs on.entries or on.match.")),
        _ => Err(Refusal::bad("The change needs on.ids_b64 or on.match.")),
    }
}

/// The outcome of some batches.
#[derive(Clone, Debug, Default)]
struct Sum {
    done: u64,
    missed: u64,
    scanned: u64,
    problem: Option<String>,
}

impl Sum {
    fn add(&mut self, more: &Self) {
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
                done = done + redis.call('DEHYDRATOR.TOUCH', KEYS[1], ARGV[i], 0, 'LT') \
            elseif ARGV[1] == 'cancel' then \
                done = done + redis.call('DEHYDRATOR.REM', KEYS[1], ARGV[i]) \
            else \
                done = done + redis.call('DEHYDRATOR.TOUCH', KEYS[1], ARGV[i], ARGV[1], 'AT', ARGV[2]) \
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
    fn expected(&self, targets: &Targets) -> Option<u64> {
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
    fn count(&self, account: &Account, targets: &Targets) -> Result<(u64, bool), Refusal> {
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
    fn run(
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
                let mut steps =
                    elements::Steps::new(key, start, end, filter.text.is_some(), &self.facts);
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
            Change::Revive(ms) => {
                dead::revive(connection, &self.queue.key.0, &self.destination, ms, entries)
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
fn run_job(account: &Account, plan: &Plan, targets: &Targets, job: &Job) {
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
    let mut progress = job.progress();
    progress.state = match result {
        Ok(true) => jobs::State::Done,
        Ok(false) => jobs::State::Stopped,
        Err(refusal) => {
            progress.error = Some(refusal.error);
            jobs::State::Failed
        }
    };
}
