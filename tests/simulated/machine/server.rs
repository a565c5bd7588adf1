//! A server: its state, and how it starts.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ffi::{CString, c_int, c_void};
use std::ptr;
use std::rc::Rc;
use std::sync::atomic::{AtomicPtr, Ordering};

use redis_module::raw::RedisModuleTypeMethods;

use super::Kind;
use super::acl::User;
use super::api::context::Context;
use super::blocked::Blocked;
use super::client::{Client, Origin};
use super::command::Command;
use super::digest;
use super::event_loop::{Hooks, Timer};
use super::keyspace::{DATABASES, Db};
use super::library::{self, OnLoad};
use super::link::Link;
use super::notify::Listener;
use super::propagate::{Effect, Stream};
use super::settings::ModuleSetting;
use super::text::Words;

pub struct Server {
    pub kind: Kind,
    /// What its slowest pass has taken, in nanoseconds.
    pub slowest_ns: Cell<u64>,
    /// The time of the processor that all passes have taken, in nanoseconds.
    pub spent_ns: Cell<u64>,
    /// Commands that its threads have read run before it sleeps.
    pub reads_late: Cell<bool>,
    copy: Cell<Option<&'static library::Copy>>,
    pub dbs: RefCell<Vec<Db>>,
    pub next_value: Cell<u64>,
    /// Counts removals and insertions, for keys that are open meanwhile.
    pub changes: Cell<u64>,
    pub freed_later: RefCell<Vec<*mut c_void>>,

    pub clients: RefCell<Vec<Rc<Client>>>,
    pub next_client: Cell<u64>,
    pub users: RefCell<BTreeMap<Vec<u8>, Rc<User>>>,
    pub channels: RefCell<BTreeMap<Vec<u8>, Vec<Rc<Client>>>>,
    pub watchers: Cell<usize>,
    /// The client whose command runs.
    pub running: RefCell<Option<Rc<Client>>>,
    /// The client whose command, at the outermost, runs.
    pub outer: RefCell<Option<Rc<Client>>>,
    /// Clients who have sent something or hung up, in the order in which they did.
    pub ready: RefCell<VecDeque<Rc<Client>>>,
    pub idle_callers: RefCell<Vec<Rc<Client>>>,
    pub unblocked: RefCell<VecDeque<*mut Blocked>>,
    pub resumed: RefCell<VecDeque<Rc<Client>>>,
    pub postponed: RefCell<Vec<Rc<Client>>>,
    pub closing: RefCell<VecDeque<Rc<Client>>>,

    pub commands: RefCell<HashMap<Box<[u8]>, &'static Command>>,
    pub methods: RefCell<Option<&'static RedisModuleTypeMethods>>,
    pub encoding_version: Cell<c_int>,
    pub hooks: Hooks,
    pub timers: RefCell<BTreeMap<(i64, u64), Timer>>,
    pub next_timer: Cell<u64>,
    /// When the event loop looks at the timers, on the monotonic clock.
    pub timers_at_us: Cell<Option<u64>>,
    /// The pipe that wakes the loop has been written to.
    pub is_woken: Cell<bool>,
    pub one_shots: RefCell<Vec<(usize, *mut c_void)>>,
    pub cron_at_us: Cell<u64>,

    pub settings: RefCell<BTreeMap<String, String>>,
    /// Settings that are asked for often.
    pub hz: Cell<u64>,
    pub replicas_to_write: Cell<usize>,
    pub is_read_only: Cell<bool>,
    pub module_settings: RefCell<Vec<ModuleSetting>>,
    pub are_loaded: Cell<bool>,
    pub notified: Cell<i32>,
    pub listener: RefCell<Option<Listener>>,
    pub has_listener: Cell<bool>,
    pub module_options: Cell<c_int>,

    /// How deep commands and callbacks are nested: effects go out at the end of the outermost.
    pub nesting: Cell<u32>,
    pub pending: RefCell<Vec<Effect>>,
    pub replication_allowed: Cell<bool>,
    pub in_exec: Cell<bool>,
    pub in_script: Cell<bool>,
    pub stream: Stream,
    /// To its replicas.
    pub replicas: RefCell<Vec<Rc<Link>>>,
    /// Wires to replicas that have to ask for the data anew.
    pub orphans: RefCell<Vec<Rc<Link>>>,
    /// From its primary.
    pub primary: RefCell<Option<Rc<Link>>>,
    pub primary_client: RefCell<Option<Rc<Client>>>,
    pub is_loading: Cell<bool>,
    pub is_forked: Cell<bool>,
    pub paused_until_ms: Cell<i64>,
    pub pauses_all: Cell<bool>,
    /// The arguments of a REPLICAOF, for the machine.
    pub asked_role: Cell<Option<Vec<Vec<u8>>>>,
    pub is_full: Cell<bool>,
    /// The slots that it serves, if it is a node of a cluster.
    pub slots: RefCell<Option<Vec<bool>>>,
    pub counts: Cell<[u64; 4]>,
    pub random: Cell<u64>,

    pub detached: Cell<*mut Context>,
    pub memory: Cell<usize>,
    pub log: RefCell<Vec<String>>,
    /// Errors of commands that the primary or a file sent.
    pub disobeyed: RefCell<Vec<String>>,
}

/// The server whose code runs, for functions that get no context.
static CURRENT: AtomicPtr<Server> = AtomicPtr::new(ptr::null_mut());

pub fn current() -> &'static Server {
    // SAFETY: servers are leaked.
    unsafe { CURRENT.load(Ordering::Relaxed).as_ref() }.expect("a server runs")
}

/// Prints the log of the server that runs, for a module that ends it.
pub fn print_log() {
    // SAFETY: as above.
    if let Some(server) = unsafe { CURRENT.load(Ordering::Relaxed).as_ref() }
        && let Ok(log) = server.log.try_borrow()
    {
        log.iter().rev().take(10).rev().for_each(|line| eprintln!("{line}"));
    }
}

impl Server {
    /// Returns the same server for as long as the process lives.
    pub fn leaked(&self) -> &'static Self {
        // SAFETY: servers are leaked.
        unsafe { &*ptr::from_ref(self) }
    }

    /// Makes this the server whose code runs.
    pub fn enter(&'static self) {
        CURRENT.store(ptr::from_ref(self).cast_mut(), Ordering::Relaxed);
    }

    /// Creates a server and loads the module.
    pub fn start(
        number: usize,
        kind: Kind,
        library: &[u8],
        settings: &BTreeMap<String, String>,
        seed: u64,
        generation: u64,
    ) -> &'static Self {
        let now = super::clock::monotonic_us();
        let server: &'static Self = Box::leak(Box::new(Self {
            kind,
            slowest_ns: Cell::default(),
            spent_ns: Cell::default(),
            reads_late: Cell::default(),
            copy: Cell::default(),
            dbs: RefCell::new((0..DATABASES).map(|_| Db::default()).collect()),
            next_value: Cell::new(1),
            changes: Cell::default(),
            freed_later: RefCell::default(),
            clients: RefCell::default(),
            next_client: Cell::new(1),
            users: RefCell::default(),
            channels: RefCell::default(),
            watchers: Cell::default(),
            running: RefCell::default(),
            outer: RefCell::default(),
            ready: RefCell::default(),
            idle_callers: RefCell::default(),
            unblocked: RefCell::default(),
            resumed: RefCell::default(),
            postponed: RefCell::default(),
            closing: RefCell::default(),
            commands: RefCell::default(),
            methods: RefCell::default(),
            encoding_version: Cell::default(),
            hooks: Hooks::default(),
            timers: RefCell::default(),
            next_timer: Cell::new(1),
            timers_at_us: Cell::default(),
            is_woken: Cell::default(),
            one_shots: RefCell::default(),
            cron_at_us: Cell::new(now + 1000),
            settings: RefCell::new(settings.clone()),
            hz: Cell::default(),
            replicas_to_write: Cell::default(),
            is_read_only: Cell::default(),
            module_settings: RefCell::default(),
            are_loaded: Cell::default(),
            notified: Cell::default(),
            listener: RefCell::default(),
            has_listener: Cell::default(),
            module_options: Cell::default(),
            nesting: Cell::default(),
            pending: RefCell::default(),
            replication_allowed: Cell::new(true),
            in_exec: Cell::default(),
            in_script: Cell::default(),
            stream: Stream::new(seed ^ generation << 8 ^ number as u64),
            replicas: RefCell::default(),
            orphans: RefCell::default(),
            primary: RefCell::default(),
            primary_client: RefCell::default(),
            is_loading: Cell::default(),
            is_forked: Cell::default(),
            paused_until_ms: Cell::default(),
            pauses_all: Cell::default(),
            asked_role: Cell::default(),
            is_full: Cell::default(),
            slots: RefCell::default(),
            counts: Cell::default(),
            random: Cell::new(digest::mix(seed ^ digest::mix(generation << 8 | number as u64)) | 1),
            detached: Cell::new(ptr::null_mut()),
            memory: Cell::default(),
            log: RefCell::default(),
            disobeyed: RefCell::default(),
        }));
        server.enter();
        let everybody = Rc::new(User::all_powerful());
        server.users.borrow_mut().insert(everybody.name.clone(), everybody);
        super::commands::register(server);
        server.apply_settings();
        let copy = library::load(library);
        server.copy.set(Some(copy));
        server.load_module(copy.entry);
        server
    }

    fn load_module(&'static self, entry: OnLoad) {
        let words = self.setting("loadmodule").unwrap_or_default();
        let words = match words.trim() {
            "" => Words::default(),
            line => Words::of_line(line),
        };
        let mut argv = words.raw().to_vec();
        let context = Context::new(self);
        self.enter_unit();
        // SAFETY: the context and the arguments live for the call.
        let status = unsafe {
            entry(
                ptr::from_ref(&context).cast_mut().cast(),
                argv.as_mut_ptr().cast(),
                argv.len() as c_int,
            )
        };
        self.exit_unit();
        if status != 0 {
            print_log();
            panic!("the module refuses to be loaded");
        }
        self.fire_module_loaded(c"dehydrator");
    }

    /// Tells the module that a module was loaded.
    pub fn fire_module_loaded(&'static self, name: &std::ffi::CStr) {
        let change = redis_module::raw::RedisModuleModuleChange {
            version: 1,
            module_name: name.as_ptr(),
            module_version: 1,
        };
        let event = redis_module::raw::REDISMODULE_EVENT_MODULE_CHANGE;
        self.fire(event, 0, ptr::from_ref(&change).cast_mut().cast());
    }

    pub fn methods(&self) -> &'static RedisModuleTypeMethods {
        self.methods.borrow().expect("the module has a type")
    }

    pub fn log(&self, line: String) {
        self.log.borrow_mut().push(line);
    }

    /// Returns the next random number.
    pub fn random(&self) -> u64 {
        let mut it = self.random.get();
        it ^= it << 13;
        it ^= it >> 7;
        it ^= it << 17;
        self.random.set(it);
        it.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn is_replica(&self) -> bool {
        self.primary.borrow().is_some()
    }

    /// Returns whether the command that runs comes from the primary or from a file.
    pub fn obeys(&self) -> bool {
        self.outer.borrow().as_ref().is_some_and(|client| client.must_be_obeyed())
    }

    /// Returns whether writes are paused.
    pub fn is_paused(&self) -> bool {
        self.paused_until_ms.get() > super::clock::wall_ms()
    }

    pub fn connect(&self) -> Rc<Client> {
        let id = self.next_client.get();
        self.next_client.set(id + 1);
        let everybody = self.user(b"default");
        let client = Client::new(id, Origin::Client, 0, everybody);
        self.clients.borrow_mut().push(Rc::clone(&client));
        self.count(0, 1);
        client
    }

    /// Adds to a statistic: connections, commands, bytes in, bytes out.
    pub fn count(&self, at: usize, more: u64) {
        let mut counts = self.counts.get();
        counts[at] += more;
        self.counts.set(counts);
    }

    /// Frees what a server holds that runs no more. Its library stays.
    pub fn retire(&'static self) {
        self.enter();
        self.free_lazily();
        self.empty(None, false);
        self.clients.take();
        self.closing.take();
        self.ready.take();
        self.idle_callers.take();
        self.replicas.take();
        *self.primary.borrow_mut() = None;
        *self.stream.file.borrow_mut() = None;
        *self.stream.backlog.borrow_mut() = None;
        self.copy.take().into_iter().for_each(library::give_back);
    }

    /// Returns a client for a call from within, with no replies in it.
    pub fn caller(&self, db: u32) -> Rc<Client> {
        let caller = self.idle_callers.borrow_mut().pop();
        let caller = caller.unwrap_or_else(|| Client::new(u64::MAX, Origin::Call, 0, None));
        caller.db.set(db);
        caller
    }

    pub fn release_caller(&self, caller: Rc<Client>) {
        caller.out.borrow_mut().clear();
        *caller.argv.borrow_mut() = Words::default();
        *caller.user.borrow_mut() = None;
        caller.denies_blocking.set(false);
        caller.is_asking.set(false);
        self.idle_callers.borrow_mut().push(caller);
    }
}

/// Returns the text as C has it.
pub fn c_text(text: &str) -> CString {
    CString::new(text.replace('\0', " ")).expect("no NUL")
}
