//! What is known of who else is there: who listens, who hears, and what would be refused now.
//!
//! | module | noun |
//! |---|---|
//! | `neighbours` | whether other modules are there, who may listen to events of keys |
//! | `quiet` | whether nobody hears what is replicated |
//! | `refusal` | what the server would refuse to a client now |

pub mod neighbours;
pub mod quiet;
pub mod refusal;
