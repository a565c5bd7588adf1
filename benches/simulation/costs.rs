//! The costs of a node's and a worker's core, in microseconds.

#[derive(Clone, Copy, Debug, Default)]
pub struct Costs {
    /// The delay, and the cost, of waking an idle node.
    pub wake: f64,
    /// Each request: reading it and writing its reply.
    pub request: f64,
    pub push: f64,
    /// A POLL with LEASE, and each element that it returns.
    pub poll: f64,
    pub poll_element: f64,
    /// A SETTLE, and each element of it.
    pub settle: f64,
    pub settle_element: f64,
    /// A RENEW of one element.
    pub renew: f64,
    /// Waking a blocked client.
    pub woken: f64,
    /// Moving a dead letter to its stream.
    pub dead: f64,
    /// The delay, and the cost, of waking an idle worker machine.
    pub client_wake: f64,
    /// A worker machine, per reply and the request that follows.
    pub client_request: f64,
    /// A worker machine, per element: reading and settling it.
    pub client_element: f64,
    /// The time from an interrupt of an idle core until it runs: neither side works meanwhile.
    pub interrupt: f64,
}
