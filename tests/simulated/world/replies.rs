//! Replies, at once and to those who slept, and what is heard besides.

use std::collections::VecDeque;

use super::older;
use super::op::{Op, Poll};
use super::run::{Result, Sleep, World};
use super::step::Refusal;
use crate::judges::dehydrator::Entry;
use crate::judges::follow::Call;
use crate::judges::heard::{Heard, Sent, What};
use crate::judges::model::Kept;
use crate::judges::revive::entries;
use crate::judges::schedule::Occurred;
use crate::judges::{Bytes, Fault, NEVER, Promise};
use crate::machine::Reply;

/// A reply.
struct Answer {
    call: Call,
    reply: Reply,
    /// The client was asleep.
    sleep: Option<Sleep>,
}

impl World {
    /// Judges the replies to commands, and those to clients that were asleep.
    pub(super) fn collect(&mut self, sent: &[(usize, Call, bool)]) -> Result {
        let mut answers = Vec::new();
        self.hear();
        for (client, call, in_multi) in sent {
            answers.extend(self.answer_to(*client, call, *in_multi)?);
        }
        // What was taken for clients that were asleep has its effect by now, and its reply belongs to that.
        while self.machine.is_replying(self.primary) {
            self.passes(1)?;
            self.hear();
        }
        self.judge(answers)
    }

    /// Asks as an operator, and judges the reply.
    pub(super) fn look(&mut self, db: usize, key: &Bytes, op: Op) -> Result {
        if self.model.is_stepwise && !older::has(&op) {
            return Ok(());
        }
        self.begin_millisecond()?;
        let (now, pairs, elements) = (self.now(), Vec::new(), Vec::new());
        let mut call =
            Call { db, key: key.clone(), op, elements, pairs, sent: now, now, at: [0; 2] };
        let words = self.words(&call);
        let reply = self.ask(self.primary, db, &words);
        self.hear();
        let operator = self.machine.operator(self.primary).expect("it has asked");
        call.now = self.machine.ran_ms(operator);
        call.at = self.machine.ran_at(operator);
        // What an older library is known to tell wrongly hides nothing else.
        self.judge(vec![Answer { call, reply, sleep: None }]).or_else(|it| self.except(it))
    }

    /// Returns the reply to a command. `None`: its client sleeps.
    fn answer_to(
        &mut self,
        client: usize,
        call: &Call,
        in_multi: bool,
    ) -> std::result::Result<Option<Answer>, Fault> {
        let id = self.clients[client].id;
        let mut replies = self.machine.replies(id);
        let is_listed = matches!(call.op, Op::Revive(_));
        let reply = match in_multi {
            false if is_listed && replies.len() > 1 => Some(Reply::Array(replies)),
            true if !is_listed => match replies.pop() {
                Some(Reply::Array(mut replies)) if replies.len() == 1 => replies.pop(),
                reply => reply,
            },
            _ => replies.pop(),
        };
        self.last = reply.clone();
        if let (true, Some(Reply::Array(both))) = (is_listed, &reply) {
            self.letters = both.first().map(entries).unwrap_or_default();
        }
        let ([ran_at, done_at], mut call) = (self.machine.ran_at(id), call.clone());
        let is_woken = ran_at > done_at;
        call.at = if is_woken { [0, ran_at] } else { [ran_at, done_at] };
        call.now = self.machine.ran_ms(id);
        let sleep = match &call.op {
            Op::Poll(poll) if poll.block.is_some() && !in_multi => Some(Sleep {
                call: call.clone(),
                poll: poll.clone(),
                since_us: self.machine.monotonic_us(),
                arrival: done_at,
                may_leave: reply.is_some(),
            }),
            _ => None,
        };
        let Some(reply) = reply else {
            let fault = Promise::Reply.broken(format!("{call:?}: no reply"));
            self.clients[client].sleep = Some(sleep.ok_or(fault)?);
            return Ok(None);
        };
        Ok(Some(Answer { call, reply, sleep: sleep.filter(|_| is_woken) }))
    }

    /// Judges replies and those to clients that were asleep, and all else that was heard, in their order.
    fn judge(&mut self, mut answers: Vec<Answer>) -> Result {
        for number in 0..self.clients.len() {
            let client = &mut self.clients[number];
            if client.sleep.is_none() {
                continue;
            }
            let Some(reply) = self.machine.replies(client.id).pop() else { continue };
            let mut sleep = client.sleep.take().expect("it sleeps");
            sleep.call.now = self.machine.ran_ms(client.id);
            sleep.call.at = [0, self.machine.ran_at(client.id)[0]];
            answers.push(Answer { call: sleep.call.clone(), reply, sleep: Some(sleep) });
        }
        answers.sort_by_key(|it| it.call.at[1]);
        let mut answers = VecDeque::from(answers);
        while let Some(answer) = answers.pop_front() {
            let Answer { mut call, reply, sleep } = answer;
            if self.trace {
                let arrival = sleep.as_ref().map(|it| it.arrival);
                eprintln!("  reply at {:?}, of {arrival:?}: {reply:?}", call.at);
            }
            // The lease tells exactly when it was polled.
            call.now = self.model.polled_at(&call, &reply).unwrap_or(call.now);
            self.model.happen(call.at[0])?;
            match (sleep, &reply) {
                (Some(sleep), _) => {
                    let sleep = Sleep { call, ..sleep };
                    let later = answers.iter().filter_map(|it| it.sleep.as_ref());
                    let asleep = self.clients.iter().filter_map(|it| it.sleep.as_ref());
                    let asleep: Vec<_> = asleep.chain(later).cloned().collect();
                    self.wake(&sleep, &reply, &asleep)?;
                }
                (None, Reply::Error(error)) if self.is_refused_to_block(&call, error) => {}
                _ => self.model.follow(&call, &reply)?,
            }
        }
        self.model.heard_all()?;
        let now = self.now();
        self.model.all_mut().for_each(|it| it.note_room(now));
        Ok(())
    }

    /// Returns whether a client waits for a key that holds another value.
    fn waits_for_other(&self, sleep: &Sleep) -> bool {
        let is_other =
            |key: &Bytes| matches!(self.model.dbs[sleep.call.db].get(key), Some(Kept::Other));
        sleep.poll.keys.iter().any(is_other)
    }

    pub(super) fn is_refused_to_block(&self, call: &Call, error: &[u8]) -> bool {
        let Op::Poll(poll) = &call.op else { return false };
        let sends = |key: &Bytes| self.model.get(call.db, key).is_some_and(|it| !it.policy.holds());
        let is_other = |key: &Bytes| {
            self.model.dbs[call.db].contains_key(key) && self.model.get(call.db, key).is_none()
        };
        let lease_is_long = poll.lease.is_some_and(|it| it > NEVER - call.now);
        error.starts_with(b"ERR") && (poll.keys.iter().any(sends) || lease_is_long)
            || error.starts_with(b"WRONGTYPE") && poll.keys.iter().any(is_other)
    }

    /// Judges the reply to a client that was asleep, beside others who sleep still.
    fn wake(&mut self, sleep: &Sleep, reply: &Reply, asleep: &[Sleep]) -> Result {
        let slept_us = self.machine.monotonic_us() - sleep.since_us;
        match reply {
            _ if self.model.is_unjudged => Ok(()),
            reply if is_nothing(reply) => {
                let is_over =
                    sleep.poll.block.is_some_and(|ms| ms > 0 && slept_us + 1000 >= ms * 1000);
                // POLL has an array for it, and MPOLL nil; an older library had nil.
                let is_array = matches!(reply, Reply::Array(_)) != sleep.poll.is_many;
                if is_over && (is_array || self.model.is_stepwise) {
                    return Ok(());
                }
                let what = format!("{:?} replied {reply:?} after {slept_us} us", sleep.call.op);
                self.except(Promise::Unblocked.broken(what))
            }
            Reply::Error(error) if error.starts_with(b"UNBLOCKED") && self.may_leave(sleep) => {
                Ok(())
            }
            Reply::Error(error)
                if error.starts_with(b"WRONGTYPE") && self.waits_for_other(sleep) =>
            {
                Ok(())
            }
            reply if self.refusal == Some(Refusal::Rights) => match reply {
                Reply::Error(error) if error.starts_with(b"NOPERM") => Ok(()),
                reply => Err(Promise::Reply
                    .broken(format!("{:?} without the right: {reply:?}", sleep.call.op))),
            },
            Reply::Error(error) => Err(Promise::Unblocked.broken(format!(
                "{:?}: {}",
                sleep.call.op,
                error.escape_ascii()
            ))),
            reply => {
                let is_earlier = |it: &&Sleep| {
                    it.arrival < sleep.arrival
                        && it.call.db == sleep.call.db
                        && !it.poll.is_many
                        && it.poll.keys == sleep.poll.keys
                };
                let earlier = asleep.iter().find(is_earlier);
                // What is held already, the same client may ask for again.
                let is_again = self.holds_already(&sleep.call, &sleep.poll);
                if let Some(earlier) = earlier.filter(|it| !it.may_leave && !is_again) {
                    return Err(Promise::Arrival.broken(format!(
                        "{:?} was served before {:?}",
                        sleep.call.op, earlier.call.op
                    )));
                }
                self.model.polled(&sleep.call, &sleep.poll, reply)
            }
        }
    }

    /// Lets pass what an older library is known to break.
    fn except(&self, fault: Fault) -> Result {
        if self.is_excepted(&fault) { Ok(()) } else { Err(fault) }
    }

    /// Returns whether elements are held under the token of a POLL, which it gets again.
    fn holds_already(&self, call: &Call, poll: &Poll) -> bool {
        let mut keys = poll.keys.iter().filter_map(|key| self.model.get(call.db, key));
        let is_held = |it: &Entry| it.token == poll.token && it.deadline > call.now;
        poll.token.is_some() && keys.any(|it| it.entries().any(is_held))
    }

    /// Returns whether a client may be sent away: ONDUE delivers a key on which it sleeps.
    pub(super) fn may_leave(&self, sleep: &Sleep) -> bool {
        let delivers =
            |key: &Bytes| self.model.get(sleep.call.db, key).is_some_and(|it| !it.policy.holds());
        sleep.may_leave || sleep.poll.keys.iter().any(delivers)
    }

    /// Hears what was delivered: from the stream of effects, and as a subscriber.
    pub(super) fn hear(&mut self) {
        for effect in self.machine.stream(self.primary) {
            self.heard += 1;
            if self.trace && self.heard < 2000 {
                eprintln!(
                    "  effect {} at {} {} {:?}",
                    effect.at,
                    effect.ms,
                    effect.db,
                    effect.words.iter().map(|it| it.escape_ascii().to_string()).collect::<Vec<_>>()
                );
            }
            let told = self.model.is_stepwise.then(|| older::told(&effect.words));
            let told = told.as_ref().unwrap_or(&effect.words);
            let words: Vec<&[u8]> = told.iter().map(|it| &it[..]).collect();
            let (at, now, db) = (effect.at, effect.ms, effect.db as usize);
            let mut add = |what| self.model.heard.push_back(Heard { at, now, db, what });
            let bytes = |words: &[&[u8]]| words.iter().map(|it| it.to_vec()).collect();
            match &words[..] {
                [verb, to, _, b"id", id, b"element", element, ..]
                    if verb.eq_ignore_ascii_case(b"XADD") =>
                {
                    let [to, id, element] = [to, id, element].map(|it| it.to_vec());
                    add(What::Sent(Sent { db: Some(db), to, element, id: Some(id) }));
                }
                [verb, to, elements @ ..] if verb.eq_ignore_ascii_case(b"RPUSH") => {
                    for element in elements {
                        let (to, element) = (to.to_vec(), element.to_vec());
                        add(What::Sent(Sent { db: Some(db), to, element, id: None }));
                    }
                }
                [verb, key, ids @ ..] if verb.eq_ignore_ascii_case(b"DEHYDRATOR.REM") => {
                    add(What::Removed { key: key.to_vec(), until: None, ids: bytes(ids) });
                }
                [verb, key, what, ids @ ..]
                    if what.starts_with(b"S")
                        && verb.eq_ignore_ascii_case(b"DEHYDRATOR.EFFECT") =>
                {
                    let until = str::from_utf8(&what[1..]).ok().and_then(|it| it.parse().ok());
                    add(What::Removed { key: key.to_vec(), until, ids: bytes(ids) });
                }
                [verb, key, group @ ..] if verb.eq_ignore_ascii_case(b"DEHYDRATOR.RESUME") => {
                    let group = group.get(1).map(|it| it.to_vec());
                    add(What::Resumed { key: key.to_vec(), group });
                }
                [verb, key, what, ids @ ..]
                    if what.starts_with(b"L")
                        && verb.eq_ignore_ascii_case(b"DEHYDRATOR.EFFECT") =>
                {
                    let end = str::from_utf8(what).ok().and_then(|it| it.split('@').nth(1));
                    let end = end.and_then(|it| it.parse().ok()).unwrap_or(0);
                    add(What::Leased { key: key.to_vec(), end, ids: bytes(ids) });
                }
                [verb, key, what, name]
                    if (what.starts_with(b"O") || what.starts_with(b"M"))
                        && verb.eq_ignore_ascii_case(b"DEHYDRATOR.EFFECT") =>
                {
                    let [key, what, name] = [key, what, name].map(|it| it.to_vec());
                    add(What::Occurred(Occurred { key, what, name }));
                }
                _ => {}
            }
            if let Some(tool) = &mut self.tool {
                if tool.db != effect.db {
                    tool.db = effect.db;
                    self.machine.send(tool.client, &[b"SELECT", effect.db.to_string().as_bytes()]);
                }
                let words: Vec<&[u8]> = effect.words.iter().map(|it| &it[..]).collect();
                self.machine.send(tool.client, &words);
            }
        }
        for reply in self.machine.replies(self.subscriber) {
            if let Reply::Array(parts) | Reply::Push(parts) = reply
                && let [Reply::Bulk(kind), Reply::Bulk(to), Reply::Bulk(element)] = &parts[..]
                && kind == b"message"
            {
                let (to, element) = (to.clone(), element.clone());
                self.model.arrived.push(Sent { db: None, to, element, id: None });
            }
        }
    }
}

/// Returns whether a reply says that nothing was given.
fn is_nothing(reply: &Reply) -> bool {
    match reply {
        Reply::NullArray | Reply::Null => true,
        Reply::Array(rows) => rows.is_empty(),
        _ => false,
    }
}
