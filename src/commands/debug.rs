//! DEBUG: hooks for tests, in debug builds only.

use std::ffi::CString;

use crate::clock;
use crate::data_type::{self, Writing, inspect};
use crate::level;
use crate::pending::timer;
use crate::server::guard::trap;
use crate::server::key::Name;
use crate::server::string::Args;
use crate::server::{CommandContext, Error, error::Result};
use lawn::Lawn;

/// Runs `DEBUG key word [argument ...]`. Only `UPKEEP`, `ROUND`, `OPEN-TWICE` and `CALL-OUT` use the key.
///
/// - `CLOCK ms`: sets the clock's offset from the server's clock.
/// - `UPKEEP`: forgets at once what the clock has ended, and notes that it has stepped back.
/// - `ROUND`: replies the groups of the round in their order, or nil if the key knows no turns: it is not there, or small.
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
        (Some("UPKEEP"), None) => {
            let (name, now) = (Name::of(context, key), clock::now());
            let mut dehydrator = Writing::open_at(context, key, now)?;
            if let Some(mut groups) = dehydrator.lawn().and_then(Lawn::groups_mut) {
                groups.step_back(now);
            }
            drop(dehydrator);
            data_type::forget_expired(context, &name, now, || true);
        }
        (Some("ROUND"), None) => {
            let round = |lawn: &Lawn| lawn.round().into_iter().map(<[u8]>::to_vec).collect();
            let round: Option<Vec<_>> =
                inspect(context, key, |it| (!it.lawn.is_small()).then(|| round(&it.lawn)))
                    .flatten();
            match round {
                Some(names) => {
                    let mut reply = context.reply_array(names.len());
                    names.iter().for_each(|name| reply.push_bulk(name));
                }
                None => context.reply_null(),
            }
            return Ok(());
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
            context.reply_array_up_to(2).push_bulk(b"first");
            panic!("as was asked for")
        }
        _ => return Err(Error::Arity),
    }
    context.reply_ok();
    Ok(())
}
