//! Operators' commands.

use super::super::acl::User;
use super::super::client::Client;
use super::super::keyspace::Value;
use super::super::reply::Reply;
use super::super::server::Server;
use super::super::text::Words;
use super::{Row, SYNTAX};

pub const COMMANDS: &[Row] = &[
    ("config", -2, "s", 0, 0, config),
    ("info", -1, "", 0, 0, info),
    ("acl", -2, "s", 0, 0, acl),
    ("debug", -2, "s", 0, 0, debug),
    ("memory", -2, "", 2, 2, memory),
    ("module", -2, "s", 0, 0, module),
    ("replicaof", 3, "s", 0, 0, replicaof),
];

fn verb(words: &Words) -> Vec<u8> {
    words.get(1).unwrap_or_default().to_ascii_lowercase()
}

fn config(server: &Server, client: &Client, words: &Words) {
    match (&verb(words)[..], words.len()) {
        (b"get", 3) => {
            let found = server.config_get(&words.get(2).expect("three").to_ascii_lowercase());
            let mut out = client.out.borrow_mut();
            out.map(found.len() as i64);
            for (name, value) in found {
                out.bulk(name.as_bytes());
                out.bulk(&value);
            }
        }
        (b"set", 4) => {
            let name = String::from_utf8_lossy(words.get(2).expect("four")).to_lowercase();
            match server.config_set(&name, words.get(3).expect("four")) {
                Ok(()) => {
                    let event = redis_module::raw::REDISMODULE_EVENT_CONFIG;
                    server.leaked().fire(event, 0, std::ptr::null_mut());
                    client.ok();
                }
                Err(reason) => client.error(&format!("ERR {reason}")),
            }
        }
        (b"resetstat", 2) => {
            server.counts.set([0; 4]);
            client.ok();
        }
        _ => client.error(SYNTAX),
    }
}

fn info(server: &Server, client: &Client, words: &Words) {
    let section = String::from_utf8_lossy(words.get(1).unwrap_or(b"server")).to_lowercase();
    let text = server.info_text(&section);
    client.out.borrow_mut().bulk(text.as_bytes());
}

fn acl(server: &Server, client: &Client, words: &Words) {
    let name = words.get(2).unwrap_or_default();
    match &verb(words)[..] {
        b"setuser" => {
            let mut user = server.user(name).map_or_else(|| User::new(name), |it| (*it).clone());
            for rule in words.iter().skip(3) {
                if !user.apply(rule) {
                    let rule = String::from_utf8_lossy(rule);
                    return client.error(&format!(
                        "ERR Error in ACL SETUSER modifier '{rule}': Syntax error"
                    ));
                }
            }
            server.set_user(user);
            client.ok();
        }
        b"deluser" => client.int(server.delete_user(name).into()),
        b"whoami" => {
            let user = client.user.borrow().clone();
            client.out.borrow_mut().bulk(user.as_ref().map_or(&b"default"[..], |user| &user.name));
        }
        _ => client.error(SYNTAX),
    }
}

fn debug(server: &Server, client: &Client, words: &Words) {
    match &verb(words)[..] {
        b"digest-value" => {
            let mut out = client.out.borrow_mut();
            out.array(words.len() as i64 - 2);
            for key in words.iter().skip(2) {
                let digest = server.digest(client.db.get(), key).unwrap_or_default();
                let text: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
                out.bulk(text.as_bytes());
            }
        }
        // Saves all data and loads them again.
        b"reload" => {
            let server = server.leaked();
            let data = server.fork(Server::snapshot);
            server.replace_data(&data);
            client.ok();
        }
        _ => client.error(SYNTAX),
    }
}

fn memory(server: &Server, client: &Client, words: &Words) {
    let (db, key) = (client.db.get(), words.get(2).unwrap_or_default());
    if verb(words) != b"usage" {
        return client.error(SYNTAX);
    }
    if !server.exists(db, key) {
        return client.out.borrow_mut().null();
    }
    let size = server.entry(db, key, |entry| match &entry.value {
        Value::Module(value) => Err(*value),
        Value::String(bytes) => Ok(bytes.len()),
        Value::List(items) => Ok(items.iter().map(Vec::len).sum()),
        Value::Stream(stream) => Ok(stream.entries.len() * 64),
    });
    let size = match size.expect("it exists") {
        Ok(size) => size,
        // SAFETY: the value is the module's.
        Err(value) => server.methods().mem_usage.map_or(0, |usage| unsafe { usage(value) }),
    };
    client.int(size as i64);
}

fn module(server: &Server, client: &Client, words: &Words) {
    if verb(words) != b"list" {
        return client.error(SYNTAX);
    }
    let mut names = vec!["dehydrator"];
    if server.has_listener.get() {
        names.push("listener");
    }
    let module = |name: &str| {
        let bulk = |text: &str| Reply::Bulk(text.as_bytes().to_vec());
        Reply::Array(vec![bulk("name"), bulk(name), bulk("ver"), Reply::Int(1)])
    };
    let list = Reply::Array(names.into_iter().map(module).collect());
    client.out.borrow_mut().value(&list);
}

/// Replies, and leaves the rest to the machine: the other server is not within reach here.
fn replicaof(server: &Server, client: &Client, words: &Words) {
    server.asked_role.set(Some(words.to_vecs().split_off(1)));
    client.ok();
}
