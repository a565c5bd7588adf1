//! Formats an operation as a command.

use crate::model::{Bounds, Bytes, IfThere, Moment, Op, Policy};
use crate::random::Random;

pub(super) fn words_of(key: &str, op: &Op) -> Vec<Bytes> {
    let key = key.as_bytes().to_vec();
    let number = |number: u64| number.to_string().into_bytes();
    let text = |text: &str| text.as_bytes().to_vec();
    let verb = |verb: &str| vec![text(&format!("DEHYDRATOR.{verb}")), key.clone()];
    let option = |name: &str, value: Option<u64>| {
        value.map(|value| [text(name), number(value)]).into_iter().flatten()
    };
    let options_of =
        |bounds: &Bounds| option("WITHIN", bounds.within).chain(option("DELIVERIES", bounds.most));
    let pairs_of = |held: &[(u64, Bytes)]| -> Vec<Bytes> {
        held.iter().flat_map(|(token, id)| [number(*token), id.clone()]).collect()
    };
    let word_of = |if_there| match if_there {
        IfThere::Refuse => None,
        IfThere::Nx => Some(text("nx")),
        IfThere::Replace => Some(text("REPLACE")),
    };
    let of_ids = |name: &str, ids: &[Bytes]| [verb(name), ids.to_vec()].concat();
    match op {
        // As a tool pushes it.
        Op::Push {
            ttl,
            element,
            id,
            at: Some(at),
            deliveries: Some(deliveries),
            token,
            bounds,
            ..
        } => {
            let mut words = verb("EFFECT");
            let (most, until) = bounds.of(*at);
            let options = [
                ("deliveries", most),
                ("until", until),
                ("delivered", *deliveries),
                ("token", token.unwrap_or(0)),
            ];
            let mut head = format!("P{ttl}@{at}");
            for (name, value) in options.into_iter().filter(|(_, value)| *value > 0) {
                head += &format!(",{name}={value}");
            }
            words.extend([text(&head), element.clone(), id.clone()]);
            words
        }
        Op::Push { ttl, element, id, if_there, slack, at, bounds, .. } => {
            let mut words = verb("PUSH");
            words.extend([number(*ttl), element.clone(), id.clone()]);
            words.extend(word_of(*if_there));
            words.extend(option("SLACK", *slack));
            words.extend(option("AT", *at));
            words.extend(options_of(bounds));
            words
        }
        Op::GidPush { ttl, element, slack, at, bounds } => {
            let mut words = verb("GIDPUSH");
            words.extend([number(*ttl), element.clone()]);
            words.extend(options_of(bounds));
            words.extend(option("SLACK", *slack));
            words.extend(option("AT", *at));
            words
        }
        Op::MPush { elements, if_there, slack, at, bounds } => {
            let mut words = verb("MPUSH");
            for (ttl, element, id) in elements {
                words.extend([number(*ttl), element.clone(), id.clone()]);
            }
            words.extend(option("AT", *at));
            words.extend(options_of(bounds));
            words.extend(word_of(*if_there));
            words.extend(option("SLACK", *slack));
            words
        }
        Op::Pull(id) => [verb("PULL"), vec![id.clone()]].concat(),
        Op::Poll { count, block, lease, token, with_ids } => {
            let mut words = verb("POLL");
            words.extend(option("LEASE", *lease));
            words.extend(option("TOKEN", *token));
            words.extend(with_ids.then(|| text("WithIds")));
            words.extend(option("COUNT", *count));
            words.extend(option("BLOCK", *block));
            words
        }
        Op::MPoll { keys, poll } => {
            let mut words = vec![text("DEHYDRATOR.MPOLL"), number(keys.len() as u64)];
            words.extend(keys.iter().map(|key| text(key)));
            words.extend(words_of("", poll).split_off(2));
            words
        }
        Op::XPoll(count) => {
            let mut words = verb("XPOLL");
            words.extend(option("COUNT", *count));
            words
        }
        Op::XAck(ids) => of_ids("XACK", ids),
        Op::Settle(held) => [verb("SETTLE"), pairs_of(held)].concat(),
        Op::Release { ms, held, is_uncounted, element, reason } => {
            let mut words = [verb("RELEASE"), vec![number(*ms)], pairs_of(held)].concat();
            words.extend(is_uncounted.then(|| text("UNCOUNTED")));
            words.extend(said("ELEMENT", element));
            words.extend(said("reason", reason));
            words
        }
        Op::Reject { held, reason } => {
            [verb("REJECT"), pairs_of(held), said("REASON", reason)].concat()
        }
        Op::Renew { ttl, held } => [verb("RENEW"), vec![number(*ttl)], pairs_of(held)].concat(),
        Op::Look { id, full } => {
            let mut words = verb("LOOK");
            words.push(id.clone());
            words.extend(full.then(|| text("Full")));
            words
        }
        Op::Range { start, end, count, with_elements, with_tokens } => {
            let mut words = verb("RANGE");
            words.extend([start, end].map(|moment| match moment {
                Moment::First => text("-"),
                Moment::Last => text("+"),
                Moment::At(at) => number(*at),
                Moment::Without(at) => text(&format!("({at}")),
            }));
            words.extend(with_elements.then(|| text("WITHELEMENTS")));
            words.extend(option("COUNT", *count));
            words.extend(with_tokens.then(|| text("WITHTOKENS")));
            words
        }
        Op::Scan { prefix, count } => {
            let mut words = verb("SCAN");
            words.push(number(0));
            let pattern = prefix.map(|prefix| [text("MATCH"), text(&format!("{prefix}*"))]);
            words.extend(pattern.into_iter().flatten());
            words.extend(option("COUNT", *count));
            words
        }
        Op::Info { full } => {
            let mut words = verb("INFO");
            words.extend(full.then(|| text("FULL")));
            words
        }
        Op::Help => vec![text("DEHYDRATOR.HELP")],
        Op::Late => vec![text("DEHYDRATOR.LATE"), text("COUNT"), number(5)],
        Op::Require { level } => {
            vec![text("DEHYDRATOR.EFFECT"), text("k"), text(&format!("N{level}"))]
        }
        Op::Update(id, element) => [verb("UPDATE"), vec![id.clone(), element.clone()]].concat(),
        Op::Touch { ids, ttl, only, at } => {
            let mut words = verb("TOUCH");
            words.push(number(*ttl));
            words.extend(option("AT", *at));
            words.extend(only.map(text));
            if ids.len() != 1 {
                words.extend([text("IDS"), number(ids.len() as u64)]);
            }
            words.extend_from_slice(ids);
            words
        }
        Op::Rem(ids) => of_ids("REM", ids),
        Op::Lease { ttl, token, at, ids } => {
            let mut words = verb("EFFECT");
            words.push(text(&format!("L{ttl}@{at}@{token}")));
            words.extend(ids.iter().cloned());
            words
        }
        Op::OnDue(policy) | Op::OnDueNew(policy) => {
            let mut words = verb("ONDUE");
            words.extend(matches!(op, Op::OnDueNew(_)).then(|| text("NX")));
            if let Policy::Limit(most, _) = policy {
                words.extend([text("hold"), text("DELIVERIES"), number(*most)]);
            }
            match policy.route() {
                Policy::Hold | Policy::Limit(..) => words.push(text("HOLD")),
                Policy::Drop => words.push(text("drop")),
                Policy::Publish(channel) => words.extend([text("PUBLISH"), text(channel)]),
                Policy::List { dest, is_left } => {
                    let end = text(if *is_left { "LEFT" } else { "right" });
                    words.extend([text("LIST"), text(dest), end]);
                }
                Policy::Stream { dest, maxlen } => {
                    words.extend([text("STREAM"), text(dest)]);
                    if let Some((exact, length)) = maxlen {
                        let exactness = text(if *exact { "=" } else { "~" });
                        words.extend([text("MAXLEN"), exactness, number(*length)]);
                    }
                }
            }
            words
        }
        Op::OnDueStream(dest, length) => {
            let mut words = verb("ONDUE");
            words.extend([text("STREAM"), text(dest), text("MAXLEN"), number(*length)]);
            words
        }
        Op::Pause { ms, at } => {
            let mut words = verb("PAUSE");
            words.extend(option("FOR", *ms));
            words.extend(option("AT", *at));
            words
        }
        Op::Resume => verb("RESUME"),
        Op::Every { name, words } => {
            [&verb("EVERY")[..], &words[..2], std::slice::from_ref(name), &words[2..]].concat()
        }
        Op::Schedules(names) => of_ids("SCHEDULES", names),
        Op::Unschedule(names) => of_ids("UNSCHEDULE", names),
        Op::PauseSchedule(name) => [verb("PAUSE"), vec![text("SCHEDULE"), name.clone()]].concat(),
        Op::ResumeSchedule(name) => [verb("RESUME"), vec![text("SCHEDULE"), name.clone()]].concat(),
        Op::Limit { length, held, rate, remember } => {
            let mut words = verb("LIMIT");
            words.extend(option("REMEMBER", *remember));
            words.extend(option("RATE", rate.map(|(most, _)| most)));
            words.extend(
                option("per", rate.map(|(_, per)| per)).map(|word| word.to_ascii_uppercase()),
            );
            words.extend(option("Held", *held));
            words.extend(option("LENGTH", *length));
            words
        }
        Op::Settled { until, ids } => {
            [verb("EFFECT"), vec![text(&format!("S{until}"))], ids.clone()].concat()
        }
        Op::Given { at, count } => {
            let head = text(&format!("G{at}@{count}"));
            [verb("EFFECT"), vec![head]].concat()
        }
        Op::Ttn => verb("TTN"),
        Op::Pttl(id) => [verb("PTTL"), vec![id.clone()]].concat(),
        Op::Len => verb("LEN"),
        Op::Nonsense(words) => {
            let verb = verb(&String::from_utf8_lossy(&words[0]));
            [&verb[..], &words[1..]].concat()
        }
        Op::Copy { to, db, replace } => {
            let mut words = vec![text("COPY"), key, text(to), text("DB"), number(*db as u64)];
            words.extend(replace.then(|| text("REPLACE")));
            words
        }
        Op::Rename { to, nx } => vec![text(if *nx { "RENAMENX" } else { "RENAME" }), key, text(to)],
        Op::Move(db) => vec![text("MOVE"), key, number(*db as u64)],
        Op::SwapDb(one, other) => vec![text("SWAPDB"), number(*one as u64), number(*other as u64)],
        Op::Del(verb) => vec![text(verb), key],
        Op::Expire => vec![text("PEXPIRE"), key, number(1)],
        Op::FlushDb => vec![text("FLUSHDB")],
        Op::SetText => vec![text("SET"), key, text("text")],
    }
}

pub(super) fn command(words: &[Bytes]) -> redis::Cmd {
    let mut command = redis::Cmd::new();
    words.iter().for_each(|word| {
        command.arg(word);
    });
    command
}

/// Words that no command accepts.
pub(super) fn nonsense(random: &mut Random) -> Op {
    let bad = random.pick(&["", " 5", "5 ", "+5", "-1", "05", "1.5", "ten", "9223372036854775808"]);
    let lines = [
        format!("PUSH {bad}|element|id"),
        format!("PUSH 5|element|id|AT|{bad}"),
        format!("PUSH 5|element|id|SLACK|{bad}"),
        format!("EFFECT P5@5,delivered={bad}|element|id"),
        "PUSH 5|element|id|NX|REPLACE".to_owned(),
        "PUSH 5|element|id|SLACK|5|AT|5".to_owned(),
        "PUSH 5|element|id|AT|5|DELIVERED|5".to_owned(),
        "EFFECT P5@5,delivered=65536|element|id".to_owned(),
        "PUSH 5|element|id|DELIVERIES|0".to_owned(),
        "PUSH 5|element|id|WITHIN|0".to_owned(),
        "PUSH 5|element|id|GROUP|one|GROUP|two".to_owned(),
        format!("PUSH 5|element|id|GROUP|{}", "g".repeat(1025)),
        "PUSH 5|element".to_owned(),
        format!("GIDPUSH {bad}|element"),
        "GIDPUSH 5|element|NX".to_owned(),
        format!("MPUSH 5|element|new|{bad}|element|newer"),
        "MPUSH 5|element|new|5|element".to_owned(),
        "MPUSH 5|element|new|NX|REPLACE".to_owned(),
        "MPUSH 5|element|new|SLACK|5|AT|5".to_owned(),
        format!("MPUSH 5|element|new|AT|{bad}"),
        "PULL".to_owned(),
        "PULL id|id".to_owned(),
        format!("POLL COUNT|{bad}"),
        "POLL COUNT|0".to_owned(),
        format!("POLL BLOCK|{bad}"),
        format!("POLL LEASE|{bad}"),
        "POLL LEASE|0".to_owned(),
        "POLL WITHIDS|WITHIDS".to_owned(),
        "POLL LEASE|5|WITHIDS".to_owned(),
        "MPOLL key".to_owned(),
        "MPOLL key|COUNT|1".to_owned(),
        "XPOLL WITHIDS".to_owned(),
        "XACK".to_owned(),
        "SETTLE token".to_owned(),
        "SETTLE token|id|token".to_owned(),
        "SETTLE |id".to_owned(),
        "RENEW 5|token".to_owned(),
        "RENEW 5|token|id|token".to_owned(),
        format!("RENEW {bad}|token|id"),
        "RELEASE 5|token".to_owned(),
        format!("RELEASE {bad}|token|id"),
        "REJECT token|id|token".to_owned(),
        "POLL TOKEN|token".to_owned(),
        "POLL LEASE|5|TOKEN|4611686018427387904".to_owned(),
        "EFFECT L5@5|id".to_owned(),
        format!("EFFECT L5@{bad}@7|id"),
        format!("EFFECT P5@{bad}|element|id"),
        "EFFECT P5@5@7|element|id".to_owned(),
        format!("EFFECT T5@{bad}|id"),
        format!("EFFECT U{bad}|id"),
        format!("EFFECT H{bad}"),
        "EFFECT Q|EXPLODE".to_owned(),
        "PUSH 5@5|element|id".to_owned(),
        "TOUCH 5@5|id".to_owned(),
        "PUSH 5|element|id|AT|5|TOKEN|token".to_owned(),
        format!("RANGE {bad}|+"),
        format!("RANGE -|{bad}"),
        format!("RANGE -|+|COUNT|{bad}"),
        "RANGE (5-6|+".to_owned(),
        "LOOK id|EMPTY".to_owned(),
        "UPDATE id".to_owned(),
        format!("TOUCH {bad}|id"),
        "TOUCH 5|GT|LT|id".to_owned(),
        format!("TOUCH 5|AT|{bad}|id"),
        format!("TOUCH 5|IDS|{bad}|id"),
        "TOUCH 5|IDS|2|id".to_owned(),
        "TOUCH 5|IDS|1|id|id".to_owned(),
        "TOUCH 5|IDS|1|id|GT".to_owned(),
        "TOUCH 5|id|GT".to_owned(),
        "TOUCH id|5".to_owned(),
        "REM".to_owned(),
        "PURGE".to_owned(),
        "PURGE GROUP".to_owned(),
        "PURGE ALL|id".to_owned(),
        format!("TOUCH {bad}|GROUP|group-1"),
        "ONDUE EXPLODE".to_owned(),
        "ONDUE LIST".to_owned(),
        "ONDUE LIST|l1|UP".to_owned(),
        "ONDUE STREAM".to_owned(),
        "ONDUE STREAM|s1|MAXLEN|0".to_owned(),
        format!("ONDUE STREAM|s1|MAXLEN|~|{bad}"),
        "ONDUE HOLD|DROP".to_owned(),
        format!("ONDUE HOLD|DELIVERIES|{bad}|DROP"),
        "ONDUE HOLD|DELIVERIES|0|DROP".to_owned(),
        "ONDUE HOLD|DELIVERIES|65536|DROP".to_owned(),
        "ONDUE HOLD|DELIVERIES|5".to_owned(),
        "ONDUE HOLD|DELIVERIES|5|HOLD".to_owned(),
        "ONDUE DROP|DELIVERIES|5".to_owned(),
        "PAUSE 5".to_owned(),
        "PAUSE SCHEDULE".to_owned(),
        "PAUSE FOR|5|SCHEDULE|one".to_owned(),
        "RESUME SCHEDULE|one|two".to_owned(),
        "EVERY 5|element".to_owned(),
        "EVERY 0|element|name".to_owned(),
        "EVERY * * * *|element|name".to_owned(),
        "EVERY 0 0 31 2 *|element|name".to_owned(),
        "EVERY * * * * *|element|name|ZONE|Mars".to_owned(),
        "EVERY 5|element|name|ZONE|UTC".to_owned(),
        "EVERY 5|element|name|UNTIL|1".to_owned(),
        format!("EVERY 5|element|name|JITTER|{bad}"),
        "EVERY 5|element|name|MISSED|TWO".to_owned(),
        "EVERY 5|element|name|OVERLAP|NO".to_owned(),
        "UNSCHEDULE".to_owned(),
        format!("PAUSE FOR|{bad}"),
        format!("PAUSE AT|{bad}"),
        "PAUSE FOR|0".to_owned(),
        "PAUSE FOR|5|AT|5".to_owned(),
        "RESUME now".to_owned(),
        "LIMIT".to_owned(),
        "LIMIT EACH".to_owned(),
        "LIMIT GROUP|one".to_owned(),
        format!("LIMIT LENGTH|{bad}"),
        format!("LIMIT HELD|{bad}"),
        format!("LIMIT RATE|5|PER|{bad}"),
        "LIMIT RATE|5".to_owned(),
        "LIMIT RATE|5|PER|0".to_owned(),
        "LIMIT HELD|5|HELD|5".to_owned(),
        format!("LIMIT GROUP|one|SHARE|{bad}"),
        "LIMIT GROUP|one|SHARE|0".to_owned(),
        "LIMIT GROUP|one|SHARE|65536".to_owned(),
        "LIMIT GROUP||HELD|5".to_owned(),
        "LIMIT GROUP||RATE|5|PER|5".to_owned(),
        "LIMIT GROUP|one|RATE|5".to_owned(),
        "LIMIT EACH|REMEMBER|5".to_owned(),
        "PAUSE GROUP|".to_owned(),
        "PAUSE GROUP|one|5".to_owned(),
        "RESUME GROUP".to_owned(),
        "LIMIT EACH|SHARE|5".to_owned(),
        format!("LIMIT EACH|LENGTH|{bad}"),
        "INFO GROUP".to_owned(),
        "LEN GROUP".to_owned(),
        "RANGE -|+|GROUP|one|GROUP|two".to_owned(),
        format!("EFFECT G{bad}@1"),
        format!("EFFECT S{bad}|1"),
        "EFFECT S5".to_owned(),
        format!("LIMIT REMEMBER|{bad}"),
        "EFFECT G1@0".to_owned(),
        "GIDPUSH 5|element|NX".to_owned(),
        "TTN now".to_owned(),
        "SCAN cursor".to_owned(),
        format!("SCAN 0|COUNT|{bad}"),
        "INFO EVERYTHING".to_owned(),
    ];
    let line = random.pick(&lines);
    let (verb, rest) = line.split_once(' ').unwrap_or((&line, ""));
    let rest = rest.split('|').filter(|_| line.contains(' '));
    Op::Nonsense([verb].into_iter().chain(rest).map(|word| word.as_bytes().to_vec()).collect())
}

/// Returns an option with any bytes as its value, if there is one.
fn said(name: &str, value: &Option<Bytes>) -> Vec<Bytes> {
    value.iter().flat_map(|value| [name.as_bytes().to_vec(), value.clone()]).collect()
}
