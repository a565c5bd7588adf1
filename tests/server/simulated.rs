//! The simulated server (tests/simulated) beside a real one of the same kind: the same scenarios, and word by word the same
//! replies, effects and keyspace events. So the simulation cannot drift from what servers do.

mod real;
mod scenarios;

use std::fmt::Write;

use harness::{Server, release_module};
use real::Real;
use simulated::machine::{ClientId, Kind, Listener, Machine, Reply, Rule, ServerId};

/// A server that plays a scenario.
trait Side {
    /// Sends a command as a client. The reply is read later.
    fn send(&mut self, client: char, words: &[Vec<u8>]);
    /// Waits until so many clients are blocked.
    fn blocked(&mut self, count: u64);
    fn reply(&mut self, client: char) -> String;
    fn hang_up(&mut self, client: char);
    fn wait(&mut self, ms: u64);
    fn set_full(&mut self, is_full: bool);
    /// Runs lines as a script does.
    fn script(&mut self, client: char, lines: &[&str]) -> String;
    /// Lets the other module run a line at the next event of a name.
    fn listen(&mut self, event: &str, line: &str);
    /// Returns what the other module saw and what its commands came to.
    fn heard(&mut self) -> Vec<String>;
    /// Returns the effects so far.
    fn effects(&mut self) -> Vec<String>;
    fn client_id(&mut self, client: char) -> u64;
}

/// Plays a scenario, and returns all that can be seen of it.
///
/// ```text
///   a> LINE         a client sends a command, and gets a reply
///   a. LINE         the same, whose reply is not compared
///   a~ LINE         a client sends a command that blocks it
///   a=              its reply
///   a!              it hangs up
///   +MS             time passes
///   =COUNT          so many clients are blocked
///   full yes|no     the server's memory
///   script LINE | LINE
///   on EVENT LINE   the other module runs the line at the next event
///   heard           what the other module saw
/// ```
///
/// `$a` stands for the id of a client, `%00` in a line for a byte that is no text.
fn play(side: &mut dyn Side, scenario: &str) -> String {
    let mut seen = String::new();
    for line in scenario.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let said = step(side, line);
        writeln!(seen, "{line}{}", said.map_or(String::new(), |said| format!("  ->  {said}")))
            .expect("memory");
    }
    for effect in side.effects() {
        writeln!(seen, "   {effect}").expect("memory");
    }
    seen
}

fn step(side: &mut dyn Side, line: &str) -> Option<String> {
    let (head, rest) = line.split_once(' ').unwrap_or((line, ""));
    let client = head.chars().next().expect("a word");
    match head {
        "full" => side.set_full(rest == "yes"),
        "script" => return Some(side.script('a', &rest.split(" | ").collect::<Vec<_>>())),
        "on" => {
            let (event, line) = rest.split_once(' ').expect("an event and a line");
            side.listen(event, line);
        }
        "heard" => return Some(side.heard().join(", ")),
        _ if client == '+' => side.wait(head[1..].parse().expect("milliseconds")),
        _ if client == '=' => side.blocked(head[1..].parse().expect("a number")),
        _ => match &head[1..] {
            ">" | "~" | "." => {
                let words = words(side, rest);
                side.send(client, &words);
                let reply = (&head[1..] != "~").then(|| side.reply(client));
                return reply.filter(|_| &head[1..] == ">");
            }
            "=" => return Some(side.reply(client)),
            "!" => side.hang_up(client),
            _ => panic!("{line:?}"),
        },
    }
    None
}

fn words(side: &mut dyn Side, line: &str) -> Vec<Vec<u8>> {
    let word = |word: &str| match word.strip_prefix('$') {
        Some(client) => {
            side.client_id(client.chars().next().expect("a name")).to_string().into_bytes()
        }
        None => word.replace("%00", "\0").into_bytes(),
    };
    line.split(' ').map(word).collect()
}

/// Returns a reply as text.
fn shown(reply: &Reply) -> String {
    let text = |bytes: &[u8]| bytes.escape_ascii().to_string();
    let all = |items: &[Reply]| items.iter().map(shown).collect::<Vec<_>>().join(" ");
    match reply {
        Reply::Simple(it) => format!("+{}", text(it)),
        Reply::Error(it) => format!("-{}", text(it)),
        Reply::Int(number) => format!(":{number}"),
        Reply::Bulk(it) => format!("\"{}\"", text(it)),
        Reply::Null => "nil".to_owned(),
        Reply::NullArray => "nil array".to_owned(),
        Reply::Array(items) => format!("[{}]", all(items)),
        Reply::Push(items) => format!(">[{}]", all(items)),
        Reply::Map(items) => {
            let items = items.iter().map(|(name, it)| format!("{}: {}", shown(name), shown(it)));
            format!("{{{}}}", items.collect::<Vec<_>>().join(" "))
        }
        Reply::Double(number) => number.to_string(),
        Reply::Bool(is_true) => is_true.to_string(),
    }
}

/// Replaces moments of this age by a letter: the clocks differ.
fn timeless(text: &str) -> String {
    let mut out = String::new();
    let mut digits = String::new();
    for letter in text.chars().chain(['\n']) {
        if letter.is_ascii_digit() {
            digits.push(letter);
            continue;
        }
        let is_moment =
            digits.len() == 13 && (digits.starts_with("17") || digits.starts_with("18"));
        out.push_str(if is_moment { "T" } else { &digits });
        digits.clear();
        out.push(letter);
    }
    out.pop();
    out
}

struct Simulated {
    machine: Machine,
    server: ServerId,
    clients: Vec<(char, ClientId, Vec<Reply>)>,
}

impl Simulated {
    fn start(kind: Kind) -> Self {
        let mut machine = Machine::new(&release_module(), kind, 1);
        let server = machine.start(&[("appendonly", "yes")]);
        machine
            .set_listener(server, Some(Listener { seen: Some(Vec::new()), ..Listener::default() }));
        Self { machine, server, clients: Vec::new() }
    }

    fn client(&mut self, name: char) -> usize {
        let place = self.clients.iter().position(|(it, ..)| *it == name);
        place.unwrap_or_else(|| {
            let client = self.machine.connect(self.server);
            self.clients.push((name, client, Vec::new()));
            self.clients.len() - 1
        })
    }
}

impl Side for Simulated {
    fn send(&mut self, client: char, words: &[Vec<u8>]) {
        let at = self.client(client);
        let words: Vec<&[u8]> = words.iter().map(|word| &word[..]).collect();
        self.machine.send(self.clients[at].1, &words);
        self.machine.settle();
    }

    fn blocked(&mut self, count: u64) {
        self.machine.settle();
        let blocked = self.clients.iter().filter(|(_, it, _)| self.machine.is_blocked(*it)).count();
        assert_eq!(blocked as u64, count);
    }

    fn reply(&mut self, client: char) -> String {
        let at = self.client(client);
        for _ in 0..1000 {
            let came = self.machine.replies(self.clients[at].1);
            self.clients[at].2.extend(came);
            if !self.clients[at].2.is_empty() {
                return shown(&self.clients[at].2.remove(0));
            }
            if self.machine.is_closed(self.clients[at].1) {
                return "closed".to_owned();
            }
            self.machine.advance(1000);
        }
        panic!("no reply to {client}")
    }

    fn hang_up(&mut self, client: char) {
        let at = self.client(client);
        let (_, client, _) = self.clients.remove(at);
        self.machine.hang_up(client);
        self.machine.settle();
    }

    fn wait(&mut self, ms: u64) {
        self.machine.advance(ms * 1000);
    }

    fn set_full(&mut self, is_full: bool) {
        let bytes = if is_full { 1 } else { 0 };
        self.machine.ask(self.server, &format!("CONFIG SET maxmemory {bytes}"));
        self.machine.set_full(self.server, is_full);
    }

    fn script(&mut self, client: char, lines: &[&str]) -> String {
        let mut words = vec![b"SIMULATED.SCRIPT".to_vec()];
        words.extend(lines.iter().map(|line| line.as_bytes().to_vec()));
        self.send(client, &words);
        self.reply(client)
    }

    fn listen(&mut self, event: &str, line: &str) {
        let words = line.split(' ').map(|word| word.as_bytes().to_vec()).collect();
        self.machine.add_rule(self.server, Rule { times: 1, event: event.to_owned(), words });
    }

    fn heard(&mut self) -> Vec<String> {
        self.machine.settle();
        let lines = [self.machine.seen(self.server), self.machine.ran(self.server)].concat();
        lines.iter().map(|line| line.escape_ascii().to_string()).collect()
    }

    fn effects(&mut self) -> Vec<String> {
        self.machine.advance(300_000);
        let file = self.machine.aof(self.server);
        real::commands(&file[self.machine.aof_base(self.server)..])
    }

    fn client_id(&mut self, client: char) -> u64 {
        let at = self.client(client);
        self.machine.id_of(self.clients[at].1)
    }
}

/// Returns the kind of the server under test. `None`: none that is simulated.
fn kind_of(server: &Server) -> Option<Kind> {
    let version = server.version();
    match version.is_valkey {
        false if version < (7, 2) => Some(Kind::Redis70),
        false if version >= (8, 0) => Some(Kind::Redis8),
        true if version >= (9, 0) => Some(Kind::Valkey9),
        true if version >= (8, 0) => Some(Kind::Valkey8),
        _ => None,
    }
}

/// Compares both sides of a scenario.
fn compare(name: &str, scenario: &str) {
    let server = Server::start_with_listener(&["--appendonly", "yes", "--appendfsync", "always"]);
    let Some(kind) = kind_of(&server) else { return };
    let real = timeless(&play(&mut Real::new(server), scenario));
    let mut side = Simulated::start(kind);
    let simulated = timeless(&play(&mut side, scenario));
    if real == simulated {
        return;
    }
    let mut text = String::new();
    let (mut left, mut right) = (real.lines(), simulated.lines());
    loop {
        match (left.next(), right.next()) {
            (None, None) => break,
            (left, right) if left == right => writeln!(text, "    {}", left.unwrap_or_default()),
            (left, right) => {
                let [left, right] = [left, right].map(|line| line.unwrap_or("(nothing)"));
                writeln!(text, "real  {left}\nours  {right}")
            }
        }
        .expect("memory");
    }
    let log = side.machine.log(side.server).join("\n");
    panic!("{name} on {kind:?}:\n{text}\n{log}");
}
