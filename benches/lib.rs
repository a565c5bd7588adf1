//! Code that several benches share.
//!
//! | module | noun |
//! |---|---|
//! | `callgrind` | a server under callgrind, and its profiles |
//! | `load` | elements and pipelines for servers |
//! | `table`, `markdown` | tables of figures, and their format |
//! | `page`, `chart` | the pages in `docs/` with those tables, and the charts drawn from them |
//! | `machine` | the machine that the figures were measured on |

pub mod callgrind;
pub mod chart;
pub mod load;
pub mod machine;
pub mod markdown;
pub mod page;
pub mod table;
