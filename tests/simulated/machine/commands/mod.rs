//! The server's own commands, as far as the module, its clients and its operators need them.
//!
//! | module | contents |
//! |---|---|
//! | `keys` | any key: DEL, RENAME, COPY, MOVE, EXPIRE, DUMP, SCAN, FLUSHALL … |
//! | `values` | strings, lists, streams |
//! | `connection` | SELECT, MULTI, WATCH, SUBSCRIBE, CLIENT, AUTH, HELLO |
//! | `admin` | CONFIG, INFO, ACL, DEBUG, MODULE, REPLICAOF and the like |

mod admin;
mod connection;
mod keys;
mod values;

use super::client::Client;
use super::command::{Command, Find, KeySpec, Run};
use super::server::Server;
use super::text::Words;

type Own = fn(&Server, &Client, &Words);

/// Name, arity, flags (`w`rite, denied when `m`emory is full, may `r`eplicate, not in `s`cripts), the first key, the last.
type Row = (&'static str, i32, &'static str, i32, i32, Own);

/// Registers the server's own commands.
pub fn register(server: &Server) {
    let all = [keys::COMMANDS, values::COMMANDS, connection::COMMANDS, admin::COMMANDS];
    for &(name, arity, flags, first, last, run) in all.into_iter().flatten() {
        let has = |flag| flags.contains(flag);
        let last = if last < 0 { last } else { last - first };
        let key = KeySpec { keyword: None, from: first, find: Find::Range { last, step: 1 } };
        server.add_command(Command {
            name: name.as_bytes().into(),
            arity,
            run: Run::Own(run),
            is_write: has('w'),
            denies_oom: has('m'),
            may_replicate: has('w') || has('r'),
            has_no_script: has('s'),
            keys: if first > 0 { vec![key] } else { Vec::new() },
        });
    }
}

const WRONG_TYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";
const NOT_A_NUMBER: &str = "ERR value is not an integer or out of range";
const SYNTAX: &str = "ERR syntax error";
const NO_KEY: &str = "ERR no such key";

impl Server {
    /// Replicates the command as it was sent.
    fn verbatim(&self, client: &Client) {
        self.note_effect(client.db.get(), client.argv.borrow().clone());
    }
}
