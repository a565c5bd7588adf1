//! A simulated server: it loads the module's library as it is, and gives it a world whose time and order come from a seed.
//!
//! | module | contents |
//! |---|---|
//! | [`machine`] | servers behind the module API, the wires between them, two clocks |
//! | [`world`] | histories drawn from a seed: clients, workers, operators |
//! | [`judges`] | a model of what must be replied, and the promises of docs/guarantees.md |
//!
//! *How.* The first word of the context that `RedisModule_OnLoad` gets is the function that finds all others. The module has no
//! thread and no clock of its own, so whoever answers there decides what happens, when, and in which order. Each start of a
//! server loads a copy of the library, whose statics and thread-locals are its own. `RedisModule_EventLoopAdd` refuses, so that
//! the module uses the server's timers. `exit`, the clock and the source of random seeds, which the library gets from libc, are
//! replaced in the copy's table of offsets.
//!
//! *What keeps it true.* `tests/server/simulated.rs` plays the same scenarios on a real server and on a simulated one of its
//! kind, and compares replies, effects and keyspace events word by word.
//!
//! *What the module must not do.* A use of a key whose value was removed, of a freed string or block, a client unblocked twice,
//! a reply of unknown length, a command without a reply, a loop that never rests: each ends the run.
//!
//! # What is not simulated
//!
//! - *The kernel timer*, which the module uses on Linux: only the server's timers, to the millisecond.
//! - *The time that code takes.* A call of the module API and a read of a clock take a fixed time; the code between takes none.
//! - *A fork.* A snapshot and a rewrite of the append-only file are done at once, in the same process: what a child would
//!   change in its copy of the module stays changed. INFO shows a child until the next cron.
//! - *Bytes on the wire.* Commands arrive whole; replies are values, and output buffers have no limit.
//! - *Offsets of replication* count commands; a snapshot, a dump and a digest have formats of their own. A restarted replica
//!   gets all data.
//! - *The cluster bus.* Slots move at once, with the event of servers that have it; a client is sent to no address that exists.
//! - *Threads.* What is freed lazily is freed on another thread, while the main one waits. With `io-threads`, commands run where
//!   a server runs what its threads have read, and nothing runs beside them.
//! - *Users*: categories of commands, subcommands, selectors, and rights on databases; a key's right is for reading and writing.
//! - *Eviction*: memory is full, or not, as the world says.
//! - *Servers' own types* but strings, lists and streams, and of these what the module and the judges use. `BLPOP`, `XREAD`,
//!   DISCARD and UNSUBSCRIBE are missing. SCAN lists keys in the order of their names.
//! - *Servers' own faults*, but one: on Valkey 8.1 a module that listens leaves a client in the database of an event.
//! - The addresses of the library's copy differ from run to run, and with them the order in which a hash table is walked.

//!
//! # What is judged less exactly
//!
//! The model follows replies and effects one by one, each with its number among all that happened: what they tell must be right
//! to the letter. What is judged by bounds:
//!
//! - *How soon* the module does something by itself: within three milliseconds, or within a second or two where it asks for a
//!   tick, for room or for the end of a pause.
//! - *Limits of each group*, while a change reaches many groups: what those before or those after allow.
//! - *Limits of rate*: what a long window gives out may count for a thousandth longer. After the clock was set back, what certainly
//!   counts, and what may.
//! - *Ids that were remembered* before the clock was set back: either.
//! - *Turns*: no group waits longer than the others take to give out their shares twice.
//! - *Ages*, to the second.
//! - *Without a file and a replica* there are few effects, so nothing is drawn then that leaves by itself.

pub mod judges;
pub mod machine;
pub mod world;
