//! The machine: some servers, the wires between them, a wall clock and a monotonic clock.
//!
//! | module | contents |
//! |---|---|
//! | this file | what a world may do with a machine |
//! | `server` | a server's state; `library` loads its copy of the module |
//! | `api` | the module API |
//! | `event_loop` | a pass of the event loop, timers, the cron, events of the server |
//! | `run` | running commands; `commands` has the server's own |
//! | `client`, `blocked` | connections; clients that the module has blocked |
//! | `keyspace`, `notify` | databases; keyspace events, watched keys, another module that listens |
//! | `propagate`, `link`, `replicas` | effects; the wires to replicas; who follows whom |
//! | `persistence`, `digest` | snapshots, the append-only file, DUMP; digests |
//! | `acl`, `settings`, `info`, `cluster` | users; the configuration; INFO; slots |
//! | `clock`, `stopwatch` | the time of the simulation; the processor's |
//! | `reply`, `text`, `command` | replies; strings; descriptions of commands |

mod acl;
mod api;
mod blocked;
mod client;
mod clock;
mod cluster;
mod command;
mod commands;
mod digest;
mod event_loop;
mod info;
mod keyspace;
mod library;
mod link;
mod notify;
mod persistence;
mod propagate;
mod replicas;
mod reply;
mod run;
mod server;
mod settings;
mod stopwatch;
mod text;

use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard};

use client::Client;
use link::Link;
use server::Server;
use stopwatch::Stopwatch;
use text::Words;

pub use cluster::{SLOTS, slot_of};
pub use notify::{Listener, Rule};
pub use persistence::{Image, units};
pub use propagate::Propagated;
pub use reply::Reply;

/// A server and its version.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Redis70,
    Redis8,
    Valkey8,
    Valkey9,
}

impl Kind {
    /// Returns whether a module may ask whether a command would be refused.
    fn has_dry_runs(self) -> bool {
        self != Self::Redis70
    }

    fn is_valkey(self) -> bool {
        matches!(self, Self::Valkey8 | Self::Valkey9)
    }

    /// Returns the number of the last event to which a module may subscribe.
    fn last_event(self) -> u64 {
        match self {
            Self::Redis70 => 16,
            Self::Redis8 => 18,
            Self::Valkey8 => 17,
            Self::Valkey9 => 19,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ServerId(pub usize);

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ClientId(pub usize);

/// A pass that is followed at once by another one this many times never rests.
const RESTLESS: usize = 100_000;

/// Clocks and the server that runs are the process's: one machine at a time.
static ONLY: Mutex<()> = Mutex::new(());

pub struct Machine {
    library: Arc<[u8]>,
    kind: Kind,
    seed: u64,
    servers: Vec<&'static Server>,
    clients: Vec<(ServerId, Rc<Client>)>,
    operators: Vec<Option<ClientId>>,
    links: Vec<Rc<Link>>,
    /// Counts the starts of servers.
    generation: u64,
    /// The time of each pass is measured exactly.
    is_exact: bool,
    _only: MutexGuard<'static, ()>,
}

impl Machine {
    /// Loads a library some times, so that servers can start soon.
    pub fn prepare(library: &Path, many: usize) {
        library::prepare(library, many);
    }

    /// Returns a machine without servers, whose servers load this library.
    pub fn new(library: &Path, kind: Kind, seed: u64) -> Self {
        // A test that failed with it is over.
        let _only = ONLY.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        clock::reset();
        Self {
            library: library::read(library),
            kind,
            seed,
            servers: Vec::new(),
            clients: Vec::new(),
            operators: Vec::new(),
            links: Vec::new(),
            generation: 0,
            is_exact: false,
            _only,
        }
    }

    /// Starts a server with some settings, those of the module under `dehydrator.`; `loadmodule` has its arguments.
    pub fn start(&mut self, settings: &[(&str, &str)]) -> ServerId {
        let number = self.servers.len();
        let server = self.launch(number, &settings::with_defaults(self.kind, settings));
        self.servers.push(server);
        self.operators.push(None);
        ServerId(number)
    }

    fn launch(&mut self, number: usize, settings: &BTreeMap<String, String>) -> &'static Server {
        self.generation += 1;
        Server::start(number, self.kind, &self.library, settings, self.seed, self.generation)
    }

    /// Stops a server as a power cut does, and starts it from an image, with its settings as they are now.
    pub fn restart(&mut self, s: ServerId, from: &Image) {
        self.separate(s);
        let settings = self.server(s).settings.borrow().clone();
        let slots = self.server(s).slots.borrow().clone();
        self.server(s).retire();
        let server = self.launch(s.0, &settings);
        self.servers[s.0] = server;
        self.operators[s.0] = None;
        *server.slots.borrow_mut() = slots;
        server.load(from);
    }

    fn server(&self, s: ServerId) -> &'static Server {
        let server = self.servers[s.0];
        server.enter();
        server
    }

    pub fn kind(&self) -> Kind {
        self.kind
    }

    pub fn wall_ms(&self) -> u64 {
        clock::wall_ms().max(0) as u64
    }

    pub fn monotonic_us(&self) -> u64 {
        clock::monotonic_us()
    }

    /// Steps the wall clock.
    pub fn step_wall(&mut self, by_ms: i64) {
        clock::step_wall(by_ms * 1000);
    }

    /// Sets what a call of the module API and a read of a clock take, in nanoseconds of both clocks.
    pub fn set_costs(&mut self, call_ns: u64, read_ns: u64) {
        clock::set_costs(call_ns, read_ns);
    }

    /// Connects a client, as the default user.
    pub fn connect(&mut self, s: ServerId) -> ClientId {
        let client = self.server(s).connect();
        self.clients.push((s, client));
        ClientId(self.clients.len() - 1)
    }

    /// Returns the id that CLIENT ID replies.
    pub fn id_of(&self, c: ClientId) -> u64 {
        self.clients[c.0].1.id
    }

    /// Returns whether the server has closed the connection, or lost its memory of it by a restart.
    pub fn is_closed(&self, c: ClientId) -> bool {
        let (server, client) = &self.clients[c.0];
        let knows = |it: &Rc<Client>| Rc::ptr_eq(it, client);
        client.is_freed.get() || !self.servers[server.0].clients.borrow().iter().any(knows)
    }

    pub fn is_blocked(&self, c: ClientId) -> bool {
        self.clients[c.0].1.is_blocked()
    }

    /// Sends a command, which the server reads in its next pass.
    pub fn send(&mut self, c: ClientId, words: &[&[u8]]) {
        let (server, client) = &self.clients[c.0];
        client.input.borrow_mut().push_back(Words::new(words.iter().copied()));
        self.servers[server.0].mark_ready(client);
    }

    /// Returns the replies that have arrived since the last call.
    pub fn replies(&mut self, c: ClientId) -> Vec<Reply> {
        let out = &self.clients[c.0].1.out;
        if out.borrow().is_empty() { Vec::new() } else { out.borrow_mut().take() }
    }

    /// Returns whether replies have arrived.
    pub fn has_replied(&self, c: ClientId) -> bool {
        !self.clients[c.0].1.out.borrow().is_empty()
    }

    /// Returns whether clients were unblocked to whom the server has not replied yet.
    pub fn is_replying(&self, s: ServerId) -> bool {
        !self.servers[s.0].unblocked.borrow().is_empty()
    }

    /// Returns when a client's last command began, or when it was unblocked, in milliseconds since the epoch.
    pub fn ran_ms(&self, c: ClientId) -> u64 {
        self.clients[c.0].1.ran_ms.get() as u64
    }

    /// Returns the number among all that happened on its server of the begin of a client's last command, or of when it was
    /// unblocked; and of that command's end.
    pub fn ran_at(&self, c: ClientId) -> [u64; 2] {
        let client = &self.clients[c.0].1;
        [client.ran_at.get(), client.done_at.get()]
    }

    /// Returns the connection of a server's operator.
    pub fn operator(&self, s: ServerId) -> Option<ClientId> {
        self.operators[s.0]
    }

    /// Returns the time of the processor that the slowest pass of a server has taken since the last call, in nanoseconds.
    pub fn take_slowest_ns(&self, s: ServerId) -> u64 {
        self.server(s).slowest_ns.take()
    }

    /// Has the time of each pass measured exactly, which takes as long as a short pass.
    pub fn measure_exactly(&mut self) {
        self.is_exact = true;
    }

    /// Returns the time of the processor that a server's passes have taken, in nanoseconds.
    pub fn spent_ns(&self, s: ServerId) -> u64 {
        self.server(s).spent_ns.get()
    }

    /// Closes a client's end of the connection. The server reads that in its next pass, or after what the client had sent.
    pub fn hang_up(&mut self, c: ClientId) {
        let (server, client) = &self.clients[c.0];
        client.has_hung_up.set(true);
        self.servers[server.0].mark_ready(client);
    }

    /// Runs one pass of a server's event loop. Returns how much it did.
    pub fn pass(&mut self, s: ServerId) -> usize {
        let server = self.server(s);
        let stopwatch = Stopwatch::start(self.is_exact);
        let count = server.pass();
        let spent_ns = stopwatch.ns();
        server.slowest_ns.set(server.slowest_ns.get().max(spent_ns));
        server.spent_ns.set(server.spent_ns.get() + spent_ns);
        self.follow_orders(s);
        count
    }

    /// Returns when something happens by itself, on the monotonic clock: a timer, a cron, an arrival.
    pub fn next_event_us(&self) -> Option<u64> {
        self.servers.iter().map(|server| server.next_us()).min()
    }

    /// Lets time pass. Each server runs as many passes as it wants.
    pub fn advance(&mut self, by_us: u64) {
        let end = clock::monotonic_us() + by_us;
        loop {
            self.settle();
            let next = self.next_event_us().filter(|at| *at <= end);
            let now = clock::monotonic_us();
            let to = next.unwrap_or(end);
            if to > now {
                clock::advance(to - now);
            }
            if next.is_none() {
                return;
            }
        }
    }

    /// Returns a server that has something to do at once.
    pub fn ready(&self) -> Option<ServerId> {
        (0..self.servers.len()).find(|at| self.servers[*at].is_ready()).map(ServerId)
    }

    /// Runs passes until no server has anything to do at once.
    pub fn settle(&mut self) {
        for _ in 0..RESTLESS {
            let Some(ready) = self.ready() else { return };
            self.pass(ready);
        }
        panic!("the event loop never rests");
    }

    /// Runs a command over an operator's connection, and returns the reply. Not for commands that block.
    pub fn call(&mut self, s: ServerId, words: &[&[u8]]) -> Reply {
        let c = match self.operators[s.0].filter(|c| !self.is_closed(*c)) {
            Some(c) => c,
            None => {
                let c = self.connect(s);
                self.operators[s.0] = Some(c);
                c
            }
        };
        self.send(c, words);
        for _ in 0..100 {
            self.pass(s);
            if let Some(reply) = self.replies(c).into_iter().next() {
                return reply;
            }
            clock::advance(100);
        }
        let words: Vec<_> = words.iter().map(|word| word.escape_ascii().to_string()).collect();
        panic!("no reply to {words:?}")
    }

    /// Like [`call`](Self::call), with a line that is split at its spaces.
    pub fn ask(&mut self, s: ServerId, line: &str) -> Reply {
        let words: Vec<_> = line.split(' ').map(str::as_bytes).collect();
        self.call(s, &words)
    }

    /// Begins to record what a primary replicates, or ends that.
    pub fn record(&mut self, s: ServerId, is_on: bool) {
        self.server(s).stream.record(is_on);
    }

    /// Returns what was recorded since the last call: a transaction between MULTI and EXEC.
    pub fn stream(&mut self, s: ServerId) -> Vec<Propagated> {
        self.server(s).stream.take_recorded()
    }

    /// Returns a snapshot.
    pub fn rdb(&mut self, s: ServerId) -> Vec<u8> {
        self.server(s).fork(Server::snapshot)
    }

    /// Returns the append-only file as far as it is written. [`Image::Aof`] takes it, cut anywhere from
    /// [`aof_base`](Self::aof_base) on.
    pub fn aof(&self, s: ServerId) -> Vec<u8> {
        self.server(s).append_only_file()
    }

    /// Returns the length of the part that cannot be cut.
    pub fn aof_base(&self, s: ServerId) -> usize {
        self.server(s).stream.file.borrow().as_ref().map_or(0, |file| 9 + file.base.len())
    }

    pub fn rewrite_aof(&mut self, s: ServerId) {
        self.server(s).rewrite();
    }

    /// Returns the digest of a value of the module. `None`: there is none.
    pub fn digest(&mut self, s: ServerId, db: u32, key: &[u8]) -> Option<[u8; 20]> {
        self.server(s).digest(db, key)
    }

    /// Returns the names of a database's keys, also of those that have expired.
    pub fn keys(&self, s: ServerId, db: u32) -> Vec<Vec<u8>> {
        let names = self.server(s).names_after(db, None, usize::MAX);
        names.into_iter().map(Vec::from).collect()
    }

    /// Lets the server's memory be full, or not.
    pub fn set_full(&mut self, s: ServerId, is_full: bool) {
        self.server(s).is_full.set(is_full);
    }

    /// CLIENT PAUSE WRITE until a moment of the wall clock.
    pub fn pause_writes(&mut self, s: ServerId, until_ms: u64) {
        let server = self.server(s);
        server.pauses_all.set(false);
        server.paused_until_ms.set(until_ms as i64);
    }

    /// Moves a slot with its keys from one node to another.
    pub fn move_slot(&mut self, slot: usize, from: ServerId, to: ServerId) {
        let keys = self.server(from).keys_in(slot);
        for key in keys {
            let source = self.server(from);
            let Some(dump) = source.dump(0, &key) else { continue };
            let at = source.entry(0, &key, |entry| entry.expires).flatten().unwrap_or(0);
            let target = self.server(to);
            let at = at.to_string();
            let restore = [&b"RESTORE"[..], &key, at.as_bytes(), &dump, b"REPLACE", b"ABSTTL"];
            let reply = target.call_inside(0, Words::new(restore), true);
            assert_eq!(reply, Reply::Simple(b"OK".to_vec()), "a key that moves");
            self.server(from).call_inside(0, Words::new([&b"DEL"[..], &key]), true);
        }
        self.server(from).set_slot(slot, false);
        let target = self.server(to);
        target.set_slot(slot, true);
        target.fire_slots_imported();
    }

    /// Lets a node serve some slots only.
    pub fn set_slots(&mut self, s: ServerId, serves: impl Fn(usize) -> bool) {
        *self.server(s).slots.borrow_mut() = Some((0..SLOTS).map(serves).collect());
    }

    /// Loads another module, which listens to keyspace events. `None`: it listens no more.
    pub fn set_listener(&mut self, s: ServerId, listener: Option<Listener>) {
        let server = self.server(s);
        let is_new = listener.is_some() && !server.has_listener.get();
        server.has_listener.set(listener.is_some() || server.has_listener.get());
        *server.listener.borrow_mut() = listener;
        if is_new {
            server.fire_module_loaded(c"listener");
        }
    }

    /// Returns the events that the listener has seen since the last call.
    pub fn seen(&mut self, s: ServerId) -> Vec<Vec<u8>> {
        let mut listener = self.server(s).listener.borrow_mut();
        let seen = listener.as_mut().and_then(|listener| listener.seen.as_mut());
        seen.map(std::mem::take).unwrap_or_default()
    }

    /// Returns what the listener's commands came to, since the last call.
    pub fn ran(&mut self, s: ServerId) -> Vec<Vec<u8>> {
        let mut listener = self.server(s).listener.borrow_mut();
        listener.as_mut().map(|listener| std::mem::take(&mut listener.ran)).unwrap_or_default()
    }

    /// Lets the listener run a command at the next events of a name.
    pub fn add_rule(&mut self, s: ServerId, rule: Rule) {
        let mut listener = self.server(s).listener.borrow_mut();
        listener.as_mut().expect("a listener").rules.push(rule);
    }

    /// Returns the bytes that the module has allocated and not freed.
    pub fn memory(&self, s: ServerId) -> usize {
        self.server(s).memory.get()
    }

    /// Returns the lines that the module has logged since the last call.
    pub fn log(&mut self, s: ServerId) -> Vec<String> {
        self.server(s).log.take()
    }

    /// Returns the errors of commands that a primary or a file sent: there must not be any.
    pub fn disobeyed(&mut self, s: ServerId) -> Vec<String> {
        self.server(s).disobeyed.take()
    }

    /// Frees what was left to another thread.
    pub fn free_lazily(&mut self, s: ServerId) {
        self.server(s).free_lazily();
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // A fault may have left anything.
        if !std::thread::panicking() {
            self.servers.iter().for_each(|server| server.retire());
        }
    }
}
