//! What a primary asks of its replicas: REQUIRE.

use crate::level;
use crate::server::string::Args;
use crate::server::{CommandContext, error::Result};

use super::args;

/// Runs `REQUIRE level [version]`: OK if this version of the module has that [`level`] or a higher one. A server whose
/// primary or append-only file asks for more ends.
pub fn require(context: &CommandContext, args: Args<'_>) -> Result {
    let args::Require { level, version } = args::read(context, args, args::Require::parse)?;
    if level > level::own() {
        if context.must_obey() {
            level::end(context, &format!("it needs level {level}, of version {version}"));
        }
        let own = level::own();
        return Err(
            format!("level {level} is required, and this version of the module has {own}").into()
        );
    }
    context.reply_ok();
    Ok(())
}
