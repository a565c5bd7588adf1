//! A Redis user, as whom the page asks: the nodes that it finds, and what it has seen of them. Everybody shares one, or with
//! `--login` those who log in as the same user.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use redis::{Connection, RedisResult};

use super::counts::Timelines;
use super::discovery;
use super::history::{self, History, SERIES, Sample, Subject};
use super::node::{Database, Node, Role, Seed, State, address_of};
use super::progress::Jobs;
use super::queue::Queue;
use super::refusal::Refusal;
use super::rights::Known;
use crate::ask;
use crate::destination::Destination;
use crate::trouble::Trouble;

/// While somebody looks, the time between two refreshes.
const OFTEN: Duration = Duration::from_secs(1);
/// How long somebody who has asked still looks.
const LOOKS: u64 = 15_000;
/// SCANs, and dehydrators whose facts are read, per refresh and database.
const SCANS: usize = 20;
const ASKED: usize = 300;
/// What is read of INFO.
const SECTIONS: [&str; 6] =
    ["server", "dehydrator", "replication", "memory", "clients", "keyspace"];
/// Queues per node whose history is kept: the greatest, and those that were looked at.
const GREATEST: usize = 100;

pub struct Account {
    pub user: String,
    password: String,
    seeds: Vec<Seed>,
    nodes: RwLock<Vec<Arc<Node>>>,
    history: Mutex<History>,
    /// Queues whose history is kept because they were looked at.
    looked_at: Mutex<HashSet<Subject>>,
    /// When somebody has last asked, in milliseconds since the start.
    asked: AtomicU64,
    pub started: Instant,
    pub jobs: Jobs,
    pub timelines: Timelines,
    pub rights: Known,
}

impl Account {
    /// Begins to watch as a user, and ends when the account is dropped.
    pub fn open(seeds: Vec<Seed>, password: &str) -> Arc<Self> {
        let user = seeds.first().map_or("default", Seed::user).to_owned();
        let account = Arc::new(Self {
            user,
            password: password.to_owned(),
            seeds,
            nodes: RwLock::default(),
            history: Mutex::default(),
            looked_at: Mutex::default(),
            asked: AtomicU64::new(0),
            started: Instant::now(),
            jobs: Jobs::default(),
            timelines: Timelines::default(),
            rights: Known::default(),
        });
        let watched = Arc::downgrade(&account);
        thread::spawn(move || watch(&watched));
        account
    }

    pub fn is_of(&self, user: &str, password: &str) -> bool {
        self.user == user && self.password == password
    }

    /// Returns the nodes, which are looked for if none are known yet.
    pub fn nodes(&self) -> Vec<Arc<Node>> {
        let nodes = self.nodes.read().unwrap_or_else(PoisonError::into_inner).clone();
        if nodes.is_empty() { self.discover() } else { nodes }
    }

    /// Records that somebody looks.
    pub fn touch(&self) {
        self.asked.store(self.since_start(), Ordering::Relaxed);
    }

    pub fn history(&self) -> MutexGuard<'_, History> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the history of this queue from now on.
    pub fn look_at(&self, node: &str, queue: &Queue) {
        let subject =
            Subject { node: node.to_owned(), queue: Some((queue.db, queue.key.0.clone())) };
        let mut looked_at = self.looked_at.lock().unwrap_or_else(PoisonError::into_inner);
        if looked_at.len() > 1_000 {
            looked_at.clear();
        }
        looked_at.insert(subject);
    }

    fn since_start(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Returns the node of a queue. In a cluster another one may own its slot by now, see [`Account::on`].
    pub fn node_of(&self, queue: &Queue) -> Result<Arc<Node>, Refusal> {
        let nodes = self.nodes();
        let named = nodes
            .iter()
            .find(|node| node.name == queue.node || address_of(&node.client) == queue.node);
        let any = || nodes.iter().find(|node| node.is_of_cluster && node.state().trouble.is_none());
        let node = named.or_else(any);
        node.cloned().ok_or_else(|| Refusal::missing(format!("There is no node {}.", queue.node)))
    }

    /// Runs a function with a connection to the queue's database, on the node that owns its slot.
    pub fn on<T>(
        &self,
        queue: &Queue,
        run: impl FnMut(&mut Connection) -> RedisResult<T>,
    ) -> Result<T, Refusal> {
        self.at(queue, run).map(|(_, result)| result)
    }

    /// Like [`Account::on`], and also returns the node.
    pub fn at<T>(
        &self,
        queue: &Queue,
        mut run: impl FnMut(&mut Connection) -> RedisResult<T>,
    ) -> Result<(Arc<Node>, T), Refusal> {
        let node = self.node_of(queue)?;
        let error = match node.with(queue.db, &mut run) {
            Ok(result) => return Ok((node, result)),
            Err(error) => error,
        };
        let Some((owner, _)) = error.redirect_node() else { return Err(error.into()) };
        let nodes = self.nodes();
        let owner = nodes.iter().find(|node| address_of(&node.client) == owner).cloned();
        let Some(owner) = owner else { return Err(error.into()) };
        let result = owner.with(queue.db, &mut run)?;
        Ok((owner, result))
    }

    /// Looks for the nodes of all seeds.
    fn discover(&self) -> Vec<Arc<Node>> {
        let known = self.nodes.read().unwrap_or_else(PoisonError::into_inner).clone();
        let mut nodes: Vec<Arc<Node>> = Vec::new();
        for seed in &self.seeds {
            for found in discovery::find(seed, &known) {
                if nodes.iter().any(|node| node.name == found.name) {
                    continue;
                }
                let before = known.iter().find(|node| node.name == found.name);
                nodes.push(match before {
                    Some(node)
                        if address_of(&node.client) == address_of(&found.client)
                            && node.is_of_cluster == found.is_of_cluster =>
                    {
                        Arc::clone(node)
                    }
                    Some(node) => Arc::new(node.moved_to(found.client, found.is_of_cluster)),
                    None => Arc::new(found),
                });
            }
        }
        self.nodes.write().unwrap_or_else(PoisonError::into_inner).clone_from(&nodes);
        nodes
    }

    /// Returns the nodes whose queues are listed: the primaries, and replicas whose primary is not among the nodes.
    pub fn sources(&self) -> Vec<Arc<Node>> {
        let nodes = self.nodes();
        let primaries: HashSet<String> = nodes
            .iter()
            .map(|node| node.state())
            .filter(|state| state.role == Role::Master && state.trouble.is_none())
            .map(|state| state.replication.clone())
            .collect();
        let is_source = |node: &Arc<Node>| {
            let state = node.state();
            state.role == Role::Master
                || !node.is_of_cluster && !primaries.contains(&state.replication)
        };
        nodes.into_iter().filter(is_source).collect()
    }

    fn refresh(&self) {
        let nodes = self.discover();
        let now = self.started.elapsed();
        thread::scope(|scope| {
            for node in &nodes {
                scope.spawn(|| refresh(node, now));
            }
        });
    }

    /// Reads again what is known of a queue and its node, after a change.
    pub fn reread(&self, queue: &Queue) {
        let Ok(node) = self.node_of(queue) else { return };
        let now = self.started.elapsed();
        // The next refresh tells of errors.
        let _ = node.with(queue.db, |connection| {
            let info = ask::info(connection, &SECTIONS)?;
            {
                let mut state = node.state();
                take_info(&mut state, &info, now);
                let database = state.databases.entry(queue.db).or_default();
                // A revived element may be the first of its queue.
                database.dehydrators.saw(queue.key.0.clone());
            }
            read_facts(connection, &node, queue.db, std::slice::from_ref(&queue.key.0), now)
        });
    }

    fn sample(&self) {
        let time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
        let looked_at = self.looked_at.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut samples = Vec::new();
        for node in self.sources() {
            sample(&node, &looked_at, &mut samples);
        }
        self.history().record(time, samples);
    }
}

/// Refreshes until nobody holds the account.
fn watch(account: &Weak<Account>) {
    let mut sampled: Option<Instant> = None;
    let mut refreshed: Option<Instant> = None;
    let every = Duration::from_secs(history::EVERY);
    while let Some(account) = account.upgrade() {
        let is_looked_at = account.since_start() < account.asked.load(Ordering::Relaxed) + LOOKS;
        let is_due =
            |since: Option<Instant>, every| since.is_none_or(|since| since.elapsed() >= every);
        if is_due(refreshed, if is_looked_at { OFTEN } else { every }) {
            refreshed = Some(Instant::now());
            account.refresh();
        }
        if is_due(sampled, every) {
            sampled = Some(Instant::now());
            account.sample();
        }
        drop(account);
        thread::sleep(Duration::from_millis(100));
    }
}

/// Reads INFO of a node, and some facts of its dehydrators.
fn refresh(node: &Node, now: Duration) {
    let result = try_refresh(node, now);
    let mut state = node.state();
    state.is_known = true;
    state.trouble = match result {
        Ok(()) if state.figures.fields.is_empty() => {
            Some(Trouble::no_module(&node.client, &state.figures.server))
        }
        Ok(()) => None,
        Err(error) => {
            for database in state.databases.values_mut() {
                database.walk.restart();
            }
            let is_connected = error.code().is_some();
            Some(Trouble::new(&node.client, &error, is_connected))
        }
    };
}

fn try_refresh(node: &Node, now: Duration) -> RedisResult<()> {
    let home = node.client.get_connection_info().redis_settings().db();
    let home = u64::try_from(home).unwrap_or(0);
    let info = node.with(home, |connection| ask::info(connection, &SECTIONS))?;
    let databases: Vec<u64> = {
        let mut state = node.state();
        take_info(&mut state, &info, now);
        if state.figures.fields.is_empty() {
            return Ok(());
        }
        state.databases.keys().copied().collect()
    };
    // A user may lack the permission to read one, which does not concern the others.
    for db in databases {
        node.with(db, |connection| refresh_database(connection, node, db, now))?;
    }
    Ok(())
}

fn take_info(state: &mut State, info: &str, now: Duration) {
    state.figures.take(info, now);
    let field = |name: &str| {
        info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
    };
    let number = |name: &str| field(name).and_then(|number| number.parse().ok()).unwrap_or(0);
    state.role = if field("role") == Some("slave") { Role::Replica } else { Role::Master };
    state.link = field("master_link_status").map(str::to_owned);
    state.replication = field("master_replid").unwrap_or_default().to_owned();
    state.memory = number("used_memory");
    state.clients = number("connected_clients");
    let dbs: HashSet<u64> = info
        .lines()
        .filter_map(|line| line.split_once(":keys=")?.0.strip_prefix("db")?.parse().ok())
        .collect();
    state.databases.retain(|db, _| dbs.contains(db));
    for db in dbs {
        state.databases.entry(db).or_default();
    }
}

/// Walks on over the keys of a database, and reads the facts of some dehydrators. The state is not locked meanwhile.
fn refresh_database(
    connection: &mut Connection,
    node: &Node,
    db: u64,
    now: Duration,
) -> RedisResult<()> {
    let mut found = Vec::new();
    let mut walk = match node.state().databases.get_mut(&db) {
        Some(database) => std::mem::take(&mut database.walk),
        None => return Ok(()),
    };
    let is_at_end = walk.find(connection, SCANS, |key| found.push(key))?.is_break();
    let keys = {
        let mut state = node.state();
        let Some(database) = state.databases.get_mut(&db) else { return Ok(()) };
        found.into_iter().for_each(|key| database.dehydrators.saw(key));
        if is_at_end {
            database.dehydrators.end_walk();
            let Database { dehydrators, dead, .. } = database;
            dead.retain(|key, _| dehydrators.all.contains_key(key));
        }
        let keys = walk.next(&database.dehydrators, ASKED);
        database.walk = walk;
        keys
    };
    read_facts(connection, node, db, &keys, now)
}

/// Reads the facts of some dehydrators, and how many dead letters they have.
fn read_facts(
    connection: &mut Connection,
    node: &Node,
    db: u64,
    keys: &[Vec<u8>],
    now: Duration,
) -> RedisResult<()> {
    let all = ask::facts(connection, keys)?;
    let policies = keys.iter().zip(&all).filter_map(|(key, facts)| {
        Some((key, Destination::of_dead_letters(&facts.as_ref()?.policy)))
    });
    let dead = ask::dead(connection, policies)?;
    let mut state = node.state();
    let Some(database) = state.databases.get_mut(&db) else { return Ok(()) };
    for (key, facts) in keys.iter().zip(all) {
        if let Some(facts) = facts {
            database.dehydrators.take_facts(key, facts, now);
        }
        database.dead.remove(key);
    }
    database.dead.extend(dead);
    Ok(())
}

/// Adds the samples of a node and of its queues.
fn sample(node: &Node, looked_at: &HashSet<Subject>, samples: &mut Vec<(Subject, Sample)>) {
    let state = node.state();
    if state.trouble.is_some() {
        return;
    }
    let place = |name: &str| SERIES.iter().position(|series| *series == name);
    let mut total: Sample = [f32::NAN; SERIES.len()];
    let set = |sample: &mut Sample, name: &str, number: f64| {
        if let Some(at) = place(name) {
            sample[at] = number as f32;
        }
    };
    let mut queues = Vec::new();
    let (mut waiting, mut due, mut dead, mut oldest) = (0, 0, 0, 0);
    for (db, database) in &state.databases {
        for (key, dehydrator) in &database.dehydrators.all {
            let facts = &dehydrator.facts;
            waiting += facts.waiting();
            due += facts.due;
            dead += database.dead.get(key).unwrap_or(&0);
            oldest = oldest.max(facts.oldest_due_ms.unwrap_or(0));
            queues.push((facts.length, *db, key, dehydrator, database.dead.get(key)));
        }
    }
    let field = |name: &str| state.figures.fields.get(name).copied().unwrap_or(f64::NAN);
    let rate = |name: &str| state.figures.rate(name).unwrap_or(f64::NAN);
    for (name, number) in [
        ("waiting", waiting as f64),
        ("due", due as f64),
        ("held", field("leased")),
        ("dead", dead as f64),
        ("net", rate("pushes") - state.figures.out().unwrap_or(f64::NAN)),
        ("oldest_due_ms", oldest as f64),
        ("pushes", rate("pushes")),
        ("out", state.figures.out().unwrap_or(f64::NAN)),
        ("deliveries", rate("deliveries")),
        ("redeliveries", rate("redeliveries")),
        ("dead_letters", rate("dead_letters")),
        ("late_p50", field("lateness_recent_p50_us") / 1e3),
        ("late_p99", field("lateness_recent_p99_us") / 1e3),
        ("late_max", field("lateness_recent_max_us") / 1e3),
    ] {
        set(&mut total, name, number);
    }
    samples.push((Subject { node: node.name.clone(), queue: None }, total));

    queues.sort_by_key(|(length, ..)| std::cmp::Reverse(*length));
    for (at, (_, db, key, dehydrator, dead)) in queues.into_iter().enumerate() {
        let subject = Subject { node: node.name.clone(), queue: Some((db, key.clone())) };
        if at >= GREATEST && !looked_at.contains(&subject) {
            continue;
        }
        let mut sample: Sample = [f32::NAN; SERIES.len()];
        let facts = &dehydrator.facts;
        for (name, number) in [
            ("waiting", facts.waiting() as f64),
            ("due", facts.due as f64),
            ("held", facts.leased as f64),
            ("dead", dead.map_or(f64::NAN, |dead| *dead as f64)),
            ("net", dehydrator.net.unwrap_or(f64::NAN)),
            ("oldest_due_ms", facts.oldest_due_ms.unwrap_or(0) as f64),
        ] {
            set(&mut sample, name, number);
        }
        samples.push((subject, sample));
    }
}
