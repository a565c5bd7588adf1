//! Connections and transactions.

use std::rc::Rc;

use super::super::client::Client;
use super::super::clock;
use super::super::command::number;
use super::super::keyspace::DATABASES;
use super::super::server::Server;
use super::super::text::Words;
use super::{NOT_A_NUMBER, Row, SYNTAX};

pub const COMMANDS: &[Row] = &[
    ("ping", -1, "", 0, 0, ping),
    ("select", 2, "", 0, 0, select),
    ("auth", -2, "s", 0, 0, auth),
    ("hello", -1, "s", 0, 0, hello),
    ("asking", 1, "", 0, 0, asking),
    ("multi", 1, "s", 0, 0, multi),
    ("exec", 1, "s", 0, 0, exec),
    ("watch", -2, "s", 1, -1, watch),
    ("publish", 3, "r", 0, 0, publish),
    ("subscribe", -2, "s", 0, 0, subscribe),
    ("client", -2, "s", 0, 0, client_command),
    ("simulated.script", -2, "sr", 0, 0, script),
];

impl Server {
    /// Returns the client whose command runs, to keep it.
    fn itself(&self, client: &Client) -> Rc<Client> {
        let running = self.running.borrow().clone().expect("a command runs");
        assert_eq!(Rc::as_ptr(&running), std::ptr::from_ref(client));
        running
    }
}

fn ping(_server: &Server, client: &Client, words: &Words) {
    match words.get(1) {
        None => client.out.borrow_mut().simple(b"PONG"),
        Some(text) => client.out.borrow_mut().bulk(text),
    }
}

fn select(_server: &Server, client: &Client, words: &Words) {
    match words.get(1).and_then(number) {
        None => client.error("ERR invalid DB index"),
        Some(db) if (0..DATABASES as i64).contains(&db) => {
            client.db.set(db as u32);
            client.ok();
        }
        Some(_) => client.error("ERR DB index is out of range"),
    }
}

fn auth(server: &Server, client: &Client, words: &Words) {
    let (name, password) = match words.len() {
        2 => (&b"default"[..], words.get(1)),
        _ => (words.get(1).unwrap_or_default(), words.get(2)),
    };
    let password = password.unwrap_or_default();
    let user = server.user(name).filter(|user| {
        user.is_on && (user.passwords.is_empty() || user.passwords.iter().any(|it| it == password))
    });
    if user.is_none() {
        return client.error("WRONGPASS invalid username-password pair or user is disabled.");
    }
    *client.user.borrow_mut() = user;
    client.ok();
}

fn hello(_server: &Server, client: &Client, words: &Words) {
    let mut out = client.out.borrow_mut();
    match words.get(1).map(|word| number(word).unwrap_or(0)) {
        Some(version @ (2 | 3)) => out.resp = version as u8,
        Some(_) => return out.error(b"NOPROTO unsupported protocol version"),
        None => {}
    }
    let proto = i64::from(out.resp.max(2));
    out.map(2);
    out.bulk(b"proto");
    out.int(proto);
    out.bulk(b"id");
    out.int(client.id as i64);
}

fn asking(_server: &Server, client: &Client, _words: &Words) {
    client.is_asking.set(true);
    client.ok();
}

fn multi(server: &Server, client: &Client, _words: &Words) {
    server.begin_multi(client);
}

fn exec(server: &Server, client: &Client, _words: &Words) {
    server.exec(&server.itself(client));
}

fn watch(server: &Server, client: &Client, words: &Words) {
    if client.multi.borrow().is_some() {
        return client.error("ERR WATCH inside MULTI is not allowed");
    }
    let mut watched = client.watched.borrow_mut();
    for key in words.iter().skip(1) {
        let name = (client.db.get(), Box::from(key));
        if !watched.contains(&name) {
            watched.push(name);
            server.watchers.set(server.watchers.get() + 1);
        }
    }
    client.ok();
}

fn publish(server: &Server, client: &Client, words: &Words) {
    let [channel, message] = [1, 2].map(|at| words.get(at).expect("arity"));
    let count = server.publish(channel, message);
    server.note_for_replicas(client.db.get(), words.clone());
    client.int(count as i64);
}

fn subscribe(server: &Server, client: &Client, words: &Words) {
    if client.denies_blocking.get() {
        return client.error("ERR SUBSCRIBE isn't allowed for a DENY BLOCKING client");
    }
    for channel in words.iter().skip(1) {
        if !client.channels.borrow().iter().any(|it| it == channel) {
            client.channels.borrow_mut().push(channel.to_vec());
            let mut channels = server.channels.borrow_mut();
            channels.entry(channel.to_vec()).or_default().push(server.itself(client));
        }
        let mut out = client.out.borrow_mut();
        out.push(3);
        out.bulk(b"subscribe");
        out.bulk(channel);
        out.int(client.channels.borrow().len() as i64);
    }
}

fn client_command(server: &Server, client: &Client, words: &Words) {
    let verb = words.get(1).expect("arity").to_ascii_lowercase();
    let find = |at: usize| {
        let id = words.get(at).and_then(number)?;
        server.clients.borrow().iter().find(|it| it.id as i64 == id).cloned()
    };
    match &verb[..] {
        b"id" => client.int(client.id as i64),
        b"setname" | b"setinfo" | b"no-evict" => client.ok(),
        b"pause" => {
            let Some(ms) = words.get(2).and_then(number) else {
                return client.error("ERR timeout is not an integer or out of range");
            };
            let is_write = words.get(3).is_some_and(|word| word.eq_ignore_ascii_case(b"write"));
            server.pauses_all.set(!is_write);
            server.paused_until_ms.set(clock::wall_ms().saturating_add(ms));
            client.ok();
        }
        b"unpause" => {
            server.paused_until_ms.set(0);
            client.ok();
        }
        b"unblock" => {
            if words.get(2).and_then(number).is_none() {
                return client.error(NOT_A_NUMBER);
            }
            let with_error = words.get(3).is_some_and(|word| word.eq_ignore_ascii_case(b"error"));
            let is_done =
                find(2).is_some_and(|it| server.leaked().unblock_by_command(&it, with_error));
            client.int(is_done.into());
        }
        b"kill" => {
            let is_by_id = words.get(2).is_some_and(|word| word.eq_ignore_ascii_case(b"id"));
            let Some(other) = find(3).filter(|_| is_by_id) else { return client.int(0) };
            // Others are freed at once, itself after its reply.
            match other.id == client.id {
                true => server.close(&other),
                false => server.leaked().free_client(&other),
            }
            client.int(1);
        }
        _ => client.error(SYNTAX),
    }
}

/// Not a real server's: runs each argument, a line of words, as a script's call.
fn script(server: &Server, client: &Client, words: &Words) {
    let lines: Vec<_> =
        words.iter().skip(1).map(|line| Words::new(line.split(|it| *it == b' '))).collect();
    let reply = server.run_script(client, &lines);
    client.out.borrow_mut().value(&reply);
}
