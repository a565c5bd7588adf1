//! The recipes for many machines, on a real cluster with every kind of disturbance.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::process::{Child, Command};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use redis::{Connection, Value};
use tempfile::TempDir;

use crate::PYTHON;
use harness::nodes::Cluster;
use harness::{Ask, Server, cmd, text, until};

/// The number of keys of the queue.
const KEYS: usize = 6;
/// The lease of a job, in milliseconds.
const LEASE_MS: u64 = 6000;
const DUE: &str = "__keyevent@0__:dehydrator.due";
/// How often a failing job is delivered.
const DELIVERIES: usize = 4;

fn key(number: usize) -> String {
    format!("{{jobs:{}}}", number % KEYS)
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.expect("a clock after 1970").as_millis() as u64
}

/// The pushed elements.
#[derive(Default)]
struct Pushed {
    /// Their deadlines, by the producer's clock when it began to push. The producer knows that some of them exist.
    due: HashMap<String, u64>,
    /// Those that a replica confirmed, by key.
    confirmed: HashMap<String, usize>,
}

/// The nodes, for tests that add and kill some.
struct Nodes {
    cluster: Cluster,
    addresses: Vec<String>,
}

/// Options that [`Cluster::start`] does not set.
fn set_up(node: &Server) {
    let mut node = node.connect();
    node.ask("CONFIG SET notify-keyspace-events Ed");
    // A short timeout for a quick failover, but well above what a busy machine makes a node wait.
    node.ask("CONFIG SET cluster-node-timeout 2000");
}

impl Nodes {
    /// Starts three primaries, each with a replica, and creates the queue's keys.
    fn start() -> Self {
        let cluster = Cluster::start(3, 1);
        cluster.nodes.iter().for_each(set_up);
        let addresses = (0..cluster.nodes.len()).map(|node| cluster.address(node)).collect();
        let keys: Vec<_> = (0..KEYS).map(key).collect();
        let mut client = cluster.connect();
        let directory = format!("{{\"generation\": 1, \"lists\": [{keys:?}]}}");
        redis::cmd("SET").arg("jobs:keys").arg(directory).exec(&mut client).expect("OK");
        for key in keys {
            let rule =
                format!("DEHYDRATOR.ONDUE {key} HOLD DELIVERIES {DELIVERIES} STREAM {key}:dead");
            cmd(&rule).exec(&mut client).expect("OK");
        }
        Self { cluster, addresses }
    }

    fn node(&self, number: usize) -> &Server {
        &self.cluster.nodes[number]
    }

    fn is_primary(&self, number: usize) -> bool {
        let Value::Array(role) = self.node(number).connect().ask("ROLE") else {
            panic!("an array")
        };
        role[0] == text("master")
    }

    /// Waits until each of this many primaries has a replica, and all nodes agree that the cluster is healthy.
    fn wait_until_well(&self, primaries: usize) {
        until("each primary has a replica, and all is well", || {
            let has = |number: &usize| {
                self.is_primary(*number)
                    && self.node(*number).info("replication", "connected_slaves") > 0
            };
            let count = (0..self.cluster.nodes.len()).filter(has).count();
            let well = |node: &Server| {
                format!("{:?}", node.connect().ask("CLUSTER INFO")).contains("cluster_state:ok")
            };
            (count == primaries && self.cluster.nodes.iter().all(well)).then_some(())
        });
    }

    /// Returns the node that serves a key.
    fn owner(&self, key: &str) -> usize {
        until("somebody serves the key", || {
            (0..self.cluster.nodes.len()).find(|number| {
                let look = cmd(&format!("DEHYDRATOR.LEN {key}"));
                self.is_primary(*number) && look.exec(&mut self.node(*number).connect()).is_ok()
            })
        })
    }

    /// Cuts a primary off from its replica, kills it when `lost` returns, and restarts it when the replica has taken
    /// over. Nobody knows what it did meanwhile.
    fn kill_primary(&mut self, number: usize, lost: impl FnOnce(&Server)) {
        let id = self.cluster.id_of(number);
        assert!(self.is_primary(number));
        let follows = |other: &usize| {
            let nodes = cmd("CLUSTER NODES").query::<String>(&mut self.node(*other).connect());
            let nodes = nodes.expect("text");
            nodes.lines().any(|line| line.contains("myself,slave") && line.contains(&id))
        };
        let replica = (0..self.cluster.nodes.len()).find(follows).expect("its replica");
        // With a password that the primary rejects, the replica cannot continue.
        self.node(replica).connect().ask("CONFIG SET masterauth wrong");
        self.node(number).connect().ask("CLIENT KILL TYPE replica");
        lost(self.node(number));
        self.cluster.nodes[number].kill();
        let killed = Instant::now();
        until("its replica has taken over", || self.is_primary(replica).then_some(()));
        println!("its replica has taken over after {:?}", killed.elapsed());
        // It comes back empty, because it stores nothing on disk, and follows the new one.
        self.cluster.nodes[number].relaunch();
        set_up(self.node(number));
        until("it follows", || (!self.is_primary(number)).then_some(()));
        self.node(number).wait_for_link();
    }

    /// Moves the slot of a key to another node, like `redis-cli --cluster reshard`.
    fn move_slot_of(&self, key: &str, to: usize) {
        let from = self.owner(key);
        assert_ne!(from, to);
        let [mut old, mut new] = [from, to].map(|number| self.node(number).connect());
        let Value::Int(slot) = old.ask(&format!("CLUSTER KEYSLOT {key}")) else { panic!("a slot") };
        let [old_id, new_id] = [from, to].map(|number| self.cluster.id_of(number));
        new.ask(&format!("CLUSTER SETSLOT {slot} IMPORTING {old_id}"));
        old.ask(&format!("CLUSTER SETSLOT {slot} MIGRATING {new_id}"));
        let port = self.node(to).port();
        loop {
            let keys: Vec<String> =
                cmd(&format!("CLUSTER GETKEYSINSLOT {slot} 10")).query(&mut old).expect("keys");
            if keys.is_empty() {
                break;
            }
            let migrate = format!("MIGRATE 127.0.0.1 {port} [] 0 5000 KEYS {}", keys.join(" "));
            let mut command = redis::Cmd::new();
            for word in migrate.split(' ') {
                command.arg(if word == "[]" { "" } else { word });
            }
            command.exec(&mut old).expect("they are moved");
        }
        let primaries = (0..self.cluster.nodes.len()).filter(|number| self.is_primary(*number));
        for number in [to, from].into_iter().chain(primaries) {
            self.node(number).connect().ask(&format!("CLUSTER SETSLOT {slot} NODE {new_id}"));
        }
    }

    /// Adds a primary with a replica. Returns the number of the primary.
    fn add(&mut self) -> usize {
        let options = ["--cluster-enabled", "yes", "--notify-keyspace-events", "Ed"];
        let new = self.cluster.nodes.len();
        for _ in 0..2 {
            let node = Server::start_with_port(&options);
            set_up(&node);
            self.cluster.nodes.push(node);
        }
        let first = self.node(1).port();
        // On a busy machine, a handshake times out: repeat the introduction until the cluster is healthy.
        let mut introduced: Option<Instant> = None;
        let count = self.cluster.nodes.len();
        let primary = self.cluster.id_of(new);
        until("all know each other", || {
            if introduced.is_none_or(|at| at.elapsed() > Duration::from_secs(3)) {
                introduced = Some(Instant::now());
                for number in [new, new + 1] {
                    self.node(number).connect().ask(&format!("CLUSTER MEET 127.0.0.1 {first}"));
                }
            }
            let knows = |node: &Server| {
                let nodes = format!("{:?}", node.connect().ask("CLUSTER NODES"));
                nodes.matches(" connected").count() == count && !nodes.contains("handshake")
            };
            self.cluster.nodes.iter().all(knows).then_some(())
        });
        self.node(new + 1).connect().ask(&format!("CLUSTER REPLICATE {primary}"));
        self.node(new + 1).wait_for_link();
        new
    }

    /// Pushes until it is told to stop. A push counts when a replica has it.
    fn produce(addresses: &[String], name: usize, pushed: &Mutex<Pushed>, stop: &AtomicBool) {
        let mut connections: HashMap<String, Connection> = HashMap::new();
        let mut seeds = addresses.iter().cycle();
        let mut at = [(); KEYS].map(|()| addresses[0].clone());
        let mut number = 0;
        while !stop.load(Ordering::Relaxed) {
            number += 1;
            let ttl = (number * 7919 % 1500) as u64;
            let kind = match number {
                fails if fails % 40 == 0 => "fail",
                takes_its_time if takes_its_time % 20 == 7 => "long",
                _ => "job",
            };
            let id = format!("{kind}-{name}-{number}");
            pushed.lock().expect("no panic").due.insert(id.clone(), now() + ttl);
            let mut pipe = redis::pipe();
            pipe.cmd("DEHYDRATOR.PUSH").arg(key(number)).arg(ttl).arg(&id).arg(&id).arg("NX");
            pipe.cmd("WAIT").arg(1).arg(300);
            // A push that is not confirmed is abandoned: it may be done, or not.
            for _ in 0..3 {
                let node = &mut at[number % KEYS];
                match Self::ask(&mut connections, node, &pipe) {
                    Ok((done, replicas)) => {
                        if done == Value::Okay && replicas > 0 {
                            let mut pushed = pushed.lock().expect("no panic");
                            pushed.confirmed.insert(id, number % KEYS);
                        }
                        break;
                    }
                    Err(error) => {
                        let moved = error.redirect_node().map(|(address, _)| address.to_owned());
                        let next = || seeds.next().expect("a cycle").clone();
                        *node = moved.unwrap_or_else(next);
                    }
                }
            }
            std::thread::park_timeout(Duration::from_millis(8));
        }
    }

    fn ask(
        connections: &mut HashMap<String, Connection>,
        node: &str,
        pipe: &redis::Pipeline,
    ) -> redis::RedisResult<(Value, usize)> {
        if !connections.contains_key(node) {
            let connection = redis::Client::open(format!("redis://{node}"))?.get_connection()?;
            connection.set_read_timeout(Some(Duration::from_secs(5)))?;
            connections.insert(node.to_owned(), connection);
        }
        let reply = pipe.query(connections.get_mut(node).expect("it is there"));
        if reply.is_err() {
            connections.remove(node);
        }
        reply
    }
}

/// A process of the recipe. Killed when dropped.
struct Consumer {
    process: Child,
    folder: TempDir,
}

impl Consumer {
    fn start(recipe: &str, addresses: &[String]) -> Self {
        let folder = TempDir::new().expect("a temporary folder");
        let file = |name| fs::File::create(folder.path().join(name)).expect("a file");
        let program = if recipe.ends_with(".py") { PYTHON } else { "node" };
        let mut command = Command::new(program);
        command.arg(format!("examples/{recipe}")).arg("jobs").args(&addresses[..3]);
        // A rare sweep: nothing here may depend on it.
        command.env("LEASE_MS", LEASE_MS.to_string()).env("SWEEP_S", "600").env("COUNT", "2");
        let process = command.stdout(file("out")).stderr(file("err")).spawn().expect("a process");
        Self { process, folder }
    }

    fn said(&self, name: &str) -> String {
        fs::read_to_string(self.folder.path().join(name)).expect("what it said")
    }

    /// Returns what it did: the id, when the work began, and until when it held the lease.
    fn begun(&self) -> Vec<(String, u64, u64)> {
        let said = self.said("out");
        // A killed process may have ended in the middle of a line.
        let whole = said.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        let words = whole.map(|line| line.split_whitespace().collect::<Vec<_>>());
        let number = |word: &str| word.parse().expect("milliseconds");
        words.map(|it| (it[1].to_owned(), number(it[2]), number(it[3]))).collect()
    }

    /// Stops it like an operator.
    fn stop(&mut self) {
        let pid = self.process.id().to_string();
        assert!(Command::new("kill").arg(pid).status().expect("kill").success());
        let status = until("it has stopped", || self.process.try_wait().expect("a child"));
        assert!(status.success(), "{status}: {}", self.said("err"));
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        if std::thread::panicking() {
            let said = self.said("err");
            eprintln!("--- what a consumer said ---\n{}", &said[..said.len().min(4000)]);
        }
    }
}

/// Tells others to stop, even after a panic.
struct StopWhenDropped<'a>(&'a AtomicBool);

impl Drop for StopWhenDropped<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn consumers_in_python_lose_nothing_and_do_nothing_twice_within_a_lease() {
    consume("many_machines.py");
}

#[test]
fn consumers_in_node_lose_nothing_and_do_nothing_twice_within_a_lease() {
    consume("many_machines.js");
}

#[test]
fn the_number_of_keys_changes_under_load_and_every_id_is_found() {
    let cluster = Cluster::start(3, 0);
    let address = format!("redis://{}", cluster.address(0));
    let run = |words: &[&str]| {
        let mut script = Command::new("timeout");
        let output = script.args(["60", PYTHON]).args(words).output().expect("timeout");
        let [said, complaints] =
            [&output.stdout, &output.stderr].map(|it| String::from_utf8_lossy(it));
        assert!(output.status.success(), "{words:?}: {}: {complaints}", output.status);
        println!("{complaints}");
        said.into_owned()
    };
    // Here the recipe is a library.
    let said = run(&["tests/examples/growing.py", &address]);
    assert_eq!(said, "[3, 5, 3, 4] keys; wrong: {}\n");
    // Like an operator.
    let recipe =
        |words: &[&str]| run(&[&["examples/many_keys.py", &address, "mails"], words].concat());
    assert_eq!(recipe(&["keys", "3"]), "mails: {mails:0} {mails:1} {mails:3}\n");
    assert_eq!(recipe(&["keys", "4"]), "mails: {mails:0} {mails:1} {mails:3} {mails:2}\n");
    assert_eq!(recipe(&["forget"]), "");
    let directory: String =
        redis::cmd("GET").arg("mails:keys").query(&mut cluster.connect()).expect("text");
    assert!(directory.contains("\"generation\": 3"), "{directory}");
}

fn consume(recipe: &str) {
    let mut nodes = Nodes::start();
    let addresses = nodes.addresses.clone();
    let pushed = Mutex::new(Pushed::default());
    let stop = AtomicBool::new(false);
    let mut consumers = vec![];
    consumers.extend((0..2).map(|_| Consumer::start(recipe, &addresses)));
    std::thread::scope(|scope| {
        let _stop = StopWhenDropped(&stop);
        for name in 0..2 {
            let (addresses, pushed, stop) = (&addresses, &pushed, &stop);
            scope.spawn(move || Nodes::produce(addresses, name, pushed, stop));
        }
        let load = |what: &str, count: usize| {
            let confirmed = || pushed.lock().expect("no panic").confirmed.len();
            let before = confirmed();
            until(what, || (confirmed() > before + count).then_some(()));
        };
        load("there is a load", 200);
        // Events before the next subscription are missed.
        for node in &nodes.cluster.nodes[..3] {
            let mut node = node.connect();
            let who = Value::Array(vec![text(DUE), Value::Int(2)]);
            let numsub = format!("PUBSUB NUMSUB {DUE}");
            until("both consumers hear it", || (node.ask(&numsub) == who).then_some(()));
            assert_eq!(node.ask("CLIENT KILL TYPE pubsub"), Value::Int(2));
        }
        load("the load goes on after all subscriptions were cut", 100);
        nodes.kill_primary(0, |primary| {
            // Jobs that consumers have not begun, and unconfirmed pushes.
            let given_out = || primary.info("dehydrator", "dehydrator_polls");
            let unsafe_pushes = || {
                let pushed = pushed.lock().expect("no panic");
                pushed.due.len() - pushed.confirmed.len()
            };
            let before = (given_out(), unsafe_pushes());
            until("it does what its replica hears nothing of", || {
                (given_out() > before.0 + 1 && unsafe_pushes() > before.1 + 6).then_some(())
            });
        });
        nodes.wait_until_well(3);
        load("the load goes on after a failover", 200);

        until("a consumer is at a job that takes its time", || {
            consumers[0].begun().last().filter(|(id, ..)| id.starts_with("long")).map(|_| ())
        });
        consumers[0].process.kill().expect("a child");
        consumers.push(Consumer::start(recipe, &addresses));

        for _ in 0..2 {
            for number in 0..2 {
                let here = key(number);
                let from = nodes.owner(&here);
                let to = (0..6).find(|node| *node != from && nodes.is_primary(*node));
                nodes.move_slot_of(&here, to.expect("another primary"));
                load("the load goes on after a slot has moved", 50);
            }
        }

        let new = nodes.add();
        nodes.wait_until_well(4);
        for number in 0..2 {
            nodes.move_slot_of(&key(number), new);
        }
        load("the load goes on with a new node", 200);
    });
    let mut client = nodes.cluster.connect();
    until("all is done", || {
        let mut left = |number| {
            let length = cmd(&format!("DEHYDRATOR.LEN {}", key(number)));
            length.query::<u64>(&mut client).expect("a number")
        };
        (0..KEYS).all(|number| left(number) == 0).then_some(())
    });
    consumers.iter_mut().skip(1).for_each(Consumer::stop);
    let dead: HashSet<String> = (0..KEYS)
        .flat_map(|number| {
            let entries: Vec<(String, [String; 6])> =
                cmd(&format!("XRANGE {}:dead - +", key(number)))
                    .query(&mut client)
                    .expect("a stream");
            entries.into_iter().map(|(_, fields)| fields[1].clone())
        })
        .collect();
    audit(&pushed.into_inner().expect("no panic"), &consumers, &dead);
}

/// Asserts that nothing was lost, early, or done twice within a lease.
fn audit(pushed: &Pushed, consumers: &[Consumer], dead: &HashSet<String>) {
    let mut begun: HashMap<String, Vec<(u64, u64)>> = HashMap::new();
    for (id, at, until) in consumers.iter().flat_map(Consumer::begun) {
        begun.entry(id).or_default().push((at, until));
    }
    let (mut early, mut twice, mut again) = (vec![], vec![], 0);
    for (id, times) in &mut begun {
        times.sort_unstable();
        let due = pushed.due[id];
        early.extend((times[0].0 < due).then_some((id.clone(), due, times[0])));
        // Failed jobs are given back on purpose before their lease ends.
        if !id.starts_with("fail") {
            again += times.len() - 1;
            let within = times.windows(2).filter(|two| two[1].0 < two[0].1);
            twice.extend(within.map(|two| (id.clone(), [two[0], two[1]])));
        }
    }
    let lost: Vec<_> = pushed.confirmed.keys().filter(|id| !begun.contains_key(*id)).collect();
    let letters = pushed.confirmed.keys().filter(|id| id.starts_with("fail"));
    let unburied: Vec<_> = letters.clone().filter(|id| !dead.contains(*id)).collect();
    let each: Vec<_> = consumers.iter().map(|consumer| consumer.begun().len()).collect();
    let count = pushed.confirmed.len();
    println!("{count} of {} confirmed, {each:?} begun, {again} again", pushed.due.len());
    assert!(again > 0, "a killed consumer left something");
    assert!(lost.is_empty(), "lost: {lost:?}");
    assert!(early.is_empty(), "early: {early:?}");
    assert!(twice.is_empty(), "twice within a lease: {twice:?}");
    assert!(unburied.is_empty() && letters.count() > 5, "no dead letters: {unburied:?}");
    assert!(each.iter().all(|count| *count > 50), "not all took part: {each:?}");
}
