//! Random operations of every verb beside a plain model, with everything between them that moves, saves, loads,
//! copies or kills.
//!
//! The model has to be exact although the server's clock runs on. So every time here is so many *grains*, of which
//! one is far longer than a run: what the clock really moves on by never makes anything due. Time passes when the
//! debug build's clock is stepped, by whole grains.
//!
//! DEHYDRATOR_SEED repeats a run, DEHYDRATOR_OPERATIONS makes it longer or shorter.

use std::collections::VecDeque;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use redis::{Connection, Value};

use crate::harness::{Ask, Server, cmd, until};
use crate::model::{Bytes, Delivered, Entry, Expect, IfThere, Kept, MAX, Op, Policy, World};
use crate::random::{Random, seed, setting};

/// More than four hours, in milliseconds.
const GRAIN: u64 = 1 << 24;
/// How far behind the model the server's clock is, at the most.
const BEHIND: u64 = GRAIN / 4;
const OPERATIONS: u64 = 20_000;
const KEYS: [&str; 5] = ["a", "b\0\r\n", "c", "", "e"];
const STREAMS: [&str; 2] = ["s1", "s2"];
const CHANNEL: &str = "news";
/// Lines of what was done before something went wrong.
const REMEMBERED: usize = 60;

struct Torture {
    random: Random,
    world: World,
    server: Server,
    replica: Server,
    client: Connection,
    subscriber: Connection,
    /// The database that the client has selected.
    selected: usize,
    /// When the run began, in milliseconds since the epoch.
    start: u64,
    began: Instant,
    /// How far the clock is stepped.
    offset: u64,
    done: VecDeque<String>,
    deliveries: usize,
}

impl Drop for Torture {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- what was done ---");
            self.done.iter().for_each(|line| eprintln!("{line}"));
        }
    }
}

fn words_of(key: &str, op: &Op) -> Vec<Bytes> {
    let key = key.as_bytes().to_vec();
    let number = |number: u64| number.to_string().into_bytes();
    let text = |text: &str| text.as_bytes().to_vec();
    let verb = |verb: &str| vec![text(&format!("DEHYDRATOR.{verb}")), key.clone()];
    let option = |name: &str, value: Option<u64>| {
        value.map(|value| [text(name), number(value)]).into_iter().flatten()
    };
    let pairs_of = |held: &[(u64, Bytes)]| -> Vec<Bytes> {
        held.iter().flat_map(|(token, id)| [number(*token), id.clone()]).collect()
    };
    let of_ids = |name: &str, ids: &[Bytes]| [verb(name), ids.to_vec()].concat();
    match op {
        Op::Push { ttl, element, id, if_there, slack, at, deliveries, token } => {
            let mut words = verb("PUSH");
            words.extend([number(*ttl), element.clone(), id.clone()]);
            match if_there {
                IfThere::Refuse => {}
                IfThere::Nx => words.push(text("nx")),
                IfThere::Replace => words.push(text("REPLACE")),
            }
            words.extend(option("SLACK", *slack));
            words.extend(option("AT", *at));
            words.extend(option("DELIVERIES", *deliveries));
            words.extend(option("TOKEN", *token));
            words
        }
        Op::GidPush { ttl, element, slack } => {
            let mut words = verb("GIDPUSH");
            words.extend([number(*ttl), element.clone()]);
            words.extend(option("SLACK", *slack));
            words
        }
        Op::MPush(elements) => {
            let mut words = verb("MPUSH");
            for (ttl, element, id) in elements {
                words.extend([number(*ttl), element.clone(), id.clone()]);
            }
            words
        }
        Op::Pull(id) => [verb("PULL"), vec![id.clone()]].concat(),
        Op::Poll { count, block, lease, token, with_ids } => {
            let mut words = verb("POLL");
            words.extend(option("LEASE", *lease));
            words.extend(option("TOKEN", *token));
            words.extend(with_ids.then(|| text("WithIds")));
            words.extend(option("COUNT", *count));
            words.extend(option("BLOCK", *block));
            words
        }
        Op::MPoll { keys, poll } => {
            let mut words = vec![text("DEHYDRATOR.MPOLL"), number(keys.len() as u64)];
            words.extend(keys.iter().map(|key| text(key)));
            words.extend(words_of("", poll).split_off(2));
            words
        }
        Op::XPoll(count) => {
            let mut words = verb("XPOLL");
            words.extend(option("COUNT", *count));
            words
        }
        Op::XAck(ids) => of_ids("XACK", ids),
        Op::Settle(held) => [verb("SETTLE"), pairs_of(held)].concat(),
        Op::Renew { ttl, held } => [verb("RENEW"), vec![number(*ttl)], pairs_of(held)].concat(),
        Op::Look(id) => [verb("LOOK"), vec![id.clone()]].concat(),
        Op::Update(id, element) => [verb("UPDATE"), vec![id.clone(), element.clone()]].concat(),
        Op::Touch { id, ttl, only, at } => {
            let mut words = verb("TOUCH");
            words.extend([id.clone(), number(*ttl)]);
            words.extend(option("AT", *at));
            words.extend(only.map(text));
            words
        }
        Op::Rem(ids) => of_ids("REM", ids),
        Op::Lease { ttl, token, at, ids } => {
            let mut words = verb("LEASE");
            words.push(number(*ttl));
            words.extend(option("TOKEN", *token));
            words.extend([text("AT"), number(*at)]);
            words.extend(ids.iter().cloned());
            words
        }
        Op::OnDue(policy) => {
            let mut words = verb("ONDUE");
            if let Policy::Limit(most, _) = policy {
                words.extend([text("hold"), text("DELIVERIES"), number(*most)]);
            }
            match policy.route() {
                Policy::Hold | Policy::Limit(..) => words.push(text("HOLD")),
                Policy::Drop => words.push(text("drop")),
                Policy::Publish(channel) => words.extend([text("PUBLISH"), text(channel)]),
                Policy::Stream { dest, maxlen } => {
                    words.extend([text("STREAM"), text(dest)]);
                    if let Some((exact, length)) = maxlen {
                        let exactness = text(if *exact { "=" } else { "~" });
                        words.extend([text("MAXLEN"), exactness, number(*length)]);
                    }
                }
            }
            words
        }
        Op::Pause { ms, at } => {
            let mut words = verb("PAUSE");
            words.extend(ms.map(number));
            words.extend(option("AT", *at));
            words
        }
        Op::Resume => verb("RESUME"),
        Op::Ttn => verb("TTN"),
        Op::Pttl(id) => [verb("PTTL"), vec![id.clone()]].concat(),
        Op::Len => verb("LEN"),
        Op::Nonsense(words) => {
            let verb = verb(&String::from_utf8_lossy(&words[0]));
            [&verb[..], &words[1..]].concat()
        }
        Op::Copy { to, db, replace } => {
            let mut words = vec![text("COPY"), key, text(to), text("DB"), number(*db as u64)];
            words.extend(replace.then(|| text("REPLACE")));
            words
        }
        Op::Rename { to, nx } => vec![text(if *nx { "RENAMENX" } else { "RENAME" }), key, text(to)],
        Op::Move(db) => vec![text("MOVE"), key, number(*db as u64)],
        Op::SwapDb(one, other) => vec![text("SWAPDB"), number(*one as u64), number(*other as u64)],
        Op::Del => vec![text("DEL"), key],
        Op::SetText => vec![text("SET"), key, text("text")],
    }
}

fn command(words: &[Bytes]) -> redis::Cmd {
    let mut command = redis::Cmd::new();
    words.iter().for_each(|word| {
        command.arg(word);
    });
    command
}

/// What no command takes, whatever there is.
fn nonsense(random: &mut Random) -> Op {
    let bad = random.pick(&["", " 5", "5 ", "+5", "-1", "05", "1.5", "ten", "9223372036854775808"]);
    let lines = [
        format!("PUSH {bad}|element|id"),
        format!("PUSH 5|element|id|AT|{bad}"),
        format!("PUSH 5|element|id|SLACK|{bad}"),
        format!("PUSH 5|element|id|AT|5|DELIVERIES|{bad}"),
        "PUSH 5|element|id|NX|REPLACE".to_owned(),
        "PUSH 5|element|id|SLACK|5|AT|5".to_owned(),
        "PUSH 5|element|id|DELIVERIES|5".to_owned(),
        "PUSH 5|element|id|AT|5|DELIVERIES|65536".to_owned(),
        "PUSH 5|element".to_owned(),
        format!("GIDPUSH {bad}|element"),
        "GIDPUSH 5|element|NX".to_owned(),
        format!("MPUSH 5|element|new|{bad}|element|newer"),
        "MPUSH 5|element|new|5|element".to_owned(),
        "PULL".to_owned(),
        "PULL id|id".to_owned(),
        format!("POLL COUNT|{bad}"),
        "POLL COUNT|0".to_owned(),
        format!("POLL BLOCK|{bad}"),
        format!("POLL LEASE|{bad}"),
        "POLL LEASE|0".to_owned(),
        "POLL WITHIDS|WITHIDS".to_owned(),
        "MPOLL key".to_owned(),
        "MPOLL key|COUNT|1".to_owned(),
        "XPOLL WITHIDS".to_owned(),
        "XACK".to_owned(),
        "SETTLE token".to_owned(),
        "SETTLE token|id|token".to_owned(),
        "SETTLE |id".to_owned(),
        "RENEW 5|token".to_owned(),
        "RENEW 5|token|id|token".to_owned(),
        format!("RENEW {bad}|token|id"),
        "POLL TOKEN|token".to_owned(),
        "POLL LEASE|5|TOKEN|4611686018427387904".to_owned(),
        "LEASE 5|TOKEN|token|AT|5".to_owned(),
        "PUSH 5|element|id|AT|5|TOKEN|token".to_owned(),
        format!("RANGE {bad}|+"),
        format!("RANGE -|{bad}"),
        format!("RANGE -|+|COUNT|{bad}"),
        "RANGE (5-6|+".to_owned(),
        "LOOK id|EMPTY".to_owned(),
        "UPDATE id".to_owned(),
        format!("TOUCH id|{bad}"),
        "TOUCH id|5|GT|LT".to_owned(),
        format!("TOUCH id|5|AT|{bad}"),
        "REM".to_owned(),
        "LEASE 5|BY|5|id".to_owned(),
        format!("LEASE {bad}|AT|5|id"),
        format!("LEASE 5|AT|{bad}|id"),
        "LEASE 5|AT|5".to_owned(),
        "ONDUE EXPLODE".to_owned(),
        "ONDUE STREAM".to_owned(),
        "ONDUE STREAM|s1|MAXLEN|0".to_owned(),
        format!("ONDUE STREAM|s1|MAXLEN|~|{bad}"),
        "ONDUE HOLD|DROP".to_owned(),
        format!("ONDUE HOLD|DELIVERIES|{bad}|DROP"),
        "ONDUE HOLD|DELIVERIES|0|DROP".to_owned(),
        "ONDUE HOLD|DELIVERIES|65536|DROP".to_owned(),
        "ONDUE HOLD|DELIVERIES|5".to_owned(),
        "ONDUE HOLD|DELIVERIES|5|HOLD".to_owned(),
        "ONDUE DROP|DELIVERIES|5".to_owned(),
        format!("PAUSE {bad}"),
        format!("PAUSE AT|{bad}"),
        "PAUSE 0".to_owned(),
        "PAUSE 5|5".to_owned(),
        "RESUME now".to_owned(),
        "TTN now".to_owned(),
        "SCAN cursor".to_owned(),
        format!("SCAN 0|COUNT|{bad}"),
        "INFO EVERYTHING".to_owned(),
    ];
    let line = random.pick(&lines);
    let (verb, rest) = line.split_once(' ').unwrap_or((&line, ""));
    let rest = rest.split('|').filter(|_| line.contains(' '));
    Op::Nonsense([verb].into_iter().chain(rest).map(|word| word.as_bytes().to_vec()).collect())
}

impl Torture {
    fn new(seed: u64) -> Self {
        let options = ["--appendonly", "yes", "--appendfsync", "no", "--hz", "500"];
        let server = Server::start_debug(&options);
        let replica = Server::start_debug(&["--repl-diskless-load", "swapdb"]);
        replica.follow(&server);
        let now = || {
            let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
            since_epoch.expect("a clock after 1970").as_millis() as u64
        };
        let start = now();
        // What is put away for so many grains comes after what has a deadline of so many grains.
        until("the clock has moved on", || (now() > start).then_some(()));
        let mut torture = Self {
            random: Random::new(seed),
            world: World::default(),
            client: server.connect(),
            subscriber: server.connect(),
            server,
            replica,
            selected: 0,
            start,
            began: Instant::now(),
            offset: 0,
            done: VecDeque::new(),
            deliveries: 0,
        };
        torture.subscribe();
        torture
    }

    fn subscribe(&mut self) {
        self.subscriber = self.server.connect();
        let subscribe = redis::cmd("SUBSCRIBE").arg(CHANNEL).get_packed_command();
        self.subscriber.send_packed_command(&subscribe).expect("sent");
        self.subscriber.recv_response().expect("subscribed");
    }

    /// What time the model has.
    fn now(&self) -> u64 {
        self.start + BEHIND + self.offset
    }

    fn note(&mut self, line: String) {
        self.done.push_back(line);
        if self.done.len() > REMEMBERED {
            self.done.pop_front();
        }
    }

    fn id(&mut self) -> Bytes {
        match self.random.below(20) {
            0 => Vec::new(),
            1 => b"\0\r\n\xff".to_vec(),
            2 => vec![b'i'; 300],
            3..6 => format!("rare-{}", self.random.below(2000)).into_bytes(),
            _ => format!("id-{}", self.random.below(30)).into_bytes(),
        }
    }

    fn element(&mut self) -> Bytes {
        let number = self.random.below(1 << 32).to_string();
        match self.random.below(40) {
            0 => Vec::new(),
            1 => b"\0\r\n\xff".repeat(5),
            2 => number.repeat(600).into_bytes(),
            3 => number.repeat(5000).into_bytes(),
            _ => number.into_bytes(),
        }
    }

    fn ttl(&mut self) -> u64 {
        GRAIN
            * match self.random.below(10) {
                0..3 => 0,
                3..8 => self.random.below(5),
                8 => self.random.below(5000),
                // Far beyond any year that has a name, and near the edge.
                _ => self.random.pick(&[1 << 38, (MAX - self.start) / GRAIN - 10_000]),
            }
    }

    /// What is too much, every now and then.
    fn ttl_or_too_much(&mut self) -> u64 {
        if self.random.one_in(60) { self.random.pick(&[MAX, MAX - 1]) } else { self.ttl() }
    }

    fn deadline(&mut self) -> u64 {
        let grains = GRAIN * (self.offset / GRAIN + self.random.below(8)).saturating_sub(3);
        match self.random.below(8) {
            0 => self.random.pick(&[0, 1, 5, MAX - 1, MAX]),
            1..5 => self.start + grains,
            _ => self.start + grains + GRAIN / 4 * 3,
        }
    }

    fn ids(&mut self) -> Vec<Bytes> {
        (0..=self.random.below(5)).map(|_| self.id()).collect()
    }

    /// A token of a client's own choice, of which there are few.
    fn token(&mut self) -> Option<u64> {
        self.random.one_in(2).then(|| 1 + self.random.below(5))
    }

    /// Ids with the tokens under which they are held, or with others.
    fn held(&mut self, db: usize, key: &str) -> Vec<(u64, Bytes)> {
        let entries = self.world.dehydrator(db, key).map(|it| it.entries.clone());
        let entries = entries.unwrap_or_default().into_iter();
        let mut known: Vec<_> =
            entries.filter_map(|entry| Some((entry.token?, entry.id))).collect();
        let mut held = Vec::new();
        for _ in 0..=self.random.below(4) {
            let at = self.random.below(1 + known.len() as u64) as usize;
            held.push(match known.get(at) {
                Some(_) => known.swap_remove(at),
                None => (1 + self.random.below(5), self.id()),
            });
        }
        held
    }

    fn slack(&mut self) -> Option<u64> {
        // Steps up to a few grains, which leave the TTL a whole number of grains.
        let slacks = [0, 1, 511, GRAIN - 1, 2 * GRAIN, 5 * GRAIN, 8 * GRAIN - 1];
        self.random.one_in(5).then(|| self.random.pick(&slacks))
    }

    fn policy(&mut self) -> Policy {
        match self.random.below(8) {
            0..3 => self.route(),
            3..6 => {
                let most = self.random.pick(&[1, 1, 2, 2, 3, 65_535]);
                Policy::Limit(most, Box::new(self.route()))
            }
            // Or nothing would ever be polled.
            _ => Policy::Hold,
        }
    }

    fn route(&mut self) -> Policy {
        let lengths = [None, Some((false, 1_000_000)), Some((true, 3))];
        match self.random.below(4) {
            0 => Policy::Drop,
            1 => Policy::Publish(CHANNEL),
            _ => Policy::Stream {
                dest: self.random.pick(&STREAMS),
                maxlen: self.random.pick(&lengths),
            },
        }
    }

    fn op(&mut self, db: usize, key: &'static str) -> Op {
        let count = self.random.one_in(2).then(|| self.random.pick(&[1, 2, 3, 10, MAX]));
        match self.random.below(1000) {
            0..250 => {
                let mut ttl = self.ttl_or_too_much();
                let at = self.random.one_in(4).then(|| self.deadline());
                let mut slack = self.slack().filter(|_| at.is_none());
                let if_there = [IfThere::Refuse, IfThere::Nx, IfThere::Replace, IfThere::Replace];
                if self.random.one_in(20) && (GRAIN..MAX / 2).contains(&ttl) && at.is_none() {
                    // Rounded up to whole grains.
                    (ttl, slack) = (ttl - 300, Some(511));
                }
                let deliveries = at.filter(|_| self.random.one_in(3));
                let deliveries = deliveries.map(|_| self.random.pick(&[1, 2, 65_534, 65_535]));
                let if_there = self.random.pick(&if_there);
                let token = deliveries.and_then(|_| self.token());
                let (element, id) = (self.element(), self.id());
                Op::Push { ttl, element, id, if_there, slack, at, deliveries, token }
            }
            250..270 => {
                let (ttl, element, slack) = (self.ttl(), self.element(), self.slack());
                Op::GidPush { ttl, element, slack }
            }
            270..320 => {
                let many = if self.random.one_in(10) { 300 } else { 1 + self.random.below(6) };
                let mut element = || (self.ttl(), self.element(), self.id());
                let mut elements: Vec<_> = (0..many).map(|_| element()).collect();
                if self.random.one_in(20) {
                    elements[0].0 = MAX;
                }
                Op::MPush(elements)
            }
            320..370 => Op::Pull(self.id()),
            370..520 => {
                let lease = self.random.one_in(2).then(|| GRAIN * (1 + self.random.below(3)));
                let lease = if self.random.one_in(100) { Some(MAX) } else { lease };
                let block = self.random.one_in(5).then(|| 1 + self.random.below(3));
                // A client does not sleep beside a policy.
                let is_bound = self.world.dehydrator(db, key).is_some_and(|it| !it.policy.holds());
                let block = block.filter(|_| !is_bound);
                let token = lease.and_then(|_| self.token());
                let with_ids = self.random.one_in(2);
                if self.random.one_in(3) {
                    let mut keys = vec![key];
                    keys.extend((0..self.random.below(4)).map(|_| self.random.pick(&KEYS)));
                    let block = None;
                    let poll = Box::new(Op::Poll { count, block, lease, token, with_ids });
                    return Op::MPoll { keys, poll };
                }
                Op::Poll { count, block, lease, token, with_ids }
            }
            520..570 => Op::XPoll(count),
            570..590 => Op::XAck(self.ids()),
            590..615 => Op::Settle(self.held(db, key)),
            615..640 => {
                let ttl = if self.random.one_in(4) { 0 } else { self.ttl_or_too_much() };
                Op::Renew { ttl, held: self.held(db, key) }
            }
            640..680 => Op::Look(self.id()),
            680..710 => Op::Update(self.id(), self.element()),
            710..790 => {
                let (id, ttl) = (self.id(), self.ttl_or_too_much());
                let only = self.random.pick(&[None, Some("GT"), Some("LT")]);
                let at = self.random.one_in(3).then(|| self.deadline());
                let same = at.is_none().then(|| self.now().checked_add(ttl)).flatten();
                let entry = self.world.dehydrator(db, key);
                let entry = entry.and_then(|it| it.entries.get(it.find(&id)?));
                // Which of the two is later by less than a grain, only the server's clock knows.
                let is_known = entry.is_none_or(|entry| Some(entry.deadline) != same);
                Op::Touch { id, ttl, only: only.filter(|_| is_known), at }
            }
            790..820 => Op::Rem(self.ids()),
            820..840 => {
                let (ttl, at, ids) = (self.ttl(), self.deadline(), self.ids());
                Op::Lease { ttl, token: self.token(), at, ids }
            }
            840..860 => Op::OnDue(self.policy()),
            860..866 => match self.random.below(4) {
                0 => Op::Pause { ms: None, at: None },
                1 => Op::Pause { ms: None, at: Some(self.deadline().clamp(1, MAX - 1)) },
                _ => Op::Pause { ms: Some(self.ttl_or_too_much().max(GRAIN)), at: None },
            },
            // Or nothing would ever be polled.
            866..875 => Op::Resume,
            875..880 => Op::Ttn,
            880..900 => Op::Pttl(self.id()),
            900..910 => Op::Len,
            910..940 => nonsense(&mut self.random),
            940..955 => Op::Copy {
                to: self.random.pick(&KEYS),
                db: self.random.below(2) as usize,
                replace: self.random.one_in(2),
            },
            955..970 => Op::Rename { to: self.random.pick(&KEYS), nx: self.random.one_in(3) },
            970..978 => Op::Move(self.random.below(2) as usize),
            978..982 => Op::SwapDb(self.random.below(2) as usize, self.random.below(2) as usize),
            982..985 => Op::Del,
            985..990 => Op::SetText,
            _ => Op::Len,
        }
    }

    fn select(&mut self, db: usize) {
        if self.selected != db {
            self.client.ask(&format!("SELECT {db}"));
            self.selected = db;
        }
    }

    /// One operation: alone, in a transaction, or in a script.
    fn step(&mut self) {
        let (db, key) = (self.random.below(2) as usize, self.random.pick(&KEYS));
        let op = self.op(db, key);
        // What is not even queued spoils a transaction.
        let how = if matches!(op, Op::Nonsense(_)) { 2 } else { self.random.below(8) };
        let words = words_of(key, &op);
        let shown = words.iter().map(|word| word[..word.len().min(40)].escape_ascii());
        let shown: Vec<_> = shown.map(|word| format!("\"{word}\"")).collect();
        self.note(format!("[{db}] {} (way {how})", shown.join(" ")));
        self.select(db);
        let command = command(&words);
        let reply: Result<Value, redis::RedisError> = match how {
            0 => {
                let packed = [
                    redis::cmd("MULTI").get_packed_command(),
                    command.get_packed_command(),
                    redis::cmd("EXEC").get_packed_command(),
                ];
                self.client.send_packed_command(&packed.concat()).expect("sent");
                for word in ["MULTI", "queued"] {
                    self.client.recv_response().expect(word);
                }
                self.client.recv_response().and_then(|reply| match reply {
                    Value::Array(mut replies) => replies.remove(0).extract_error(),
                    other => panic!("{other:?}"),
                })
            }
            1 => {
                let mut eval = redis::cmd("EVAL");
                eval.arg("return redis.call(unpack(ARGV))").arg(0).arg(words);
                eval.query(&mut self.client)
            }
            _ => command.query(&mut self.client),
        };
        let now = self.now();
        let expected = self.world.apply(db, key, &op, now, how < 2);
        self.check(db, key, &op, reply, expected);
        self.deliver();
    }

    fn check(
        &mut self,
        db: usize,
        key: &'static str,
        op: &Op,
        reply: Result<Value, redis::RedisError>,
        expected: Expect,
    ) {
        match (&expected, reply) {
            (Expect::Is(value), Ok(reply)) => assert_eq!(reply, *value, "{op:?}"),
            (Expect::Near(ms), Ok(Value::Int(reply))) => {
                assert!(reply > 0 && ms.abs_diff(reply as u64) <= BEHIND, "{op:?}: {reply}");
            }
            (Expect::Refused(code), Err(error)) => {
                let said = format!("{} {error}", error.code().unwrap_or_default());
                assert!(said.contains(code), "{op:?}: {error:?} is not {code}");
            }
            (Expect::From(from, _), Ok(Value::Array(reply))) => {
                let [named, given] = &reply[..] else { panic!("{op:?}: {reply:?}") };
                assert_eq!(*named, Value::BulkString(from.as_bytes().to_vec()), "{op:?}");
                let Expect::From(from, expected) = expected else { unreachable!() };
                self.check(db, from, op, Ok(given.clone()), *expected);
            }
            (Expect::NewId, Ok(Value::BulkString(id))) => {
                let is_hex = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
                assert!(id.len() == 32 && id.iter().all(is_hex), "{}", id.escape_ascii());
                let now = self.now();
                self.world.named(db, key, op, id, now);
            }
            (Expect::Leased(rows), Ok(Value::Array(reply))) => {
                let drawn = match reply.first() {
                    Some(Value::Array(first)) => first.last().cloned(),
                    _ => None,
                };
                let row = |row: &Vec<Value>| {
                    Value::Array(row.iter().cloned().chain(drawn.clone()).collect())
                };
                assert_eq!(reply, rows.iter().map(row).collect::<Vec<_>>(), "{op:?}");
                let Some(Value::BulkString(drawn)) = &drawn else { return };
                let token: u64 = String::from_utf8_lossy(drawn).parse().expect("a number");
                assert!(token >= 1 << 62, "{token}");
                let id = |row: &Vec<Value>| match &row[0] {
                    Value::BulkString(id) => id.clone(),
                    other => panic!("{other:?}"),
                };
                let ids: Vec<_> = rows.iter().map(id).collect();
                self.world.held(db, key, &ids, token);
            }
            (_, reply) => panic!("{op:?}: {reply:?} instead of {expected:?}"),
        }
    }

    /// Waits until what policies deliver is delivered, and looks for it where it should have come.
    fn deliver(&mut self) {
        let now = self.now();
        if self.world.resume(now) {
            let paused = self.world.paused() as u64;
            until("pauses are over", || {
                (self.client.info("dehydrator", "dehydrator_paused") == paused).then_some(())
            });
        }
        let delivered = self.world.deliver(now);
        if delivered.is_empty() {
            return;
        }
        for db in 0..2 {
            self.select(db);
            for key in KEYS {
                let Some(it) = self.world.dehydrator(db, key) else { continue };
                let length = it.entries.len();
                until(&format!("what is due in {key:?} of {db} is delivered"), || {
                    let len = redis::cmd("DEHYDRATOR.LEN").arg(key).query(&mut self.client);
                    (len == Ok(length)).then_some(())
                });
            }
        }
        self.deliveries += delivered.iter().map(|it| it.elements.len()).sum::<usize>();
        for db in 0..2 {
            for dest in STREAMS {
                self.check_stream(db, dest, &delivered);
            }
        }
        let is_published = |it: &&Delivered| matches!(it.policy.route(), Policy::Publish(_));
        let sources: Vec<_> = delivered.iter().filter(is_published).collect();
        let mut expected: Vec<_> = elements_of(&sources);
        let mut heard = Vec::new();
        while heard.len() < expected.len() {
            let message = self.subscriber.recv_response().expect("a message");
            let (_, _, payload): (String, String, Bytes) =
                redis::from_redis_value(message).expect("three words");
            heard.push(payload);
        }
        if sources.len() > 1 {
            heard.sort();
            expected.sort_by(|one, other| one.1.cmp(&other.1));
        }
        let expected: Vec<_> = expected.into_iter().map(|(_, element, _)| element).collect();
        assert_eq!(heard, expected, "published");
    }

    /// What was moved to a stream, which is empty then.
    fn check_stream(&mut self, db: usize, dest: &str, delivered: &[Delivered]) {
        self.select(db);
        type Entries = Vec<(String, Vec<Bytes>)>;
        let entries: Entries =
            cmd(&format!("XRANGE {dest} - +")).query(&mut self.client).expect("entries");
        let mut found: Vec<_> = entries
            .into_iter()
            .map(|(_, fields)| {
                let (names, values): (Vec<_>, Vec<_>) =
                    fields.chunks(2).map(|pair| (&pair[0][..], &pair[1])).unzip();
                assert_eq!(names, [&b"id"[..], b"element", b"deliveries"][..names.len()]);
                let deliveries = values.get(2).map(|it| String::from_utf8_lossy(it).parse());
                let deliveries: Option<u64> = deliveries.map(|it| it.expect("a number"));
                (values[0].clone(), values[1].clone(), deliveries)
            })
            .collect();
        self.client.ask(&format!("DEL {dest}"));
        let mut longest = None;
        let goes_there = |it: &&Delivered| match *it.policy.route() {
            Policy::Stream { dest: to, maxlen } if it.db == db && to == dest => {
                longest = longest.or(maxlen.filter(|(exact, _)| *exact));
                true
            }
            _ => false,
        };
        let sources: Vec<_> = delivered.iter().filter(goes_there).collect();
        // Of dead letters alone it is said how often they were given out.
        let told = |it: &Delivered| {
            let is_dead = it.policy.holds();
            let elements = it.elements.iter().cloned();
            elements
                .map(|(id, element, deliveries)| (id, element, is_dead.then_some(deliveries)))
                .collect::<Vec<_>>()
        };
        let mut expected: Vec<_> = sources.iter().flat_map(|it| told(it)).collect();
        if sources.len() > 1 {
            // Of dehydrators that are due at one time each has its turn.
            found.sort();
            expected.sort();
        }
        match longest {
            None => assert_eq!(found, expected, "{dest} of {db}"),
            Some((_, length)) if sources.len() == 1 => {
                let kept = expected.len().saturating_sub(length as usize);
                assert_eq!(found, expected[kept..], "{dest} of {db}");
            }
            // How much was trimmed is a matter of whose turn came last.
            Some(_) => assert!(found.iter().all(|it| expected.contains(it)), "{dest} of {db}"),
        }
    }

    fn set_clock(&mut self) {
        let command = format!("DEHYDRATOR.DEBUG k CLOCK {}", self.offset);
        self.client.ask(&command);
        self.replica.connect().ask(&command);
    }

    /// Time passes, and now and then the clock is set back.
    fn pass(&mut self) {
        let grains = self.random.below(4) * GRAIN;
        self.offset = if self.random.one_in(6) {
            self.offset.saturating_sub(grains)
        } else {
            self.offset + grains
        };
        self.note(format!("the clock is stepped to {} grains", self.offset / GRAIN));
        self.set_clock();
        self.deliver();
    }

    /// All that can be seen of all there is.
    fn compare(&mut self) {
        for db in 0..2 {
            self.select(db);
            let mut keys: Vec<Bytes> = cmd("KEYS *").query(&mut self.client).expect("keys");
            keys.sort();
            let expected: Vec<_> =
                self.world.dbs[db].keys().map(|key| key.as_bytes().to_vec()).collect();
            assert_eq!(keys, expected, "the keys of {db}");
            let kept: Vec<_> = self.world.dbs[db].clone().into_iter().collect();
            for (key, kept) in kept {
                let Kept::Dehydrator(dehydrator) = kept else { continue };
                let ordered = dehydrator.ordered();
                let alive = dehydrator.alive();
                // At the end of time only what nobody has resumed is paused.
                let is_paused = dehydrator.pause == Some(MAX);
                self.compare_order(key, if is_paused { &[] } else { &alive });
                self.compare_elements(key, &ordered);
                self.compare_info(key, &ordered);
                self.compare_scan(key, &ordered);
                self.compare_range(key, &ordered);
            }
        }
    }

    /// At the end of time all is due, in order. In a transaction nothing of it is delivered.
    fn compare_order(&mut self, key: &str, ordered: &[&Entry]) {
        let mut pipe = redis::pipe();
        pipe.atomic();
        pipe.cmd("DEHYDRATOR.DEBUG").arg("k").arg("CLOCK").arg(i64::MAX).ignore();
        pipe.cmd("DEHYDRATOR.XPOLL").arg(key);
        pipe.cmd("DEHYDRATOR.DEBUG").arg("k").arg("CLOCK").arg(self.offset).ignore();
        let (found,): (Vec<Bytes>,) = pipe.query(&mut self.client).expect("ids");
        let expected: Vec<_> = ordered.iter().map(|entry| entry.id.clone()).collect();
        assert_eq!(found, expected, "the order of {key:?}");
    }

    fn compare_elements(&mut self, key: &str, ordered: &[&Entry]) {
        let mut pipe = redis::pipe();
        for entry in ordered {
            pipe.cmd("DEHYDRATOR.LOOK").arg(key).arg(&entry.id);
            pipe.cmd("DEHYDRATOR.PTTL").arg(key).arg(&entry.id);
        }
        if ordered.is_empty() {
            return;
        }
        let replies: Vec<Value> = pipe.query(&mut self.client).expect("replies");
        for (entry, replies) in ordered.iter().zip(replies.chunks(2)) {
            assert_eq!(replies[0], Value::BulkString(entry.element.clone()), "{key:?}: {entry:?}");
            let Value::Int(left) = replies[1] else { panic!("{replies:?}") };
            let expected = entry.deadline.saturating_sub(self.now());
            let is_near = expected.abs_diff(left as u64) <= BEHIND;
            assert!(is_near && (left == 0) == (expected == 0), "{key:?}: {entry:?} in {left} ms");
        }
    }

    fn compare_info(&mut self, key: &str, ordered: &[&Entry]) {
        let mut info = redis::cmd("DEHYDRATOR.INFO");
        let info: Vec<Value> = info.arg(key).arg("FULL").query(&mut self.client).expect("a map");
        let field = |name: &str| {
            let at = info.iter().position(|it| *it == Value::BulkString(name.into()));
            info[at.unwrap_or_else(|| panic!("no {name} in {info:?}")) + 1].clone()
        };
        let count = |which: &dyn Fn(&&&Entry) -> bool| {
            Value::Int(ordered.iter().filter(which).count() as i64)
        };
        let now = self.now();
        assert_eq!(field("length"), count(&|_| true), "{key:?}");
        assert_eq!(field("due"), count(&|entry| entry.deadline <= now), "{key:?}");
        assert_eq!(field("leased"), count(&|entry| entry.deliveries > 0), "{key:?}");
        let by_ttl: Vec<(u64, usize)> = pairs(field("elements-by-ttl"));
        let mut ttls: Vec<_> = ordered.iter().map(|entry| entry.ttl).collect();
        ttls.sort_unstable();
        let expected: Vec<_> = ttls.chunk_by(u64::eq).map(|same| (same[0], same.len())).collect();
        assert_eq!(by_ttl, expected, "{key:?}");
        let Value::Int(queues) = field("ttls") else { panic!("{info:?}") };
        // Those that found no place in a queue count one by one.
        let possible = expected.len()..=ordered.len();
        assert!(possible.contains(&(queues as usize)), "{key:?}: {queues} of {possible:?}");
        match (field("next-deadline"), ordered.first()) {
            (Value::Nil, None) => {}
            (Value::Int(next), Some(first)) => {
                assert!(first.deadline.abs_diff(next as u64) <= BEHIND, "{key:?}: {next}");
            }
            (next, first) => panic!("{key:?}: {next:?} instead of {first:?}"),
        }
        let dehydrator = self.world.dehydrator(self.selected, key);
        let is_paused = dehydrator.is_some_and(|it| it.is_paused(now));
        assert_eq!(field("paused"), Value::Int(is_paused.into()), "{key:?}");
        let end = dehydrator.and_then(|it| it.pause).filter(|end| *end != MAX);
        match (field("paused-until"), end) {
            (Value::Nil, None) => {}
            (Value::Int(told), Some(end)) => {
                assert!(end.abs_diff(told as u64) <= BEHIND, "{key:?}: {told}");
            }
            (told, end) => panic!("{key:?}: {told:?} instead of {end:?}"),
        }
        let policy = self.world.dehydrator(self.selected, key).map(|it| it.policy.clone());
        let policy = words_of(key, &Op::OnDue(policy.unwrap_or_default()))[2..].join(&b' ');
        let Value::BulkString(shown) = field("policy") else { panic!("{info:?}") };
        assert!(shown.eq_ignore_ascii_case(&policy), "{}", shown.escape_ascii());
    }

    /// A walk shows each id exactly once, whatever its steps are.
    fn compare_scan(&mut self, key: &str, ordered: &[&Entry]) {
        let prefix = self.random.pick(&["", "id-", "rare-1", "i", "nobody"]);
        let count = self.random.pick(&[1, 7, 100, 100_000]);
        let count = if ordered.len() > 500 { count.max(100) } else { count };
        let (mut cursor, mut found) = (0_u64, Vec::new());
        loop {
            let mut scan = redis::cmd("DEHYDRATOR.SCAN");
            scan.arg(key)
                .arg(cursor)
                .arg("COUNT")
                .arg(count)
                .arg("MATCH")
                .arg(format!("{prefix}*"));
            let (next, ids): (u64, Vec<Bytes>) = scan.query(&mut self.client).expect("ids");
            found.extend(ids);
            cursor = next;
            if cursor == 0 {
                break;
            }
        }
        found.sort();
        let ids = ordered.iter().map(|entry| entry.id.clone());
        let mut expected: Vec<_> = ids.filter(|id| id.starts_with(prefix.as_bytes())).collect();
        expected.sort();
        assert_eq!(found, expected, "{key:?}, {prefix}");
    }

    /// Page by page, from the beginning or from a moment in the middle.
    fn compare_range(&mut self, key: &str, ordered: &[&Entry]) {
        let count = self.random.pick(&[1, 7, 100, 100_000]);
        let count = if ordered.len() > 500 { count.max(100) } else { count };
        let from = self.random.below(1 + ordered.len() as u64) as usize;
        let now = self.now();
        // So far before what begins there that the server's clock makes no difference.
        let moment = ordered.get(from).map_or(0, |entry| entry.deadline.saturating_sub(BEHIND));
        let from = ordered.partition_point(|entry| entry.deadline <= moment.saturating_sub(1));
        let is_clear = ordered.iter().all(|entry| entry.deadline.abs_diff(moment) > BEHIND / 2);
        let (mut start, from) =
            if is_clear { (moment.to_string(), from) } else { ("-".to_owned(), 0) };
        let mut found = Vec::new();
        loop {
            let mut range = redis::cmd("DEHYDRATOR.RANGE");
            range.arg(key).arg(&start).arg("+").arg("COUNT").arg(count).arg("WITHELEMENTS");
            type Rows = Vec<(Bytes, u64, u64, u64, u64, Bytes)>;
            let (next, rows): (Option<String>, Rows) = range.query(&mut self.client).expect("rows");
            // A small one shows together what has the same deadline.
            assert!(rows.len() >= count || next.is_none(), "{key:?}: {} rows", rows.len());
            found.extend(rows);
            let Some(next) = next else { break };
            start = next;
        }
        assert_eq!(found.len(), ordered.len() - from, "{key:?} from {start}");
        for (entry, (id, deadline, ttl, deliveries, leased, element)) in
            ordered[from..].iter().zip(found)
        {
            assert_eq!((&id, &element), (&entry.id, &entry.element), "{key:?}");
            assert_eq!((ttl, deliveries), (entry.ttl, entry.deliveries), "{key:?}: {entry:?}");
            assert!(entry.deadline.abs_diff(deadline) <= BEHIND, "{key:?}: {entry:?}: {deadline}");
            let is_leased = entry.deliveries > 0 && entry.deadline > now;
            assert_eq!(leased == 1, is_leased, "{key:?}: {entry:?}");
        }
    }

    /// One key's dump is restored over another, or refused.
    fn restore(&mut self) {
        let (db, from, to) =
            (self.random.below(2) as usize, self.random.pick(&KEYS), self.random.pick(&KEYS));
        let replace = self.random.one_in(2);
        self.note(format!("[{db}] {from:?} is dumped and restored as {to:?}, REPLACE {replace}"));
        self.select(db);
        let dump: Option<Bytes> =
            redis::cmd("DUMP").arg(from).query(&mut self.client).expect("a dump");
        assert_eq!(dump.is_some(), self.world.dbs[db].contains_key(from));
        let Some(dump) = dump else { return };
        let mut restore = redis::cmd("RESTORE");
        restore.arg(to).arg(0).arg(dump);
        if replace {
            restore.arg("REPLACE");
        }
        let restored = restore.query::<Value>(&mut self.client);
        if !replace && self.world.dbs[db].contains_key(to) {
            let error = restored.expect_err("the key is there");
            assert_eq!(error.code(), Some("BUSYKEY"), "{error}");
            return;
        }
        assert_eq!(restored, Ok(Value::Okay));
        let copy = self.world.dbs[db].get(from).cloned().expect("it was dumped");
        self.world.dbs[db].insert(to, copy);
    }

    /// What must leave everything as it is.
    fn upheave(&mut self) {
        let before = self.client.ask("DEBUG DIGEST");
        let what = self.random.below(6);
        let names = ["reload", "append-only file", "kill -9", "restart", "replica", "full sync"];
        self.note(names[what as usize].to_owned());
        match what {
            0 => {
                self.client.ask("DEBUG RELOAD");
            }
            1 => {
                let preamble = self.random.pick(&["yes", "no"]);
                self.client.ask(&format!("CONFIG SET aof-use-rdb-preamble {preamble}"));
                self.client.ask("BGREWRITEAOF");
                until("the append-only file is rewritten", || {
                    let is_over = self.client.info("persistence", "aof_rewrite_in_progress")
                        + self.client.info("persistence", "aof_rewrite_scheduled")
                        == 0;
                    is_over.then_some(())
                });
                self.client.ask("DEBUG LOADAOF");
            }
            2 | 3 => {
                if what == 2 {
                    self.server.crash_and_restart();
                } else {
                    self.server.restart();
                }
                self.client = self.server.connect();
                self.selected = 0;
                self.subscribe();
                self.set_clock();
            }
            _ => {
                if what == 5 {
                    let mut replica = self.replica.connect();
                    replica.ask("REPLICAOF NO ONE");
                    replica.ask("FLUSHALL");
                    self.replica.follow(&self.server);
                }
                let mut replica = self.replica.connect();
                until("the replica is equal", || {
                    (replica.ask("DEBUG DIGEST") == before).then_some(())
                });
            }
        }
        assert_eq!(self.client.ask("DEBUG DIGEST"), before, "{}", names[what as usize]);
        // What is written survives a kill -9 either way, and a disk may be slow.
        let fsync = self.random.pick(&["always", "no", "no"]);
        self.client.ask(&format!("CONFIG SET appendfsync {fsync}"));
        self.compare();
    }

    fn run(&mut self, operations: u64) {
        for _ in 0..operations {
            match self.random.below(400) {
                0..10 => self.pass(),
                10..14 => {
                    self.restore();
                    self.deliver();
                }
                14 => self.compare(),
                15 => self.upheave(),
                _ => self.step(),
            }
            let is_short = self.began.elapsed().as_millis() < u128::from(BEHIND / 2);
            assert!(is_short, "a run must be far shorter than a grain");
        }
        self.compare();
    }
}

fn elements_of(sources: &[&Delivered]) -> Vec<(Bytes, Bytes, u64)> {
    sources.iter().flat_map(|it| it.elements.clone()).collect()
}

/// A map, as RESP2 has it.
fn pairs(value: Value) -> Vec<(u64, usize)> {
    redis::from_redis_value(value).expect("pairs of numbers")
}

#[test]
fn whatever_is_done_to_it_a_dehydrator_is_what_the_model_says() {
    let operations = setting("DEHYDRATOR_OPERATIONS", OPERATIONS);
    let mut torture = Torture::new(seed());
    torture.run(operations);
    println!("{operations} operations, {} deliveries", torture.deliveries);
    assert!(operations < 5000 || torture.deliveries > 100, "nothing was delivered");
    let log = torture.server.log() + &torture.replica.log();
    assert!(!log.contains("a bug, please report it"), "{log}");
}
