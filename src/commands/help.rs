//! What there is: HELP.

use crate::server::string::Args;
use crate::server::{Context, error::Result};

use super::table::commands;

/// `HELP`: each command as it is written, and what it does.
pub fn help(context: &Context, _args: Args<'_>) -> Result {
    let mut reply = context.reply_open_array();
    for command in commands() {
        let verb = command.verb.to_string_lossy().to_uppercase();
        let line = format!("DEHYDRATOR.{verb} {}", command.syntax);
        reply.push_simple(line.trim_end());
        reply.push_simple(&format!("    {}", command.summary.to_string_lossy()));
    }
    Ok(())
}
