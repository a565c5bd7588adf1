//! What several benches share.
//!
//! | module | noun |
//! |---|---|
//! | `callgrind` | a server under callgrind, and what it found |
//! | `load` | elements and pipelines that are sent to servers |
//! | `table`, `markdown` | tables of figures, and how they are printed |
//! | `page`, `chart` | the pages in `docs/` that have those tables, and the charts drawn from them |
//! | `machine` | the machine that figures were measured on |
//! | `simulation` | a server and its workers at sizes beyond one machine |

pub mod callgrind;
pub mod chart;
pub mod load;
pub mod machine;
pub mod markdown;
pub mod page;
pub mod simulation;
pub mod table;
