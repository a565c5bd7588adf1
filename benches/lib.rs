//! Code that several benches share.
//!
//! | module | noun |
//! |---|---|
//! | `callgrind` | a server under callgrind, and its profiles |
//! | `load` | elements and pipelines for servers |
//! | `table`, `markdown` | tables of figures, and their format |
//! | `csv`, `page`, `chart` | the files in `docs/figures/` with those tables, the pages with excerpts, and the charts |
//! | `machine` | the machine that the figures were measured on |

pub mod callgrind;
pub mod chart;
pub mod csv;
pub mod load;
pub mod machine;
pub mod markdown;
pub mod page;
pub mod table;
