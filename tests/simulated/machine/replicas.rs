//! Who follows whom: replicas begin, lose their primary, and become one.

use std::rc::Rc;

use super::clock;
use super::command;
use super::link::Link;
use super::{Machine, ServerId};

impl Machine {
    pub(super) fn link_of(&self, replica: ServerId) -> Option<Rc<Link>> {
        self.servers[replica.0].primary.borrow().clone()
    }

    /// Ends all connections of a server to others.
    pub(super) fn separate(&mut self, s: ServerId) {
        for link in std::mem::take(&mut self.links) {
            if link.primary == s.0 || link.replica == s.0 {
                link.cut();
                self.lose_replica(&link);
            } else {
                self.links.push(link);
            }
        }
    }

    /// Makes a server a replica of another one, or connects it again after a [`cut`](Self::cut).
    pub fn replicate(&mut self, primary: ServerId, replica: ServerId, lag_us: u64) {
        if let Some(before) = self.link_of(replica) {
            before.cut();
            self.lose_replica(&before);
            self.links.retain(|it| !Rc::ptr_eq(it, &before));
        }
        let link = Link::new(primary.0, replica.0, lag_us);
        self.links.push(Rc::clone(&link));
        let server = self.servers[replica.0];
        let known = (server.stream.id.get(), server.stream.offset.get());
        server.follow(&link);
        self.servers[primary.0].synchronize(&link, known.0, known.1);
    }

    /// Cuts the wire to a replica's primary. What is on the way is lost; the replica stays one.
    pub fn cut(&mut self, replica: ServerId) {
        if let Some(link) = self.link_of(replica) {
            link.cut();
            self.lose_replica(&link);
        }
    }

    pub(super) fn lose_replica(&self, link: &Rc<Link>) {
        if let Some(primary) = self.servers.get(link.primary) {
            primary.lose_replica(link);
        }
    }

    /// Makes a replica a primary.
    pub fn promote(&mut self, s: ServerId) {
        if let Some(link) = self.link_of(s) {
            self.lose_replica(&link);
            self.links.retain(|it| !Rc::ptr_eq(it, &link));
        }
        self.servers[s.0].lead();
    }

    /// FAILOVER: pauses writes, waits until the replica has everything, and swaps the roles.
    pub fn fail_over(&mut self, replica: ServerId) {
        let link = self.link_of(replica).expect("a replica");
        let primary = ServerId(link.primary);
        self.pause_writes(primary, u64::MAX / 2);
        while !link.is_empty() {
            let next = self.next_event_us().expect("a wire");
            self.advance(next.saturating_sub(clock::monotonic_us()).max(1));
        }
        self.promote(replica);
        self.replicate(replica, primary, link.lag_us.get());
        self.pause_writes(primary, 0);
    }

    /// Connects replicas again whose primary got other data, and does what REPLICAOF asked for.
    pub(super) fn follow_orders(&mut self, s: ServerId) {
        for link in self.servers[s.0].orphans.take() {
            self.replicate(s, ServerId(link.replica), link.lag_us.get());
        }
        let Some(words) = self.servers[s.0].asked_role.take() else { return };
        let number = words.get(1).and_then(|word| command::number(word));
        match number.filter(|_| words[0] != b"NO") {
            Some(primary) if (primary as usize) < self.servers.len() => {
                self.replicate(ServerId(primary as usize), s, 0);
            }
            // A primary that cannot be reached.
            Some(_) => {
                let link = Link::new(usize::MAX, s.0, 0);
                link.cut();
                self.servers[s.0].follow(&link);
            }
            None => self.promote(s),
        }
    }

    pub fn is_replica(&self, s: ServerId) -> bool {
        self.servers[s.0].is_replica()
    }

    /// Returns whether a replica has received all that its primary has sent.
    pub fn is_in_step(&self, replica: ServerId) -> bool {
        let server = self.servers[replica.0];
        self.link_of(replica).is_some_and(|link| {
            let primary = self.servers[link.primary];
            link.is_up.get()
                && link.is_empty()
                && primary.stream.offset.get() == server.stream.offset.get()
        })
    }
}
