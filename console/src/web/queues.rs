//! The nodes, the queues, and one queue.

use std::cmp::Ordering;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::account::Account;
use super::bytes::{Bytes, Needle, encode};

use super::node::{Node, Role};
use super::query::Words;
use super::queue::Queue;
use super::refusal::Refusal;
use super::session::Caller;
use super::{Page, blocking, permission};
use crate::ask;
use crate::destination::Destination;
use crate::facts::{Facts, Limits};

/// Queues in one answer, at most.
const LIMIT: usize = 500;
/// Counters of INFO whose growth is shown.
const RATES: [&str; 7] =
    ["pushes", "pulls", "polls", "deliveries", "redeliveries", "dead_letters", "retries"];

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sort {
    #[default]
    Length,
    Oldest,
    Due,
    Held,
    Waiting,
    Net,
    Dead,
    Memory,
    Key,
}

#[derive(Deserialize)]
pub struct Overview {
    #[serde(default)]
    sort: Sort,
    desc: Option<u8>,
    #[serde(default)]
    offset: usize,
    limit: Option<usize>,
    #[serde(default, rename = "match")]
    matching: String,
}

/// A queue of the overview.
struct Row {
    queue: Queue,
    facts: Facts,
    net: Option<f64>,
    dead: Option<u64>,
}

pub async fn overview(
    caller: Caller,
    Words(asked): Words<Overview>,
) -> Result<Json<Value>, Refusal> {
    blocking(move || Ok(Json(overview_of(&caller.account, &asked)))).await
}

fn overview_of(account: &Account, asked: &Overview) -> Value {
    let nodes = account.nodes();
    // The clock of a server that answers.
    let now = nodes.iter().map(|node| node.state().figures.now_ms).max().unwrap_or(0);
    let needle = Needle::new(&asked.matching);
    let mut rows = Vec::new();
    for node in account.sources() {
        rows.extend(rows_of(&node, needle.as_ref()));
    }
    let total = rows.len();
    let is_descending = asked.desc.map_or(!matches!(asked.sort, Sort::Key), |desc| desc != 0);
    rows.sort_by(|a, b| {
        let order = compare(a, b, asked.sort);
        let order = if is_descending { order.reverse() } else { order };
        order.then_with(|| a.queue.key.cmp(&b.queue.key))
    });
    let limit = asked.limit.unwrap_or(100).min(LIMIT);
    let shown = rows.iter().skip(asked.offset).take(limit);
    let queues: Vec<_> =
        shown.map(|row| queue_json(&row.queue, &row.facts, row.net, row.dead)).collect();
    let nodes: Vec<_> = nodes.iter().map(|node| node_json(node)).collect();
    json!({ "now": now, "nodes": nodes, "queues": queues, "total": total })
}

fn rows_of(node: &Node, needle: Option<&Needle>) -> Vec<Row> {
    let state = node.state();
    let mut rows = Vec::new();
    for (db, database) in &state.databases {
        for (key, dehydrator) in &database.dehydrators.all {
            if !dehydrator.is_known() || dehydrator.facts.is_missing() {
                continue;
            }
            if needle.is_some_and(|needle| !needle.is_in(key)) {
                continue;
            }
            rows.push(Row {
                queue: Queue { node: node.name.clone(), db: *db, key: Bytes(key.clone()) },
                facts: dehydrator.facts.clone(),
                net: dehydrator.net,
                dead: database.dead.get(key).copied(),
            });
        }
    }
    rows
}

fn compare(a: &Row, b: &Row, sort: Sort) -> Ordering {
    let number = |row: &Row| match sort {
        Sort::Length => row.facts.length as f64,
        Sort::Oldest => row.facts.oldest_due_ms.unwrap_or(0) as f64,
        Sort::Due => row.facts.due as f64,
        Sort::Held => row.facts.leased as f64,
        Sort::Waiting => row.facts.waiting() as f64,
        Sort::Net => row.net.unwrap_or(0.0),
        Sort::Dead => row.dead.unwrap_or(0) as f64,
        Sort::Memory => row.facts.memory as f64,
        Sort::Key => 0.0,
    };
    match sort {
        Sort::Key => a.queue.key.cmp(&b.queue.key),
        _ => number(a).total_cmp(&number(b)),
    }
}

fn node_json(node: &Node) -> Value {
    let state = node.state();
    let mut rates: Map<_, _> =
        RATES.iter().map(|name| ((*name).to_owned(), json!(state.figures.rate(name)))).collect();
    rates.insert("out".into(), json!(state.figures.out()));
    let walking = state.databases.values().any(|database| database.dehydrators.walks == 0);
    let (trouble, advice) = match &state.trouble {
        // The rest is for the terminal.
        Some(trouble) => (Some(&trouble.what), trouble.advice.split(" (`make top").next()),
        None => (None, None),
    };
    json!({
        "node": node.name,
        "address": super::node::address_of(&node.client),
        "server": state.figures.server,
        "role": match state.role {
            Role::Unknown => None,
            Role::Master => Some("master"),
            Role::Replica => Some("replica"),
        },
        "link": state.link,
        "trouble": trouble,
        "advice": advice.unwrap_or_default(),
        "memory": state.memory,
        "clients": state.clients,
        "fields": state.figures.fields,
        "rates": rates,
        "walking": walking || !state.is_known,
    })
}

fn queue_json(queue: &Queue, facts: &Facts, net: Option<f64>, dead: Option<u64>) -> Value {
    let policy = &facts.policy;
    let destination = Destination::of_dead_letters(policy);
    let dead = (destination != Destination::None).then(|| {
        json!({ "kind": destination.kind(), "dest_b64": destination.key().map(encode), "count": dead })
    });
    json!({
        "node": queue.node,
        "db": queue.db,
        "key_b64": queue.key,
        "length": facts.length,
        "due": facts.due,
        "waiting": facts.waiting(),
        "held": facts.leased,
        "given_back": facts.given_back,
        "next_deadline": facts.next_deadline,
        "oldest_due_ms": facts.oldest_due_ms,
        "oldest_held_ms": facts.oldest_held_ms,
        "overdue": facts.overdue,
        "memory": facts.memory,
        "ttls": facts.ttls,
        "groups": facts.groups,
        "schedules": facts.schedules,
        "policy": String::from_utf8_lossy(&policy.line()),
        "ondue": {
            "action": policy.action,
            "deliveries": policy.deliveries,
            "dead_letters": policy.dead_letters,
            "dest": policy.dest.as_deref().map(String::from_utf8_lossy),
            "end": policy.end,
            "maxlen": policy.maxlen,
            "approximate": policy.is_approximate,
        },
        "dead": dead,
        "failures": facts.failures,
        "failing_since": facts.failing_since,
        "last_failure_b64": facts.last_failure.as_deref().map(encode),
        "paused": facts.paused,
        "paused_until": facts.paused_until,
        "limits": limits_json(&facts.limits),
        "each": limits_json(&facts.each),
        "running": facts.running,
        "rate_room": facts.rate_room,
        "remembered": facts.remembered,
        "net": net,
    })
}

fn limits_json(limits: &Limits) -> Value {
    let Limits { length, held, rate, per, remember } = limits;
    json!({ "length": length, "held": held, "rate": rate, "per": per, "remember": remember })
}

/// Returns the facts of a group, and the limits that apply to it: its own or those of each.
fn group_json(name: &[u8], facts: &Facts) -> Value {
    json!({
        "group_b64": encode(name),
        "length": facts.length,
        "next_deadline": facts.next_deadline,
        "paused": facts.paused,
        "paused_until": facts.paused_until,
        "share": facts.share,
        "limits": limits_json(&facts.limits),
    })
}

#[derive(Deserialize)]
pub struct Past {
    node: Option<String>,
    #[serde(default)]
    db: u64,
    #[serde(rename = "key")]
    key: Option<Bytes>,
}

pub async fn history(caller: Caller, Words(asked): Words<Past>) -> Result<Json<Value>, Refusal> {
    let queue = asked.key.map(|key| (asked.db, key.0));
    let account = &caller.account;
    if let (Some(node), Some((db, key))) = (&asked.node, &queue) {
        let queue = Queue { node: node.clone(), db: *db, key: Bytes(key.clone()) };
        account.look_at(node, &queue);
    }
    Ok(Json(account.history().json(asked.node.as_deref(), queue)))
}

/// Returns the facts of a queue, asked now.
pub fn facts_of(account: &Account, queue: &Queue) -> Result<(Arc<Node>, Facts), Refusal> {
    let keys = [queue.key.0.clone()];
    account.at(queue, |connection| {
        // The error of a key that the user may not read, or that is none of ours.
        let reply = redis::cmd("DEHYDRATOR.INFO").arg(&keys).query::<redis::Value>(connection)?;
        Ok(Facts::parse(&reply).map(|(facts, _)| facts).unwrap_or_default())
    })
}

#[derive(Deserialize)]
pub struct OfGroup {
    /// A group whose facts are told too.
    group: Option<Bytes>,
}

pub async fn queue(
    State(page): State<Arc<Page>>,
    caller: Caller,
    queue: Queue,
    Words(OfGroup { group }): Words<OfGroup>,
) -> Result<Json<Value>, Refusal> {
    blocking(move || {
        let account = &caller.account;
        let (node, facts) = facts_of(account, &queue)?;
        account.look_at(&node.name, &queue);
        let destination = Destination::of_dead_letters(&facts.policy);
        let (parts, groups, dead, now) = account.on(&queue, |connection| {
            let policies = std::iter::once((&queue.key.0, destination.clone()));
            let parts = ask::parts(connection, &queue.key.0, &facts)?;
            let greatest = parts.iter().flat_map(|parts| &parts.groups).map(|(name, _)| name);
            let names: Vec<_> = group.iter().map(|it| &it.0).chain(greatest).cloned().collect();
            let groups = ask::groups(connection, &queue.key.0, &names)?;
            let dead = ask::dead(connection, policies)?.pop().map(|(_, count)| count);
            Ok((parts, groups, dead, ask::time(connection)?))
        })?;
        let net = {
            let state = node.state();
            let database = state.databases.get(&queue.db);
            database.and_then(|it| it.dehydrators.all.get(&queue.key.0)?.net)
        };
        let mut groups: Vec<_> = groups.iter().map(|(name, it)| group_json(name, it)).collect();
        let group = group.and_then(|_| (!groups.is_empty()).then(|| groups.remove(0)));
        let queue = Queue { node: node.name.clone(), ..queue };
        let rights = permission::of(&page, account, &node, &queue, &destination)?;
        Ok(Json(json!({
            "now": now,
            "queue": queue_json(&queue, &facts, net, dead),
            "exists": !facts.is_missing(),
            "by_ttl": parts.as_ref().map(|parts| &parts.by_ttl),
            "greatest_groups": groups,
            "group": group,
            "rights": rights.json(),
            "read_only": rights.read_only.is_some(),
            "reason": rights.read_only,
        })))
    })
    .await
}
