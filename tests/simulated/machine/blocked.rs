//! Blocked clients: the callbacks by which the module replies to them, and the order in which a server calls these.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::ptr;
use std::rc::Rc;

use super::api::context::{Context, Phase};
use super::client::Client;
use super::clock;
use super::server::Server;
use super::text::{self, Words};

pub type Reply = unsafe extern "C" fn(*mut c_void, *mut text::Raw, c_int) -> c_int;
pub type Free = unsafe extern "C" fn(*mut c_void, *mut c_void);
pub type Disconnect = unsafe extern "C" fn(*mut c_void, *mut Blocked);

/// What the module holds of a client that it has blocked.
pub struct Blocked {
    /// `None` after it has disconnected.
    pub client: Cell<Option<Rc<Client>>>,
    pub reply: Option<Reply>,
    pub timeout: Option<Reply>,
    pub free: Option<Free>,
    pub disconnect: Cell<Option<Disconnect>>,
    pub private: Cell<*mut c_void>,
    pub is_unblocked: Cell<bool>,
    pub is_freed: Cell<bool>,
}

impl Blocked {
    pub fn client(&self) -> Option<Rc<Client>> {
        let client = self.client.take();
        self.client.set(client.clone());
        client
    }
}

impl Server {
    /// Blocks the client of a command. Returns the handle, whose client is missing if it must not block.
    pub fn block(
        &self,
        client: &Rc<Client>,
        [reply, timeout]: [Option<Reply>; 2],
        free: Option<Free>,
    ) -> *mut Blocked {
        let refusal = if self.in_script.get() {
            Some("ERR Blocking module command called from Lua script")
        } else if self.in_exec.get() {
            Some("ERR Blocking module command called from transaction")
        } else {
            None
        };
        let own = refusal.is_none().then(|| Rc::clone(client));
        let blocked = Box::into_raw(Box::new(Blocked {
            client: Cell::new(own),
            reply,
            timeout,
            free,
            disconnect: Cell::new(None),
            private: Cell::new(ptr::null_mut()),
            is_unblocked: Cell::new(false),
            is_freed: Cell::new(false),
        }));
        match refusal {
            Some(refusal) => client.error(refusal),
            None => client.blocked.set(blocked),
        }
        blocked
    }

    /// Notes that the module wants to unblock a client: it is replied to in a pass of the event loop.
    ///
    /// # Safety
    ///
    /// The handle must be live.
    pub unsafe fn unblock(&self, blocked: *mut Blocked, private: *mut c_void) {
        // SAFETY: the caller's promise.
        let it = unsafe { &*blocked };
        assert!(!it.is_freed.get(), "a blocked client is used after it was freed");
        assert!(!it.is_unblocked.replace(true), "a client is unblocked twice");
        it.private.set(private);
        if let Some(client) = it.client() {
            client.ran_ms.set(clock::wall_ms());
            client.ran_at.set(self.happens());
        }
        self.is_woken.set(true);
        self.unblocked.borrow_mut().push_back(blocked);
    }

    /// Replies to the clients that were unblocked.
    pub fn reply_to_unblocked(&'static self) -> usize {
        let mut count = 0;
        loop {
            let Some(raw) = self.unblocked.borrow_mut().pop_front() else { return count };
            count += 1;
            // SAFETY: it is freed here alone.
            let blocked = unsafe { &*raw };
            let client = blocked.client();
            if let (Some(client), Some(reply)) = (&client, blocked.reply) {
                self.call_back(client, raw, Phase::Reply, reply);
            }
            if let (Some(free), private) = (blocked.free, blocked.private.get())
                && !private.is_null()
            {
                let phase = if client.is_some() { Phase::None } else { Phase::Gone };
                let context = Context::new(self);
                context.client.set(client.as_ref().map_or(ptr::null(), Rc::as_ptr));
                context.blocked.set(raw);
                context.phase.set(phase);
                self.enter_unit();
                // SAFETY: the private data is the module's, passed once.
                unsafe { free(ptr::from_ref(&context).cast_mut().cast(), private) };
                self.exit_unit();
            }
            if let Some(client) = &client {
                blocked.disconnect.set(None);
                client.blocked.set(ptr::null_mut());
                self.resume(client);
            }
            blocked.is_freed.set(true);
            self.bury(raw);
        }
    }

    /// Frees a handle. A few stay, so that a use of one is noticed.
    fn bury(&self, raw: *mut Blocked) {
        // SAFETY: nobody holds it but the module, which must not use it.
        drop(unsafe { Box::from_raw(raw) });
    }

    /// Calls the reply or the timeout callback of a client.
    fn call_back(&'static self, client: &Rc<Client>, raw: *mut Blocked, phase: Phase, run: Reply) {
        let context = Context::new(self);
        context.client.set(Rc::as_ptr(client));
        context.blocked.set(raw);
        context.phase.set(phase);
        let words: Words = client.argv.borrow().clone();
        let mut argv = words.raw().to_vec();
        self.enter_unit();
        // SAFETY: context and arguments live for the call.
        unsafe {
            run(ptr::from_ref(&context).cast_mut().cast(), argv.as_mut_ptr(), argv.len() as c_int);
        }
        self.exit_unit();
    }

    /// Ends a client's blocking from outside: it disconnects, or the server does that.
    pub fn unblock_by_itself(&'static self, client: &Client) {
        let raw = client.blocked.replace(ptr::null_mut());
        if raw.is_null() {
            return;
        }
        // SAFETY: it is live while its client is blocked.
        let blocked = unsafe { &*raw };
        if let Some(disconnect) = blocked.disconnect.get() {
            let context = Context::new(self);
            context.client.set(client);
            context.blocked.set(raw);
            self.enter_unit();
            // SAFETY: the context lives for the call.
            unsafe { disconnect(ptr::from_ref(&context).cast_mut().cast(), raw) };
            self.exit_unit();
        }
        blocked.client.set(None);
    }

    /// CLIENT UNBLOCK: as if the time were over, or with an error. Returns whether it was blocked.
    pub fn unblock_by_command(&'static self, client: &Rc<Client>, with_error: bool) -> bool {
        let raw = client.blocked.get();
        if raw.is_null() {
            return false;
        }
        // SAFETY: it is live while its client is blocked.
        let blocked = unsafe { &*raw };
        // Without the callback the server would not know what to reply.
        if blocked.timeout.is_none() {
            return false;
        }
        if with_error {
            client.error("UNBLOCKED client unblocked via CLIENT UNBLOCK");
        } else if let Some(timeout) = blocked.timeout {
            self.call_back(client, raw, Phase::Timeout, timeout);
            blocked.disconnect.set(None);
        }
        self.unblock_by_itself(client);
        self.resume(client);
        true
    }

    /// Lets a client that was blocked go on with what it has sent meanwhile.
    pub fn resume(&self, client: &Rc<Client>) {
        if !client.input.borrow().is_empty() {
            self.resumed.borrow_mut().push_back(Rc::clone(client));
        }
    }

    /// Disconnects all blocked clients: the server has become a replica.
    pub fn disconnect_blocked(&'static self) {
        let clients: Vec<_> = self.clients.borrow().iter().cloned().collect();
        for client in clients.iter().filter(|client| client.is_blocked()) {
            if client.blocked.get().is_null() {
                continue;
            }
            client.error(
                "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)",
            );
            self.unblock_by_itself(client);
            self.close(client);
        }
    }
}
