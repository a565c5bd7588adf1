//! REQUIRE: the replication level that a replica must support.

use crate::level;
use crate::server::string::Args;
use crate::server::{CommandContext, error::Result};

use super::args::number::{FROM_1, positive};
use super::args::{self, required, shown};

/// Reads `level [version ...]`. The version is only logged. Arguments that a later version adds after it are ignored.
fn parse(args: Args<'_>) -> Result<(u64, String)> {
    let level = positive("REQUIRE", required(args, 1)?.bytes(), FROM_1)?;
    Ok((level, args.get(2).map(|word| shown(word.bytes())).unwrap_or_default()))
}

/// Runs `REQUIRE level [version]`: OK if this version of the module supports that [`level`]. If the request comes from the
/// primary or the append-only file and the level is not supported, the server exits.
pub fn require(context: &CommandContext, args: Args<'_>) -> Result {
    let (level, version) = args::read(context, args, parse)?;
    if level > level::own() {
        if context.must_obey() {
            level::end(context, &format!("what needs level {level}, of version {version}"));
        }
        let own = level::own();
        return Err(
            format!("level {level} is required, and this version of the module has {own}").into()
        );
    }
    context.reply_ok();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::args::testing::*;

    #[test]
    fn what_a_later_version_adds_to_require_is_let_pass() {
        needs_all_of("2", only!(parse));
        assert_eq!(request("2", parse), Ok((2, String::new())));
        assert_eq!(request("3 0.3.0 and more", parse), Ok((3, "0.3.0".into())));
        refuses_each(["0", "-1", "x", "2x"], only!(parse));
    }
}
