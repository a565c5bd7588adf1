//! Finding out which leases of a dehydrator run, after HELD was said of one in which much was held.

use super::dehydrator_in;
use crate::clock;
use crate::pending::blocked;
use crate::server::guard::Whole;
use crate::server::hold::Hold;
use crate::server::key::Name;
use crate::server::{Context, Key, OwnedStr};

/// Searches for leases that run, for as long as `go_on` says so, which is asked after every few. Returns whether there is more
/// to search. Nothing that can be read changes but how many are known to run, so nothing is signalled.
pub fn search_held(context: &Context, name: &Name, mut go_on: impl FnMut() -> bool) -> bool {
    let sent = OwnedStr::new(&name.key);
    let key = Key::open_to_inspect(context, sent.as_str());
    let value = key.as_ref().and_then(|key| dehydrator_in(key).ok()?);
    let Some(mut value) = value else { return false };
    let hold = Hold::begin();
    // SAFETY: as in `Reading::dehydrator`. The key is open for reading so that nobody's WATCH breaks.
    let dehydrator = unsafe { value.as_mut() };
    let whole = Whole::begin();
    while dehydrator.lawn.search_held() {
        if !go_on() {
            return true;
        }
    }
    // It is known by now what is held.
    dehydrator.note_next(clock::now);
    let outlook = dehydrator.outlook();
    drop((whole, hold, key));
    blocked::note(context, sent.as_str(), || outlook);
    false
}
