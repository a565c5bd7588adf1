//! Runs a history: sends its commands, lets time pass, and has the judges look at what came of it.

use std::path::Path;

use super::draw::{CHANNEL, CLIENTS, LIST, STREAM};
use super::op::{Held, Op, Poll};
use super::step::{Command, Profile, Reload, Step};
use crate::judges::follow::Call;
use crate::judges::model::{DATABASES, Model, Sent};
use crate::judges::{Bytes, Fault, NEVER, Promise};
use crate::machine::{ClientId, Image, Machine, Reply, ServerId};

pub(super) type Result = std::result::Result<(), Fault>;

/// How late the module may be in what it does by itself, in milliseconds.
const GRACE_MS: u64 = 2;
/// How long an effect is on its way to a replica, in microseconds.
const LAG_US: u64 = 1500;
/// Within which time an empty key is deleted whose pause has ended, and a replica forgets a pause, in milliseconds.
const UPKEEP_MS: u64 = 1000;
/// The most time of the processor that the module may spend in a pass, in nanoseconds: for a build with debug assertions, and
/// for commands with a thousand elements.
const PASS_NS: u64 = 60_000_000;
/// What is added for each element that a command asks for, in nanoseconds.
const ELEMENT_NS: u64 = 20_000;
/// The most passes of the event loop at one moment of virtual time.
const PASSES_MAX: usize = 20_000;
/// How long a command may take that works in steps, in milliseconds of virtual time.
const STEPS_MS: u64 = 60_000;

/// A client that waits in POLL.
#[derive(Clone)]
struct Sleep {
    call: Call,
    poll: Poll,
    /// On the monotonic clock, in microseconds.
    since_us: u64,
    /// The number of its arrival.
    arrival: usize,
    /// Whether it may be sent away with UNBLOCKED.
    may_leave: bool,
}

struct Client {
    id: ClientId,
    db: usize,
    sleep: Option<Sleep>,
}

/// A command that takes steps, and the reply that it must get.
struct Begun {
    client: usize,
    call: Call,
    count: u64,
    /// Nothing has happened in the middle.
    is_alone: bool,
    began_ms: u64,
}

/// A server that a tool fills with the effects of the primary, as a client.
struct Tool {
    server: ServerId,
    client: ClientId,
    db: u32,
}

pub struct World {
    pub machine: Machine,
    pub(super) primary: ServerId,
    pub(super) replica: Option<ServerId>,
    tool: Option<Tool>,
    pub(super) model: Model,
    clients: Vec<Client>,
    subscriber: ClientId,
    begun: Option<Begun>,
    /// The number of effects so far.
    heard: usize,
    arrivals: usize,
    pub operations: u64,
    pub(super) memory: usize,
    /// The replica has lost its link.
    is_cut: bool,
    /// When the passes began whose replies are judged, in milliseconds since the epoch.
    moment: u64,
    /// The reply to the last command, if it was alone.
    last: Option<Reply>,
    /// Somebody reads effects.
    has_listener: bool,
    /// How many elements a command has asked for.
    asked: u64,
    trace: bool,
}

impl World {
    pub fn new(library: &Path, profile: &Profile) -> Self {
        let mut machine = Machine::new(library, profile.kind, profile.seed);
        // Where nobody listens, the module has commands replicate as they came.
        let has_file = profile.has_reloads || profile.has_tool || profile.is_big;
        let settings: &[_] = if has_file { &[("appendonly", "yes")] } else { &[] };
        let primary = machine.start(settings);
        let replica = profile.has_replica.then(|| machine.start(settings));
        if let Some(replica) = replica {
            machine.replicate(primary, replica, LAG_US);
        }
        let tool = profile.has_tool.then(|| {
            let server = machine.start(&[]);
            Tool { server, client: machine.connect(server), db: 0 }
        });
        let subscriber = machine.connect(primary);
        let mut world = Self {
            primary,
            replica,
            tool,
            model: Model::default(),
            clients: Vec::new(),
            subscriber,
            begun: None,
            heard: 0,
            arrivals: 0,
            operations: 0,
            memory: 0,
            is_cut: false,
            moment: 0,
            last: None,
            asked: 0,
            has_listener: has_file || profile.has_replica,
            trace: std::env::var_os("TRACE").is_some(),
            machine,
        };
        world.machine.record(primary, true);
        world.machine.set_costs(0, profile.read_ns);
        world.connect();
        world.memory = world.machine.memory(primary);
        world
    }

    /// Connects all clients anew.
    fn connect(&mut self) {
        self.subscriber = self.machine.connect(self.primary);
        self.machine.send(self.subscriber, &[b"SUBSCRIBE", CHANNEL]);
        self.clients.clear();
        for number in 0..CLIENTS {
            let client = self.reconnect(number);
            self.clients.push(client);
        }
    }

    fn reconnect(&mut self, number: usize) -> Client {
        let (id, db) = (self.machine.connect(self.primary), number % DATABASES);
        if db > 0 {
            self.machine.send(id, &[b"SELECT", db.to_string().as_bytes()]);
        }
        self.machine.pass(self.primary);
        self.machine.replies(id);
        Client { id, db, sleep: None }
    }

    pub(super) fn now(&self) -> u64 {
        self.machine.wall_ms()
    }

    /// Runs the steps. What they broke is an error.
    pub fn run(&mut self, steps: &[Step]) -> Result {
        for (at, step) in steps.iter().enumerate() {
            if self.trace {
                eprintln!("{at} at {}: {step:?}", self.now());
            }
            let began = std::time::Instant::now();
            self.step(step)?;
            if self.trace && began.elapsed().as_millis() > 100 {
                eprintln!("slow: {:?}, {} effects", began.elapsed(), self.heard);
            }
        }
        self.end_begun()?;
        self.at_end()
    }

    fn step(&mut self, step: &Step) -> Result {
        let may_begin = match step {
            Step::Batch(commands) => {
                commands.iter().all(|it| matches!(it.op, Op::SwapDb | Op::Del(_) | Op::FlushDb))
            }
            Step::MoveSlot(_) | Step::Advance(1..5) => true,
            _ => false,
        };
        if !may_begin {
            self.end_begun()?;
        }
        match step {
            Step::Batch(commands) => self.batch(commands)?,
            Step::Begin(command) => self.begin(command)?,
            Step::Bulk { number, key, db, groups, each, ttl } => {
                self.bulk(*number, (key, *db), (*groups, *each), *ttl)?
            }
            Step::LeaseMany { number, key, db, count, lease } => {
                let poll = Poll {
                    keys: vec![key.clone()],
                    is_many: false,
                    count: Some(*count),
                    block: None,
                    lease: Some(*lease),
                    token: None,
                    with_ids: false,
                };
                let client = *db;
                let op = Op::Poll(poll);
                self.asked = *count;
                self.batch(&[Command {
                    number: *number,
                    client,
                    key: key.clone(),
                    op,
                    in_multi: false,
                }])?;
                self.asked = 0;
            }
            Step::Advance(ms) => self.advance(*ms)?,
            Step::StepWall(ms) => self.step_wall(*ms)?,
            Step::HangUp(client) => {
                self.moment = self.now();
                self.quiet()?;
                self.collect(&[])?;
                self.machine.hang_up(self.clients[*client].id);
                self.quiet()?;
                self.clients[*client] = self.reconnect(*client);
            }
            Step::Compare => self.compare()?,
            Step::Reload(how) => self.reload(*how)?,
            Step::Cut => {
                if let Some(replica) = self.replica {
                    self.machine.cut(replica);
                    self.is_cut = true;
                }
            }
            Step::Promote => self.promote()?,
            Step::MoveSlot(_) | Step::PauseWrites(_) => {}
        }
        if self.begun.is_none() {
            self.settle()?;
        }
        Ok(())
    }

    /// Chooses the client for a command: one that is not asleep, in the same database if possible.
    fn awake(&self, wanted: usize, used: &[usize]) -> Option<usize> {
        let order = (0..CLIENTS)
            .map(|it| (wanted + it * DATABASES) % CLIENTS + it * DATABASES / CLIENTS % DATABASES);
        let mut order = order.map(|it| it % CLIENTS);
        order.find(|it| {
            self.clients[*it].sleep.is_none()
                && !used.contains(it)
                && self.begun.as_ref().is_none_or(|begun| begun.client != *it)
        })
    }

    fn call_of(&mut self, command: &Command, db: usize) -> Call {
        let mut pairs = Vec::new();
        if let Op::Settle(held) | Op::Renew(_, held) | Op::Release(_, held, _) | Op::Reject(held) =
            &command.op
        {
            for held in held {
                let named = match held {
                    Held::Named(token, id) => Some((token.clone(), id.clone())),
                    Held::Nth(nth) => {
                        self.model.get(db, &command.key).and_then(|it| it.nth_held(*nth))
                    }
                };
                pairs.extend(named.filter(|it| !pairs.contains(it)));
            }
            if pairs.is_empty() {
                pairs.push((b"t".to_vec(), b"a".to_vec()));
            }
        }
        let elements = match &command.op {
            Op::Push { elements, size, .. } => {
                let element =
                    |(at, (_, id)): (usize, &(u64, Bytes))| element(command.number, at, *size, id);
                elements.iter().enumerate().map(element).collect()
            }
            Op::Update(id) => vec![element(command.number, 0, 3, id)],
            Op::GidPush { .. } => vec![element(command.number, 0, 0, b"")],
            _ => Vec::new(),
        };
        Call {
            db,
            key: command.key.clone(),
            op: command.op.clone(),
            elements,
            pairs,
            now: self.now(),
        }
    }

    fn send(&mut self, client: usize, words: &[Bytes]) {
        let words: Vec<_> = words.iter().map(|it| &it[..]).collect();
        self.machine.send(self.clients[client].id, &words);
        self.operations += 1;
    }

    /// Sends commands of different clients, and judges the replies in the order in which they ran.
    fn batch(&mut self, commands: &[Command]) -> Result {
        let (mut sent, mut used) = (Vec::new(), Vec::new());
        self.begin_millisecond()?;
        for command in commands {
            let Some(client) = self.awake(command.client, &used) else { continue };
            used.push(client);
            let call = self.call_of(command, self.clients[client].db);
            let words = call.op.words(&call.key, call.now, &call.elements, &call.pairs);
            if command.in_multi {
                self.send(client, &[b"MULTI".to_vec()]);
                self.send(client, &words);
                self.send(client, &[b"EXEC".to_vec()]);
            } else {
                self.send(client, &words);
            }
            if let Op::OnDue(policy) = &call.op
                && !policy.holds()
            {
                self.let_leave(call.db, &call.key);
            }
            sent.push((client, call, command.in_multi));
        }
        if let Some(begun) = &mut self.begun {
            begun.is_alone = false;
        }
        self.moment = self.now();
        let heard = self.heard;
        self.passes(1)?;
        self.last = None;
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
        Ok(())
    }

    /// Notes that those who sleep on a key may be sent away.
    fn let_leave(&mut self, db: usize, key: &Bytes) {
        for client in &mut self.clients {
            let sleep =
                client.sleep.iter_mut().filter(|it| it.call.db == db && it.poll.keys.contains(key));
            sleep.for_each(|it| it.may_leave = true);
        }
    }

    /// Runs some passes of the primary, and then all that the others have to do.
    fn passes(&mut self, many: usize) -> Result {
        for _ in 0..many {
            let before = processor_ns();
            self.machine.pass(self.primary);
            self.judge_pass(before)?;
        }
        Ok(())
    }

    /// Runs passes until nothing is left to do at this moment.
    fn quiet(&mut self) -> Result {
        for _ in 0..PASSES_MAX {
            let before = processor_ns();
            let mut did = self.machine.pass(self.primary);
            self.judge_pass(before)?;
            if let Some(replica) = self.replica {
                did += self.machine.pass(replica);
            }
            if let Some(tool) = &self.tool {
                did += self.machine.pass(tool.server);
            }
            if did == 0 {
                return Ok(());
            }
        }
        Err(Promise::Idle.broken(format!("{PASSES_MAX} passes at one moment")))
    }

    /// Judges the replies to commands, and those to clients that were asleep.
    fn collect(&mut self, sent: &[(usize, Call, bool)]) -> Result {
        let now = self.moment;
        self.hear();
        let (mut calls, mut woken) = (Vec::new(), Vec::new());
        for (client, call, in_multi) in sent {
            let mut replies = self.machine.replies(self.clients[*client].id);
            let reply = match in_multi {
                false => replies.pop(),
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
            calls.push((*client, call.clone(), reply, blocks));
        }
        for client in &mut self.clients {
            let Some(sleep) = client.sleep.clone() else { continue };
            let Some(reply) = self.machine.replies(client.id).pop() else { continue };
            client.sleep = None;
            woken.push((Sleep { call: Call { now, ..sleep.call.clone() }, ..sleep }, reply));
        }
        woken.sort_by_key(|it| it.0.arrival);
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
        let is_plain = woken.is_empty() && calls.iter().all(|it| it.3.is_none() || it.2.is_none());
        if is_plain {
            return calls.iter().try_for_each(|(_, call, reply, _)| match reply {
                Some(reply) => self.model.follow(call, reply),
                None => Ok(()),
            });
        }
        // Whether those who sleep are served between two commands or after all of them is up to the server.
        let before = (!calls.is_empty() || woken.len() > 1).then(|| self.model.clone());
        let result = self.judge(&calls, first, woken.clone(), false);
        match (result, before) {
            (Err(fault), Some(before)) => {
                self.model = before;
                self.judge(&calls, first, woken, true).map_err(|_| fault)
            }
            (result, _) => result,
        }
    }

    #[allow(clippy::type_complexity, reason = "a tuple of what was sent and what came back")]
    fn judge(
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

    fn is_refused_to_block(&self, call: &Call, error: &[u8]) -> bool {
        let Op::Poll(poll) = &call.op else { return false };
        let sends = |key: &Bytes| self.model.get(call.db, key).is_some_and(|it| !it.policy.holds());
        let is_other = |key: &Bytes| {
            self.model.dbs[call.db].contains_key(key) && self.model.get(call.db, key).is_none()
        };
        let lease_is_long = poll.lease.is_some_and(|it| it > NEVER - call.now);
        error.starts_with(b"ERR") && (poll.keys.iter().any(sends) || lease_is_long)
            || error.starts_with(b"WRONGTYPE") && poll.keys.iter().any(is_other)
    }

    /// Follows the replies to those who slept, as far as they may have happened by now, in order.
    fn serve(&mut self, woken: &mut Vec<(Sleep, Reply)>) -> Result {
        while let Some((sleep, reply)) = woken.first() {
            let before = (woken.len() > 1).then(|| self.model.clone());
            let result = self.wake(sleep, reply);
            if result.is_err() {
                if let Some(before) = before {
                    self.model = before;
                }
                return result;
            }
            woken.remove(0);
        }
        Ok(())
    }

    fn wake(&mut self, sleep: &Sleep, reply: &Reply) -> Result {
        let slept_us = self.machine.monotonic_us() - sleep.since_us;
        match reply {
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
            Reply::Error(error) if sleep.may_leave && error.starts_with(b"UNBLOCKED") => Ok(()),
            Reply::Error(error) if error.starts_with(b"WRONGTYPE") => Ok(()),
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
                let (now, token) = (sleep.call.now, &sleep.poll.token);
                let mut keys =
                    sleep.poll.keys.iter().filter_map(|key| self.model.get(sleep.call.db, key));
                let is_again = token.is_some()
                    && keys
                        .any(|it| it.entries().any(|it| it.token == *token && it.deadline > now));
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

    /// Hears what was delivered: from the stream of effects, and as a subscriber.
    fn hear(&mut self) {
        for effect in self.machine.stream(self.primary) {
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
            match &words[..] {
                [verb, to, .., b"element", element]
                | [verb, to, .., b"element", element, b"deliveries", _]
                | [verb, to, .., b"element", element, b"deliveries", _, b"reason", _]
                    if verb.eq_ignore_ascii_case(b"XADD") =>
                {
                    self.model.sent.push(Sent { db, to: to.to_vec(), element: element.to_vec() });
                }
                [verb, to, elements @ ..] if verb.eq_ignore_ascii_case(b"RPUSH") => {
                    let sent = elements.iter().map(|it| Sent {
                        db,
                        to: to.to_vec(),
                        element: it.to_vec(),
                    });
                    self.model.sent.extend(sent);
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
                self.model.sent.push(Sent { db: None, to: to.clone(), element: element.clone() });
            }
        }
    }

    /// Lets time pass, from event to event.
    fn advance(&mut self, ms: u64) -> Result {
        // Both clocks begin with a whole millisecond.
        let end = (self.machine.monotonic_us() / 1000 + ms) * 1000;
        // First what is to be done at this moment.
        self.moment = self.now();
        self.quiet()?;
        self.collect(&[])?;
        loop {
            let now = self.machine.monotonic_us();
            if now >= end {
                return Ok(());
            }
            let end = end.min((now / 1000 + 1) * 1000);
            let next = self.machine.next_event_us().unwrap_or(end).clamp(now + 1, end);
            self.moment = self.now() + next / 1000 - now / 1000;
            let before = processor_ns();
            self.machine.advance(next - now);
            self.judge_pass(before)?;
            self.quiet()?;
            self.collect(&[])?;
            self.model.absorb(self.moment)?;
        }
    }

    /// Reading the clock takes time: nothing may begin at the end of a millisecond, or the model has another one.
    fn begin_millisecond(&mut self) -> Result {
        if self.begun.is_none() && self.machine.monotonic_us() % 1000 > 300 {
            self.advance(1)?;
        }
        Ok(())
    }

    /// Lets time pass, with all clients gone.
    pub(super) fn wait(&mut self, ms: u64) -> Result {
        self.advance(ms)
    }

    /// All clients go.
    pub(super) fn leave(&mut self) -> Result {
        for client in std::mem::take(&mut self.clients) {
            self.machine.hang_up(client.id);
        }
        self.quiet()
    }

    /// Judges the work of a pass.
    fn judge_pass(&self, before_ns: u64) -> Result {
        let spent = processor_ns() - before_ns;
        if spent > PASS_NS + self.asked * ELEMENT_NS {
            return Err(Promise::Work
                .broken(format!("a pass took {} ms of the processor", spent / 1_000_000)));
        }
        Ok(())
    }

    fn step_wall(&mut self, ms: i64) -> Result {
        let has_rates = self
            .model
            .all()
            .any(|it| it.2.limits.rate.0 > 0 || it.2.has_settings() || it.2.limits.remember > 0);
        // What is remembered counts on as if the clock had not been set back: guarantees.md says how.
        if ms < 0 && has_rates {
            return Ok(());
        }
        self.machine.step_wall(ms);
        let now = self.now();
        self.model.all_mut().for_each(|it| it.touched = now + 2 * crate::judges::reads::TICK_MS);
        self.advance(3 * crate::judges::reads::TICK_MS)
    }

    /// Lets happen what has to, and looks whether anything is owed.
    fn settle(&mut self) -> Result {
        self.moment = self.now();
        self.quiet()?;
        self.collect(&[])?;
        self.advance(GRACE_MS)?;
        let mut waited = 0;
        loop {
            let now = self.now();
            self.hear();
            self.model.absorb(now)?;
            if !self.model.all().any(|it| it.2.is_unclear(now, GRACE_MS)) || waited > 3000 {
                break;
            }
            self.advance(1)?;
            waited += 1;
        }
        let now = self.now();
        if self.model.pass(now) {
            self.advance(UPKEEP_MS)?;
        }
        self.owed(self.now())
    }

    /// Looks for a sleeper beside room, and for what should have been delivered.
    fn owed(&self, now: u64) -> Result {
        let then = now - GRACE_MS;
        for sleep in self.clients.iter().filter_map(|it| it.sleep.as_ref()) {
            if sleep.call.now > then {
                continue;
            }
            for key in &sleep.poll.keys {
                let it = self.model.get(sleep.call.db, key).filter(|it| it.touched <= then);
                if let Some(left) = it.and_then(|it| it.gives(then)) {
                    let what = format!(
                        "{:?} sleeps since {} beside {left:?} in {}, now {now}",
                        sleep.call.op,
                        sleep.call.now,
                        key.escape_ascii()
                    );
                    return Err(Promise::Asleep.broken(what));
                }
            }
            let slept_ms = (self.machine.monotonic_us() - sleep.since_us) / 1000;
            if sleep.poll.block.is_some_and(|ms| ms > 0 && slept_ms > ms + 250) {
                return Err(Promise::Unblocked
                    .broken(format!("{:?} sleeps for {slept_ms} ms", sleep.call.op)));
            }
        }
        for (db, key, it) in self.model.all() {
            if let Some(owed) = it.owed(then).filter(|_| it.touched <= then) {
                return Err(Promise::Delivered.broken(format!(
                    "{owed:?} in {} of {db} stays, now {now}",
                    key.escape_ascii()
                )));
            }
        }
        if let Some(rejected) = self.model.rejected.first() {
            return Err(
                Promise::Delivered.broken(format!("{rejected:?} was rejected, and did not arrive"))
            );
        }
        Ok(())
    }

    /// Begins a command that takes steps.
    fn begin(&mut self, command: &Command) -> Result {
        let Some(client) = self.awake(command.client, &[]) else { return Ok(()) };
        let call = self.call_of(command, self.clients[client].db);
        let words = call.op.words(&call.key, call.now, &call.elements, &call.pairs);
        let it = self.model.get(call.db, &call.key);
        let count = it.map_or(0, |it| match &call.op {
            Op::Purge(group) => it.length_of(group) as u64,
            Op::TouchGroup(group, _) => it
                .entries()
                .filter(|it| it.group == *group && !(it.token.is_some() && it.deadline > call.now))
                .count() as u64,
            _ => 0,
        });
        self.send(client, &words);
        self.passes(1)?;
        self.hear();
        let mut reply = Reply::Int(count as i64);
        if matches!(call.op, Op::TouchGroup(_, ttl) if ttl > NEVER - call.now) {
            reply = Reply::Error(b"ERR".to_vec());
        }
        self.model.follow(&call, &reply)?;
        let began_ms = call.now;
        self.begun = Some(Begun { client, call, count, is_alone: true, began_ms });
        Ok(())
    }

    /// Waits for the reply to a command that takes steps.
    fn end_begun(&mut self) -> Result {
        let Some(begun) = self.begun.take() else { return Ok(()) };
        let id = self.clients[begun.client].id;
        loop {
            self.quiet()?;
            if let Some(reply) = self.machine.replies(id).pop() {
                let is_it = match reply {
                    Reply::Int(count) if begun.is_alone => count as u64 == begun.count,
                    Reply::Int(count) => count as u64 <= begun.count,
                    Reply::Error(_) => true,
                    _ => false,
                };
                if !is_it {
                    return Err(Promise::Reply.broken(format!(
                        "{:?} replied {reply:?}, not {}",
                        begun.call.op, begun.count
                    )));
                }
                return self.settle();
            }
            if self.now() > begun.began_ms + STEPS_MS {
                return Err(Promise::Reply
                    .broken(format!("{:?} did not reply in {STEPS_MS} ms", begun.call.op)));
            }
            self.advance(5)?;
        }
    }

    fn bulk(
        &mut self,
        number: usize,
        (key, db): (&Bytes, usize),
        (groups, each): (usize, usize),
        ttl: u64,
    ) -> Result {
        let client = self.clients.iter().position(|it| it.db == db && it.sleep.is_none());
        let Some(client) = client else { return Ok(()) };
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
                self.begin_millisecond()?;
                let call = self.call_of(&command, db);
                let words = call.op.words(&call.key, call.now, &call.elements, &call.pairs);
                self.send(client, &words);
                self.moment = self.now();
                self.passes(1)?;
                self.collect(&[(client, call, false)])?;
            }
        }
        Ok(())
    }

    /// Reads everything, and compares the replica and the tool's server.
    fn compare(&mut self) -> Result {
        for db in 0..DATABASES {
            for key in crate::judges::reads::keys(&self.model, db) {
                if self.model.get(db, &key).is_none() {
                    continue;
                }
                for op in [Op::Range(None, None), Op::Info, Op::Ttn, Op::Len(None)] {
                    self.begin_millisecond()?;
                    let call = Call {
                        db,
                        key: key.clone(),
                        op,
                        elements: vec![],
                        pairs: vec![],
                        now: self.now(),
                    };
                    let words = call.op.words(&key, call.now, &[], &[]);
                    self.moment = self.now();
                    let reply = self.ask(self.primary, db, &words);
                    // Somebody who sleeps may have been served before.
                    if self.model.follow(&call, &reply).is_err() {
                        self.collect(&[])?;
                        self.model.follow(&call, &reply)?;
                    }
                }
            }
        }
        let late = Call {
            db: 0,
            key: b"k".to_vec(),
            op: Op::Late,
            elements: vec![],
            pairs: vec![],
            now: self.now(),
        };
        let reply = self.ask(self.primary, 0, &late.op.words(&late.key, 0, &[], &[]));
        if let Reply::Array(_) = reply {
            self.model.follow(&late, &reply)?;
        }
        self.compare_keys()?;
        if let Some(replica) = self.replica {
            self.equal(replica, Promise::Replica)?;
        }
        if let Some(tool) = &self.tool {
            self.equal(tool.server, Promise::Tool)?;
        }
        Ok(())
    }

    pub(super) fn ask(&mut self, server: ServerId, db: usize, words: &[Bytes]) -> Reply {
        let db = db.to_string();
        self.machine.call(server, &[b"SELECT", db.as_bytes()]);
        let words: Vec<_> = words.iter().map(|it| &it[..]).collect();
        self.operations += 1;
        self.machine.call(server, &words)
    }

    fn compare_keys(&mut self) -> Result {
        for db in 0..DATABASES {
            let Reply::Array(keys) = self.ask(self.primary, db, &[b"KEYS".to_vec(), b"*".to_vec()])
            else {
                continue;
            };
            let mut found: Vec<Bytes> = keys
                .into_iter()
                .filter_map(|it| if let Reply::Bulk(it) = it { Some(it) } else { None })
                .collect();
            found.retain(|key| key != STREAM && key != LIST);
            found.sort();
            let expected = crate::judges::reads::keys(&self.model, db);
            if found != expected {
                return Err(Promise::Lost
                    .broken(format!("the keys of {db} are {found:?}, not {expected:?}")));
            }
        }
        Ok(())
    }

    /// Compares every dehydrator on another server: by its digest, and by its rows.
    pub(super) fn equal(&mut self, other: ServerId, promise: Promise) -> Result {
        if self.is_cut
            && let Some(replica) = self.replica
        {
            self.machine.replicate(self.primary, replica, LAG_US);
            self.is_cut = false;
        }
        self.quiet()?;
        self.advance(20)?;
        self.quiet()?;
        if let Some(error) = self.machine.disobeyed(other).first() {
            return Err(promise.broken(error.as_str()));
        }
        for db in 0..DATABASES {
            for key in crate::judges::reads::keys(&self.model, db) {
                if self.model.get(db, &key).is_none() {
                    continue;
                }
                let words = Op::Range(None, None).words(&key, 0, &[], &[]);
                let (ours, theirs) =
                    (self.ask(self.primary, db, &words), self.ask(other, db, &words));
                // Where a page ends is told in numbers of the server's own.
                let rows = |reply: &Reply| {
                    if let Reply::Array(parts) = reply { parts.get(1).cloned() } else { None }
                };
                if rows(&ours) != rows(&theirs) || rows(&ours).is_none() {
                    return Err(promise.broken(format!(
                        "{} of {db}: {ours:?}, but {theirs:?}",
                        key.escape_ascii()
                    )));
                }
                let mut digests = [self.primary, other]
                    .map(|server| self.machine.digest(server, db as u32, &key));
                let waited = self.now();
                while digests[0] != digests[1]
                    && promise != Promise::Tool
                    && self.now() < waited + 5 * UPKEEP_MS
                {
                    self.advance(UPKEEP_MS)?;
                    digests = [self.primary, other]
                        .map(|server| self.machine.digest(server, db as u32, &key));
                }
                if digests[0] != digests[1] && promise != Promise::Tool {
                    return Err(promise.broken(format!(
                        "digests of {} of {db} differ: {ours:?}",
                        key.escape_ascii()
                    )));
                }
            }
        }
        Ok(())
    }

    fn reload(&mut self, how: Reload) -> Result {
        if self.tool.is_some() {
            return Ok(());
        }
        let image = match how {
            Reload::Rdb => Image::Rdb(self.machine.rdb(self.primary)),
            Reload::Aof => Image::Aof(self.machine.aof(self.primary)),
            Reload::RewrittenAof => {
                self.machine.rewrite_aof(self.primary);
                Image::Aof(self.machine.aof(self.primary))
            }
        };
        self.machine.restart(self.primary, &image);
        self.is_cut = true;
        self.after_restart()?;
        self.settle()?;
        self.compare().map_err(|fault| match fault.promise {
            Promise::Lost => Promise::Reload.broken(format!("after {how:?}: {}", fault.what)),
            _ => fault,
        })
    }

    /// All clients come again, to a server that knows nothing of them.
    fn after_restart(&mut self) -> Result {
        self.machine.record(self.primary, true);
        self.connect();
        let now = self.now();
        self.model.all_mut().for_each(|it| {
            it.restart_turns();
            it.touched = it.touched.max(now);
        });
        Ok(())
    }

    fn promote(&mut self) -> Result {
        let (Some(replica), None) = (self.replica, &self.tool) else { return Ok(()) };
        self.equal(replica, Promise::Replica)?;
        self.machine.promote(replica);
        let before = std::mem::replace(&mut self.primary, replica);
        self.replica = Some(before);
        self.machine.replicate(replica, before, LAG_US);
        self.after_restart()
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

/// Returns the time of the processor that this thread has taken, in nanoseconds.
fn processor_ns() -> u64 {
    let mut spent = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: there is room for the answer.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut spent) };
    spent.tv_sec as u64 * 1_000_000_000 + spent.tv_nsec as u64
}

/// Returns an element that names the command that pushed it, and its id.
fn element(number: usize, at: usize, size: usize, id: &[u8]) -> Bytes {
    let mut element = format!("{number}.{at}|").into_bytes();
    element.resize(element.len() + size, b'x');
    element.push(b'|');
    element.extend_from_slice(id);
    element
}
