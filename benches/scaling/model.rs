//! Derives the costs of the simulation from the measured constants.

use crate::constants::Constants;
use simulation::costs::Costs;

/// Splits the cost of one element, and of each of a hundred, into the cost of a command and the cost of each element.
fn fixed_and_each(one: f64, of_a_hundred: f64) -> (f64, f64) {
    let each = (100.0 * of_a_hundred - one) / 99.0;
    (one - each, each)
}

pub fn costs(constants: &Constants) -> Costs {
    let us = |name: &str| constants.get(&format!("{name}_us"));
    let (poll, poll_element) = fixed_and_each(us("lease_1"), us("lease_100"));
    let (settle, settle_element) = fixed_and_each(us("settle_1"), us("settle_100"));
    let client_element = (us("client_job_100") - us("client_job_1")) / 99.0;
    Costs {
        wake: us("ping_alone") - us("ping_in_a_shared_turn"),
        request: us("ping_in_a_shared_turn") - us("ping"),
        push: us("push"),
        poll,
        poll_element,
        settle,
        settle_element,
        renew: us("renew_1"),
        woken: us("wake_now_64") - us("take_1"),
        dead: us("ondue_stream"),
        client_wake: us("client_ping") - us("client_ping_of_a_crowd"),
        client_request: us("client_ping_of_a_crowd"),
        client_element,
        interrupt: us("wake_processor"),
    }
}
