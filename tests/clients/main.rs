//! docs/clients.md, line by line: `make test-clients`.
//!
//! The tests read the libraries' tables from the page, and compare each cell with what the library does. So the page
//! cannot be wrong, nor name a library that no test tries, except those that were tested by hand, whose date it gives.

mod cluster;
mod facts;
mod page;
mod probe;
mod proxy;
mod small;
mod tables;
