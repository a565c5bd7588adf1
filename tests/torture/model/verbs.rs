//! The model of each command.

use redis::Value;

use super::{
    Bytes, Dehydrator, Entry, Expect, IfThere, MAX, Op, Policy, REFUSED, World, bulk, int, leased,
    rounded,
};

/// The reply of a POLL that gives nothing.
const NOTHING: Expect = Expect::Is(Value::Array(Vec::new()));

impl World {
    /// Applies a command to a key, and returns the expected reply.
    pub(super) fn within(
        &mut self,
        it: &mut Dehydrator,
        op: &Op,
        now: u64,
        transaction: bool,
    ) -> Expect {
        // The last moment of all is for stuck dead letters: `AT` takes the one before it.
        let at_or = |at: Option<u64>, ttl: u64| {
            let at = at.map(|at| at.min(MAX - 1));
            at.or_else(|| now.checked_add(ttl).filter(|deadline| *deadline <= MAX))
        };
        match op {
            Op::Push { ttl, element, id, if_there, slack, at, deliveries, token, bounds } => {
                let ttl = rounded(*ttl, *slack).expect("seen to before");
                let Some(deadline) = at_or(*at, ttl) else { return REFUSED };
                match (it.find(id), if_there) {
                    // A tool's push replaces, and is never refused.
                    (old, _) if deliveries.is_some() => {
                        old.into_iter().for_each(|old| drop(it.entries.remove(old)));
                    }
                    (None, IfThere::Refuse) if it.remembers(id, now) => {
                        return Expect::Refused("EXISTS");
                    }
                    (None, IfThere::Nx) if it.remembers(id, now) => {
                        return Expect::Is(Value::Nil);
                    }
                    (Some(_), IfThere::Refuse) => return Expect::Refused("EXISTS"),
                    (Some(_), IfThere::Nx) => return Expect::Is(Value::Nil),
                    (Some(old), IfThere::Replace) => drop(it.entries.remove(old)),
                    (None, _) if it.is_full() => return Expect::Refused("FULL"),
                    (None, _) => {}
                }
                it.remembered.remove(id);
                let (most, until) = bounds.of(deadline);
                it.entries.push(Entry {
                    deadline,
                    sequence: self.next(),
                    id: id.clone(),
                    element: element.clone(),
                    ttl,
                    deliveries: deliveries.unwrap_or(0),
                    token: *token,
                    was_due: None,
                    reason: Bytes::new(),
                    is_drawn: false,
                    most,
                    until,
                });
                if deliveries.is_some() { int(1) } else { Expect::Is(Value::Okay) }
            }
            Op::GidPush { ttl, slack, at, .. } => {
                let ttl = rounded(*ttl, *slack).expect("seen to before");
                // The id is known after the reply: see `named`.
                match at_or(*at, ttl) {
                    Some(_) if it.is_full() => Expect::Refused("FULL"),
                    Some(_) => Expect::NewId,
                    None => REFUSED,
                }
            }
            Op::MPush { elements, if_there, slack, at, bounds } => {
                let timer = |(ttl, ..): &(u64, Bytes, Bytes)| {
                    let ttl = rounded(*ttl, *slack).expect("seen to before");
                    Some((ttl, at_or(at.map(|at| at.min(MAX - 1)), ttl)?))
                };
                let timers: Option<Vec<_>> = elements.iter().map(timer).collect();
                let Some(timers) = timers else { return REFUSED };
                let (mut started, before) = (Vec::new(), it.clone());
                for ((_, element, id), (ttl, deadline)) in elements.iter().zip(timers) {
                    let found = it.find(id);
                    let is_remembered = before.remembers(id, now);
                    if (found.is_some() || is_remembered) && *if_there == IfThere::Refuse {
                        let new = elements.iter().map(|(.., id)| id.clone());
                        let new: Vec<_> = new.filter(|id| before.find(id).is_none()).collect();
                        it.remove_each(&new);
                        it.remembered = before.remembered;
                        return Expect::Refused("EXISTS");
                    }
                    if is_remembered && *if_there == IfThere::Nx {
                        started.push(Value::Int(0));
                        continue;
                    }
                    if found.is_none() && it.is_full() {
                        started.push(Value::Int(-1));
                        continue;
                    }
                    let is_started = found.is_none() || *if_there == IfThere::Replace;
                    if is_started {
                        found.map(|found| it.entries.remove(found));
                        it.remembered.remove(id);
                        let (most, until) = bounds.of(deadline);
                        it.entries.push(Entry {
                            deadline,
                            sequence: self.next(),
                            id: id.clone(),
                            element: element.clone(),
                            ttl,
                            deliveries: 0,
                            token: None,
                            was_due: None,
                            reason: Bytes::new(),
                            is_drawn: false,
                            most,
                            until,
                        });
                    }
                    started.push(Value::Int(is_started.into()));
                }
                Expect::Is(Value::Array(started))
            }
            Op::Pull(id) => {
                let taken = it.take(id);
                taken.iter().for_each(|entry| it.done(&entry.id, now));
                Expect::Is(taken.map_or(Value::Nil, |entry| Value::BulkString(entry.element)))
            }
            Op::Poll { count, block, lease, token, with_ids } => {
                if let Some(lease) = lease
                    && (*lease == 0 || at_or(None, *lease).is_none())
                {
                    return REFUSED;
                }
                let row = |entry: &Entry| {
                    let deliveries = Value::Int(entry.deliveries as i64);
                    vec![bulk(&entry.id), bulk(&entry.element), deliveries]
                };
                let count = count.unwrap_or(MAX) as usize;
                if let Some(token) = token {
                    let ordered = it.ordered().into_iter();
                    let held = ordered.filter(|it| it.deadline > now && it.token == Some(*token));
                    let held: Vec<_> = held.take(count).map(row).collect();
                    if !held.is_empty() {
                        return leased(held, *token);
                    }
                }
                if it.is_paused(now) {
                    return NOTHING;
                }
                let room = it.room(now);
                let count = count.min(room as usize);
                // Dead letters in the way are moved; if one is first, a client blocks until it has been moved.
                if block.is_some() && !transaction {
                    let dead = if it.policy.holds() { it.bury(now) } else { Default::default() };
                    self.met.extend(dead);
                    if room == 0 {
                        return NOTHING;
                    }
                }
                self.met.extend(it.bury_late(now));
                let (mut given, mut rows) = (Vec::new(), Vec::new());
                while given.len() + rows.len() < count {
                    let Some(at) = it.first_due(now) else { break };
                    let mut entry = it.entries.remove(at);
                    if it.policy.holds() && it.policy.sends(&entry) {
                        self.met.push((
                            entry.id,
                            entry.element,
                            entry.deliveries,
                            false,
                            entry.reason,
                        ));
                        continue;
                    }
                    if lease.is_none() {
                        it.done(&entry.id, now);
                    }
                    let (id, element) = (bulk(&entry.id), bulk(&entry.element));
                    match lease {
                        Some(ttl) => {
                            entry.lease(*ttl, now + ttl, self.next(), *token);
                            entry.is_drawn = token.is_none();
                            rows.push(row(&entry));
                            it.entries.push(entry);
                        }
                        None if *with_ids => given.push(Value::Array(vec![id, element])),
                        None => given.push(element),
                    }
                }
                it.limits.give(now, (given.len() + rows.len()) as u64);
                match (lease, token) {
                    (Some(_), Some(token)) => leased(rows, *token),
                    (Some(_), None) => Expect::Leased(rows),
                    (None, _) => Expect::Is(Value::Array(given)),
                }
            }
            Op::XPoll(count) => {
                let due = it.alive(now).into_iter().filter(|entry| entry.deadline <= now);
                let room = if it.is_paused(now) { 0 } else { it.room(now) };
                let count = count.unwrap_or(MAX).min(room);
                let due = due.take(count as usize);
                Expect::Is(Value::Array(due.map(|entry| bulk(&entry.id)).collect()))
            }
            Op::XAck(ids) => {
                let mut replies = Vec::new();
                for id in ids {
                    let is_out = |at: &usize| {
                        it.entries[*at].deadline <= now || it.entries[*at].deliveries > 0
                    };
                    let found = it.find(id).filter(is_out).map(|at| it.entries.remove(at));
                    found.iter().for_each(|entry| it.done(&entry.id, now));
                    replies.push(found.map_or(Value::Nil, |it| Value::BulkString(it.element)));
                }
                Expect::Is(Value::Array(replies))
            }
            Op::Settle(held) => {
                let mut replies = Vec::new();
                for (token, id) in held {
                    let found = it.held(*token, id).map(|at| it.entries.remove(at));
                    found.iter().for_each(|entry| it.done(&entry.id, now));
                    replies.push(Value::Int(found.is_some().into()));
                }
                Expect::Is(Value::Array(replies))
            }
            Op::Renew { ttl, held } => {
                let Some(deadline) = at_or(None, *ttl) else { return REFUSED };
                let mut replies = Vec::new();
                for (token, id) in held {
                    let has_room = it.held_room(now) > 0;
                    let may_run =
                        |at: &usize| *ttl == 0 || it.entries[*at].deadline > now || has_room;
                    let found = it.held(*token, id).filter(may_run);
                    replies.push(Value::Int(found.is_some().into()));
                    if let Some(at) = found {
                        let sequence = self.next();
                        it.entries[at].restart(*ttl, deadline, sequence);
                    }
                }
                Expect::Is(Value::Array(replies))
            }
            Op::Release { ms, held, is_uncounted, element, reason } => {
                let Some(deadline) = at_or(None, *ms) else { return REFUSED };
                let mut replies = vec![false; held.len()];
                let is_new = |at: &usize| !held[..*at].contains(&held[*at]);
                let mut order: Vec<_> = (0..held.len()).filter(is_new).collect();
                // Each goes first, so the first of them goes last.
                if *is_uncounted {
                    order.reverse();
                }
                for listed in order {
                    let (token, id) = &held[listed];
                    let Some(at) = it.held(*token, id) else { continue };
                    replies[listed] = true;
                    if let Some(element) = element {
                        it.entries[at].element = element.clone();
                    }
                    if let Some(reason) = reason {
                        it.entries[at].reason = reason.clone();
                    }
                    if *is_uncounted {
                        let was_due = it.entries[at].was_due.filter(|was| *ms == 0 && was.0 <= now);
                        let (deadline, before) = was_due.unwrap_or((deadline, self.sequence));
                        let sequence = self.first(deadline, before);
                        it.entries[at].restart(0, deadline, sequence);
                        it.entries[at].deliveries -= 1;
                    } else {
                        let sequence = self.next();
                        it.entries[at].restart(0, deadline, sequence);
                    }
                }
                Expect::Is(Value::Array(
                    replies.into_iter().map(|reply| Value::Int(reply.into())).collect(),
                ))
            }
            Op::Reject { held, reason } => {
                let is_there = !it.entries.is_empty()
                    || it.policy != Policy::Hold
                    || it.pause.is_some()
                    || it.limits.is_any()
                    || !it.schedules.is_empty();
                if is_there && !matches!(it.policy, Policy::Limit(..)) {
                    return Expect::Refused("NORULE");
                }
                let mut replies = Vec::new();
                for (token, id) in held {
                    let found = it.held(*token, id);
                    replies.push(Value::Int(found.is_some().into()));
                    if let Some(at) = found {
                        let entry = it.entries.remove(at);
                        let reason = reason.clone().unwrap_or(entry.reason);
                        self.met.push((entry.id, entry.element, entry.deliveries, false, reason));
                    }
                }
                Expect::Is(Value::Array(replies))
            }
            Op::Look { full: true, .. }
            | Op::Range { .. }
            | Op::Scan { .. }
            | Op::Info { .. }
            | Op::Help => Expect::Shown(Box::new(it.clone())),
            Op::Every { .. }
            | Op::Schedules(_)
            | Op::Unschedule(_)
            | Op::PauseSchedule(_)
            | Op::ResumeSchedule(_) => it.schedule(op).expect("one of these"),
            Op::Require { .. } => unreachable!("it is of no key"),
            Op::Look { id, .. } => {
                let found = it.find(id).map(|at| bulk(&it.entries[at].element));
                Expect::Is(found.unwrap_or(Value::Nil))
            }
            Op::Update(id, element) => {
                let Some(at) = it.find(id) else { return Expect::Refused("NOSUCHID") };
                let old = std::mem::replace(&mut it.entries[at].element, element.clone());
                Expect::Is(Value::BulkString(old))
            }
            Op::Touch { ids, ttl, only, at } => {
                let Some(deadline) = at_or(*at, *ttl) else { return REFUSED };
                let mut count = 0;
                for (at_id, id) in ids.iter().enumerate() {
                    // Each id once.
                    let Some(found) = it.find(id).filter(|_| !ids[..at_id].contains(id)) else {
                        continue;
                    };
                    let entry = &it.entries[found];
                    let holds = match only {
                        None => true,
                        Some("GT") => deadline > entry.deadline,
                        Some(_) => deadline < entry.deadline,
                    };
                    if holds {
                        // With a deadline, 0 gives nothing back.
                        let keeps = at.is_some() && entry.token.is_some();
                        let ttl = if keeps { (*ttl).max(1) } else { *ttl };
                        it.touch(found, ttl, deadline, now, self.next());
                        count += 1;
                    }
                }
                int(count)
            }
            Op::Rem(ids) => int(it.remove_each(ids)),
            Op::Lease { ttl, token, at, ids } => {
                let mut count = 0;
                for id in ids {
                    if let Some(found) = it.find(id) {
                        it.entries[found].lease(*ttl, *at, self.next(), Some(*token));
                        count += 1;
                    }
                }
                int(count)
            }
            Op::OnDue(policy) => {
                it.policy = policy.clone();
                Expect::Is(Value::Okay)
            }
            Op::OnDueNew(_) if it.policy != Policy::Hold => Expect::Is(Value::Nil),
            Op::OnDueNew(policy) => {
                it.policy = policy.clone();
                Expect::Is(Value::Okay)
            }
            Op::OnDueStream(dest, length) => {
                it.policy = Policy::Stream { dest, maxlen: Some((true, *length)) };
                Expect::Is(Value::Okay)
            }
            Op::Pause { ms, at } => {
                let end = match (ms, at) {
                    (Some(ms), _) => at_or(None, *ms),
                    (None, at) => Some(at.unwrap_or(MAX)),
                };
                let Some(end) = end.filter(|end| *end > now) else { return REFUSED };
                it.pause = Some(end);
                Expect::Is(Value::Okay)
            }
            Op::Resume => {
                let was_paused = it.is_paused(now);
                it.pause = None;
                int(was_paused.into())
            }
            Op::Limit { length, held, rate, remember } => {
                it.limits.remember = remember.unwrap_or(it.limits.remember);
                if it.limits.remember == 0 {
                    it.remembered.clear();
                }
                let limits = &mut it.limits;
                limits.length = length.unwrap_or(limits.length);
                limits.held = held.unwrap_or(limits.held);
                limits.rate = match (rate, limits.rate.take()) {
                    (None, before) => before,
                    (Some((0, _)), _) => None,
                    (Some((most, per)), before) => {
                        Some((*most, *per, before.map_or(vec![], |before| before.2)))
                    }
                };
                Expect::Is(Value::Okay)
            }
            Op::Settled { until, ids } => {
                let count = it.remove_each(ids);
                if it.limits.remember > 0 {
                    it.remembered.extend(ids.iter().map(|id| (id.clone(), *until)));
                }
                int(count.max((it.limits.remember > 0).into()))
            }
            Op::Given { at, count } => {
                it.limits.give(*at, *count);
                int(it.limits.rate.is_some().into())
            }
            Op::Ttn => match it.entries.iter().map(|entry| entry.deadline).min() {
                Some(_) if it.pause == Some(MAX) => Expect::Is(Value::Nil),
                Some(first) => left(first.max(it.pause.unwrap_or(0)).max(it.room_from(now)), now),
                None => Expect::Is(Value::Nil),
            },
            Op::Pttl(id) => match it.find(id) {
                Some(at) => left(it.entries[at].deadline, now),
                None => Expect::Is(Value::Int(-2)),
            },
            Op::Len => int(it.entries.len() as u64),
            Op::Nonsense(_) => REFUSED,
            _ => unreachable!("it is of the keyspace"),
        }
    }
}

fn left(deadline: u64, now: u64) -> Expect {
    match deadline.saturating_sub(now) {
        0 => Expect::Is(Value::Int(0)),
        left => Expect::Near(left),
    }
}
