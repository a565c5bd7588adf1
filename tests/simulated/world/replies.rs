//! Replies, at once and to those who slept, and what is heard besides.

use super::op::{Op, Poll};
use super::run::{Result, Sleep, World};
use super::step::Refusal;
use crate::judges::dehydrator::Entry;
use crate::judges::follow::Call;
use crate::judges::model::{Kept, Sent};
use crate::judges::revive::entries;
use crate::judges::schedule::Heard;
use crate::judges::{Bytes, NEVER, Promise};
use crate::machine::{Propagated, Reply};

impl World {
    /// Judges the replies to commands, and those to clients that were asleep.
    pub(super) fn collect(&mut self, sent: &[(usize, Call, bool)]) -> Result {
        self.collect_in(sent, false)
    }

    /// Like [`Self::collect`]; `in_any_order`: what happens by itself may have happened before the commands, or not.
    pub(super) fn collect_in(
        &mut self,
        sent: &[(usize, Call, bool)],
        in_any_order: bool,
    ) -> Result {
        self.collect_replies(sent, in_any_order)?;
        self.model.is_waking = false;
        self.model.occur(u64::MAX)?;
        let now = self.moment;
        self.model.all_mut().for_each(|it| it.note_room(now));
        Ok(())
    }

    /// Follows what schedules have done by now.
    pub(super) fn hear_occurrences(&mut self) -> Result {
        self.hear();
        self.model.occur(u64::MAX)
    }

    fn collect_replies(&mut self, sent: &[(usize, Call, bool)], in_any_order: bool) -> Result {
        let now = self.moment;
        self.hear();
        let (mut calls, mut woken) = (Vec::new(), Vec::new());
        for (client, call, in_multi) in sent {
            let mut replies = self.machine.replies(self.clients[*client].id);
            let is_listed = matches!(call.op, Op::Revive(_));
            let reply = match in_multi {
                false if is_listed && replies.len() > 1 => Some(Reply::Array(replies)),
                false => replies.pop(),
                true if is_listed => replies.pop(),
                true => match replies.pop() {
                    Some(Reply::Array(mut replies)) if replies.len() == 1 => replies.pop(),
                    Some(reply) => Some(reply),
                    None => {
                        return Err(Promise::Reply.broken(format!("{call:?} in MULTI: no reply")));
                    }
                },
            };
            let blocks = match &call.op {
                Op::Poll(poll) if poll.block.is_some() && !in_multi => Some(poll.clone()),
                _ => None,
            };
            self.last = reply.clone();
            if let (true, Some(Reply::Array(both))) = (is_listed, &reply) {
                self.letters = both.first().map(entries).unwrap_or_default();
            }
            let mut call = call.clone();
            call.ran_at = self.machine.ran_at(self.clients[*client].id);
            let moment = reply.as_ref().and_then(|reply| self.moment_of(&call, reply));
            call.now = moment.unwrap_or_else(|| self.machine.ran_ms(self.clients[*client].id));
            calls.push((*client, call, reply, blocks));
        }
        for number in 0..self.clients.len() {
            let client = &mut self.clients[number];
            if client.sleep.is_none() {
                continue;
            }
            let Some(reply) = self.machine.replies(client.id).pop() else { continue };
            let mut sleep = client.sleep.take().expect("it sleeps");
            sleep.call.now = self.moment_of(&sleep.call, &reply).unwrap_or(now);
            sleep.call.ran_at = self.machine.ran_at(self.clients[number].id);
            woken.push((sleep, reply));
        }
        self.leased.clear();
        self.model.is_waking = !woken.is_empty();
        if sent.is_empty() && woken.is_empty() {
            // In the order of their effects.
            self.model.occur(u64::MAX)?;
            self.model.absorb(now).ok();
        }
        woken.sort_by_key(|it| it.0.arrival);
        if self.trace {
            calls.iter().for_each(|it| eprintln!("  reply to {}: {:?}", it.0, it.2));
            woken.iter().for_each(|it| eprintln!("  woken {}: {:?}", it.0.arrival, it.1));
        }
        let first = self.arrivals + 1;
        for (client, call, reply, blocks) in &calls {
            self.arrivals += 1;
            if let (None, Some(poll)) = (reply, blocks) {
                let sleep = Sleep {
                    call: call.clone(),
                    poll: poll.clone(),
                    since_us: self.machine.monotonic_us(),
                    arrival: self.arrivals,
                    may_leave: false,
                };
                self.clients[*client].sleep = Some(sleep);
            } else if reply.is_none() {
                return Err(Promise::Reply.broken(format!("{call:?}: no reply")));
            }
        }
        let is_plain = !in_any_order
            && woken.is_empty()
            && self.model.sent.is_empty()
            && calls.len() <= 1
            && calls.iter().all(|it| it.3.is_none() || it.2.is_none());
        if is_plain {
            return calls.iter().try_for_each(|(_, call, reply, _)| match reply {
                Some(reply) => self.model.follow(call, reply),
                None => Ok(()),
            });
        }
        // Whether those who sleep are served between two commands or after all of them is up to the server.
        let before = (!calls.is_empty() || woken.len() > 1).then(|| self.model.clone());
        let result = self.judge(&calls, first, woken.clone(), false);
        let result = result.and_then(|()| self.agree());
        match (result, before) {
            (Err(fault), Some(before)) => {
                self.model = before.clone();
                self.model.is_lazy = true;
                let mut result = self.judge(&calls, first, woken.clone(), true);
                self.model.is_lazy = false;
                if result.is_err() {
                    self.model = before;
                    self.model.drops_early = true;
                    result = self.judge(&calls, first, woken, false);
                    self.model.drops_early = false;
                }
                result.map_err(|_| fault)
            }
            (result, _) => result,
        }
    }

    #[allow(clippy::type_complexity, reason = "a tuple of what was sent and what came back")]
    pub(super) fn judge(
        &mut self,
        calls: &[(usize, Call, Option<Reply>, Option<Poll>)],
        first: usize,
        mut woken: Vec<(Sleep, Reply)>,
        lazily: bool,
    ) -> Result {
        let since_us = self.machine.monotonic_us();
        if !lazily && !calls.is_empty() {
            self.serve(&mut woken).ok();
        }
        for (at, (_, call, reply, blocks)) in calls.iter().enumerate() {
            match (reply, blocks) {
                (Some(Reply::Error(error)), Some(_)) if self.is_refused_to_block(call, error) => {}
                // What it holds already it gets at once, and what runs after it may take that away.
                (Some(reply), Some(poll))
                    if self.holds_already(call, poll) && self.model.follow(call, reply).is_ok() => {
                }
                (Some(reply), Some(poll)) => {
                    let sleep = Sleep {
                        call: call.clone(),
                        poll: poll.clone(),
                        since_us,
                        arrival: first + at,
                        may_leave: true,
                    };
                    woken.push((sleep, reply.clone()));
                }
                (Some(reply), None) => self.model.follow(call, reply)?,
                (None, _) => {}
            }
            if !lazily {
                self.serve(&mut woken).ok();
            }
        }
        self.serve(&mut woken)
    }

    /// Checks that what was leased last is leased, if that is known: a command and a lease come in either order, and both replies
    /// may be the same.
    fn agree(&mut self) -> Result {
        let lent = self.lent.take().unwrap_or_default();
        for ((db, key, id), end) in lent {
            let Some(end) = end else { continue };
            let entry = self.model.get(db, &key).and_then(|it| it.get(&id));
            if entry.is_none_or(|it| it.token.is_none() || it.deadline != end) {
                return Err(Promise::Order.broken(format!("{entry:?} was leased last")));
            }
        }
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

    /// Follows the replies to those who slept, as far as they may have happened by now, in order for each key.
    pub(super) fn serve(&mut self, woken: &mut Vec<(Sleep, Reply)>) -> Result {
        let (mut at, mut result) = (0, Ok(()));
        while let Some((sleep, reply)) = woken.get(at) {
            let shares = |it: &(Sleep, Reply)| {
                let mut keys = it.0.poll.keys.iter();
                it.0.call.db == sleep.call.db && keys.any(|key| sleep.poll.keys.contains(key))
            };
            if woken[..at].iter().any(shares) {
                at += 1;
                continue;
            }
            let before = (woken.len() > 1).then(|| self.model.clone());
            match self.wake(sleep, reply) {
                Ok(()) => drop(woken.remove(at)),
                Err(fault) => {
                    if let Some(before) = before {
                        self.model = before;
                    }
                    result = result.and(Err(fault));
                    at += 1;
                }
            }
        }
        result
    }

    pub(super) fn wake(&mut self, sleep: &Sleep, reply: &Reply) -> Result {
        let slept_us = self.machine.monotonic_us() - sleep.since_us;
        match reply {
            _ if self.model.is_unjudged => Ok(()),
            reply if is_nothing(reply) => {
                let is_over =
                    sleep.poll.block.is_some_and(|ms| ms > 0 && slept_us + 1000 >= ms * 1000);
                // POLL has an array for it, and MPOLL nil.
                if is_over && matches!(reply, Reply::Array(_)) != sleep.poll.is_many {
                    return Ok(());
                }
                Err(Promise::Unblocked
                    .broken(format!("{:?} replied {reply:?} after {slept_us} us", sleep.call.op)))
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
                let earlier =
                    self.clients.iter().filter_map(|it| it.sleep.as_ref()).find(is_earlier);
                // What is held already, the same client may ask for again.
                let is_again = self.holds_already(&sleep.call, &sleep.poll);
                if let Some(earlier) = earlier.filter(|it| !it.may_leave && !is_again) {
                    return Err(Promise::Arrival.broken(format!(
                        "{:?} was served before {:?}",
                        sleep.call.op, earlier.call.op
                    )));
                }
                self.model.occur(sleep.call.ran_at)?;
                self.model.polled(&sleep.call, &sleep.poll, reply)
            }
        }
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

    /// Returns when a POLL ran: a pass may go on into another millisecond, and the effect tells.
    pub(super) fn moment_of(&self, call: &Call, reply: &Reply) -> Option<u64> {
        let Op::Poll(poll) = &call.op else { return None };
        let rows = match reply {
            Reply::Array(parts) if poll.is_many => parts.get(1)?,
            rows => rows,
        };
        let Reply::Array(rows) = rows else { return None };
        let Reply::Array(row) = rows.first()? else { return None };
        let Reply::Bulk(id) = row.first()? else { return None };
        let end = poll
            .keys
            .iter()
            .find_map(|key| self.leased.get(&(call.db, key.clone(), id.clone())))?;
        let began = end.checked_sub(poll.lease?)?;
        (self.moment..=self.now()).contains(&began).then_some(began)
    }

    /// Hears what was delivered: from the stream of effects, and as a subscriber.
    pub(super) fn hear(&mut self) {
        let effects = self.machine.stream(self.primary);
        let is_frame = |it: &Propagated| matches!(&it.words[0][..], b"MULTI" | b"EXEC");
        let count = effects.iter().filter(|it| !is_frame(it)).count() as u64;
        let mut number = self.machine.effects(self.primary) - count;
        for effect in effects {
            let at = number;
            number += u64::from(!is_frame(&effect));
            self.heard += 1;
            if self.trace && self.heard < 2000 {
                eprintln!(
                    "  effect at {} {} {:?}",
                    self.machine.wall_ms(),
                    effect.db,
                    effect.words.iter().map(|it| it.escape_ascii().to_string()).collect::<Vec<_>>()
                );
            }
            let words: Vec<&[u8]> = effect.words.iter().map(|it| &it[..]).collect();
            let db = Some(effect.db as usize);
            if let (Some(lent), [verb, key, what, ids @ ..]) = (&mut self.lent, &words[..])
                && verb.eq_ignore_ascii_case(b"DEHYDRATOR.EFFECT")
            {
                let name = |id: &&[u8]| (effect.db as usize, key.to_vec(), id.to_vec());
                let end = || str::from_utf8(what).ok()?.split('@').nth(1)?.parse().ok();
                let end = if what.starts_with(b"L") { end() } else { None };
                lent.extend(ids.iter().map(|id| (name(id), end)));
            }
            match &words[..] {
                [verb, to, _, b"id", id, b"element", element, ..]
                    if verb.eq_ignore_ascii_case(b"XADD") =>
                {
                    let [to, id, element] = [to, id, element].map(|it| it.to_vec());
                    self.model.sent.push(Sent { db, to, element, id: Some(id), at });
                }
                [verb, to, elements @ ..] if verb.eq_ignore_ascii_case(b"RPUSH") => {
                    let sent = elements.iter().map(|it| Sent {
                        db,
                        to: to.to_vec(),
                        element: it.to_vec(),
                        id: None,
                        at,
                    });
                    self.model.sent.extend(sent);
                }
                [verb, key, what, ids @ ..]
                    if self.machine.wall_ms() > self.moment
                        && what.starts_with(b"L")
                        && verb.eq_ignore_ascii_case(b"DEHYDRATOR.EFFECT") =>
                {
                    let end = str::from_utf8(what).ok().and_then(|it| it.split('@').nth(1));
                    let end = end.and_then(|it| it.parse().ok()).unwrap_or(0);
                    let db = effect.db as usize;
                    let ends = ids.iter().map(|id| ((db, key.to_vec(), id.to_vec()), end));
                    self.leased.extend(ends);
                }
                [verb, key, what, name]
                    if (what.starts_with(b"O") || what.starts_with(b"M"))
                        && verb.eq_ignore_ascii_case(b"DEHYDRATOR.EFFECT") =>
                {
                    let now = self.machine.wall_ms();
                    let [key, what, name] = [key, what, name].map(|it| it.to_vec());
                    let db = effect.db as usize;
                    self.model.heard.push_back(Heard { at, now, db, key, what, name });
                }
                _ => {}
            }
            if let Some(tool) = &mut self.tool {
                if tool.db != effect.db {
                    tool.db = effect.db;
                    self.machine.send(tool.client, &[b"SELECT", effect.db.to_string().as_bytes()]);
                }
                self.machine.send(tool.client, &words);
            }
        }
        for reply in self.machine.replies(self.subscriber) {
            if let Reply::Array(parts) | Reply::Push(parts) = reply
                && let [Reply::Bulk(kind), Reply::Bulk(to), Reply::Bulk(element)] = &parts[..]
                && kind == b"message"
            {
                self.model.sent.push(Sent {
                    db: None,
                    to: to.clone(),
                    element: element.clone(),
                    id: None,
                    at: 0,
                });
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
