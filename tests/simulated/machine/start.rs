//! How a server starts. To load the module takes longer than most runs, so it is done once for each copy of the library and each
//! kind of start. Later servers begin where that one has ended: with all that it had registered, and with its memory.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::{CStr, c_int};
use std::ptr;
use std::rc::Rc;

use redis_module::raw;

use super::acl::User;
use super::api::context::Context;
use super::library::{self, OnLoad, Written};
use super::server::{Server, print_log};
use super::text::{Held, Words};
use super::{Kind, clock, commands};

/// What a server starts with.
pub struct Start<'a> {
    /// Its number in the machine.
    pub number: usize,
    pub kind: Kind,
    pub library: &'a [u8],
    pub settings: &'a BTreeMap<String, String>,
    pub seed: u64,
    /// How many servers have started.
    pub generation: u64,
}

/// A server that has loaded the module and done nothing else.
struct Loaded {
    server: &'static Server,
    /// Of the primary, which draws other random numbers.
    is_first: bool,
    memory: Written,
    texts: Held,
}

thread_local! {
    /// The memory has a thread's thread-locals.
    static LOADED: RefCell<Vec<Loaded>> = const { RefCell::new(Vec::new()) };
}

/// How many loads a thread remembers.
const MANY: usize = 200;
/// One in so many seeds loads the module anew for each server, with random numbers of its own.
const ANEW: u64 = 8;

/// Creates a server and loads the module.
pub fn start(it: &Start<'_>) -> &'static Server {
    if it.seed.is_multiple_of(ANEW) || clock::is_before_start() {
        return begin(it, library::load(it.library, |_| true)).loaded();
    }
    LOADED.with_borrow_mut(|all| start_from(it, all))
}

/// Creates a server that begins where one has ended to load the module, with the same settings.
fn start_from(it: &Start<'_>, all: &mut Vec<Loaded>) -> &'static Server {
    let is_first = it.number == 0;
    let is_it = |other: &Loaded| {
        let server = other.server;
        server.kind == it.kind
            && other.is_first == is_first
            && *server.settings.borrow() == *it.settings
    };
    let has_it =
        |copy: &library::Copy, other: &Loaded| ptr::eq(other.server.copy, copy) && is_it(other);
    let copy = library::load(it.library, |copy| all.iter().any(|other| has_it(copy, other)));
    let at = all.iter().position(|other| has_it(copy, other)).unwrap_or_else(|| {
        if all.len() == MANY {
            all.clear();
        }
        let mut server = None;
        let fixed = Start { number: is_first.into(), seed: 1, generation: 0, ..*it };
        let load = || _ = server.insert(begin(&fixed, copy).loaded());
        let texts = Held::during(|| clock::at_start(load));
        let server = server.expect("it was loaded");
        all.push(Loaded { server, is_first, memory: copy.keep(), texts });
        all.len() - 1
    });
    let loaded = &all[at];
    // SAFETY: the copy's last server is gone.
    unsafe { copy.put_back(Some(&loaded.memory)) };
    loaded.texts.put_back();
    let server = begin(it, copy);
    server.go_on_from(loaded.server);
    server
}

/// Creates a server without a module, in the memory of a copy.
fn begin(it: &Start<'_>, copy: &'static library::Copy) -> &'static Server {
    let server = Server::blank(it.number, it.kind, copy, it.settings, it.seed, it.generation);
    let server: &'static Server = Box::leak(Box::new(server));
    server.enter();
    let everybody = Rc::new(User::all_powerful());
    server.users.borrow_mut().insert(everybody.name.clone(), everybody);
    server.apply_settings();
    server
}

impl Server {
    fn loaded(&'static self) -> &'static Self {
        // SAFETY: the copy's last server is gone.
        unsafe { self.copy.put_back(None) };
        commands::register(self);
        self.load_module(self.copy.entry);
        self
    }

    /// Takes over what a load has registered.
    fn go_on_from(&self, other: &Self) {
        self.commands.borrow_mut().clone_from(&other.commands.borrow());
        self.module_settings.borrow_mut().clone_from(&other.module_settings.borrow());
        self.one_shots.borrow_mut().clone_from(&other.one_shots.borrow());
        self.log.borrow_mut().clone_from(&other.log.borrow());
        *self.methods.borrow_mut() = *other.methods.borrow();
        self.hooks.clone_from(&other.hooks);
        self.encoding_version.set(other.encoding_version.get());
        self.module_options.set(other.module_options.get());
        self.are_loaded.set(other.are_loaded.get());
        self.is_woken.set(other.is_woken.get());
        self.next_timer.set(other.next_timer.get());
        let [wall, monotonic] = clock::since_start_us();
        let timers = other.timers.borrow();
        let timers = timers.iter().map(|((at, id), timer)| ((at + wall as i64, *id), *timer));
        *self.timers.borrow_mut() = timers.collect();
        self.timers_at_us.set(other.timers_at_us.get().map(|at| at + monotonic));
        self.detached.set(other.detached.get());
        // SAFETY: a detached context is leaked.
        if let Some(detached) = unsafe { self.detached.get().as_ref() } {
            detached.db.set(0);
        }
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
    pub fn fire_module_loaded(&'static self, name: &CStr) {
        let change = raw::RedisModuleModuleChange {
            version: 1,
            module_name: name.as_ptr(),
            module_version: 1,
        };
        let event = raw::REDISMODULE_EVENT_MODULE_CHANGE;
        self.fire(event, 0, ptr::from_ref(&change).cast_mut().cast());
    }
}
