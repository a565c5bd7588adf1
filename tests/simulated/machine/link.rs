//! A wire between a primary and a replica, with a lag; synchronization, partial and full; changes of roles.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::ptr;
use std::rc::Rc;

use redis_module::raw;

use super::client::{Client, Origin};
use super::clock;
use super::propagate::Effect;
use super::server::Server;
use super::text::Words;

/// What travels from a primary to a replica.
pub enum Item {
    Effect(Rc<Effect>),
    /// All data, with the stream's id and offset.
    Full(Rc<Vec<u8>>, u64, u64),
    /// The stream goes on, perhaps under another id.
    Continue(u64),
}

pub struct Link {
    pub primary: usize,
    pub replica: usize,
    pub lag_us: Cell<u64>,
    queue: RefCell<VecDeque<(u64, Item)>>,
    /// Effects of a transaction that has not ended: after a cut they come again.
    open: RefCell<Vec<Rc<Effect>>>,
    pub is_up: Cell<bool>,
    /// The database of the last command that the replica has run.
    selected: Cell<Option<u32>>,
}

impl Link {
    pub fn new(primary: usize, replica: usize, lag_us: u64) -> Rc<Self> {
        Rc::new(Self {
            primary,
            replica,
            lag_us: Cell::new(lag_us),
            queue: RefCell::default(),
            open: RefCell::default(),
            is_up: Cell::new(true),
            selected: Cell::default(),
        })
    }

    pub fn put(&self, now_us: u64, item: Item) {
        // In order, even if the lag has become shorter.
        let last = self.queue.borrow().back().map_or(0, |(at, _)| *at);
        let at = last.max(now_us + self.lag_us.get());
        self.queue.borrow_mut().push_back((at, item));
    }

    /// Returns when the next item arrives, on the monotonic clock.
    pub fn next_us(&self) -> Option<u64> {
        self.queue.borrow().front().map(|(at, _)| *at).filter(|_| self.is_up.get())
    }

    pub fn is_empty(&self) -> bool {
        self.queue.borrow().is_empty()
    }

    /// Drops what is on the way.
    pub fn cut(&self) {
        self.is_up.set(false);
        self.queue.borrow_mut().clear();
        self.open.borrow_mut().clear();
    }
}

impl Server {
    /// Makes this server a replica. It gets its data when the wire brings them.
    pub fn follow(&'static self, link: &Rc<Link>) {
        let was_replica = self.is_replica();
        self.enter();
        *self.primary.borrow_mut() = Some(Rc::clone(link));
        *self.primary_client.borrow_mut() = None;
        if was_replica {
            return;
        }
        self.disconnect_blocked();
        let event = raw::REDISMODULE_EVENT_REPLICATION_ROLE_CHANGED;
        self.fire(event, raw::REDISMODULE_EVENT_REPLROLECHANGED_NOW_REPLICA, ptr::null_mut());
    }

    /// Ends this server's being a replica.
    pub fn lead(&'static self) {
        self.enter();
        let Some(link) = self.primary.take() else { return };
        link.cut();
        *self.primary_client.borrow_mut() = None;
        self.stream.second.set(Some((self.stream.id.get(), self.stream.offset.get())));
        self.stream.id.set(self.random() | 1 << 63);
        for link in self.replicas.borrow().iter() {
            link.put(clock::monotonic_us(), Item::Continue(self.stream.id.get()));
        }
        self.stream.backlog.borrow_mut().get_or_insert_default();
        let event = raw::REDISMODULE_EVENT_REPLICATION_ROLE_CHANGED;
        self.fire(event, raw::REDISMODULE_EVENT_REPLROLECHANGED_NOW_MASTER, ptr::null_mut());
    }

    /// Answers a replica that asks for the stream from an offset on: with the missing part, or with all data.
    pub fn synchronize(&'static self, link: &Rc<Link>, id: u64, offset: u64) {
        self.enter();
        let now = clock::monotonic_us();
        let is_known = id == self.stream.id.get()
            || self
                .stream
                .second
                .get()
                .is_some_and(|(second, last)| id == second && offset <= last);
        let missing = self.stream.offset.get().wrapping_sub(offset);
        let part: Option<Vec<_>> = self.stream.backlog.borrow().as_ref().and_then(|backlog| {
            let fits = is_known && missing as usize <= backlog.len();
            fits.then(|| backlog.iter().skip(backlog.len() - missing as usize).cloned().collect())
        });
        match part {
            Some(part) => {
                link.put(now, Item::Continue(self.stream.id.get()));
                part.into_iter().for_each(|effect| link.put(now, Item::Effect(effect)));
            }
            None => {
                self.stream.backlog.borrow_mut().get_or_insert_default();
                let data = self.fork(Self::snapshot);
                let (id, offset) = (self.stream.id.get(), self.stream.offset.get());
                link.put(now, Item::Full(Rc::new(data), id, offset));
            }
        }
        self.replicas.borrow_mut().push(Rc::clone(link));
        let event = raw::REDISMODULE_EVENT_REPLICA_CHANGE;
        self.fire(event, raw::REDISMODULE_SUBEVENT_REPLICA_CHANGE_ONLINE, ptr::null_mut());
    }

    /// Notes that a replica's connection has ended.
    pub fn lose_replica(&'static self, link: &Rc<Link>) {
        self.enter();
        let before = self.replicas.borrow().len();
        self.replicas.borrow_mut().retain(|it| !Rc::ptr_eq(it, link));
        if self.replicas.borrow().len() < before {
            let event = raw::REDISMODULE_EVENT_REPLICA_CHANGE;
            self.fire(event, raw::REDISMODULE_SUBEVENT_REPLICA_CHANGE_OFFLINE, ptr::null_mut());
        }
    }

    /// Runs what has arrived from the primary.
    pub fn receive(&'static self) -> usize {
        let Some(link) = self.primary.borrow().clone() else { return 0 };
        let mut count = 0;
        while link.next_us().is_some_and(|at| at <= clock::monotonic_us()) {
            let item = link.queue.borrow_mut().pop_front();
            match item {
                None => break,
                Some((_, Item::Effect(effect))) => self.obey(&link, effect),
                Some((_, Item::Continue(id))) => self.stream.id.set(id),
                Some((_, Item::Full(data, id, offset))) => {
                    *self.primary_client.borrow_mut() = None;
                    link.selected.set(None);
                    // Its own replicas have other data: they ask anew.
                    let replicas = self.replicas.take();
                    replicas.iter().for_each(|link| link.cut());
                    self.orphans.borrow_mut().extend(replicas);
                    self.replace_data(&data);
                    self.stream.id.set(id);
                    self.stream.offset.set(offset);
                    self.stream.backlog.borrow_mut().get_or_insert_default().clear();
                }
            }
            count += 1;
        }
        count
    }

    fn obey(&'static self, link: &Link, effect: Rc<Effect>) {
        let client = self.primary_client.borrow().clone();
        let client = client.unwrap_or_else(|| {
            let client = Client::new(u64::MAX - 1, Origin::Primary, 0, None);
            *self.primary_client.borrow_mut() = Some(Rc::clone(&client));
            client
        });
        // A SELECT is part of the stream: within a transaction it is gathered like any other command.
        if !effect.is_frame && link.selected.replace(Some(effect.db)) != Some(effect.db) {
            self.process(&client, Words::of_line(&format!("SELECT {}", effect.db)));
        }
        self.process(&client, effect.words.clone());
        client.out.borrow_mut().clear();
        link.open.borrow_mut().push(effect);
        // Its own replicas get a transaction when it has ended.
        if client.multi.borrow().is_none() {
            for effect in link.open.take() {
                self.pass_on(&effect);
            }
        }
    }
}
