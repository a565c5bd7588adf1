//! The one spelling of every effect.
//!
//! What replicas and the append-only file are told is what *happened*, with absolute times, never
//! what was asked for: a replica that is late, or a file that is read next week, comes to the same
//! state element by element. The rewrite of the append-only file uses the same words.
//!
//! | effect | words |
//! |---|---|
//! | an element was pushed | `DEHYDRATOR.PUSH key ttl element id AT deadline` |
//! | elements were taken, by whatever verb | `DEHYDRATOR.REM key id [id ...]` |
//! | the file is rewritten, and it was leased | `DEHYDRATOR.PUSH ... AT deadline DELIVERIES n` |
//! | an element was pushed over another | `DEHYDRATOR.PUSH key ttl element id AT deadline REPLACE` |
//! | elements were leased | `DEHYDRATOR.LEASE key ttl AT deadline id [id ...]` |
//! | an element was updated | the command itself |
//! | an element's timer started anew | `DEHYDRATOR.TOUCH key id ttl AT deadline` |
//! | what becomes of what comes due | `DEHYDRATOR.ONDUE key policy` |
//! | what came due was moved to a stream | `XADD dest ... id element`, and REM, in one transaction |
//! | an empty dehydrator of ReDe's went | `DEL key` |

use std::ffi::c_longlong;

use crate::lawn::Element;
use crate::policy::Policy;
use crate::server::io::Io;
use crate::server::{Context, OwnedStr, Str, api};

/// Ids in one `REM`: enough to make its overhead small, few enough that a replica's buffers and the
/// command itself stay small.
const IDS_MAX: usize = 1024;

/// Spells a push to `RM_Replicate` or `RM_EmitAOF`, which take the same words.
macro_rules! spell_push {
    ($function:ident, $to:expr, $key:expr, $ttl:expr, $element:expr $(, $format:literal $option:literal $(, $value:expr)?)?) => {{
        let Element { id, payload, deadline, .. } = $element;
        // SAFETY: the receiver is live. The format says what follows: a string of the server's, a
        // number, two buffers with their lengths, a C string and a number, and perhaps one more C
        // string, with a number; all are copied. Times are at most 2^63 - 1.
        unsafe {
            api!($function(
                $to,
                c"DEHYDRATOR.PUSH".as_ptr(),
                concat!("slbbcl", $($format,)? "\0").as_ptr().cast(),
                $key,
                $ttl as c_longlong,
                payload.as_ptr(),
                payload.len(),
                id.as_ptr(),
                id.len(),
                c"AT".as_ptr(),
                deadline as c_longlong,
                $($option.as_ptr(), $($value,)?)?
            ))
        };
    }};
}

/// An element was pushed.
pub fn pushed(context: &Context, key: Str<'_>, ttl: u64, element: Element<'_>) {
    spell_push!(RedisModule_Replicate, context.as_ptr(), key.as_ptr(), ttl, element);
}

/// An element was pushed, and one of the same id went.
pub fn replaced(context: &Context, key: Str<'_>, ttl: u64, element: Element<'_>) {
    let (to, key) = (context.as_ptr(), key.as_ptr());
    spell_push!(RedisModule_Replicate, to, key, ttl, element, "c" c"REPLACE");
}

/// An element's timer started anew.
pub fn touched(context: &Context, key: Str<'_>, id: &[u8], ttl: u64, deadline: u64) {
    // SAFETY: the context is live. The format says what follows: a string of the server's, a buffer
    // with its length, a number, a C string and a number; all are copied.
    unsafe {
        api!(RedisModule_Replicate(
            context.as_ptr(),
            c"DEHYDRATOR.TOUCH".as_ptr(),
            c"sblcl".as_ptr(),
            key.as_ptr(),
            id.as_ptr(),
            id.len(),
            ttl as c_longlong,
            c"AT".as_ptr(),
            deadline as c_longlong,
        ))
    };
}

/// As [`pushed`], into an append-only file that is being rewritten.
pub fn rewrite(io: &Io, key: Str<'_>, ttl: u64, element: Element<'_>) {
    let (to, key) = (io.as_ptr(), key.as_ptr());
    match element.deliveries {
        0 => spell_push!(RedisModule_EmitAOF, to, key, ttl, element),
        deliveries => {
            let deliveries = c_longlong::from(deliveries);
            spell_push!(RedisModule_EmitAOF, to, key, ttl, element, "cl" c"DELIVERIES", deliveries);
        }
    }
}

/// What becomes of what comes due, into an append-only file that is being rewritten.
pub fn rewrite_policy(io: &Io, key: Str<'_>, policy: &Policy) {
    let words: Vec<_> = policy.words().iter().map(|word| OwnedStr::new(word)).collect();
    // SAFETY: the io is live. The format says what follows: a string of the server's, and an array of
    // such strings with its length; an `OwnedStr` is such a string and nothing else.
    unsafe {
        api!(RedisModule_EmitAOF(
            io.as_ptr(),
            c"DEHYDRATOR.ONDUE".as_ptr(),
            c"sv".as_ptr(),
            key.as_ptr(),
            words.as_ptr(),
            words.len(),
        ))
    };
}

/// The command did just what it says, in absolute terms.
pub fn verbatim(context: &Context) {
    // SAFETY: the context is live, and that of a command.
    unsafe { api!(RedisModule_ReplicateVerbatim(context.as_ptr())) };
}

/// The dehydrator was found empty, and went.
pub fn deleted(context: &Context, key: Str<'_>) {
    // SAFETY: the context is live, and the format takes one string of the server's.
    unsafe {
        api!(RedisModule_Replicate(context.as_ptr(), c"DEL".as_ptr(), c"s".as_ptr(), key.as_ptr()))
    };
}

/// Effects on several elements, told in as few words as may be: a verb with the ids behind it.
pub struct Batch<'a> {
    context: &'a Context,
    key: Str<'a>,
    /// What stands before the ids: the TTL and the deadline of a lease.
    lease: Option<(u64, u64)>,
    ids: Vec<OwnedStr>,
    any: bool,
}

impl<'a> Batch<'a> {
    /// Elements that are removed.
    pub fn removed(context: &'a Context, key: Str<'a>) -> Self {
        Self { context, key, lease: None, ids: Vec::new(), any: false }
    }

    /// Elements that are leased, in the order in which they were.
    pub fn leased(context: &'a Context, key: Str<'a>, ttl: u64, deadline: u64) -> Self {
        Self { lease: Some((ttl, deadline)), ..Self::removed(context, key) }
    }

    /// One more.
    pub fn push(&mut self, id: &[u8]) {
        self.ids.push(OwnedStr::new(id));
        self.any = true;
        if self.ids.len() == IDS_MAX {
            self.flush();
        }
    }

    /// Tells what is left to tell. Returns whether there was anything at all.
    pub fn finish(mut self) -> bool {
        self.flush();
        self.any
    }

    fn flush(&mut self) {
        if self.ids.is_empty() {
            return;
        }
        let (context, key) = (self.context.as_ptr(), self.key.as_ptr());
        let (ids, count) = (self.ids.as_ptr(), self.ids.len());
        // SAFETY: the context is live. The formats say what follows: a string of the server's, for a
        // lease a number, a C string and a number, and an array of strings of the server's with its
        // length; an `OwnedStr` is such a string and nothing else.
        unsafe {
            match self.lease {
                None => api!(RedisModule_Replicate(
                    context,
                    c"DEHYDRATOR.REM".as_ptr(),
                    c"sv".as_ptr(),
                    key,
                    ids,
                    count,
                )),
                Some((ttl, deadline)) => api!(RedisModule_Replicate(
                    context,
                    c"DEHYDRATOR.LEASE".as_ptr(),
                    c"slclv".as_ptr(),
                    key,
                    ttl as c_longlong,
                    c"AT".as_ptr(),
                    deadline as c_longlong,
                    ids,
                    count,
                )),
            }
        };
        self.ids.clear();
    }
}
