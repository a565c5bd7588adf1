//! Stuck dead letters, and the deadlines that mark them.

use crate::policy::Policy;
use lawn::{DEADLINE_MAX, Row};

/// The TTL and the deadline of *stuck* dead letters, which cannot be moved to their destination. They stand behind all
/// elements that can be given out, in the order in which they got stuck. No clock ever reaches this deadline, and no
/// client can request it: a client's "never" is [`NEVER`].
pub const STUCK: u64 = DEADLINE_MAX;

/// The latest deadline that a client can set, for "never". A lease until then runs like any other.
pub const NEVER: u64 = STUCK - 1;

/// Returns whether a lease with this deadline runs. A stuck element is not leased to a worker.
pub fn runs(deadline: u64, now: u64) -> bool {
    deadline > now && deadline != STUCK
}

/// The TTL of stuck dead letters that were rejected: dead letters under any limit of deliveries.
pub const REJECTED: u64 = STUCK - 1;

/// Returns whether an element is a stuck dead letter.
pub fn is_stuck(row: &Row<'_>) -> bool {
    row.element.deliveries > 0 && is_stuck_timer(row.ttl, row.element.deadline)
}

/// Returns whether a stuck element is a dead letter under this policy, and not only under an earlier one.
pub fn is_dead(row: &Row<'_>, policy: &Policy) -> bool {
    policy.is_limit() && (row.ttl == REJECTED || policy.routes(row.element.deliveries))
}

/// Returns whether a dead letter with this TTL and deadline is stuck.
pub fn is_stuck_timer(ttl: u64, deadline: u64) -> bool {
    deadline == STUCK && (ttl == STUCK || ttl == REJECTED)
}
