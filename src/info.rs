//! The module's section of INFO.

use std::ffi::{CStr, CString, c_int};

use redis_module::raw::RedisModuleInfoCtx;

use crate::background::cron;
use crate::data_type::totals;
use crate::metrics::counters::{
    DEAD_LETTERS, DELIVERIES, EXPIRED, MISSED, OCCURRENCES, POLLS, PULLS, PUSHES, REDELIVERIES,
    RETRIES,
};
use crate::metrics::lateness::LATENESS;
use crate::pending::agenda::{self, Reason};
use crate::pending::{blocked, overdue};
use crate::schedule;
use crate::server::guard::guard;
use crate::server::{Context, api};
use crate::version;

/// Registers the section. Returns `false` if the server refuses.
pub fn register(context: &Context) -> bool {
    // SAFETY: the context is live.
    unsafe { api!(RedisModule_RegisterInfoFunc(context.as_ptr(), Some(on_info))) == 0 }
}

/// Returns the numeric fields, the most useful to an operator first.
fn fields() -> Vec<(&'static CStr, u64)> {
    let [dehydrators, elements, given_out, leased, ttls, paused, schedules] =
        totals().map(|it| it as u64);
    let ticks = cron::statistics();
    let (late_last, late_max) = LATENESS.last_and_max_us();
    vec![
        (c"dehydrators", dehydrators),
        (c"elements", elements),
        (c"given_out", given_out),
        (c"leased", leased),
        (c"given_back", given_out.saturating_sub(leased)),
        (c"ttls", ttls),
        (c"blocked_clients", blocked::len() as u64),
        (c"pushes", PUSHES.get()),
        (c"pulls", PULLS.get()),
        (c"polls", POLLS.get()),
        (c"redeliveries", REDELIVERIES.get()),
        (c"deliveries", DELIVERIES.get()),
        (c"dead_letters", DEAD_LETTERS.get()),
        (c"expired", EXPIRED.get()),
        (c"retries", RETRIES.get()),
        (c"schedules", schedules),
        (c"occurrences", OCCURRENCES.get()),
        (c"missed", MISSED.get()),
        (c"failing", agenda::failing() as u64),
        (c"paused", paused),
        (c"oldest_due_s", overdue::oldest(1).first().map_or(0, |oldest| oldest.age / 1000)),
        (c"late", LATENESS.late()),
        (c"lateness_last_us", late_last),
        (c"lateness_p50_us", LATENESS.percentile_us(500)),
        (c"lateness_p99_us", LATENESS.percentile_us(990)),
        (c"lateness_p999_us", LATENESS.percentile_us(999)),
        (c"lateness_max_us", late_max),
        (c"lateness_recent_p50_us", LATENESS.recent_us(500)),
        (c"lateness_recent_p99_us", LATENESS.recent_us(990)),
        (c"lateness_recent_max_us", LATENESS.recent_us(1000)),
        (c"scheduled", agenda::len() as u64),
        (c"ticks", ticks.ticks),
        (c"tick_last_us", ticks.last_us),
        (c"tick_longest_us", ticks.longest_us),
        (c"compactions", ticks.compacted),
        (c"compaction_pending", agenda::count(Reason::Compact) as u64),
    ]
}

/// Writes the section. It is also called for a crash report, so it must not block, and changes nothing then.
unsafe extern "C" fn on_info(info: *mut RedisModuleInfoCtx, for_crash_report: c_int) {
    guard((), || {
        if for_crash_report == 0 {
            cron::reset_with_server();
        }
        // SAFETY: `info` is live. A section with an empty name gets the module's name.
        unsafe {
            api!(RedisModule_InfoAddSection(info, c"".as_ptr()));
            // Named like the server's own.
            let is_dirty = if version::DIRTY { "1" } else { "0" };
            let texts = [
                (c"version", version::TEXT),
                (c"git_sha1", version::SHA1),
                (c"git_dirty", is_dirty),
                (c"zones", if schedule::is_of_system() { "system" } else { "bundled" }),
                (c"zones_version", schedule::version()),
            ];
            for (name, value) in texts {
                let value = CString::new(value).unwrap_or_default();
                api!(RedisModule_InfoAddFieldCString(info, name.as_ptr(), value.as_ptr()));
            }
            for (name, value) in fields() {
                api!(RedisModule_InfoAddFieldULongLong(info, name.as_ptr(), value));
            }
        }
    });
}
