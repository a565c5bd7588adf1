//! Sends commands, and judges what comes back.

use super::draw::STREAM;
use super::older;
use super::op::{At, Op};
use super::run::{Begun, Result, World};
use super::schedule::{Every, OfSchedules};
use super::step::Command;
use crate::judges::reads::TICK_MS;
use crate::judges::{Bytes, NEVER, Promise};
use crate::machine::Reply;

/// How long a command may take that works in steps, in milliseconds of virtual time.
const STEPS_MS: u64 = 60_000;

impl World {
    /// Sends commands of different clients, and judges the replies in the order in which they ran.
    pub(super) fn batch(&mut self, commands: &[Command]) -> Result {
        let (mut sent, mut refused, mut used) = (Vec::new(), Vec::new(), Vec::new());
        self.begin_millisecond()?;
        for command in commands {
            let Some(client) = self.awake(command.client, &used) else { continue };
            used.push(client);
            if self.model.is_stepwise && !older::has(&command.op) {
                continue;
            }
            let call = self.call_of(command, self.clients[client].db);
            let words = self.words(&call);
            if command.in_multi {
                self.send(client, &[b"MULTI".to_vec()]);
            }
            if let Op::Revive(_) = &call.op {
                self.send(client, &[&b"XRANGE"[..], STREAM, b"-", b"+"].map(<[u8]>::to_vec));
            }
            if command.in_multi {
                self.send(client, &words);
                self.send(client, &[b"EXEC".to_vec()]);
            } else {
                self.send(client, &words);
            }
            if let Op::OnDue(policy) | Op::OnDueNx(policy) = &call.op
                && !policy.holds()
            {
                self.let_leave(call.db, &call.key);
            }
            if let Op::Range(..) | Op::XPoll(_) | Op::Poll(_) = &call.op {
                let count = |key| self.model.get(call.db, key).map_or(0, |it| it.count() as u64);
                self.asked = self.asked.max(count(&call.key));
            }
            match self.refusal.and_then(|it| it.code(&call.op)) {
                Some(code) => refused.push((client, code, call, command.in_multi)),
                None => sent.push((client, call, command.in_multi)),
            }
        }
        if let Some(begun) = &mut self.begun {
            begun.is_alone = false;
        }
        self.hear();
        let heard = self.heard;
        self.passes(1)?;
        self.asked = 0;
        self.last = None;
        for (client, code, call, in_multi) in refused {
            let reply = self.machine.replies(self.clients[client].id).pop();
            let code = if in_multi { "EXECABORT" } else { code };
            if !matches!(&reply, Some(Reply::Error(error)) if error.starts_with(code.as_bytes())) {
                return Err(Promise::Reply.broken(format!("{:?}: {reply:?}, not {code}", call.op)));
            }
        }
        self.collect(&sent)?;
        // A reply is not sent before its effect.
        if let ([(_, call, _)], Some(reply)) = (&sent[..], &self.last)
            && self.has_listener
            && self.heard == heard
            && call.op.has_changed(reply)
        {
            return Err(Promise::Effect
                .broken(format!("{:?} replied {reply:?} without an effect", call.op)));
        }
        // Where events are on, the names that have changed are looked for at the ticks.
        if self.has_events && sent.iter().any(|it| it.1.op.is_of_keyspace()) {
            self.advance(2 * TICK_MS)?;
        }
        Ok(())
    }

    /// Notes that those who sleep on a key may be sent away.
    pub(super) fn let_leave(&mut self, db: usize, key: &Bytes) {
        for client in &mut self.clients {
            let sleep =
                client.sleep.iter_mut().filter(|it| it.call.db == db && it.poll.keys.contains(key));
            sleep.for_each(|it| it.may_leave = true);
        }
    }

    /// Begins a command that takes steps.
    pub(super) fn begin(&mut self, command: &Command) -> Result {
        let Some(client) = self.awake(command.client, &[]) else { return Ok(()) };
        let call = self.call_of(command, self.clients[client].db);
        let words = self.words(&call);
        let it = self.model.get(call.db, &call.key);
        let count = it.map_or(0, |it| match &call.op {
            Op::Purge(group, _) => it.length_of(group) as u64,
            Op::TouchGroup(group, ..) => it
                .entries()
                .filter(|it| it.group == *group && !(it.token.is_some() && it.deadline > call.now))
                .count() as u64,
            _ => 0,
        });
        let spent_ns = self.machine.spent_ns(self.primary);
        self.send(client, &words);
        self.passes(1)?;
        if !self.model.is_stepwise {
            self.collect(&[(client, call.clone(), false)])?;
            return self.judge_each(&call, self.last.as_ref(), spent_ns);
        }
        self.hear();
        let mut reply = Reply::Int(count as i64);
        if matches!(call.op, Op::TouchGroup(_, ttl, _) if ttl > NEVER - call.now) {
            reply = Reply::Error(b"ERR".to_vec());
        }
        self.model.follow(&call, &reply)?;
        let began_ms = call.now;
        self.begun = Some(Begun { client, call, count, is_alone: true, spent_ns, began_ms });
        Ok(())
    }

    /// Waits for the reply to a command that takes steps.
    pub(super) fn end_begun(&mut self) -> Result {
        let Some(begun) = self.begun.take() else { return Ok(()) };
        let id = self.clients[begun.client].id;
        loop {
            self.quiet()?;
            if let Some(reply) = self.machine.replies(id).pop() {
                let is_it = match &reply {
                    Reply::Int(count) if begun.is_alone => *count as u64 == begun.count,
                    Reply::Int(count) => *count as u64 <= begun.count,
                    Reply::Error(_) => true,
                    _ => false,
                };
                if !is_it {
                    return Err(Promise::Reply.broken(format!(
                        "{:?} replied {reply:?}, not {}",
                        begun.call.op, begun.count
                    )));
                }
                self.judge_each(&begun.call, Some(&reply), begun.spent_ns)?;
                return self.settle();
            }
            if self.now() > begun.began_ms + STEPS_MS {
                return Err(Promise::Reply
                    .broken(format!("{:?} did not reply in {STEPS_MS} ms", begun.call.op)));
            }
            self.advance(5)?;
        }
    }

    pub(super) fn bulk(
        &mut self,
        number: usize,
        (key, db): (&Bytes, usize),
        (groups, each): (usize, usize),
        ttl: u64,
    ) -> Result {
        let busy = self.begun.as_ref().map(|it| it.client);
        let mut clients = self.clients.iter().enumerate();
        let client = clients.find(|it| it.1.db == db && it.1.sleep.is_none() && busy != Some(it.0));
        let client = client.map(|it| it.0);
        let Some(client) = client else { return Ok(()) };
        if let Some(begun) = &mut self.begun {
            begun.is_alone = false;
        }
        for group in 0..groups.max(1) {
            for from in (0..each).step_by(1000) {
                let ids: Vec<_> = (from..each.min(from + 1000))
                    .map(|at| format!("{number}:{group}:{at}").into_bytes())
                    .collect();
                let options = super::op::Options {
                    group: (groups > 0).then(|| format!("g{group}").into_bytes()),
                    ..Default::default()
                };
                let elements: Vec<_> = ids.into_iter().map(|id| (ttl, id)).collect();
                let op =
                    Op::Push { elements, is_many: true, how: super::op::How::Nx, options, size: 0 };
                let command = Command { number, client, key: key.clone(), op, in_multi: false };
                self.run_alone(&command, db)?;
            }
        }
        Ok(())
    }

    /// Sets so many schedules of a key, whose names have a number.
    pub(super) fn many_schedules(
        &mut self,
        number: usize,
        (key, db): (&Bytes, usize),
        count: usize,
        every: &Every,
    ) -> Result {
        let mut clients = self.clients.iter().enumerate();
        let Some((client, _)) = clients.find(|it| it.1.db == db && it.1.sleep.is_none()) else {
            return Ok(());
        };
        // All in one moment.
        let from = every.from.map(|at| At::On(at.moment(self.now())));
        for at in 0..count {
            let name = format!("many{at}").into_bytes();
            let op = OfSchedules::Every(Box::new(Every { name, from, ..every.clone() }));
            let op = Op::OfSchedules(op);
            let command = Command { number, client, key: key.clone(), op, in_multi: false };
            self.run_alone(&command, db)?;
        }
        Ok(())
    }

    /// Runs a command in a millisecond and a pass of its own.
    fn run_alone(&mut self, command: &Command, db: usize) -> Result {
        self.begin_millisecond()?;
        let call = self.call_of(command, db);
        let words = self.words(&call);
        self.send(command.client, &words);
        self.passes(1)?;
        self.collect(&[(command.client, call, false)])
    }
}
