//! The name of a queue: its node, its database and its key.

use serde::{Deserialize, Serialize};

use super::bytes::Bytes;

/// A queue, as requests name it.
#[derive(Clone, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub struct Queue {
    pub node: String,
    #[serde(default)]
    pub db: u64,
    #[serde(rename = "key_b64")]
    pub key: Bytes,
}
