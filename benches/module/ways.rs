//! The ways in which Redis users store an element for later and get it back, including the module's.

use redis::{Cmd, Connection, Pipeline};

use crate::rede;
use harness::{Ask, Server};

/// The eight TTLs of the elements, in milliseconds, as a typical system has them.
pub const FAR: u64 = 600_000;

/// A way to store an element under an id, and to take it by id.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// The floor: no timer at all.
    Set,
    /// A key that expires, without notification.
    SetPx,
    /// A sorted set of ids by deadline and a hash of elements, with two pipelined commands.
    Pipelined,
    /// The same, in one script.
    Lua,
    /// A hash whose fields expire, without notification. Redis 7.4 and later.
    HashField,
    Dehydrator,
    /// The predecessor of the module in C: see [`rede`].
    Rede,
}

/// KEYS: sorted set, hash. ARGV: deadline, id, element.
const PUSH: &str = "redis.call('ZADD', KEYS[1], ARGV[1], ARGV[2]) \
                    return redis.call('HSET', KEYS[2], ARGV[2], ARGV[3])";
/// KEYS: sorted set, hash. ARGV: id.
const PULL: &str = "local element = redis.call('HGET', KEYS[2], ARGV[1]) \
                    redis.call('ZREM', KEYS[1], ARGV[1]) \
                    redis.call('HDEL', KEYS[2], ARGV[1]) return element";
/// KEYS: sorted set, hash. ARGV: now. In steps, because the stack of a script is small.
const POLL: &str = "local all = {} \
    while true do \
      local ids = redis.call('ZRANGEBYSCORE', KEYS[1], 0, ARGV[1], 'LIMIT', 0, 1000) \
      if #ids == 0 then return all end \
      for _, element in ipairs(redis.call('HMGET', KEYS[2], unpack(ids))) do \
        all[#all + 1] = element end \
      redis.call('ZREM', KEYS[1], unpack(ids)) redis.call('HDEL', KEYS[2], unpack(ids)) \
    end";

impl Way {
    /// Returns all ways of a server with our module.
    pub fn of(client: &mut Connection) -> Vec<Self> {
        let has_hash_fields =
            client.ask("COMMAND INFO HPEXPIRE") != redis::Value::Array(vec![redis::Value::Nil]);
        let mut ways = vec![Self::Set, Self::SetPx, Self::Pipelined, Self::Lua];
        ways.extend(has_hash_fields.then_some(Self::HashField));
        ways.push(Self::Dehydrator);
        ways
    }

    /// Starts a server that has this way. No server has both dehydrators, because ours can answer to the other's names.
    pub fn start_server(self, options: &[&str]) -> Server {
        match self {
            Self::Rede => {
                let module = rede::module().expect("what stands in the variable");
                Server::start_with_module(&module, options)
            }
            _ => Server::start(options),
        }
    }

    /// Returns a command of a dehydrator: both have the same ones, with the same arguments.
    pub fn verb(self, verb: &str) -> Cmd {
        let prefix = if self == Self::Rede { "REDE" } else { "DEHYDRATOR" };
        redis::cmd(&format!("{prefix}.{verb}"))
    }

    /// Adds a PUSH with any TTL to a pipeline.
    pub fn push_for(self, pipe: &mut Pipeline, ttl: u64, id: &str, element: &[u8]) {
        let mut push = self.verb("PUSH");
        push.arg("k").arg(ttl).arg(element).arg(id);
        pipe.add_command(push);
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Set => "SET",
            Self::SetPx => "SET PX",
            Self::Pipelined => "ZSET + HASH, pipelined",
            Self::Lua => "ZSET + HASH, by Lua",
            Self::HashField => "HSET + HPEXPIRE",
            Self::Dehydrator => "dehydrator",
            Self::Rede => "ReDe",
        }
    }

    pub fn push(self, pipe: &mut Pipeline, number: u64, id: &str, element: &[u8]) {
        let ttl = FAR + number % 8;
        match self {
            Self::Set => pipe.cmd("SET").arg(id).arg(element),
            Self::SetPx => pipe.cmd("SET").arg(id).arg(element).arg("PX").arg(ttl),
            Self::Pipelined => {
                pipe.cmd("ZADD").arg("z").arg(ttl).arg(id);
                pipe.cmd("HSET").arg("h").arg(id).arg(element)
            }
            Self::Lua => {
                pipe.cmd("EVAL").arg(PUSH).arg(2).arg("z").arg("h").arg(ttl).arg(id).arg(element)
            }
            Self::HashField => {
                pipe.cmd("HSET").arg("h").arg(id).arg(element);
                pipe.cmd("HPEXPIRE").arg("h").arg(ttl).arg("FIELDS").arg(1).arg(id)
            }
            Self::Dehydrator | Self::Rede => {
                self.push_for(pipe, ttl, id, element);
                pipe
            }
        };
    }

    pub fn pull(self, pipe: &mut Pipeline, id: &str) {
        match self {
            Self::Set | Self::SetPx => pipe.cmd("GETDEL").arg(id),
            Self::Pipelined => {
                pipe.cmd("ZREM").arg("z").arg(id);
                pipe.cmd("HGET").arg("h").arg(id);
                pipe.cmd("HDEL").arg("h").arg(id)
            }
            Self::Lua => pipe.cmd("EVAL").arg(PULL).arg(2).arg("z").arg("h").arg(id),
            Self::HashField => {
                pipe.cmd("HGET").arg("h").arg(id);
                pipe.cmd("HDEL").arg("h").arg(id)
            }
            Self::Dehydrator | Self::Rede => {
                let mut pull = self.verb("PULL");
                pull.arg("k").arg(id);
                pipe.add_command(pull)
            }
        };
    }

    /// Takes all elements, all of which are due, with as few commands as possible. `None`: this way cannot tell which
    /// elements are due.
    pub fn poll(self, count: usize) -> Option<Vec<Cmd>> {
        let mut commands = Vec::new();
        match self {
            Self::Dehydrator | Self::Rede => commands.push(self.verb("POLL").arg("k").to_owned()),
            Self::Lua => {
                let mut poll = redis::cmd("EVAL");
                poll.arg(POLL).arg(2).arg("z").arg("h").arg(2 * FAR);
                commands.push(poll);
            }
            Self::Pipelined => {
                commands.push(redis::cmd("ZPOPMIN").arg("z").arg(count).to_owned());
                commands.push(redis::cmd("HGETALL").arg("h").to_owned());
                commands.push(redis::cmd("DEL").arg("h").to_owned());
            }
            Self::Set | Self::SetPx | Self::HashField => return None,
        }
        Some(commands)
    }
}
