//! Effects: gathered while a command or a callback runs, then sent to replicas, the append-only file, and the judges.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io::Write;
use std::rc::Rc;

use super::Kind;
use super::clock;
use super::link::Item;
use super::server::Server;
use super::text::Words;

/// A command that is replicated, in its database.
#[derive(Clone)]
pub struct Effect {
    pub db: u32,
    pub words: Words,
    /// PUBLISH goes to replicas alone.
    pub is_for_file: bool,
    /// The frame of a transaction, which selects no database.
    pub is_frame: bool,
    /// Its number among all that happened, and when that was, in milliseconds since the epoch; 0 for a frame.
    pub at: u64,
    pub ms: u64,
}

/// A command that was replicated, as the judges see it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Propagated {
    pub db: u32,
    pub words: Vec<Vec<u8>>,
    pub at: u64,
    pub ms: u64,
}

/// The append-only file.
#[derive(Default)]
pub struct File {
    /// What the last rewrite wrote.
    pub base: Vec<u8>,
    pub base_is_rdb: bool,
    /// What was appended and written.
    pub tail: Vec<u8>,
    /// What the current pass appends.
    pub buffer: Vec<u8>,
    /// The database of the last command.
    pub db: Option<u32>,
}

/// The replication stream.
pub struct Stream {
    pub id: Cell<u64>,
    /// The id of the primary that this server was a replica of, and up to where.
    pub second: Cell<Option<(u64, u64)>>,
    /// The number of commands so far.
    pub offset: Cell<u64>,
    /// The last commands, once there has been a replica.
    pub backlog: RefCell<Option<VecDeque<Rc<Effect>>>>,
    pub backlog_most: Cell<usize>,
    pub file: RefCell<Option<File>>,
    recorded: RefCell<Option<Vec<Propagated>>>,
    /// How many effects and commands there were.
    happened: Cell<u64>,
}

impl Stream {
    pub fn new(seed: u64) -> Self {
        Self {
            id: Cell::new(seed | 1 << 63),
            second: Cell::default(),
            offset: Cell::default(),
            backlog: RefCell::default(),
            backlog_most: Cell::new(10_000),
            file: RefCell::default(),
            recorded: RefCell::default(),
            happened: Cell::default(),
        }
    }

    pub fn has_file(&self) -> bool {
        self.file.borrow().is_some()
    }

    /// Writes what was appended: a power cut after this pass does not lose it.
    pub fn flush_file(&self) {
        if let Some(file) = self.file.borrow_mut().as_mut() {
            file.tail.append(&mut file.buffer);
        }
    }

    /// Begins to record effects, or ends that.
    pub fn record(&self, is_on: bool) {
        *self.recorded.borrow_mut() = is_on.then(Vec::new);
    }

    pub fn take_recorded(&self) -> Vec<Propagated> {
        self.recorded.borrow_mut().as_mut().map(std::mem::take).unwrap_or_default()
    }
}

/// Writes a command as an append-only file has it.
pub fn encode(words: &Words, file: &mut Vec<u8>) {
    let written = write!(file, "*{}\r\n", words.len());
    written.expect("memory");
    for word in words.iter() {
        write!(file, "${}\r\n", word.len()).expect("memory");
        file.extend_from_slice(word);
        file.extend_from_slice(b"\r\n");
    }
}

impl Server {
    pub fn enter_unit(&self) {
        self.nesting.set(self.nesting.get() + 1);
    }

    /// Numbers what happens: effects, and the begins and ends of commands.
    pub fn happens(&self) -> u64 {
        self.stream.happened.set(self.stream.happened.get() + 1);
        self.stream.happened.get()
    }

    /// Ends a command or a callback. At the end of the outermost, its effects go out: several in one transaction.
    pub fn exit_unit(&self) {
        self.nesting.set(self.nesting.get() - 1);
        if self.nesting.get() > 0 || self.pending.borrow().is_empty() {
            return;
        }
        let effects = self.pending.take();
        // Redis 7.0 selects the database before the transaction.
        let is_frame = self.kind != Kind::Redis70;
        let frame = |name: &[u8], db| {
            let words = Words::new([name]);
            Effect { db, words, is_for_file: true, is_frame, at: 0, ms: 0 }
        };
        let dbs = [effects.first(), effects.last()].map(|it| it.map_or(0, |it| it.db));
        let is_transaction = effects.len() > 1;
        if is_transaction {
            self.send(frame(b"MULTI", dbs[0]));
        }
        effects.into_iter().for_each(|effect| self.send(effect));
        if is_transaction {
            self.send(frame(b"EXEC", dbs[1]));
        }
    }

    /// Returns whether anything reads effects.
    pub fn propagates(&self) -> bool {
        self.may_propagate() && (self.stream.has_file() || self.feeds_replicas())
    }

    fn may_propagate(&self) -> bool {
        self.replication_allowed.get() && !self.is_loading.get()
    }

    fn feeds_replicas(&self) -> bool {
        !self.is_replica()
            && (self.stream.backlog.borrow().is_some()
                || self.stream.recorded.borrow().is_some()
                || !self.replicas.borrow().is_empty())
    }

    /// Adds an effect that does not go to the append-only file.
    pub fn note_for_replicas(&self, db: u32, words: Words) {
        if self.may_propagate() && self.feeds_replicas() {
            self.gather(db, words, false);
        }
    }

    /// Adds an effect of the command or the callback that runs.
    pub fn note_effect(&self, db: u32, words: Words) {
        if self.propagates() {
            self.gather(db, words, true);
        }
    }

    fn gather(&self, db: u32, words: Words, is_for_file: bool) {
        let (at, ms) = (self.happens(), clock::wall_ms() as u64);
        let effect = Effect { db, words, is_for_file, is_frame: false, at, ms };
        self.pending.borrow_mut().push(effect);
    }

    /// Adds an effect of the server itself.
    pub fn also_propagate(&self, db: u32, words: Words) {
        self.note_effect(db, words);
    }

    fn send(&self, effect: Effect) {
        if let Some(file) = self.stream.file.borrow_mut().as_mut().filter(|_| effect.is_for_file) {
            if file.db != Some(effect.db) && !effect.is_frame {
                file.db = Some(effect.db);
                encode(&Words::of_line(&format!("SELECT {}", effect.db)), &mut file.buffer);
            }
            encode(&effect.words, &mut file.buffer);
        }
        if !self.is_replica() {
            if let Some(recorded) = self.stream.recorded.borrow_mut().as_mut() {
                let Effect { db, at, ms, .. } = effect;
                recorded.push(Propagated { db, words: effect.words.to_vecs(), at, ms });
            }
            self.pass_on(&Rc::new(effect));
        }
    }

    /// Sends an effect to the replicas.
    pub fn pass_on(&self, effect: &Rc<Effect>) {
        self.stream.offset.set(self.stream.offset.get() + 1);
        if let Some(backlog) = self.stream.backlog.borrow_mut().as_mut() {
            backlog.push_back(Rc::clone(effect));
            if backlog.len() > self.stream.backlog_most.get() {
                backlog.pop_front();
            }
        }
        let now = clock::monotonic_us();
        for link in self.replicas.borrow().iter() {
            link.put(now, Item::Effect(Rc::clone(effect)));
        }
    }

    /// Begins an append-only file with what there is, or ends it.
    pub fn set_append_only(&self, is_on: bool) {
        if !is_on {
            *self.stream.file.borrow_mut() = None;
            return;
        }
        *self.stream.file.borrow_mut() = Some(File::default());
        if self.methods.borrow().is_some() {
            self.rewrite();
        }
    }
}
