//! A trial: a real server with real workers, for comparison with the simulation.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use redis::{Connection, Value};

use crate::job;
use crate::probe::Probe;
use benches::load::{id, pipelines, send};
use harness::{Ask, until};
use simulation::plan::{Arrivals, Plan};
use simulation::random::Random;
use simulation::{MS, Time};

/// The results, as the simulation reports them too.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// From the first deadline until the last element was delivered; until the last one was settled.
    pub given_out_s: f64,
    pub settled_s: f64,
    pub median_ms: f64,
    pub p99_ms: f64,
    pub deliveries: f64,
    /// Deliveries in the busiest second.
    pub peak: f64,
    pub dead: f64,
    /// The CPU time of the server.
    pub busy_s: f64,
    /// The share of time in which the server waited for a core that another process used.
    pub waited_share: f64,
}

pub fn now_ms() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs_f64() * 1e3
}

/// Returns an element: its deadline, and padding.
fn element(deadline_ms: u64) -> String {
    format!("{deadline_ms:064}")
}

fn ms(time: Time) -> u64 {
    time / MS
}

/// Runs a plan on a real server: workers that share this program's core, and do only what the plan says.
pub fn run(probe: &Probe, plan: &Plan) -> Outcome {
    let mut client = probe.connect();
    client.ask("DEL trial trial:dead");
    if plan.retry.deliveries < u16::MAX {
        let most = plan.retry.deliveries;
        client.ask(&format!("DEHYDRATOR.ONDUE trial HOLD DELIVERIES {most} STREAM trial:dead"));
    }
    let pushed = AtomicUsize::new(0);
    // Pushing takes time: on a busy machine, more than planned.
    let mut lead_ms = 500;
    let begins = loop {
        let begins = now_ms() as u64 + lead_ms;
        put_away(&mut client, plan, begins, &pushed);
        if now_ms() + 200.0 < begins as f64 {
            break begins;
        }
        lead_ms *= 2;
        client.ask("DEL trial");
    };
    let begins_at = Instant::now() + Duration::from_millis(begins - now_ms() as u64);
    let (settled, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let given = Mutex::new(Vec::new());
    let mut producing = 0;
    let last_settled = Mutex::new(begins_at);
    let before = thread::scope(|scope| {
        for worker in 0..plan.workers {
            let mut client = probe.connect();
            let worker = Worker { plan, begins_at, number: worker as u64 };
            let (is_over, settled, given, last) = (&is_over, &settled, &given, &last_settled);
            scope.spawn(move || {
                let (mine, at) = worker.work(&mut client, is_over, settled);
                given.lock().expect("no panic").extend(mine);
                let mut last = last.lock().expect("no panic");
                *last = (*last).max(at);
            });
        }
        until("all are asleep", || {
            (client.info("clients", "blocked_clients") == plan.workers as u64).then_some(())
        });
        let before = probe.ran_and_waited_ns();
        for arrivals in &plan.arrivals {
            if let Arrivals::Even { a_second, from, until } = *arrivals {
                producing += 1;
                let first = producing * 100_000_000;
                let mut client = probe.connect();
                let pushed = &pushed;
                let times = [from, until].map(|time| begins_at + Duration::from_nanos(time));
                scope.spawn(move || produce(&mut client, a_second, times, first, pushed));
            }
        }
        let longest = plan.arrivals.iter().map(Arrivals::until).max().unwrap_or(0);
        let produced_at = begins_at + Duration::from_nanos(longest);
        crate::patience::until("each element has ended", || {
            if Instant::now() < produced_at {
                return None;
            }
            let ended = dead(&mut client) + settled.load(Ordering::Relaxed);
            (ended >= pushed.load(Ordering::Relaxed)).then_some(())
        });
        is_over.store(true, Ordering::Relaxed);
        before
    });
    let after = probe.ran_and_waited_ns();
    let [ran, waited] = [0, 1].map(|at| (after[at] - before[at]) as f64 / 1e9);
    let given = given.into_inner().expect("no panic");
    let mut late: Vec<_> = given.iter().map(|(deadline, at)| at - deadline).collect();
    late.sort_by(f64::total_cmp);
    let at = |share: f64| late[((late.len() as f64 * share) as usize).min(late.len() - 1)];
    let mut seconds = vec![0.0; 600];
    given.iter().for_each(|(_, at)| seconds[((at - begins as f64) / 1e3) as usize] += 1.0);
    let last_given = given.iter().map(|(_, at)| *at).fold(0.0, f64::max);
    let last_settled = last_settled.into_inner().expect("no panic");
    Outcome {
        given_out_s: (last_given - begins as f64) / 1e3,
        settled_s: (last_settled - begins_at).as_secs_f64(),
        median_ms: at(0.5),
        p99_ms: at(0.99),
        deliveries: late.len() as f64,
        peak: seconds.into_iter().fold(0.0, f64::max),
        dead: dead(&mut client) as f64,
        busy_s: ran,
        waited_share: waited / (ran + waited),
    }
}

/// Pushes the elements that come due from this moment on.
fn put_away(client: &mut Connection, plan: &Plan, begins: u64, pushed: &AtomicUsize) {
    pushed.store(0, Ordering::Relaxed);
    for arrivals in &plan.arrivals {
        if let Arrivals::Burst { count, from, within } = *arrivals {
            let pushes = pipelines(count, |pipe, number| {
                let at = begins + ms(from + within * number as u64 / count as u64);
                let push = pipe.cmd("DEHYDRATOR.PUSH").arg("trial").arg(60_000).arg(element(at));
                push.arg(id(number)).arg("AT").arg(at);
            });
            send(client, &pushes);
            pushed.fetch_add(count, Ordering::Relaxed);
        }
    }
}

/// Returns the number of dead letters.
fn dead(client: &mut Connection) -> usize {
    match client.ask("XLEN trial:dead") {
        Value::Int(dead) => dead as usize,
        other => panic!("{other:?}"),
    }
}

/// Pushes due elements at a fixed rate, from one moment to another.
fn produce(
    client: &mut Connection,
    a_second: f64,
    [from, until]: [Instant; 2],
    first: usize,
    pushed: &AtomicUsize,
) {
    let all = ((until - from).as_secs_f64() * a_second) as usize;
    let mut done = 0;
    while done < all {
        // The number that should have been pushed by now.
        let due =
            ((Instant::now().saturating_duration_since(from)).as_secs_f64() * a_second) as usize;
        let due = due.min(all);
        if due > done {
            let mut pipe = redis::pipe();
            for number in done..due {
                let push = pipe.cmd("DEHYDRATOR.PUSH").arg("trial").arg(0);
                push.arg(element(now_ms() as u64)).arg(id(first + number)).ignore();
            }
            pushed.fetch_add(due - done, Ordering::Relaxed);
            pipe.exec(client).expect("replies");
            done = due;
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// A worker of a plan.
struct Worker<'a> {
    plan: &'a Plan,
    begins_at: Instant,
    number: u64,
}

impl Worker<'_> {
    /// Works until everything is over. Returns the deadline and the arrival of each delivered element, and the time of
    /// the last SETTLE.
    fn work(
        &self,
        client: &mut Connection,
        is_over: &AtomicBool,
        settled: &AtomicUsize,
    ) -> (Vec<(f64, f64)>, Instant) {
        // It checks from time to time whether everything is over.
        const BLOCK_MS: u64 = 1000;
        let (mut given, mut last) = (Vec::new(), self.begins_at);
        let mut random = Random::new(self.number);
        while !is_over.load(Ordering::Relaxed) {
            let lease = ms(self.plan.lease);
            let held = job::poll(client, "trial", self.plan.count, lease, BLOCK_MS);
            if held.is_empty() {
                continue;
            }
            let now = now_ms();
            for held in &held {
                let deadline = std::str::from_utf8(&held.element).expect("digits");
                given.push((deadline.parse().expect("a number"), now));
            }
            let elapsed = self.begins_at.elapsed().as_nanos() as Time;
            let is_out = |(from, until): (Time, Time)| (from..until).contains(&elapsed);
            if !self.plan.outage.is_some_and(is_out) {
                job::settle("trial", &held).exec(client).expect("a reply");
                settled.fetch_add(held.len(), Ordering::Relaxed);
                last = Instant::now();
                continue;
            }
            let mut pipe = redis::pipe();
            for held in held {
                let pause = self.plan.retry.pause(held.deliveries as u16, random.share());
                pipe.add_command(job::renew("trial", ms(pause), &[held])).ignore();
            }
            pipe.exec(client).expect("replies");
        }
        (given, last)
    }
}
