//! Keyspace events: to the module that listens, and to clients that subscribed to them. Watched keys.

use super::Kind;
use super::reply::Reply;
use super::server::Server;
use super::text::{self, Words};

/// Classes of events.
pub mod class {
    pub const KEYSPACE: i32 = 1;
    pub const KEYEVENT: i32 = 2;
    pub const GENERIC: i32 = 4;
    pub const STRING: i32 = 8;
    pub const LIST: i32 = 16;
    pub const EXPIRED: i32 = 256;
    pub const STREAM: i32 = 1024;
    pub const KEY_MISS: i32 = 2048;
    pub const MODULE: i32 = 8192;
    pub const NEW: i32 = 16384;
    /// All that `A` in the setting stands for.
    pub const ALL: i32 = 10236;
    /// The letters of the setting.
    pub const LETTERS: [(u8, i32); 14] = [
        (b'A', ALL),
        (b'K', KEYSPACE),
        (b'E', KEYEVENT),
        (b'g', GENERIC),
        (b'$', STRING),
        (b'l', LIST),
        (b's', 32),
        (b'h', 64),
        (b'z', 128),
        (b'x', EXPIRED),
        (b'e', 512),
        (b't', STREAM),
        (b'm', KEY_MISS),
        (b'd', MODULE),
    ];
}

/// Another module in the same server: it sees keyspace events, and runs commands at them.
#[derive(Default)]
pub struct Listener {
    pub rules: Vec<Rule>,
    /// The events that it saw, as `event key`, if it keeps them.
    pub seen: Option<Vec<Vec<u8>>>,
    /// The errors of its commands, or `ok`, if it keeps events.
    pub ran: Vec<Vec<u8>>,
    /// Set while it runs a command: the server does not call it for events of that command.
    pub is_running: bool,
}

/// A command at the next events of one name.
pub struct Rule {
    pub times: u64,
    pub event: String,
    /// The word `%key` stands for the event's key.
    pub words: Vec<Vec<u8>>,
}

impl Server {
    /// Publishes a keyspace event.
    pub fn notify(&self, class: i32, event: &str, db: u32, key: &[u8]) {
        if self.has_listener.get() {
            self.tell_listener(class, event, db, key);
        }
        let wanted = self.notified.get();
        if wanted & class == 0 || self.channels.borrow().is_empty() {
            return;
        }
        if wanted & class::KEYSPACE != 0 {
            let channel = [format!("__keyspace@{db}__:").as_bytes(), key].concat();
            self.publish(&channel, event.as_bytes());
        }
        if wanted & class::KEYEVENT != 0 {
            self.publish(format!("__keyevent@{db}__:{event}").as_bytes(), key);
        }
    }

    fn tell_listener(&self, class: i32, event: &str, db: u32, key: &[u8]) {
        if class & (class::ALL | class::NEW) == 0 {
            return;
        }
        // Valkey 8.1 leaves the client of the command in the database of the event.
        if self.kind == Kind::Valkey8
            && let Some(client) = &*self.running.borrow()
        {
            client.db.set(db);
        }
        let due = {
            let mut listener = self.listener.borrow_mut();
            let Some(listener) = listener.as_mut().filter(|it| !it.is_running) else { return };
            if let Some(seen) = &mut listener.seen {
                seen.push([event.as_bytes(), b" ", key].concat());
            }
            let mut due = Vec::new();
            for rule in &mut listener.rules {
                if rule.times > 0 && rule.event == event {
                    rule.times -= 1;
                    let word = |word: &Vec<u8>| match &word[..] {
                        b"%key" => text::new(key),
                        word => text::new(word),
                    };
                    due.push(Words::from_raw(rule.words.iter().map(word).collect()));
                }
            }
            listener.is_running = true;
            due
        };
        // A context of its own, so that what happens within is one unit.
        self.enter_unit();
        let ran = due.into_iter().map(|words| match self.call_inside(db, words, true) {
            Reply::Error(text) => text,
            _ => b"ok".to_vec(),
        });
        let ran: Vec<_> = ran.collect();
        self.exit_unit();
        if let Some(listener) = self.listener.borrow_mut().as_mut() {
            listener.is_running = false;
            if listener.seen.is_some() {
                listener.ran.extend(ran);
            }
        }
    }

    /// Sends a message to a channel's subscribers. Returns how many there are.
    pub fn publish(&self, channel: &[u8], message: &[u8]) -> usize {
        let clients = self.channels.borrow().get(channel).cloned().unwrap_or_default();
        for client in &clients {
            let mut out = client.out.borrow_mut();
            out.push(3);
            out.bulk(b"message");
            out.bulk(channel);
            out.bulk(message);
        }
        clients.len()
    }

    /// Marks those who watch a key: their EXEC fails.
    pub fn touch(&self, db: u32, key: &[u8]) {
        if self.watchers.get() == 0 {
            return;
        }
        for client in self.clients.borrow().iter() {
            let watches = |(at, name): &(u32, Box<[u8]>)| *at == db && **name == *key;
            if client.watched.borrow().iter().any(watches) {
                client.is_dirty.set(true);
            }
        }
    }

    /// Marks those who watch any key of a database that exists, or of all.
    pub fn touch_all(&self, only: Option<u32>) {
        if self.watchers.get() == 0 {
            return;
        }
        for client in self.clients.borrow().iter() {
            let watches = |(at, name): &(u32, Box<[u8]>)| {
                only.is_none_or(|db| *at == db) && self.entry(*at, name, |_| ()).is_some()
            };
            if client.watched.borrow().iter().any(watches) {
                client.is_dirty.set(true);
            }
        }
    }
}
