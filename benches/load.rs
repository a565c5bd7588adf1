//! Loads for servers, and their cost.

use redis::{Connection, ConnectionLike, Pipeline, Value};

use harness::Server;

/// Elements per pipeline.
pub const BATCH: usize = 1000;

/// The commands of a pipeline as bytes, packed before anything is timed, and the number of replies.
pub type Packed = (Vec<u8>, usize);

/// Opens a connection without a read timeout. After a process was stopped and continued, which can happen while others
/// measure, Linux does not resume a read with a timeout.
pub fn connect(server: &Server) -> Connection {
    let client = server.connect();
    client.set_read_timeout(None).expect("no timeout");
    client
}

/// Returns an id of 16 bytes. The ids are not in order of their numbers, like real ids.
pub fn id(number: usize) -> String {
    format!("{:016x}", (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// Returns incompressible bytes: a server compresses its dumps, and real elements differ.
pub fn element(number: usize, length: usize) -> Vec<u8> {
    let mut state = number as u64;
    let mut word = || {
        // SplitMix64.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31).to_le_bytes()
    };
    let mut bytes: Vec<u8> =
        std::iter::repeat_with(&mut word).take(length.div_ceil(8)).flatten().collect();
    bytes.truncate(length);
    bytes
}

/// Calls `add` this many times, in pipelines of [`BATCH`].
pub fn pipelines(count: usize, mut add: impl FnMut(&mut Pipeline, usize)) -> Vec<Packed> {
    let batch = |first: usize| {
        let mut pipe = redis::pipe();
        (first..(first + BATCH).min(count)).for_each(|number| add(&mut pipe, number));
        (pipe.get_packed_pipeline(), pipe.len())
    };
    (0..count).step_by(BATCH).map(batch).collect()
}

/// Sends everything. Panics if a reply is an error, or is nil where an element was expected.
pub fn send(client: &mut Connection, pipelines: &[Packed]) {
    for (pipeline, replies) in pipelines {
        let replies = client.req_packed_commands(pipeline, 0, *replies).expect("replies");
        let is_wrong = |reply: &Value| matches!(reply, Value::ServerError(_) | Value::Nil);
        assert!(!replies.iter().any(is_wrong), "{replies:?}");
    }
}

/// Returns the CPU time of the server so far, in microseconds.
pub fn cpu_us(client: &mut Connection) -> f64 {
    cpu_fields_us(client, ["used_cpu_user", "used_cpu_sys"])
}

/// Returns the CPU time of the server's main thread so far, in microseconds.
pub fn main_cpu_us(client: &mut Connection) -> f64 {
    cpu_fields_us(client, ["used_cpu_user_main_thread", "used_cpu_sys_main_thread"])
}

fn cpu_fields_us(client: &mut Connection, fields: [&str; 2]) -> f64 {
    let info: String = redis::cmd("INFO").arg("cpu").query(client).expect("INFO");
    let seconds = |field: &str| -> f64 {
        let line = info.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        line.expect("a field").trim().parse().expect("a number")
    };
    fields.map(seconds).iter().sum::<f64>() * 1e6
}

/// Runs a function, and returns the server's CPU time for each of `count`, in microseconds.
pub fn timed<T>(
    client: &mut Connection,
    count: usize,
    run: impl FnOnce(&mut Connection) -> T,
) -> f64 {
    let before = cpu_us(client);
    run(client);
    (cpu_us(client) - before) / count as f64
}
