//! What a node's and a worker's processor spend on each thing, in microseconds.

#[derive(Clone, Copy, Debug, Default)]
pub struct Costs {
    /// A node that sleeps begins its turn so much later, and spends that.
    pub wake: f64,
    /// Each request: reading it and writing its reply.
    pub request: f64,
    pub push: f64,
    /// A POLL with LEASE, and each element that it gives out.
    pub poll: f64,
    pub poll_element: f64,
    /// A SETTLE, and each element of it.
    pub settle: f64,
    pub settle_element: f64,
    /// A RENEW of one element.
    pub renew: f64,
    /// Each blocked client that is woken.
    pub woken: f64,
    /// A dead letter that goes to its stream.
    pub dead: f64,
    /// A worker's machine that sleeps begins so much later, and spends that.
    pub client_wake: f64,
    /// A worker's machine, for each reply and the request that follows it.
    pub client_request: f64,
    /// A worker's machine, for each element that it is given: reading it and settling it.
    pub client_element: f64,
    /// From an idle processor's interrupt until it runs: neither works meanwhile.
    pub interrupt: f64,
}
