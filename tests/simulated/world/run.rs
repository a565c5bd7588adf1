//! Runs a history: sends its commands, lets time pass, and has the judges look at what came of it.

use std::path::Path;

use super::draw::{CHANNEL, CLIENTS};
use super::older;
use super::op::{Held, Op, Poll};
use super::schedule::OfSchedules;
use super::shown::shown;
use super::step::{Command, Profile, Refusal, Reload, Step, Theme};
use crate::judges::follow::Call;
use crate::judges::model::{DATABASES, Model};
use crate::judges::schedule::RETRY_MS;
use crate::judges::{Bytes, Fault, Promise};
use crate::machine::{ClientId, Image, Machine, Reply, ServerId};

pub(super) type Result = std::result::Result<(), Fault>;

/// How long an effect is on its way to a replica, in microseconds.
pub(super) const LAG_US: u64 = 1500;

/// From how many elements of a group on it is measured what each takes.
const MANY: usize = 100_000;

/// A client that waits in POLL.
#[derive(Clone)]
pub(super) struct Sleep {
    pub(super) call: Call,
    pub(super) poll: Poll,
    /// On the monotonic clock, in microseconds.
    pub(super) since_us: u64,
    /// The number of its arrival.
    pub(super) arrival: u64,
    /// Whether it may be sent away with UNBLOCKED.
    pub(super) may_leave: bool,
}

pub(super) struct Client {
    pub(super) id: ClientId,
    pub(super) db: usize,
    pub(super) sleep: Option<Sleep>,
}

/// A command that takes steps, and the reply that it must get.
pub(super) struct Begun {
    pub(super) client: usize,
    pub(super) call: Call,
    pub(super) count: u64,
    /// Nothing has happened in the middle.
    pub(super) is_alone: bool,
    /// What the server's passes had taken before, in nanoseconds.
    pub(super) spent_ns: u64,
    pub(super) began_ms: u64,
}

/// A server that a tool fills with the effects of the primary, as a client.
pub(super) struct Tool {
    pub(super) server: ServerId,
    pub(super) client: ClientId,
    pub(super) db: u32,
}

pub struct World {
    pub machine: Machine,
    pub(super) primary: ServerId,
    pub(super) replica: Option<ServerId>,
    pub(super) tool: Option<Tool>,
    /// The other node of a cluster.
    pub(super) node: Option<ServerId>,
    pub(super) model: Model,
    pub(super) clients: Vec<Client>,
    pub(super) subscriber: ClientId,
    pub(super) begun: Option<Begun>,
    /// The number of effects so far.
    pub(super) heard: usize,
    pub operations: u64,
    pub(super) memory: usize,
    /// The replica has lost its link.
    pub(super) is_cut: bool,
    /// The reply to the last command, if it was alone.
    pub(super) last: Option<Reply>,
    /// Somebody reads effects.
    pub(super) has_listener: bool,
    /// Whether keyspace events are on.
    pub(super) has_events: bool,
    /// What the server took for each element that was pushed in bulk, in nanoseconds; 0: it was not measured.
    pub(super) push_ns: u64,
    /// How many elements a command has asked for.
    pub(super) asked: u64,
    /// Why commands are refused at the moment.
    pub(super) refusal: Option<Refusal>,
    /// The entries of dead letters that were listed last.
    pub(super) letters: Vec<Bytes>,
    pub(super) trace: bool,
    /// The names of promises that an older library may break.
    pub(super) except: String,
}

impl World {
    pub fn new(library: &Path, profile: &Profile) -> Self {
        let mut machine = Machine::new(library, profile.kind, profile.seed);
        // Where nobody listens, the module has commands replicate as they came.
        let has_schedules = !profile.schedules.is_empty();
        let leaves = profile.has_policies || profile.has_ends || profile.has_pauses;
        let has_file = profile.has_reloads || profile.has_tool || profile.is_big;
        // What happens by itself is heard by its effects.
        let has_file = has_file || has_schedules || leaves;
        let file = has_file.then_some(("appendonly", "yes"));
        let events = profile.has_events.then_some(("notify-keyspace-events", "KEA"));
        let settings: Vec<_> = file.into_iter().chain(events).collect();
        let settings = &settings[..];
        let primary = machine.start(settings);
        let replica = profile.has_replica.then(|| machine.start(settings));
        if let Some(replica) = replica {
            machine.replicate(primary, replica, LAG_US);
        }
        let tool = profile.has_tool.then(|| {
            let server = machine.start(&[]);
            Tool { server, client: machine.connect(server), db: 0 }
        });
        let node = profile.has_slots.then(|| {
            let node = machine.start(settings);
            machine.set_slots(primary, |_| true);
            machine.set_slots(node, |_| false);
            node
        });
        let subscriber = machine.connect(primary);
        let mut world = Self {
            primary,
            replica,
            tool,
            node,
            model: Model::default(),
            clients: Vec::new(),
            subscriber,
            begun: None,
            heard: 0,
            operations: 0,
            memory: 0,
            is_cut: false,
            last: None,
            push_ns: 0,
            asked: 0,
            refusal: None,
            has_listener: has_file || profile.has_replica,
            has_events: profile.has_events,
            letters: Vec::new(),
            trace: std::env::var_os("TRACE").is_some(),
            except: std::env::var("EXCEPT").unwrap_or_default(),
            machine,
        };
        world.machine.record(primary, true);
        if profile.theme == Some(Theme::Walk) {
            world.machine.measure_exactly();
        }
        let help = world.ask(primary, 0, &[b"DEHYDRATOR.HELP".to_vec(), b"PURGE".to_vec()]);
        world.model.is_stepwise = !shown(&format!("{help:?}")).contains("COUNT");
        world.model.is_unjudged = std::env::var_os("UNJUDGED").is_some();
        world.operations = 0;
        world.machine.set_costs(0, profile.read_ns);
        world.connect();
        world.memory = world.machine.memory(primary);
        world
    }

    /// Connects all clients anew.
    pub(super) fn connect(&mut self) {
        self.subscriber = self.machine.connect(self.primary);
        self.machine.send(self.subscriber, &[b"SUBSCRIBE", CHANNEL]);
        self.clients.clear();
        for number in 0..CLIENTS {
            let client = self.reconnect(number);
            self.clients.push(client);
        }
    }

    pub(super) fn reconnect(&mut self, number: usize) -> Client {
        let id = self.machine.connect(self.primary);
        // A cluster has one database.
        let db = if self.node.is_some() { 0 } else { number % DATABASES };
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
            match self.step(step) {
                // What an older library is known to tell wrongly hides nothing else.
                Err(fault) if self.is_excepted(&fault) && step.reads() => {}
                result => result?,
            }
            if self.trace && began.elapsed().as_millis() > 100 {
                eprintln!("slow: {:?}, {} effects", began.elapsed(), self.heard);
            }
        }
        self.end_begun()?;
        self.at_end()
    }

    pub(super) fn is_excepted(&self, fault: &Fault) -> bool {
        self.except.split(',').any(|it| it == fault.promise.name())
    }

    pub(super) fn step(&mut self, step: &Step) -> Result {
        if self.model.is_stepwise && !older::can_run(step) {
            return Ok(());
        }
        let may_begin = match step {
            Step::Batch(commands) => {
                commands.iter().all(|it| matches!(it.op, Op::SwapDb | Op::Del(_) | Op::FlushDb))
            }
            Step::MoveSlot(_) | Step::Bulk { .. } | Step::Advance(1..5) => true,
            _ => false,
        };
        if !may_begin {
            self.end_begun()?;
        }
        match step {
            Step::Batch(commands) => self.batch(commands)?,
            Step::Begin(command) => self.begin(command)?,
            Step::Bulk { number, key, db, groups, each, ttl } => {
                let before = self.machine.spent_ns(self.primary);
                self.bulk(*number, (key, *db), (*groups, *each), *ttl)?;
                if *each >= MANY {
                    let spent_ns = self.machine.spent_ns(self.primary) - before;
                    self.push_ns = spent_ns / *each as u64;
                }
            }
            Step::Schedules { number, key, db, count, every } => {
                self.many_schedules(*number, (key, *db), *count, every)?;
            }
            Step::Advance(ms) => self.advance(*ms)?,
            Step::StepWall(ms) => self.step_wall(*ms)?,
            Step::HangUp(client) => {
                self.rest()?;
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
            Step::MoveSlot(key) => self.move_slot(key)?,
            Step::PauseWrites(ms, command) => self.pause_writes(*ms, command)?,
            Step::Refused(refusal, commands) => self.refused(*refusal, commands)?,
            Step::Listen(command, act) => self.listen(command, act)?,
            Step::CutFile(command, thousandths) => self.cut_file(command, *thousandths)?,
        }
        // To settle is to wait for what can be judged.
        if self.begun.is_none() && !self.model.is_unjudged {
            self.settle()?;
        }
        Ok(())
    }

    /// Chooses the client for a command: one that is not asleep, in the same database if possible.
    pub(super) fn awake(&self, wanted: usize, used: &[usize]) -> Option<usize> {
        let order = (0..CLIENTS)
            .map(|it| (wanted + it * DATABASES) % CLIENTS + it * DATABASES / CLIENTS % DATABASES);
        let mut order = order.map(|it| it % CLIENTS);
        order.find(|it| {
            self.clients[*it].sleep.is_none()
                && !used.contains(it)
                && self.begun.as_ref().is_none_or(|begun| begun.client != *it)
        })
    }

    pub(super) fn call_of(&mut self, command: &Command, db: usize) -> Call {
        let mut command = command.clone();
        // An id that stands for one of a schedule's elements, or of its next one.
        for id in command.op.ids_mut() {
            let name = id.strip_suffix(b"@?").and_then(|name| {
                self.model.get(db, &command.key).and_then(|it| it.id_of_schedule(name))
            });
            *id = name.unwrap_or_else(|| id.clone());
        }
        let command = &command;
        let mut pairs = Vec::new();
        if let Op::Settle(held)
        | Op::Renew(_, held)
        | Op::Release(_, held, _)
        | Op::Reject(held, _) = &command.op
        {
            for held in held {
                let named = match held {
                    Held::Named(token, id) => Some((token.clone(), id.clone())),
                    Held::Lent(nth, id) => {
                        let held =
                            self.model.get(db, &command.key).and_then(|it| it.nth_held(*nth));
                        held.map(|(token, _)| (token, id.clone()))
                    }
                    Held::Nth(nth) => {
                        self.model.get(db, &command.key).and_then(|it| it.nth_held(*nth))
                    }
                };
                pairs.extend(named.filter(|it| !pairs.contains(it)));
            }
            if matches!(&command.op, Op::Release(_, _, back) | Op::Reject(_, back) if back.has_element)
            {
                pairs.truncate(1);
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
            Op::Release(_, _, back) | Op::Reject(_, back) if back.has_element => {
                vec![element(command.number, 0, 5, &pairs[0].1)]
            }
            Op::OfSchedules(OfSchedules::Every(every)) => vec![every.element(&command.key, db)],
            Op::Revive(revive) => {
                let listed = &self.letters;
                let letter = |at: &usize| listed.get(at % listed.len().max(1)).cloned();
                let letters = revive.letters.iter().chain(&revive.from).filter_map(letter);
                pairs = letters.map(|entry| (entry, Bytes::new())).collect();
                vec![element(command.number, 0, 4, b"")]
            }
            _ => Vec::new(),
        };
        Call {
            db,
            key: command.key.clone(),
            op: command.op.clone(),
            elements,
            pairs,
            sent: self.now(),
            now: self.now(),
            at: [u64::MAX; 2],
        }
    }

    /// Returns the words of a call, as the library knows them.
    pub(super) fn words(&self, call: &Call) -> Vec<Bytes> {
        if let Op::Revive(revive) = &call.op {
            return revive.words(&call.key, &call.elements, &self.letters);
        }
        let mut words = call.op.words(&call.key, call.sent, &call.elements, &call.pairs);
        if self.model.is_stepwise {
            older::reorder(&call.op, &mut words);
        }
        words
    }

    pub(super) fn send(&mut self, client: usize, words: &[Bytes]) {
        let words: Vec<_> = words.iter().map(|it| &it[..]).collect();
        self.machine.send(self.clients[client].id, &words);
        self.operations += 1;
    }

    pub(super) fn reload(&mut self, how: Reload) -> Result {
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
        self.collect(&[])?;
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
    pub(super) fn after_restart(&mut self) -> Result {
        self.machine.record(self.primary, true);
        self.connect();
        let now = self.now();
        self.excuse(RETRY_MS);
        self.model.all_mut().for_each(|it| {
            it.restart_turns();
            it.touched = it.touched.max(now);
        });
        Ok(())
    }

    /// Notes that for so many milliseconds what happens by itself may be late.
    pub(super) fn excuse(&mut self, ms: u64) {
        let until = self.now() + ms;
        self.model.all_mut().for_each(|it| it.acts_from = it.acts_from.max(until));
    }

    pub(super) fn promote(&mut self) -> Result {
        let (Some(replica), None) = (self.replica, &self.tool) else { return Ok(()) };
        let still = self.keep_still()?;
        self.equal(replica, Promise::Replica)?;
        self.collect(&[])?;
        self.machine.record(replica, true);
        self.machine.promote(replica);
        let before = std::mem::replace(&mut self.primary, replica);
        self.collect(&[])?;
        self.replica = Some(before);
        self.machine.replicate(replica, before, LAG_US);
        self.after_restart()?;
        self.move_again(still)
    }
}

/// Returns an element that names the command that pushed it, and its id.
pub(super) fn element(number: usize, at: usize, size: usize, id: &[u8]) -> Bytes {
    let mut element = format!("{number}.{at}|").into_bytes();
    element.resize(element.len() + size, b'x');
    element.push(b'|');
    element.extend_from_slice(id);
    element
}
