//! DEBUG: hooks for tests, in debug builds only.

use std::ffi::CString;

use crate::clock;
use crate::data_type::{Writing, inspect};
use crate::level;
use crate::pending::timer;
use crate::server::guard::trap;
use crate::server::string::Args;
use crate::server::{CommandContext, Error, error::Result};

/// Runs `DEBUG key word [argument ...]`. Only `OPEN-TWICE` and `CALL-OUT` use the key.
///
/// - `CLOCK ms`: sets the clock's offset from the server's clock.
/// - `SERVER-TIMERS`: uses the server's timers, as if the kernel had none.
/// - `LEVEL n`: sets another replication level.
/// - `SAY command argument ...`: replicates any command.
/// - `PANIC`: panics.
/// - `PANIC-IN-REPLY`: panics after half of a reply.
/// - `PANIC-AT place`: panics the next time that place is passed, see [`trap`].
/// - `OPEN-TWICE`: opens the key for writing while it is open for writing.
/// - `CALL-OUT`: calls a server command while the value is borrowed.
pub fn debug(context: &CommandContext, args: Args<'_>) -> Result {
    let key = args.get(1).ok_or(Error::Arity)?;
    let word = |at| args.get(at).map(|word| String::from_utf8_lossy(word.bytes()).into_owned());
    match (word(2).as_deref(), word(3)) {
        (Some("CLOCK"), Some(offset)) => {
            let offset = offset.parse().map_err(|_| Error::from("CLOCK needs a number"))?;
            clock::set_offset(offset);
        }
        (Some("LEVEL"), Some(level)) => {
            level::pretend(level.parse().map_err(|_| Error::from("LEVEL needs a number"))?);
        }
        (Some("SAY"), Some(command)) => {
            let command = CString::new(command).unwrap_or_default();
            context.replicate(&command, args.from(4));
        }
        (Some("SERVER-TIMERS"), None) if timer::use_server_timers() => {}
        (Some("SERVER-TIMERS"), None) => return Err("the timer is in use already".into()),
        (Some("PANIC-AT"), Some(place)) => trap::set(&place),
        (Some("OPEN-TWICE"), None) => {
            let _first = Writing::open(context, key)?;
            Writing::open(context, key)?;
        }
        (Some("CALL-OUT"), None) => {
            inspect(context, key, |_| context.call(c"PING", &[])).transpose()?;
        }
        (Some("PANIC"), None) => panic!("as was asked for"),
        (Some("PANIC-IN-REPLY"), None) => {
            context.reply_array_up_to(2).push_bulk(&b"first"[..]);
            panic!("as was asked for")
        }
        _ => return Err(Error::Arity),
    }
    context.reply_ok();
    Ok(())
}
