//! Accidents around commands: full memory, rights that are withdrawn, writes that pause, slots that move, another module that
//! writes, a power cut.

use super::op::{How, Op, Options};
use super::run::{Result, World, element};
use super::step::{Act, Command, Refusal};
use crate::judges::follow::{Call, ok};
use crate::judges::reads::TICK_MS;
use crate::judges::schedule::RETRY_MS;
use crate::judges::{Bytes, Promise};
use crate::machine::{Image, Listener, Reply, Rule, slot_of, units};

/// How long the other module's element waits, in milliseconds.
const ACT_TTL_MS: u64 = 600_000;

impl World {
    /// Runs commands while the server refuses some of them.
    pub(super) fn refused(&mut self, refusal: Refusal, commands: &[Command]) -> Result {
        self.refuse(refusal, true);
        self.refusal = Some(refusal);
        self.model.is_full = refusal == Refusal::Full;
        let result = self.batch(commands).and_then(|()| self.advance(5));
        self.refusal = None;
        self.model.is_full = false;
        self.refuse(refusal, false);
        self.excuse(RETRY_MS);
        result
    }

    fn refuse(&mut self, refusal: Refusal, is_on: bool) {
        match refusal {
            Refusal::Full => self.machine.set_full(self.primary, is_on),
            Refusal::Rights => {
                let sign = if is_on { '-' } else { '+' };
                let rules = ["poll", "mpoll"].map(|it| format!("{sign}dehydrator.{it}"));
                let line = format!("ACL SETUSER default {}", rules.join(" "));
                self.machine.ask(self.primary, &line);
            }
        }
    }

    /// Lets no client write for a while. A command that arrives meanwhile runs at the end.
    pub(super) fn pause_writes(&mut self, ms: u64, command: &Command) -> Result {
        let Some(client) = self.awake(command.client, &[]) else { return Ok(()) };
        // The letters of a REVIVE are to be listed in its pass.
        if command.op.reads() || matches!(command.op, Op::Revive(_)) {
            return Ok(());
        }
        self.begin_millisecond()?;
        let call = self.call_of(command, self.clients[client].db);
        let words = self.words(&call);
        self.hear();
        let heard = self.heard;
        self.machine.pause_writes(self.primary, self.now() + ms);
        self.send(client, &words);
        self.passes(1)?;
        self.advance(ms - 1)?;
        self.hear();
        let id = self.clients[client].id;
        if self.heard > heard || self.machine.has_replied(id) {
            let what = format!("{} effects while writes pause", self.heard - heard);
            return Err(Promise::Effect.broken(what));
        }
        let end_us = self.machine.monotonic_us() + 2 * TICK_MS * 1000;
        while self.advance_once(end_us)? {
            if self.machine.has_replied(id) {
                // The clock may be set back later.
                self.machine.pause_writes(self.primary, 0);
                self.collect(&[(client, call, false)])?;
                // By then the module knows that the pause is over.
                self.excuse(RETRY_MS);
                return self.advance(TICK_MS);
            }
            self.collect(&[])?;
        }
        Err(Promise::Reply.broken(format!("{:?} did not run after the pause", call.op)))
    }

    /// Moves a slot to the other node, where the clients follow. Those who sleep are told so.
    pub(super) fn move_slot(&mut self, key: &Bytes) -> Result {
        let Some(node) = self.node else { return Ok(()) };
        // What takes steps goes on in the middle of it.
        if self.begun.is_none() {
            self.rest()?;
        }
        self.machine.record(node, true);
        self.machine.move_slot(slot_of(key), self.primary, node);
        self.clients.iter_mut().flat_map(|it| &mut it.sleep).for_each(|it| it.may_leave = true);
        self.advance(4 * TICK_MS)?;
        if let Some(sleep) = self.clients.iter().find_map(|it| it.sleep.as_ref()) {
            let what = format!("{:?} sleeps on a key whose slot has moved", sleep.call.op);
            return Err(Promise::Asleep.broken(what));
        }
        self.end_begun()?;
        self.node = Some(std::mem::replace(&mut self.primary, node));
        self.collect(&[])?;
        let now = self.now();
        self.model.all_mut().for_each(|it| it.touched = now + TICK_MS);
        self.after_restart()
    }

    /// Runs a command, at whose event another module does something.
    pub(super) fn listen(&mut self, command: &Command, act: &Act) -> Result {
        let event = match command.op {
            Op::Push { .. } => "push",
            Op::Poll(_) => "poll",
            Op::Settle(_) => "settle",
            _ => "rem",
        };
        let key = &command.key;
        let (op, elements) = match act {
            Act::Delete => (Op::Del(false), vec![]),
            Act::Overwrite => (Op::Set, vec![]),
            Act::Flush => (Op::FlushDb, vec![]),
            Act::Push(id) => {
                let elements = vec![(ACT_TTL_MS, id.clone())];
                let (options, how) = (Options::default(), How::Replace);
                let op = Op::Push { elements, is_many: false, how, options, size: 0 };
                (op, vec![element(command.number, 9, 0, id)])
            }
        };
        let words = op.words(key, 0, &elements, &[]);
        let rule = Rule { times: 1, event: format!("dehydrator.{event}"), words };
        let seen = Some(Vec::new());
        let listener = Listener { rules: vec![rule], seen, ..Listener::default() };
        self.machine.set_listener(self.primary, Some(listener));
        let client = self.awake(command.client, &[]);
        let db = client.map_or(0, |client| self.clients[client].db);
        let result = self.batch(std::slice::from_ref(command));
        let ran = self.machine.ran(self.primary).pop();
        self.machine.set_listener(self.primary, None);
        result?;
        let Some(ran) = ran else { return Ok(()) };
        let reply = match (&ran[..], act) {
            (b"ok", Act::Delete) => Reply::Int(self.model.dbs[db].contains_key(key).into()),
            (b"ok", _) => ok(),
            (error, _) => Reply::Error(error.to_vec()),
        };
        let (sent, now, at) = (self.now(), self.now(), [u64::MAX; 2]);
        let call = Call { db, key: key.clone(), op, elements, pairs: vec![], sent, now, at };
        self.model.follow(&call, &reply)
    }

    /// Runs a command, and cuts the power before what it appends to the file has all been written: then it has not happened.
    pub(super) fn cut_file(&mut self, command: &Command, thousandths: u64) -> Result {
        if self.tool.is_some() {
            return Ok(());
        }
        self.rest()?;
        self.begin_millisecond()?;
        let model = self.model.clone();
        let before = self.machine.aof(self.primary).len();
        self.batch(std::slice::from_ref(command))?;
        let mut file = self.machine.aof(self.primary);
        // Something else has happened in the same pass, or nothing.
        if units(&file[before..]) != 1 {
            return Ok(());
        }
        let appended = file.len() - before;
        file.truncate(before + appended * thousandths as usize / 1000);
        self.machine.restart(self.primary, &Image::Aof(file));
        self.model = model;
        self.is_cut = true;
        self.after_restart()?;
        self.settle()?;
        self.compare().map_err(|fault| match fault.promise {
            Promise::Lost => Promise::Reload.broken(format!("after a cut: {}", fault.what)),
            _ => fault,
        })
    }
}
