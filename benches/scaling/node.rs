//! The capacity of one node, from the measured constants.

use crate::constants::Constants;
use crate::memory::copied_share;

/// The memory of a node, and the part that is not for elements: the system, the server, buffers.
pub const MEMORY_GB: f64 = 16.0;
const RESERVED_GB: f64 = 1.5;
/// The planned share of a core: beyond it, requests wait for several times their own duration.
pub const LOAD: f64 = 0.6;

pub struct Node<'a>(pub &'a Constants);

impl Node<'_> {
    fn us(&self, name: &str) -> f64 {
        self.0.get(&format!("{name}_us"))
    }

    /// Returns the cost of reading a request and writing its reply.
    pub fn request_us(&self) -> f64 {
        self.us("ping_in_a_shared_turn") - self.us("ping")
    }

    /// Returns a figure of the largest measured size.
    fn of_the_largest(&self, name: &str) -> f64 {
        self.0.find(&format!("{name}_of_ten_million")).unwrap_or_else(|| self.0.get(name))
    }

    /// Returns how many elements fit, with this many writes per second during a save; 0: without saving.
    pub fn elements(&self, jobs_a_second: f64) -> f64 {
        let resident = self.of_the_largest("element_resident_bytes");
        let room = (MEMORY_GB - RESERVED_GB) * 1e9;
        let save_s_each = match self.0.find("save_s_of_ten_million") {
            Some(seconds) => seconds / 1e7,
            None => self.0.get("save_s") / 1e6,
        };
        let pages_a_job = self.of_the_largest("copied_pages_a_job");
        let mut elements = room / resident;
        // More elements take longer to save, so more of them are copied meanwhile.
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

    /// Returns the microseconds of a job's PUSH. `with`: "", or "_durable" with a replica and an append-only file.
    pub fn push_us(&self, with: &str) -> f64 {
        self.us(&format!("push{with}"))
    }

    /// Returns the microseconds of an element's POLL and SETTLE, with COUNT 1 or 100.
    pub fn take_us(&self, count: usize, with: &str) -> f64 {
        let command = |verb: &str| self.us(&format!("{verb}_{count}{with}"));
        command("lease") + command("settle")
    }

    /// Returns the microseconds of requests per job, which is pushed separately, and taken and settled with this COUNT.
    pub fn requests_us(&self, count: usize) -> f64 {
        self.request_us() * (1.0 + 2.0 / count as f64)
    }

    /// Returns all microseconds of a job.
    pub fn job_us(&self, count: usize, with: &str) -> f64 {
        self.push_us(with) + self.take_us(count, with) + self.requests_us(count)
    }

    /// Returns the microseconds to wake a blocked client, including its POLL.
    pub fn wake_us(&self) -> f64 {
        self.us("wake_now_64") + self.request_us()
    }
}
