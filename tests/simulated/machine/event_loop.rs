//! The event loop: one pass of it, with the events, the timers and the cron that the module sees, in the order of the kind.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::ptr;
use std::rc::Rc;

use redis_module::raw::{self, RedisModuleEvent};

use super::Kind;
use super::api::context::Context;
use super::client::Client;
use super::clock;
use super::server::Server;

pub type EventCallback = unsafe extern "C" fn(*mut c_void, RedisModuleEvent, u64, *mut c_void);
pub type TimerCallback = unsafe extern "C" fn(*mut c_void, *mut c_void);

/// A timer of the module.
#[derive(Clone, Copy)]
pub struct Timer {
    pub run: TimerCallback,
    pub data: *mut c_void,
}

const EVENTS: usize = 32;

/// What the module wants to be called for.
#[derive(Default)]
pub struct Hooks {
    events: [Cell<Option<EventCallback>>; EVENTS],
    pub info: Cell<Option<unsafe extern "C" fn(*mut c_void, c_int)>>,
    pub filter: Cell<Option<unsafe extern "C" fn(*mut c_void)>>,
}

impl Hooks {
    pub fn subscribe(&self, event: u64, run: Option<EventCallback>) {
        self.events[event as usize].set(run);
    }
}

impl Server {
    /// Calls the module for an event of the server.
    pub fn fire(&'static self, event: u64, subevent: u64, data: *mut c_void) {
        if let Some(run) = self.hooks.events[event as usize].get() {
            let context = Context::new(self);
            self.enter_unit();
            let event = RedisModuleEvent { id: event, dataver: 1 };
            // SAFETY: the context and the data live for the call.
            unsafe { run(ptr::from_ref(&context).cast_mut().cast(), event, subevent, data) };
            self.exit_unit();
        }
    }

    /// Tells the module that a slot has arrived, on the servers that do.
    pub fn fire_slots_imported(&'static self) {
        match self.kind {
            Kind::Valkey9 => self.fire(19, 4, ptr::null_mut()),
            Kind::Redis8 => self.fire(18, 2, ptr::null_mut()),
            _ => {}
        }
    }

    pub fn create_timer(&self, period_ms: i64, timer: Timer) -> u64 {
        let id = self.next_timer.get();
        self.next_timer.set(id + 1);
        let key = (clock::wall_us() + period_ms * 1000, id);
        let mut timers = self.timers.borrow_mut();
        timers.insert(key, timer);
        // The loop's own timer follows the monotonic clock. It is set anew for a timer that comes before all others.
        let is_first = timers.first_key_value().is_some_and(|(first, _)| *first == key);
        if is_first || self.timers_at_us.get().is_none() {
            self.timers_at_us.set(Some(clock::monotonic_us() + period_ms as u64 * 1000));
        }
        id
    }

    pub fn stop_timer(&self, id: u64) -> Option<Timer> {
        let mut timers = self.timers.borrow_mut();
        let key = *timers.keys().find(|(_, it)| *it == id)?;
        timers.remove(&key)
    }

    fn run_timers(&'static self) -> usize {
        if self.timers_at_us.get().is_none_or(|at| at > clock::monotonic_us()) {
            return 0;
        }
        let mut count = 0;
        loop {
            let now = clock::wall_us();
            let first = self.timers.borrow().first_key_value().map(|(key, timer)| (*key, *timer));
            match first {
                None => self.timers_at_us.set(None),
                Some((key, timer)) if key.0 <= now => {
                    self.timers.borrow_mut().remove(&key);
                    let context = Context::new(self);
                    self.enter_unit();
                    // SAFETY: the context lives for the call, the data is the module's.
                    unsafe { (timer.run)(ptr::from_ref(&context).cast_mut().cast(), timer.data) };
                    self.exit_unit();
                    count += 1;
                    continue;
                }
                Some((key, _)) => {
                    let in_ms = ((key.0 - now) / 1000).max(1) as u64;
                    self.timers_at_us.set(Some(clock::monotonic_us() + in_ms * 1000));
                }
            }
            return count;
        }
    }

    fn run_cron(&'static self) -> usize {
        let now = clock::monotonic_us();
        if self.cron_at_us.get() > now {
            return 0;
        }
        self.cron_at_us.set(now + 1_000_000 / self.hz.get());
        self.expire_some();
        if self.is_forked.replace(false) {
            let event = raw::REDISMODULE_EVENT_FORK_CHILD;
            self.fire(event, raw::REDISMODULE_SUBEVENT_FORK_CHILD_DIED, ptr::null_mut());
        }
        self.fire(raw::REDISMODULE_EVENT_CRON_LOOP, 0, ptr::null_mut());
        1
    }

    /// Returns whether a pass has something to do at once.
    pub fn is_ready(&self) -> bool {
        self.is_woken.get()
            || !self.ready.borrow().is_empty()
            || !self.resumed.borrow().is_empty()
            || self.next_us() <= clock::monotonic_us()
    }

    /// Returns when the loop wakes by itself, on the monotonic clock.
    pub fn next_us(&self) -> u64 {
        let wire = self.primary.borrow().as_ref().and_then(|link| link.next_us());
        let timers = self.timers_at_us.get();
        [timers, wire].into_iter().flatten().fold(self.cron_at_us.get(), u64::min)
    }

    /// Marks a client as one of whom the server has to read.
    pub fn mark_ready(&self, client: &Rc<Client>) {
        if !client.is_ready.replace(true) {
            self.ready.borrow_mut().push_back(Rc::clone(client));
        }
    }

    /// Runs one pass of the event loop: from its waking to its next sleep. Returns how much it did.
    pub fn pass(&'static self) -> usize {
        self.enter();
        let event = raw::REDISMODULE_EVENT_EVENTLOOP;
        self.fire(event, raw::REDISMODULE_SUBEVENT_EVENTLOOP_AFTER_SLEEP, ptr::null_mut());
        let mut count = self.receive();
        // The pipe is one of the descriptors that are readable, in any order.
        let is_pipe_first = self.random().is_multiple_of(2);
        if is_pipe_first {
            count += self.read_pipe();
        }
        // Threads read while the loop waits, and what they have read is run before it sleeps.
        let reads_late = self.reads_late.get();
        if !reads_late {
            count += self.read_clients();
        }
        if !is_pipe_first {
            count += self.read_pipe();
        }
        count += self.run_timers();
        count += self.run_cron();
        if reads_late {
            count += self.read_clients();
        }
        count += self.before_sleep();
        count
    }

    fn read_pipe(&'static self) -> usize {
        if !self.is_woken.replace(false) {
            return 0;
        }
        for (run, data) in self.one_shots.take() {
            // SAFETY: the module passed this function with this data.
            unsafe {
                let run: unsafe extern "C" fn(*mut c_void) = std::mem::transmute(run);
                run(data);
            }
        }
        1
    }

    fn read_clients(&'static self) -> usize {
        let mut count = 0;
        let ready = self.ready.borrow().len();
        for _ in 0..ready {
            let Some(client) = self.ready.borrow_mut().pop_front() else { break };
            client.is_ready.set(false);
            if client.is_freed.get() || client.is_closing.get() {
                continue;
            }
            count += 1;
            let had_input = !client.input.borrow().is_empty() && !client.is_blocked();
            self.process_input(&client);
            if client.has_hung_up.get() {
                match had_input {
                    // What it had sent comes first; the end in the next pass.
                    true => self.mark_ready(&client),
                    false => self.close(&client),
                }
            }
        }
        count
    }

    fn before_sleep(&'static self) -> usize {
        let mut count = 0;
        if !self.is_paused() {
            for client in self.postponed.take() {
                client.is_postponed.set(false);
                self.resumed.borrow_mut().push_back(client);
            }
        }
        let report = || {
            let event = raw::REDISMODULE_EVENT_EVENTLOOP;
            self.fire(event, raw::REDISMODULE_SUBEVENT_EVENTLOOP_BEFORE_SLEEP, ptr::null_mut());
        };
        if self.kind == Kind::Redis70 {
            self.expire_some();
            report();
            count += self.reply_to_unblocked();
            count += self.process_resumed();
        } else {
            count += self.reply_to_unblocked();
            count += self.process_resumed();
            self.expire_some();
            report();
        }
        self.stream.flush_file();
        if self.random().is_multiple_of(2) {
            self.free_lazily();
        }
        self.free_clients();
        count
    }

    fn process_resumed(&'static self) -> usize {
        let mut count = 0;
        loop {
            let Some(client) = self.resumed.borrow_mut().pop_front() else { return count };
            if !client.is_freed.get() && !client.is_closing.get() {
                count += self.process_input(&client);
            }
        }
    }

    fn free_clients(&'static self) {
        loop {
            let Some(client) = self.closing.borrow_mut().pop_front() else { return };
            self.free_client(&client);
        }
    }

    /// Has a client freed at the end of the pass.
    pub fn close(&self, client: &Rc<Client>) {
        if !client.is_closing.replace(true) {
            self.closing.borrow_mut().push_back(Rc::clone(client));
        }
    }

    /// Tells the module that a client disconnects.
    fn fire_disconnected(&'static self, client: &Client) {
        let mut info = raw::RedisModuleClientInfo {
            version: 1,
            flags: 0,
            id: client.id,
            addr: [0; 46],
            port: 0,
            db: 0,
        };
        let subevent = raw::REDISMODULE_SUBEVENT_CLIENT_CHANGE_DISCONNECTED;
        let data = ptr::from_mut(&mut info).cast();
        self.fire(raw::REDISMODULE_EVENT_CLIENT_CHANGE, subevent, data);
    }

    /// Frees a client: what it had blocked on ends first.
    pub fn free_client(&'static self, client: &Rc<Client>) {
        if client.is_freed.replace(true) {
            return;
        }
        self.fire_disconnected(client);
        client.is_postponed.set(false);
        self.unblock_by_itself(client);
        self.unwatch(client);
        for channel in client.channels.take() {
            let mut channels = self.channels.borrow_mut();
            if let Some(clients) = channels.get_mut(&channel) {
                clients.retain(|it| !Rc::ptr_eq(it, client));
                if clients.is_empty() {
                    channels.remove(&channel);
                }
            }
        }
        self.clients.borrow_mut().retain(|it| !Rc::ptr_eq(it, client));
        client.input.borrow_mut().clear();
    }
}
