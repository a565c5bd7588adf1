//! What REQUIRE asks for.

use crate::server::error::Result;
use crate::server::string::Args;

use super::number::positive;
use super::required;

/// `level [version ...]`. What stands behind the level is for who reads the log; whatever a later version adds there
/// is let pass.
pub struct Require {
    pub level: u64,
    pub version: String,
}

impl Require {
    pub fn parse(args: Args<'_>) -> Result<Self> {
        let level = positive("REQUIRE", required(args, 1)?.bytes(), "a whole number from 1 on")?;
        let version = args.get(2).map(|word| super::shown(word.bytes())).unwrap_or_default();
        Ok(Self { level, version })
    }
}
