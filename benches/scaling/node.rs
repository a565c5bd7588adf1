//! What one node holds and does, by the figures that were measured.

use crate::constants::Constants;
use crate::memory::copied_share;

/// A node's memory, and what of it is not for elements: the system, the server, buffers.
pub const MEMORY_GB: f64 = 16.0;
const RESERVED_GB: f64 = 1.5;
/// How much of a core is planned for: beyond it, requests wait several times as long as they take.
pub const LOAD: f64 = 0.6;

pub struct Node<'a>(pub &'a Constants);

impl Node<'_> {
    fn us(&self, name: &str) -> f64 {
        self.0.get(&format!("{name}_us"))
    }

    /// Reading a request and writing its reply.
    pub fn request_us(&self) -> f64 {
        self.us("ping_in_a_shared_turn") - self.us("ping")
    }

    /// A figure of the largest size that was measured.
    fn of_the_largest(&self, name: &str) -> f64 {
        self.0.find(&format!("{name}_of_ten_million")).unwrap_or_else(|| self.0.get(name))
    }

    /// Elements that fit, where so many are written a second while they are saved; 0: nothing is saved.
    pub fn elements(&self, jobs_a_second: f64) -> f64 {
        let resident = self.of_the_largest("element_resident_bytes");
        let room = (MEMORY_GB - RESERVED_GB) * 1e9;
        let save_s_each = match self.0.find("save_s_of_ten_million") {
            Some(seconds) => seconds / 1e7,
            None => self.0.get("save_s") / 1e6,
        };
        let pages_a_job = self.of_the_largest("copied_pages_a_job");
        let mut elements = room / resident;
        // More elements take longer to save, and more of them are copied meanwhile.
        for _ in 0..50 {
            let share = copied_share(
                pages_a_job,
                jobs_a_second * save_s_each * elements,
                elements * resident,
            );
            elements = room / (resident * (1.0 + share));
        }
        elements
    }

    /// Microseconds of a job's PUSH. `with`: "", or "_durable" with a replica and an append-only file.
    pub fn push_us(&self, with: &str) -> f64 {
        self.us(&format!("push{with}"))
    }

    /// Microseconds of an element's POLL and SETTLE, so many at a time: 1 or 100.
    pub fn take_us(&self, count: usize, with: &str) -> f64 {
        let command = |verb: &str| self.us(&format!("{verb}_{count}{with}"));
        command("lease") + command("settle")
    }

    /// Microseconds of requests for a job that is pushed by itself, and taken and settled so many at a time.
    pub fn requests_us(&self, count: usize) -> f64 {
        self.request_us() * (1.0 + 2.0 / count as f64)
    }

    /// Microseconds for all of a job.
    pub fn job_us(&self, count: usize, with: &str) -> f64 {
        self.push_us(with) + self.take_us(count, with) + self.requests_us(count)
    }

    /// Microseconds to wake a client that sleeps, its POLL included.
    pub fn wake_us(&self) -> f64 {
        self.us("wake_now_64") + self.request_us()
    }
}
