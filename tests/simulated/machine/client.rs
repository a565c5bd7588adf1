//! A connection: of a client, of the primary, or of a call from within.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::ptr;
use std::rc::Rc;

use super::acl::User;
use super::blocked::Blocked;
use super::reply::Output;
use super::text::Words;

/// What MULTI has gathered.
#[derive(Default)]
pub struct Multi {
    pub commands: Vec<Words>,
    /// Set by an error while it was gathered.
    pub is_aborted: bool,
    pub has_writes: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    Client,
    /// The primary, of which this server is a replica.
    Primary,
    /// An append-only file that is loaded.
    File,
    /// A call by a module or a script.
    Call,
}

pub struct Client {
    pub id: u64,
    pub origin: Origin,
    pub db: Cell<u32>,
    pub user: RefCell<Option<Rc<User>>>,
    /// Commands that have arrived.
    pub input: RefCell<VecDeque<Words>>,
    /// The command that runs, or that blocked the client.
    pub argv: RefCell<Words>,
    /// When its last command began, or when it was unblocked, in milliseconds since the epoch.
    pub ran_ms: Cell<i64>,
    /// The number of that among all that happened, and the number of the command's end.
    pub ran_at: Cell<u64>,
    pub done_at: Cell<u64>,
    pub out: RefCell<Output>,
    pub multi: RefCell<Option<Multi>>,
    pub watched: RefCell<Vec<(u32, Box<[u8]>)>>,
    /// A watched key has changed.
    pub is_dirty: Cell<bool>,
    pub blocked: Cell<*mut Blocked>,
    /// A write that waits for the end of CLIENT PAUSE.
    pub is_postponed: Cell<bool>,
    /// The other end is gone, which the server has not read yet.
    pub has_hung_up: Cell<bool>,
    /// Freed at the end of the pass.
    pub is_closing: Cell<bool>,
    pub is_freed: Cell<bool>,
    /// It is among those of whom the server reads in its next pass.
    pub is_ready: Cell<bool>,
    /// In a script, in EXEC, or in a call that may not block.
    pub denies_blocking: Cell<bool>,
    pub is_asking: Cell<bool>,
    pub channels: RefCell<Vec<Vec<u8>>>,
}

impl Client {
    pub fn new(id: u64, origin: Origin, db: u32, user: Option<Rc<User>>) -> Rc<Self> {
        Rc::new(Self {
            id,
            origin,
            db: Cell::new(db),
            user: RefCell::new(user),
            input: RefCell::default(),
            argv: RefCell::default(),
            ran_ms: Cell::default(),
            ran_at: Cell::default(),
            done_at: Cell::default(),
            out: RefCell::default(),
            multi: RefCell::default(),
            watched: RefCell::default(),
            is_dirty: Cell::default(),
            blocked: Cell::new(ptr::null_mut()),
            is_postponed: Cell::default(),
            has_hung_up: Cell::default(),
            is_closing: Cell::default(),
            is_freed: Cell::default(),
            is_ready: Cell::default(),
            denies_blocking: Cell::default(),
            is_asking: Cell::default(),
            channels: RefCell::default(),
        })
    }

    /// Returns whether the server runs whatever this client says: it is the primary, or a file.
    pub fn must_be_obeyed(&self) -> bool {
        matches!(self.origin, Origin::Primary | Origin::File)
    }

    pub fn is_blocked(&self) -> bool {
        !self.blocked.get().is_null() || self.is_postponed.get()
    }

    pub fn ok(&self) {
        self.out.borrow_mut().simple(b"OK");
    }

    pub fn error(&self, text: &str) {
        self.out.borrow_mut().error(text.as_bytes());
    }

    pub fn int(&self, number: i64) {
        self.out.borrow_mut().int(number);
    }
}
