//! The real side of a comparison.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use harness::{Ask, Server, cmd, let_pass, until};
use simulated::machine::Reply;

use super::{Side, shown};

pub struct Real {
    server: Server,
    clients: BTreeMap<char, BufReader<UnixStream>>,
    ids: BTreeMap<char, u64>,
}

impl Real {
    pub fn new(server: Server) -> Self {
        Self { server, clients: BTreeMap::new(), ids: BTreeMap::new() }
    }

    fn client(&mut self, name: char) -> &mut BufReader<UnixStream> {
        let path = self.server.file("redis.sock");
        let ids = &mut self.ids;
        self.clients.entry(name).or_insert_with(|| {
            let socket = UnixStream::connect(path).expect("a connection");
            socket.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
            let mut client = BufReader::new(socket);
            send(&mut client, &[b"CLIENT".to_vec(), b"ID".to_vec()]);
            let Some(Reply::Int(id)) = read(&mut client) else { panic!("an id") };
            ids.insert(name, id as u64);
            client
        })
    }
}

fn send(client: &mut BufReader<UnixStream>, words: &[Vec<u8>]) {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
    client.get_mut().write_all(&bytes).expect("it is sent");
}

/// Reads a reply. `None`: the connection is closed.
fn read(client: &mut impl BufRead) -> Option<Reply> {
    let mut line = Vec::new();
    client.read_until(b'\n', &mut line).ok()?;
    let line = line.strip_suffix(b"\r\n")?;
    let (sign, rest) = line.split_first()?;
    let number = || -> i64 { String::from_utf8_lossy(rest).parse().expect("a number") };
    let mut items = |count: i64| (0..count).map(|_| read(client)).collect::<Option<Vec<_>>>();
    Some(match sign {
        b'+' => Reply::Simple(rest.to_vec()),
        b'-' => Reply::Error(rest.to_vec()),
        b':' => Reply::Int(number()),
        b'_' => Reply::Null,
        b'$' if number() < 0 => Reply::Null,
        b'$' => {
            let mut bytes = vec![0; number() as usize + 2];
            client.read_exact(&mut bytes).ok()?;
            bytes.truncate(bytes.len() - 2);
            Reply::Bulk(bytes)
        }
        b'*' if number() < 0 => Reply::NullArray,
        b'*' => Reply::Array(items(number())?),
        b'>' => Reply::Push(items(number())?),
        b'%' => {
            let all = items(2 * number())?;
            Reply::Map(all.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect())
        }
        _ => panic!("{}", line.escape_ascii()),
    })
}

/// Returns words as a line.
pub fn line(words: &[Vec<u8>]) -> String {
    words.iter().map(|word| word.escape_ascii().to_string()).collect::<Vec<_>>().join(" ")
}

/// Returns the commands of an append-only file, each with its database.
pub fn commands(mut file: &[u8]) -> Vec<String> {
    let (mut lines, mut db) = (Vec::new(), "0".to_owned());
    while let Some(Reply::Array(words)) = read(&mut file) {
        let word = |word| match word {
            Reply::Bulk(word) => word,
            other => panic!("{other:?}"),
        };
        let words: Vec<_> = words.into_iter().map(word).collect();
        match words[0].eq_ignore_ascii_case(b"SELECT") {
            true => db = line(&words[1..]),
            false => lines.push(format!("{db}: {}", line(&words))),
        }
    }
    lines
}

impl Side for Real {
    fn send(&mut self, name: char, words: &[Vec<u8>]) {
        send(self.client(name), words);
    }

    fn blocked(&mut self, count: u64) {
        until("clients are blocked", || {
            (self.server.info("clients", "blocked_clients") == count).then_some(())
        });
    }

    fn reply(&mut self, name: char) -> String {
        read(self.client(name)).map_or("closed".to_owned(), |reply| shown(&reply))
    }

    fn hang_up(&mut self, name: char) {
        let before = self.server.info("clients", "connected_clients");
        self.clients.remove(&name);
        until("the client is gone", || {
            // The connection that asks is one itself, each time.
            (self.server.info("clients", "connected_clients") < before).then_some(())
        });
    }

    fn wait(&mut self, ms: u64) {
        let_pass(Duration::from_millis(ms));
    }

    fn set_full(&mut self, is_full: bool) {
        let bytes = if is_full { 1 } else { 0 };
        self.server.connect().ask(&format!("CONFIG SET maxmemory {bytes}"));
    }

    fn script(&mut self, name: char, lines: &[&str]) -> String {
        let call = |line: &&str| {
            let words: Vec<_> = line.split(' ').map(|word| format!("'{word}'")).collect();
            format!("redis.call({})", words.join(","))
        };
        let script = format!("return {{{}}}", lines.iter().map(call).collect::<Vec<_>>().join(","));
        self.send(name, &[b"EVAL".to_vec(), script.into_bytes(), b"0".to_vec()]);
        self.reply(name)
    }

    fn listen(&mut self, event: &str, line: &str) {
        self.server.connect().ask(&format!("LISTENER.ON 1 {event} {line}"));
    }

    fn heard(&mut self) -> Vec<String> {
        let mut client = self.server.connect();
        let mut ask = |line| cmd(line).query::<Vec<String>>(&mut client).expect("lines");
        let lines = [ask("LISTENER.SEEN"), ask("LISTENER.RAN")].concat();
        client.ask("LISTENER.OFF");
        lines.iter().map(|line| line.as_bytes().escape_ascii().to_string()).collect()
    }

    fn effects(&mut self) -> Vec<String> {
        let_pass(Duration::from_millis(300));
        let file = self.server.file("appendonlydir").join("appendonly.aof.1.incr.aof");
        let bytes = fs::read(file).expect("the append-only file");
        commands(&bytes)
    }

    fn client_id(&mut self, name: char) -> u64 {
        self.client(name);
        self.ids[&name]
    }
}
