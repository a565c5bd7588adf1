//! docs/clients.md, line by line: `make test-clients`.
//!
//! The libraries' tables are read from the page, and each cell of them is compared with what the library does. So the page
//! cannot say what is not so, nor name a library that nothing tries, but for those that were tried by hand: it says when.

#[path = "../server/harness/mod.rs"]
#[allow(dead_code)]
mod harness;
#[path = "../server/nodes.rs"]
#[allow(dead_code)]
mod nodes;

mod cluster;
mod facts;
mod page;
mod probe;
mod proxy;
mod small;
mod tables;
