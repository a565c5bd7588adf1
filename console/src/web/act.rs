//! Changes: of a queue's settings, of some elements, or of all that match.

use std::sync::Arc;
use std::thread;

use axum::Json;
use axum::extract::State;
use axum::extract::rejection::JsonRejection;
use axum::http::StatusCode;
use redis::Cmd;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::bytes::Bytes;
use super::elements::{Filter, View};
use super::log::{self, Entry};
use super::plan::{Change, Plan, Sum, Targets, run_job};
use super::progress;
use super::query::Words;
use super::queue::Queue;
use super::queues::facts_of;
use super::refusal::Refusal;
use super::session::Caller;
use super::{Page, blocking, permission, schedules};
use crate::ask;
use crate::destination::Destination;

/// Elements that are changed before the answer; more become a job.
const AT_ONCE: usize = 100;
/// Ids that the log names; of more it has the number.
const NAMED: usize = 10;
/// Characters of an id there, at most.
const LONGEST: usize = 200;

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
    Push,
    RunSchedule,
    Unschedule,
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
            Self::Push => "push",
            Self::RunSchedule => "run_schedule",
            Self::Unschedule => "unschedule",
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
    share: Option<u64>,
    words: Option<Vec<String>>,
    /// A group or a schedule, whose setting it is.
    group_b64: Option<Bytes>,
    schedule_b64: Option<Bytes>,
    /// The limits are those of each group.
    #[serde(default)]
    each: bool,
    /// The id of a new element. Without one, the server makes it.
    id_b64: Option<Bytes>,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct Match {
    #[serde(default)]
    view: MatchView,
    #[serde(default)]
    id: String,
    #[serde(default)]
    text: String,
    #[serde(rename = "group_b64")]
    group: Option<Bytes>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
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

pub async fn act(
    State(page): State<Arc<Page>>,
    caller: Caller,
    Words(dry): Words<Dry>,
    request: Result<Json<Request>, JsonRejection>,
) -> Result<Json<Value>, Refusal> {
    let is_dry = dry.count != 0;
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
    let destination = Destination::of_dead_letters(&facts.policy);
    let rights = permission::of(page, account, &node, &queue, &destination)?;
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
    let on = on.unwrap_or_default();
    let about = subject(action, &on);
    let entry = |count: u64, args: String| Entry {
        who: &caller.who,
        action: action.name(),
        queue: &queue,
        count,
        on: &about,
        args,
    };

    let Some(change) = change(action, &args, || account.on(&queue, ask::time))? else {
        let command = match (action, &args.schedule_b64) {
            (Action::RunSchedule, Some(name)) => account
                .on(&queue, |connection| schedules::run_now(connection, &queue.key.0, &name.0))?
                .ok_or_else(|| Refusal::missing("The queue has no schedule of this name."))?,
            _ => setting(action, &args, &queue.key.0)?,
        };
        if is_dry {
            return Ok(json!({ "would": 1, "complete": true }));
        }
        log::record(page, account, &entry(1, said))?;
        let reply: redis::Value = account.on(&queue, |connection| command.query(connection))?;
        account.rights.forget();
        account.reread(&queue);
        let missed = u64::from(reply == redis::Value::Int(0));
        return Ok(json!({ "done": 1 - missed, "missed": missed }));
    };
    let targets = targets(&change, on)?;
    let now = account.on(&queue, ask::time)?;
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
        account.reread(&queue);
        return match sum.problem {
            Some(problem) if sum.done == 0 => {
                Err(Refusal::new(StatusCode::CONFLICT, "REFUSED", problem))
            }
            problem => Ok(json!({ "done": sum.done, "missed": sum.missed, "problem": problem })),
        };
    }
    let job = account.jobs.begin(&caller.who, action.name(), &queue, &about, of)?;
    if let Err(refusal) =
        log::record(page, account, &entry(of.unwrap_or(0), format!("batch {} {said}", job.id())))
    {
        let mut progress = job.progress();
        (progress.state, progress.error) = (progress::State::Failed, Some(refusal.error.clone()));
        drop(progress);
        return Err(refusal);
    }
    let (page, account, who) = (Arc::clone(page), Arc::clone(account), caller.who.clone());
    let answer = json!({ "job": job.id() });
    thread::spawn(move || {
        run_job(&account, &plan, &targets, &job);
        let progress = job.progress().clone();
        let args = format!("batch {} {:?}, missed {}", job.id(), progress.state, progress.missed)
            .to_lowercase();
        let entry = Entry {
            who: &who,
            action: action.name(),
            queue: &plan.queue,
            count: progress.done,
            on: &about,
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

/// Returns the arguments for the log, without the bytes of elements. Names are text.
fn shown(words: &Value) -> String {
    let Some(words) = words.as_object() else { return String::new() };
    let all = words.iter().filter(|(name, _)| *name != "element_b64");
    let all = all.map(|(name, value)| match name.strip_suffix("_b64") {
        Some(short) => {
            let bytes = serde_json::from_value(value.clone()).unwrap_or_default();
            (short.to_owned(), json!(text(&bytes)))
        }
        None => (name.clone(), value.clone()),
    });
    Value::Object(all.collect()).to_string()
}

/// Returns bytes as text, of a length for the log.
fn text(bytes: &Bytes) -> String {
    let text = std::str::from_utf8(&bytes.0).map(str::to_owned);
    let text = text.unwrap_or_else(|_| bytes.0.escape_ascii().to_string());
    text.chars().take(LONGEST).collect()
}

/// Returns what a change is about, for the log and the list of jobs: a filter, or the first ids or entries and their number.
/// Null for the queue itself.
fn subject(action: Action, on: &On) -> Value {
    match on {
        On { ids_b64: Some(ids), .. } => {
            let first: Vec<_> = ids.iter().take(NAMED).map(text).collect();
            json!({ "ids": first, "number": ids.len() })
        }
        On { entries: Some(entries), .. } => {
            json!({ "entries": &entries[..entries.len().min(NAMED)], "number": entries.len() })
        }
        On { matching: Some(Match { view, id, text: part, group }), .. } => {
            let view = match action {
                Action::GiveBack => MatchView::Held,
                Action::Revive | Action::DropDead => MatchView::Dead,
                _ => *view,
            };
            let mut filter = json!({ "view": view, "id": id, "text": part });
            if let Some(group) = group {
                filter["group"] = json!(text(group));
            }
            json!({ "match": filter })
        }
        _ => Value::Null,
    }
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
        Action::Revive => Change::Revive(args.element_b64.clone().map(|element| element.0)),
        Action::DropDead => Change::DropDead,
        _ => return Ok(None),
    }))
}

/// Returns the command of a setting.
fn setting(action: Action, args: &Args, key: &[u8]) -> Result<Cmd, Refusal> {
    let command = |name: &str| {
        let mut command = redis::cmd(name);
        command.arg(key);
        command
    };
    // What a pause is of, unless it is of the whole queue.
    let part = match (&args.group_b64, &args.schedule_b64) {
        (Some(group), _) => Some(("GROUP", group)),
        (None, Some(schedule)) => Some(("SCHEDULE", schedule)),
        (None, None) => None,
    };
    let of_part = |mut command: Cmd| {
        if let Some((word, name)) = part {
            command.arg(word).arg(&name.0);
        }
        command
    };
    Ok(match action {
        Action::Push => push(args, key)?,
        Action::RunSchedule | Action::Unschedule => {
            let name = args.schedule_b64.as_ref();
            let name = name.ok_or_else(|| Refusal::bad("A schedule needs schedule_b64."))?;
            let mut unschedule = command("DEHYDRATOR.UNSCHEDULE");
            unschedule.arg(&name.0);
            unschedule
        }
        Action::Pause => {
            let mut pause = command("DEHYDRATOR.PAUSE");
            match (args.ms, args.at) {
                (Some(ms), None) => pause.arg("FOR").arg(ms),
                (None, Some(at)) => pause.arg("AT").arg(at),
                _ => &mut pause,
            };
            of_part(pause)
        }
        Action::Resume => of_part(command("DEHYDRATOR.RESUME")),
        Action::Limit => {
            let mut limit = of_part(command("DEHYDRATOR.LIMIT"));
            if args.each {
                limit.arg("EACH");
            }
            let rate = args.rate.zip(args.per.or((args.rate == Some(0)).then_some(0)));
            let pairs = [
                ("LENGTH", args.length),
                ("HELD", args.held_limit),
                ("REMEMBER", args.remember),
                ("SHARE", args.share),
            ];
            let pairs: Vec<_> =
                pairs.iter().filter_map(|(name, it)| Some((name, (*it)?))).collect();
            if pairs.is_empty() && rate.is_none() {
                return Err(Refusal::bad(
                    "limit needs length, held, rate with per, remember, or share.",
                ));
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

/// Returns the command that stores a new element.
fn push(args: &Args, key: &[u8]) -> Result<Cmd, Refusal> {
    let element = args.element_b64.as_ref();
    let element = element.ok_or_else(|| Refusal::bad("push needs element_b64."))?;
    let command = if args.id_b64.is_some() { "DEHYDRATOR.PUSH" } else { "DEHYDRATOR.GIDPUSH" };
    let mut push = redis::cmd(command);
    push.arg(key).arg(args.ms.unwrap_or(0)).arg(&element.0);
    if let Some(id) = &args.id_b64 {
        push.arg(&id.0);
    }
    if let Some(at) = args.at {
        push.arg("AT").arg(at);
    }
    if let Some(group) = &args.group_b64 {
        push.arg("GROUP").arg(&group.0);
    }
    Ok(push)
}

/// Returns what the change is about.
fn targets(change: &Change, on: On) -> Result<Targets, Refusal> {
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
            if matches!(change, Change::Revive(Some(_))) && entries.len() != 1 {
                return Err(Refusal::bad("One dead letter is edited at a time."));
            }
            Ok(Targets::Entries(entries))
        }
        On { ids_b64: None, entries: None, matching: Some(it) } => {
            let filter = Filter::new(&it.id, &it.text, it.group);
            let view = match it.view {
                _ if matches!(change, Change::Edit(_) | Change::Revive(Some(_))) => {
                    return Err(Refusal::bad("One element is edited at a time."));
                }
                _ if is_dead => return Ok(Targets::MatchingDead(filter)),
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
