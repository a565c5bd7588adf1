//! docs/clients.md, line by line: `make test-clients`.
//!
//! The libraries' tables are read from the page, and each cell of them is compared with what the library does. So the page
//! cannot say what is not so, nor name a library that nothing tries, but for those that were tried by hand: it says when.

mod cluster;
mod facts;
mod page;
mod probe;
mod proxy;
mod small;
mod tables;
