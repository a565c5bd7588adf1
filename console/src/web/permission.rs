//! Asks what the user may do to a queue: the server decides. `ACL DRYRUN` tells without a trace; where the user may not ask that,
//! MULTI does: the server checks each command when it queues it, and DISCARD forgets them.

use std::collections::BTreeMap;
use std::sync::Arc;

use redis::{Cmd, Connection, RedisResult, Value};

use super::account::Account;
use super::node::{Node, Role};
use super::queue::Queue;
use super::refusal::Refusal;
use super::rights::Rights;
use super::{Page, log};
use crate::destination::Destination;

type Asked = (String, Queue, Destination);

/// Returns the rights of the account's user. The queue's node must be its present one.
pub fn of(
    page: &Page,
    account: &Account,
    node: &Arc<Node>,
    queue: &Queue,
    destination: &Destination,
) -> Result<Rights, Refusal> {
    let asked: Asked = (node.name.clone(), queue.clone(), destination.clone());
    let asked = format!("{asked:?}");
    if let Some(rights) = account.rights.find(&asked) {
        return Ok(rights);
    }
    let read_only = (node.state().role == Role::Replica)
        .then(|| "This node is a replica: changes are made on its primary.".to_owned());
    let needs = needs(queue, destination);
    let commands: Vec<Cmd> = needs.iter().flat_map(|(_, commands)| commands.clone()).collect();
    let log = page.log.as_deref().map(|log| command("XADD", &[log, b"*", b"a", b"b"]));
    let refused_log = match (&page.log, log) {
        (Some(name), Some(add)) => {
            // In a cluster, the log may be on another node.
            let place = log::place(name, &queue.node);
            let add = std::slice::from_ref(&add);
            account.on(&place, |connection| ask(connection, account, add))?.pop().flatten()
        }
        _ => None,
    };
    let answers = account.on(queue, |connection| ask(connection, account, &commands))?;
    let refused_log = refused_log.map(|reason| {
        let log = page.log.as_deref().unwrap_or_default().escape_ascii().to_string();
        format!(
            "Each change is recorded in the stream {log}, which the user may not write: {reason}"
        )
    });
    let mut answers = answers.into_iter();
    let mut reasons = BTreeMap::new();
    for (action, commands) in &needs {
        let mut refused = None;
        for _ in commands {
            refused = refused.or(answers.next().flatten());
        }
        let no_place = destination.key().is_none() && matches!(*action, "revive" | "drop_dead");
        let reason = match (&read_only, no_place) {
            (Some(reason), _) => Some(reason.clone()),
            (None, true) => Some("The policy names no stream or list of dead letters.".to_owned()),
            (None, false) => refused.or_else(|| refused_log.clone()),
        };
        reasons.insert(*action, reason);
    }
    let rights = Rights { reasons, read_only };
    account.rights.keep(asked, rights.clone());
    Ok(rights)
}

fn command(name: &str, arguments: &[&[u8]]) -> Cmd {
    let mut command = redis::cmd(name);
    command.arg(arguments);
    command
}

/// Returns the commands that each action needs.
fn needs(queue: &Queue, destination: &Destination) -> Vec<(&'static str, Vec<Cmd>)> {
    let key: &[u8] = &queue.key.0;
    let ours = |name: &str, rest: &[&[u8]]| {
        command(&format!("DEHYDRATOR.{name}"), &[&[key], rest].concat())
    };
    let look = || ours("LOOK", &[b"id", b"FULL"]);
    let eval = || command("EVAL", &[b"return 0", b"1", key]);
    let touch = || ours("TOUCH", &[b"1", b"id"]);
    let push = || ours("PUSH", &[b"1", b"element", b"id"]);
    let mut needs = vec![
        ("run_now", vec![eval(), look(), touch()]),
        ("postpone", vec![eval(), look(), touch()]),
        ("cancel", vec![eval(), look(), ours("REM", &[b"id"])]),
        ("edit", vec![ours("UPDATE", &[b"id", b"element"])]),
        ("give_back", vec![look(), ours("RELEASE", &[b"0", b"1", b"id"])]),
        ("pause", vec![ours("PAUSE", &[])]),
        ("resume", vec![ours("RESUME", &[])]),
        ("limit", vec![ours("LIMIT", &[b"LENGTH", b"1"])]),
        ("ondue", vec![ours("ONDUE", &[b"HOLD"])]),
        ("push", vec![push(), ours("GIDPUSH", &[b"1", b"element"])]),
        ("run_schedule", vec![ours("SCHEDULES", &[b"name"]), push()]),
        ("unschedule", vec![ours("UNSCHEDULE", &[b"name"])]),
    ];
    match destination {
        Destination::Stream(dest) => {
            needs.push(("revive", vec![ours("REVIVE", &[b"IDS", b"1", b"1-0"])]));
            needs.push(("drop_dead", vec![command("XDEL", &[dest, b"1-0"])]));
        }
        Destination::List(dest) => {
            let read = || command("LINDEX", &[dest, b"0"]);
            let drop = || command("LREM", &[dest, b"1", b"x"]);
            let push = ours("GIDPUSH", &[b"1", b"element"]);
            needs.push(("revive", vec![eval(), push, read(), drop()]));
            needs.push(("drop_dead", vec![eval(), read(), drop()]));
        }
        _ => needs.extend([("revive", Vec::new()), ("drop_dead", Vec::new())]),
    }
    needs
}

/// Returns for each command why the server refuses it; `None` if it does not.
fn ask(
    connection: &mut Connection,
    account: &Account,
    commands: &[Cmd],
) -> RedisResult<Vec<Option<String>>> {
    let mut dry = redis::pipe();
    for command in commands {
        let asked = dry.cmd("ACL").arg("DRYRUN").arg(&account.user);
        for argument in command.args_iter() {
            if let redis::Arg::Simple(argument) = argument {
                asked.arg(argument);
            }
        }
    }
    let answers: Vec<Value> = dry.ignore_errors().query(connection)?;
    if !answers.iter().any(|answer| matches!(answer, Value::ServerError(_))) {
        let reason = |answer: &Value| match answer {
            Value::Okay => None,
            Value::BulkString(text) => Some(sentence(&String::from_utf8_lossy(text))),
            Value::SimpleString(text) if text == "OK" => None,
            other => Some(format!("{other:?}")),
        };
        return Ok(answers.iter().map(reason).collect());
    }
    let mut queued = redis::pipe();
    queued.cmd("MULTI");
    for command in commands {
        queued.add_command(command.clone());
    }
    queued.cmd("DISCARD");
    let answers: Vec<Value> = queued.ignore_errors().query(connection)?;
    if let Some(Value::ServerError(_)) = answers.first() {
        let reason = "The user may run neither ACL DRYRUN nor MULTI, so the page cannot ask what it may change.";
        return Ok(vec![Some(reason.to_owned()); commands.len()]);
    }
    let reason = |answer: &Value| match answer {
        Value::ServerError(error) => Some(sentence(error.details().unwrap_or("refused"))),
        _ => None,
    };
    Ok(answers[1..answers.len() - 1].iter().map(reason).collect())
}

fn sentence(text: &str) -> String {
    let text = text.trim_end_matches('.');
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_uppercase().to_string());
    format!("{}{}.", first.unwrap_or_default(), letters.as_str())
}
