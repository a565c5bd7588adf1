//! Follows a reply: checks it against the model, and changes the model as the command has changed the server.

use super::dehydrator::{Dehydrator, Entry, Policy};
use super::heard::Sent;
use super::limits::Settings;
use super::model::{Kept, Model};
use super::{Bytes, Fault, NEVER, Promise};
use crate::machine::Reply;
use crate::world::op::{How, Numbers, Op, Options};
use crate::world::schedule::Back;

pub(super) type Result = std::result::Result<(), Fault>;

/// A command that was sent, and when it ran.
#[derive(Clone, Debug)]
pub struct Call {
    pub db: usize,
    pub key: Bytes,
    pub op: Op,
    pub elements: Vec<Bytes>,
    pub pairs: Vec<(Bytes, Bytes)>,
    /// When its words were written.
    pub sent: u64,
    pub now: u64,
    /// The numbers of its begin and its end among all that happened on its server. A client that was woken began at 0.
    pub at: [u64; 2],
}

pub fn ok() -> Reply {
    Reply::Simple(b"OK".to_vec())
}

pub(super) fn int(number: u64) -> Reply {
    Reply::Int(number as i64)
}

fn ints(numbers: Vec<u64>) -> Reply {
    Reply::Array(numbers.into_iter().map(int).collect())
}

/// Returns the ttl, rounded up to the coarsest power of two that adds no more than `slack`.
fn rounded(ttl: u64, slack: Option<u64>) -> Option<u64> {
    let mut step = 1;
    while step * 2 - 1 <= slack.unwrap_or(0) {
        step *= 2;
    }
    ttl.checked_next_multiple_of(step).filter(|ttl| *ttl <= NEVER)
}

/// The most bytes of a reason.
pub(super) const REASON_MAX: usize = 4096;
/// The elements that PURGE and TOUCH of a group change at once, if nothing is said.
const OF_GROUP: u64 = 1024;

impl Call {
    pub(super) fn other(&self, expected: &str, reply: &Reply) -> Fault {
        let op = &self.op;
        Promise::Reply.broken(format!(
            "{op:?} of {} in {} is not {expected}: {reply:?}, now {}",
            self.key.escape_ascii(),
            self.db,
            self.now
        ))
    }

    pub(super) fn differs(&self, expected: &str, reply: &Reply) -> Result {
        Err(self.other(expected, reply))
    }

    pub(super) fn is(&self, expected: &Reply, reply: &Reply) -> Result {
        if expected == reply { Ok(()) } else { self.differs(&format!("{expected:?}"), reply) }
    }

    pub(super) fn refused(&self, code: &str, reply: &Reply) -> Result {
        match reply {
            Reply::Error(error) if error.starts_with(code.as_bytes()) => Ok(()),
            reply => self.differs(code, reply),
        }
    }
}

impl Model {
    /// Follows the reply to a command.
    pub fn follow(&mut self, call: &Call, reply: &Reply) -> Result {
        if self.is_unjudged {
            return Ok(());
        }
        self.happen(call.at[0])?;
        if self.is_refused(call, reply) || self.keyspace(call, reply)? {
            return Ok(());
        }
        let is_other = |key: &Bytes| matches!(self.dbs[call.db].get(key), Some(Kept::Other));
        if let Op::Poll(poll) = &call.op {
            if poll.keys.iter().any(is_other) {
                return call.refused("WRONGTYPE", reply);
            }
            return self.polled(call, poll, reply);
        }
        if let Op::Revive(revive) = &call.op {
            return self.revived(call, revive, reply);
        }
        if call.op == Op::Late {
            return self.read(&Dehydrator::default(), call, reply);
        }
        if is_other(&call.key) {
            // Arguments are read first.
            let is_refused = call.refused("ERR", reply).is_ok();
            return if is_refused { Ok(()) } else { call.refused("WRONGTYPE", reply) };
        }
        // The value is taken out of the keyspace, so that both can be changed.
        let mut it = match self.dbs[call.db].remove(&call.key) {
            Some(Kept::Dehydrator(it)) => it,
            _ => Box::default(),
        };
        // Which groups a change of limits has reached, the model does not know.
        let shows_openings = matches!(call.op, Op::Ttn | Op::Info | Op::XPoll(_));
        let result = if shows_openings && it.is_fitting() {
            Ok(())
        } else if call.op.reads() {
            self.read(&it, call, reply)
        } else {
            self.write(&mut it, call, reply)
        };
        if !call.op.reads() {
            it.touched = it.touched.max(call.now);
            it.look_at_logs(call.now);
        }
        it.note_room(call.now);
        if !it.is_nothing() {
            self.dbs[call.db].insert(call.key.clone(), Kept::Dehydrator(it));
        }
        result
    }

    fn write(&mut self, it: &mut Dehydrator, call: &Call, reply: &Reply) -> Result {
        let now = call.now;
        let deadline = |ttl: u64| now.checked_add(ttl).filter(|at| *at <= NEVER);
        if let Op::Release(_, _, Back { reason: Some(reason), .. })
        | Op::Reject(_, Back { reason: Some(reason), .. }) = &call.op
            && reason.len() > REASON_MAX
        {
            return call.refused("ERR", reply);
        }
        match &call.op {
            Op::Push { elements, is_many, how, options, .. } => {
                self.push(it, call, (elements, *is_many, *how, options), reply)
            }
            Op::GidPush { ttl, group } => {
                let limit = it.limits_of(group.as_deref().unwrap_or_default()).0;
                let is_full = it.limits.length > 0 && it.count() as u64 >= it.limits.length
                    || limit > 0
                        && it.length_of(group.as_deref().unwrap_or_default()) as u64 >= limit;
                let Some(at) = deadline(*ttl) else { return call.refused("ERR", reply) };
                if is_full {
                    return call.refused("FULL", reply);
                }
                let Reply::Bulk(id) = reply else { return call.differs("an id", reply) };
                if id.len() != 32 || it.get(id).is_some() {
                    return call.differs("a new id", reply);
                }
                let entry = self.entry(
                    id,
                    &call.elements[0],
                    (*ttl, at),
                    &Options { group: group.clone(), ..Options::default() },
                );
                it.insert(entry);
                Ok(())
            }
            Op::Pull(id) => {
                let entry = it.remove(id);
                entry.iter().for_each(|_| it.done(id, [now, now]));
                call.is(&entry.map_or(Reply::Null, |it| Reply::Bulk(it.element)), reply)
            }
            Op::Rem(ids) => {
                call.is(&int(ids.iter().filter(|id| it.remove(id).is_some()).count() as u64), reply)
            }
            Op::XAck(ids) => {
                let mut expected = Vec::new();
                for id in ids {
                    let is_out =
                        it.get(id).is_some_and(|it| it.deadline <= now || it.deliveries > 0);
                    let entry = if is_out { it.remove(id) } else { None };
                    entry.iter().for_each(|_| it.done(id, [now, now]));
                    expected.push(entry.map_or(Reply::Null, |it| Reply::Bulk(it.element)));
                }
                call.is(&Reply::Array(expected), reply)
            }
            Op::Settle(_) | Op::Reject(..) => {
                let is_settle = matches!(call.op, Op::Settle(_));
                if !is_settle && !it.is_nothing() && !matches!(it.policy, Policy::Limit(..)) {
                    return call.refused("NORULE", reply);
                }
                let mut expected = Vec::new();
                for (token, id) in &call.pairs {
                    let is_held = it.get(id).is_some_and(|it| it.token.as_ref() == Some(token));
                    expected.push(is_held.into());
                    if !is_held {
                        continue;
                    }
                    if is_settle {
                        it.done(id, [now, now]);
                    } else {
                        self.rejected.extend(it.sent(call.db, id).map(|sent| Sent {
                            element: call.elements.first().cloned().unwrap_or(sent.element),
                            ..sent
                        }));
                    }
                    it.remove(id);
                }
                call.is(&ints(expected), reply)
            }
            Op::Renew(ttl, _) | Op::Release(ttl, ..) => {
                let Some(at) = deadline(*ttl) else { return call.refused("ERR", reply) };
                let is_renew = matches!(call.op, Op::Renew(..));
                let is_uncounted =
                    matches!(call.op, Op::Release(_, _, Back { is_uncounted: true, .. }));
                let is_new = |at: &usize| !call.pairs[..*at].contains(&call.pairs[*at]);
                let mut order: Vec<_> = (0..call.pairs.len()).collect();
                // Each goes first among those with its deadline, so the first of them goes last.
                if is_uncounted {
                    order = order.into_iter().filter(is_new).rev().collect();
                }
                let mut expected = vec![0; call.pairs.len()];
                let is_full = self.is_full;
                for listed in order {
                    let (token, id) = &call.pairs[listed];
                    let held = it.get(id).filter(|it| it.token.as_ref() == Some(token));
                    // At the limit, a lease that has ended is not extended.
                    let may = held.is_some_and(|entry| {
                        let most = it.enforced(&entry.group).0;
                        let has_room = it.limits.held == 0 || it.running(now) < it.limits.held;
                        let has_room =
                            has_room && (most == 0 || it.running_of(&entry.group, now) < most);
                        !is_renew || *ttl == 0 || entry.deadline > now || has_room
                    });
                    expected[listed] = may.into();
                    if may {
                        let sequence =
                            if is_uncounted { self.first_number() } else { self.number() };
                        it.change(id, |entry| {
                            (entry.ttl, entry.deadline, entry.sequence) = (*ttl, at, sequence);
                            if !is_renew || *ttl == 0 {
                                (entry.token, entry.ttl) = (None, 0);
                            }
                            if let Op::Release(_, _, back) = &call.op {
                                if let Some(element) = call.elements.first() {
                                    entry.element = element.clone();
                                }
                                let said = back.reason.as_ref().filter(|_| !is_full);
                                entry.reason = said.unwrap_or(&entry.reason).clone();
                            }
                            if is_uncounted {
                                entry.deliveries -= 1;
                                if *ttl == 0 {
                                    entry.deadline = entry.was_due.min(now);
                                }
                            }
                        });
                    }
                }
                call.is(&ints(expected), reply)
            }
            Op::Update(id) => {
                let Some(entry) = it.get(id) else { return call.refused("NOSUCHID", reply) };
                let before = Reply::Bulk(entry.element.clone());
                it.change(id, |entry| entry.element = call.elements[0].clone());
                call.is(&before, reply)
            }
            Op::Touch { ids, ttl, at, only } => {
                let Some(to) = at
                    .map(|at| at.moment(call.sent))
                    .or_else(|| deadline(*ttl))
                    .filter(|to| at.is_none() || *to < NEVER)
                else {
                    return call.refused("ERR", reply);
                };
                let mut count = 0;
                for id in ids {
                    let Some(entry) = it.get(id) else { continue };
                    let is_meant = only.is_none_or(|later| {
                        if later { to > entry.deadline } else { to < entry.deadline }
                    });
                    if is_meant {
                        // With a deadline, nothing is given back.
                        let keeps = at.is_some() && entry.token.is_some();
                        self.touch(it, id, if keeps { (*ttl).max(1) } else { *ttl }, to, now);
                        count += 1;
                    }
                }
                call.is(&int(count), reply)
            }
            Op::TouchGroup(group, ttl, count) => {
                let Some(to) = deadline(*ttl).filter(|_| !group.is_empty()) else {
                    return call.refused("ERR", reply);
                };
                // What is due about then stays where it is.
                let near = match *ttl {
                    _ if self.is_stepwise => u64::MAX,
                    0 => 0,
                    ttl => to - (ttl / 8).clamp(1000, 60_000).min(ttl / 2).min(to),
                };
                let is_meant = |entry: &&&Entry| {
                    entry.group == *group
                        && !(entry.token.is_some() && entry.deadline > now)
                        && !(near..=to).contains(&entry.deadline)
                };
                let ordered = it.ordered();
                let meant = ordered.iter().filter(is_meant).take(self.most_of_group(*count));
                let ids: Vec<_> = meant.map(|it| it.id.clone()).collect();
                ids.iter().for_each(|id| self.touch(it, id, *ttl, to, now));
                call.is(&int(ids.len() as u64), reply)
            }
            Op::Purge(group, count) => {
                if group.is_empty() {
                    return call.refused("ERR", reply);
                }
                let ordered = it.ordered();
                let members = ordered.iter().filter(|entry| entry.group == *group);
                let most = self.most_of_group(*count);
                let ids: Vec<_> = members.take(most).map(|it| it.id.clone()).collect();
                ids.iter().for_each(|id| drop(it.remove(id)));
                call.is(&int(ids.len() as u64), reply)
            }
            Op::OfSchedules(op) => it.of_schedules(call, op, reply),
            Op::OnDueNx(policy) => {
                if it.policy != Policy::Hold {
                    return call.is(&Reply::Null, reply);
                }
                it.set_each(now, |it| it.policy = policy.clone());
                call.is(&ok(), reply)
            }
            Op::OnDue(policy) => {
                it.set_each(now, |it| it.policy = policy.clone());
                call.is(&ok(), reply)
            }
            Op::Pause { ms, group } => {
                let end = ms.map_or(Some(NEVER), deadline).filter(|end| *end > now);
                let Some(end) = end.filter(|_| *group != Some(Vec::new())) else {
                    return call.refused("ERR", reply);
                };
                match group {
                    None => it.pause = Some(end),
                    Some(group) => {
                        it.set(group, now, Settings { pause: Some(end), ..it.settings(group) })
                    }
                }
                call.is(&ok(), reply)
            }
            Op::Resume(group) => {
                let was = match group {
                    None => it.pause.take(),
                    Some(group) if group.is_empty() => return call.refused("ERR", reply),
                    Some(group) => {
                        let before = it.settings(group);
                        it.set(group, now, Settings { pause: None, ..before });
                        before.pause
                    }
                };
                call.is(&int(was.is_some_and(|end| end > now).into()), reply)
            }
            Op::Limit(numbers) => {
                let limits = &mut it.limits;
                limits.length = numbers.length.unwrap_or(limits.length);
                limits.held = numbers.held.unwrap_or(limits.held);
                limits.remember = numbers.remember.unwrap_or(limits.remember);
                let before = limits.rate;
                limits.rate = numbers.rate.map_or(before, |it| if it.0 == 0 { (0, 0) } else { it });
                if limits.rate != before {
                    limits.log.change(before, limits.rate, now);
                }
                if limits.remember == 0 {
                    it.remembered.clear();
                }
                call.is(&ok(), reply)
            }
            Op::LimitGroup(group, numbers) => {
                let only_share = Numbers { share: None, ..*numbers } == Numbers::default();
                if *group == Some(Vec::new()) && !only_share {
                    return call.refused("ERR", reply);
                }
                let before = group.as_ref().map_or(it.each, |group| it.settings(group));
                let rate =
                    numbers.rate.map_or(before.rate, |it| if it.0 == 0 { (0, 0) } else { it });
                let settings = Settings {
                    share: numbers.share.unwrap_or(before.share),
                    length: numbers.length.unwrap_or(before.length),
                    held: numbers.held.unwrap_or(before.held),
                    rate,
                    ..before
                };
                match group {
                    None => it.set_each(now, |it| it.each = settings),
                    Some(group) => it.set(group, now, settings),
                }
                call.is(&ok(), reply)
            }
            op => unreachable!("{op:?} is followed elsewhere"),
        }
    }

    /// Returns how many elements PURGE and TOUCH of a group change at once.
    fn most_of_group(&self, count: Option<u64>) -> usize {
        if self.is_stepwise { usize::MAX } else { count.unwrap_or(OF_GROUP) as usize }
    }

    fn entry(
        &mut self,
        id: &Bytes,
        element: &Bytes,
        (ttl, deadline): (u64, u64),
        options: &Options,
    ) -> Entry {
        Entry {
            ttl,
            most: options.most.unwrap_or(0),
            until: options.within.map(|within| i128::from(deadline) + i128::from(within)),
            group: options.group.clone().unwrap_or_default(),
            ..Entry::new(id.clone(), element.clone(), (deadline, self.number()))
        }
    }

    fn push(
        &mut self,
        it: &mut Dehydrator,
        call: &Call,
        (pushed, is_many, how, options): (&[(u64, Bytes)], bool, How, &Options),
        reply: &Reply,
    ) -> Result {
        let now = call.now;
        let timer = |(ttl, _): &(u64, Bytes)| {
            let ttl = rounded(*ttl, options.slack)?;
            let at = options.at.map(|at| at.moment(call.sent)).filter(|at| *at < NEVER);
            if options.at.is_some() {
                Some((ttl, at?))
            } else {
                Some((ttl, now.checked_add(ttl).filter(|at| *at <= NEVER)?))
            }
        };
        let Some(timers) = pushed.iter().map(timer).collect::<Option<Vec<_>>>() else {
            return call.refused("ERR", reply);
        };
        let is_refused = call.refused("EXISTS", reply).is_ok();
        if how == How::Refuse {
            let mut stored: Vec<&Bytes> = Vec::new();
            let (name, mut len) = (options.group.clone().unwrap_or_default(), it.count() as u64);
            let (most, mut of_group) = (it.limits_of(&name).0, it.length_of(&name) as u64);
            for (_, id) in pushed {
                if it.get(id).is_some() || it.remembers(id, now, is_refused) || stored.contains(&id)
                {
                    return call.refused("EXISTS", reply);
                }
                let is_full = it.limits.length > 0 && len >= it.limits.length;
                let is_group_full = options.group.is_some() && most > 0 && of_group >= most;
                if !is_full && !is_group_full {
                    stored.push(id);
                    (len, of_group) = (len + 1, of_group + 1);
                }
            }
        }
        let mut stored = Vec::new();
        let name = options.group.clone().unwrap_or_default();
        for (((_, id), timer), element) in pushed.iter().zip(timers).zip(&call.elements) {
            let is_said = match reply {
                Reply::Array(said) => said.get(stored.len()) == Some(&Reply::Int(0)),
                reply => *reply == Reply::Null,
            };
            let (found, is_remembered) = (it.get(id), it.remembers(id, now, is_said));
            if how == How::Nx && (found.is_some() && !is_many || found.is_none() && is_remembered) {
                stored.push(0);
                continue;
            }
            let stays = found.is_some_and(|it| how != How::Replace || it.group == name);
            let most = it.limits_of(&name).0;
            let is_full =
                found.is_none() && it.limits.length > 0 && it.count() as u64 >= it.limits.length;
            let is_group_full =
                options.group.is_some() && most > 0 && it.length_of(&name) as u64 >= most && !stays;
            if is_full || is_group_full {
                stored.push(-1);
                continue;
            }
            if found.is_some() && how == How::Nx {
                stored.push(0);
                continue;
            }
            it.remove(id);
            it.remembered.remove(id);
            let entry = self.entry(id, element, timer, options);
            it.insert(entry);
            stored.push(1);
        }
        if is_many {
            return call.is(&Reply::Array(stored.into_iter().map(Reply::Int).collect()), reply);
        }
        match stored[0] {
            1 => call.is(&ok(), reply),
            0 => call.is(&Reply::Null, reply),
            _ => call.refused("FULL", reply),
        }
    }

    /// Restarts the timer of an element, as TOUCH does.
    fn touch(&mut self, it: &mut Dehydrator, id: &Bytes, ttl: u64, to: u64, now: u64) {
        let entry = it.get(id).expect("it is there");
        let is_limited = it.limits.held > 0 || it.enforced(&entry.group).0 > 0;
        // If running leases are counted, one that has ended ends by this.
        let ends = is_limited && entry.token.is_some() && entry.deadline <= now && to > now;
        let ttl = if ends { 0 } else { ttl };
        let sequence = self.number();
        it.change(id, |entry| {
            if entry.token.is_none() {
                entry.until =
                    entry.until.map(|until| until + i128::from(to) - i128::from(entry.deadline));
            }
            (entry.ttl, entry.deadline, entry.sequence) = (ttl, to, sequence);
            if ttl == 0 {
                entry.token = None;
            }
        });
    }
}
