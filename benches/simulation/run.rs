//! One run: a node and its workers, from the first element to the end of the last.

use std::collections::VecDeque;

use super::agenda::Agenda;
use super::node::{Held, Node};
use super::plan::{Arrivals, Machines, Plan};
use super::random::Random;
use super::tally::Tally;
use super::{MS, Time, US};

/// A request on its way to the node, or waiting there.
enum Request {
    Push,
    /// POLL ... BLOCK 0 of a worker.
    Poll(usize),
    /// A worker's pipeline after its work: one SETTLE, and a RENEW for each element that failed.
    Answer {
        worker: usize,
        settled: Vec<Held>,
        failed: Vec<Held>,
    },
}

enum Event {
    /// Pushes the next element of one of the plan's arrivals.
    Produce(usize),
    Arrive(Request),
    /// The node begins a pass.
    Turn,
    /// The node ends a pass.
    Turned,
    /// The node checks for elements that came due for blocked clients.
    Due,
    /// A worker gets a reply: elements, or the reply to its pipeline.
    Reply(usize, Vec<Held>),
    /// A worker ends its work, or fails.
    Worked {
        worker: usize,
        settled: Vec<Held>,
        failed: Vec<Held>,
    },
}

struct Run<'a> {
    plan: &'a Plan,
    agenda: Agenda<Event>,
    random: Random,
    node: Node,
    /// Requests that have arrived and wait for a pass.
    pending: VecDeque<(Time, Request)>,
    /// Blocked clients, first come first.
    sleepers: VecDeque<usize>,
    /// A pass is running, or begins soon.
    is_awake: bool,
    /// When the node is scheduled to check.
    looks_at: Option<Time>,
    /// When the workers' shared core is free.
    machine_free: Time,
    /// Arrivals that continue, and pushes on their way: elements that the node will still get.
    coming: usize,
    /// Elements that were pushed before the plan's `new_from`: those with a smaller number.
    old: usize,
    tally: Tally,
}

fn ns(us: f64) -> Time {
    (us * US as f64) as Time
}

/// Runs a plan until each element has ended.
pub fn run(plan: &Plan) -> Tally {
    let mut run = Run {
        plan,
        agenda: Agenda::default(),
        random: Random::new(plan.seed),
        node: Node::default(),
        pending: VecDeque::new(),
        sleepers: VecDeque::new(),
        is_awake: false,
        looks_at: None,
        machine_free: 0,
        coming: 0,
        old: 0,
        tally: Tally::default(),
    };
    run.begin();
    while let Some((now, event)) = run.agenda.pop() {
        run.happen(now, event);
        if run.coming == 0 && run.node.has_ended() {
            break;
        }
    }
    run.tally.pushed = run.node.pushed();
    run.tally.settled = run.node.settled;
    run.tally.dead = run.node.dead;
    run.tally
}

impl Run<'_> {
    fn begin(&mut self) {
        for (at, arrivals) in self.plan.arrivals.iter().enumerate() {
            match *arrivals {
                Arrivals::Burst { count, from, within } => {
                    let apart = within as f64 / count as f64;
                    // Deadlines are whole milliseconds.
                    (0..count).for_each(|number| {
                        self.node.push((from + (apart * number as f64) as Time) / MS * MS);
                    });
                }
                Arrivals::Steady { from, .. } | Arrivals::Even { from, .. } => {
                    self.coming += 1;
                    self.agenda.note(from, Event::Produce(at));
                }
            }
        }
        for worker in 0..self.plan.workers {
            self.agenda.note(self.plan.workers_from, Event::Arrive(Request::Poll(worker)));
        }
    }

    fn happen(&mut self, now: Time, event: Event) {
        match event {
            Event::Produce(at) => self.produce(now, at),
            Event::Arrive(request) => {
                self.pending.push_back((now, request));
                self.wake(now);
            }
            Event::Turn => self.turn(now),
            Event::Turned => self.turned(now),
            Event::Due => {
                if self.looks_at == Some(now) {
                    self.looks_at = None;
                    self.wake(now);
                }
            }
            Event::Reply(worker, held) => self.replied(now, worker, held),
            Event::Worked { worker, settled, failed } => {
                let answer = Request::Answer { worker, settled, failed };
                self.agenda.note(now + self.plan.one_way, Event::Arrive(answer));
            }
        }
    }

    fn produce(&mut self, now: Time, at: usize) {
        let (a_second, until, is_even) = match self.plan.arrivals[at] {
            Arrivals::Steady { a_second, until, .. } => (a_second, until, false),
            Arrivals::Even { a_second, until, .. } => (a_second, until, true),
            Arrivals::Burst { .. } => unreachable!("a burst was pushed before"),
        };
        self.coming += 1;
        self.agenda.note(now, Event::Arrive(Request::Push));
        let apart = 1e9 / a_second;
        let pause = if is_even { apart } else { self.random.exponential(apart) };
        let next = now + pause as Time;
        if next < until {
            self.agenda.note(next, Event::Produce(at));
        } else {
            self.coming -= 1;
        }
    }

    /// Makes the node begin a pass, if none is running.
    fn wake(&mut self, now: Time) {
        if !self.is_awake {
            self.is_awake = true;
            let late = self.plan.costs.interrupt + self.plan.costs.wake;
            self.tally.busy += ns(self.plan.costs.wake);
            self.agenda.note(now + ns(late), Event::Turn);
        }
    }

    /// Runs one pass: all requests that have arrived, then blocked clients. Replies are sent at its end.
    fn turn(&mut self, began: Time) {
        let costs = self.plan.costs;
        let mut now = began;
        let mut replies = Vec::new();
        for (arrived, request) in std::mem::take(&mut self.pending) {
            self.tally.requests += 1;
            self.tally.waited += now - arrived;
            now += ns(costs.request);
            match request {
                Request::Push => {
                    now += ns(costs.push);
                    self.node.push(now);
                    self.coming -= 1;
                    if now < self.plan.new_from {
                        self.old = self.node.pushed();
                    }
                }
                Request::Poll(worker) => match self.poll(&mut now) {
                    held if held.is_empty() => self.sleepers.push_back(worker),
                    held => replies.push((worker, held)),
                },
                Request::Answer { worker, settled, failed } => {
                    self.answer(&mut now, &settled, &failed);
                    replies.push((worker, Vec::new()));
                }
            }
        }
        while !self.sleepers.is_empty() {
            let held = self.poll(&mut now);
            if held.is_empty() {
                break;
            }
            now += ns(costs.woken);
            replies.push((self.sleepers.pop_front().expect("a blocked client"), held));
        }
        self.tally.busy += now - began;
        self.tally.second(began).busy += now - began;
        for (worker, held) in replies {
            let at = now + self.plan.one_way;
            self.agenda.note(at, Event::Reply(worker, held));
        }
        self.agenda.note(now, Event::Turned);
    }

    /// Begins another pass, or sleeps until an element is due for a blocked client.
    fn turned(&mut self, now: Time) {
        let next = if self.sleepers.is_empty() { None } else { self.node.next_deadline() };
        if !self.pending.is_empty() || next.is_some_and(|deadline| deadline <= now) {
            return self.turn(now);
        }
        self.is_awake = false;
        self.looks_at = next;
        if let Some(deadline) = next {
            self.agenda.note(deadline, Event::Due);
        }
    }

    fn poll(&mut self, now: &mut Time) -> Vec<Held> {
        let Plan { costs, count, lease, retry, .. } = self.plan;
        let given = self.node.poll(*now, *count, *lease, retry.deliveries);
        *now += ns(given.dead as f64 * costs.dead);
        if !given.held.is_empty() {
            *now += ns(costs.poll + given.held.len() as f64 * costs.poll_element);
        }
        given.held
    }

    fn answer(&mut self, now: &mut Time, settled: &[Held], failed: &[Held]) {
        let Plan { costs, retry, .. } = self.plan;
        if !settled.is_empty() {
            *now += ns(costs.settle + settled.len() as f64 * costs.settle_element);
        }
        for held in settled {
            match self.node.settle(*now, *held) {
                true => self.tally.second(*now).settled += 1,
                false => self.tally.late += 1,
            }
            self.tally.last_settle = *now;
            if (held.element as usize) < self.old {
                self.tally.old_ended = *now;
            }
        }
        for held in failed {
            *now += ns(costs.renew);
            let pause = retry.pause(held.deliveries, self.random.share());
            self.node.renew(*now, *held, *now + pause);
        }
    }

    /// Returns when a worker's core has processed a reply that arrived now, and sent the next request.
    fn processed(&mut self, now: Time, elements: usize) -> Time {
        let costs = &self.plan.costs;
        let work = ns(costs.client_request + elements as f64 * costs.client_element);
        match self.plan.machines {
            Machines::Enough => now + work,
            Machines::One => {
                let late = ns(costs.interrupt + costs.client_wake);
                let from = if self.machine_free <= now { now + late } else { self.machine_free };
                self.machine_free = from + work;
                self.machine_free
            }
        }
    }

    fn replied(&mut self, now: Time, worker: usize, held: Vec<Held>) {
        let at = self.processed(now, held.len());
        if held.is_empty() {
            self.agenda.note(at + self.plan.one_way, Event::Arrive(Request::Poll(worker)));
            return;
        }
        for held in &held {
            let late = at.saturating_sub(held.due);
            self.tally.lateness_us.push(late as f32 / US as f32);
        }
        self.tally.deliveries += held.len();
        self.tally.second(at).deliveries += held.len();
        self.tally.last_delivery = self.tally.last_delivery.max(at);
        let is_out = self.plan.outage.is_some_and(|(from, until)| (from..until).contains(&at));
        let (work, settled, failed) = if is_out {
            (self.plan.fails_after * held.len() as Time, Vec::new(), held)
        } else {
            let works = (0..held.len()).map(|_| self.random.exponential(self.plan.work as f64));
            (works.sum::<f64>() as Time, held, Vec::new())
        };
        self.agenda.note(at + work, Event::Worked { worker, settled, failed });
    }
}
