//! An effect, in its words.

use std::borrow::Cow;
use std::ffi::c_longlong;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::level;
use crate::policy::{Limits, Pause, Policy, Rate, Trust};
use crate::server::digits::Digits;
use crate::server::guard::trap;
use crate::server::io::Io;
use crate::server::string::Args;
use crate::server::{CommandContext, Context, OwnedStr, Str, api, quiet};
use crate::version;
use lawn::{Element, Token};

/// A push, in the words that the client sent, where they say what happened: the server shares them
/// instead of copying them.
pub struct Pushed<'a> {
    pub key: Str<'a>,
    pub ttl: u64,
    pub element: Str<'a>,
    pub id: Str<'a>,
    pub deadline: u64,
}

/// Writes a TTL and the deadline that it led to as `commands/args/timer.rs` reads them: in one word, of which each
/// costs the server some 800 instructions in the append-only file alone.
pub(super) fn timer(ttl: u64, deadline: u64) -> Digits {
    Digits::new(ttl).and(b'@', deadline)
}

/// Returns the command that runs, if one does, and nobody hears its effects. Then it is said to the server as it was
/// sent, so that it counts the change.
fn unheard(context: &Context) -> Option<&CommandContext> {
    context.command().filter(|_| quiet::is_quiet())
}

/// Says what who begins to listen must understand, ahead of the first effect after that.
#[inline]
pub(super) fn greet(context: &Context) {
    if quiet::take_newcomers() {
        require(context);
    }
}

#[cold]
fn require(context: &Context) {
    // SAFETY: the context is live. The format says what follows: a number, and a buffer with its length; both are
    // copied.
    unsafe {
        api!(RedisModule_Replicate(
            context.as_ptr(),
            c"DEHYDRATOR.REQUIRE".as_ptr(),
            c"lb".as_ptr(),
            level::own() as c_longlong,
            version::TEXT.as_ptr(),
            version::TEXT.len(),
        ))
    };
}

/// Says that into an append-only file that is being rewritten, once.
pub fn rewrite_level(io: &Io) {
    /// The process that has said it. Each rewrite is a process of its own, which the server forks.
    static SAID_BY: AtomicU32 = AtomicU32::new(0);
    let process = std::process::id();
    if SAID_BY.swap(process, Ordering::Relaxed) == process {
        return;
    }
    // SAFETY: the io is live. The format says what follows, as above.
    unsafe {
        api!(RedisModule_EmitAOF(
            io.as_ptr(),
            c"DEHYDRATOR.REQUIRE".as_ptr(),
            c"lb".as_ptr(),
            level::own() as c_longlong,
            version::TEXT.as_ptr(),
            version::TEXT.len(),
        ))
    };
}

/// Says that an element was pushed. `replaces`: one of the same id went.
pub fn pushed(context: &Context, push: &Pushed<'_>, replaces: bool) {
    trap::pass("replicate");
    if let Some(command) = unheard(context) {
        return verbatim(command);
    }
    greet(context);
    let timer = timer(push.ttl, push.deadline);
    let [key, element, id] = [push.key, push.element, push.id].map(Str::as_ptr);
    // Without the word the last one is not looked at.
    let format = if replaces { c"sbssc" } else { c"sbss" };
    // SAFETY: the context is live. The formats say what follows: a string of the server's, a buffer with its length,
    // two strings of the server's, and perhaps a C string. The server counts its own references to its strings, and
    // copies the rest.
    unsafe {
        api!(RedisModule_Replicate(
            context.as_ptr(),
            c"DEHYDRATOR.PUSH".as_ptr(),
            format.as_ptr(),
            key,
            timer.bytes().as_ptr(),
            timer.bytes().len(),
            element,
            id,
            c"REPLACE".as_ptr(),
        ))
    };
}

/// Says that an element was pushed by a command that says so itself in absolute terms, and that does on a replica what it
/// did here.
pub fn pushed_as_sent(context: &CommandContext, args: Args<'_>) {
    trap::pass("replicate");
    if is_known(args.get(0)) || quiet::is_quiet() {
        return verbatim(context);
    }
    greet(context);
    let (sent, count) = args.pointers(1);
    // SAFETY: the context is live, and the format takes an array of strings of the server's with its length: the
    // arguments, which live as long as the command.
    unsafe {
        api!(RedisModule_Replicate(
            context.as_ptr(),
            c"DEHYDRATOR.PUSH".as_ptr(),
            c"v".as_ptr(),
            sent,
            count
        ))
    };
}

/// Says that an element that was taken for a client is there again, as it was, because the client has gone.
/// `replaces`: it was there all the time, under a lease.
pub fn given_back(
    context: &Context,
    push: &Pushed<'_>,
    replaces: bool,
    deliveries: u16,
    token: Option<Token>,
) {
    if deliveries == 0 {
        return pushed(context, push, replaces);
    }
    greet(context);
    let word = |word: &[u8]| OwnedStr::new(word);
    let mut words: Vec<_> = replaces.then(|| word(b"REPLACE")).into_iter().collect();
    words.extend([word(b"DELIVERIES"), OwnedStr::of_number(deliveries.into())]);
    words.extend(
        token.into_iter().flat_map(|token| [word(b"TOKEN"), OwnedStr::of_number(token.number())]),
    );
    let timer = timer(push.ttl, push.deadline);
    let [key, element, id] = [push.key, push.element, push.id].map(Str::as_ptr);
    // SAFETY: the context is live. The format says what follows: strings of the server's, which are live, and of which
    // the server counts its own references, a buffer with its length after the first, and an array of such strings
    // with its length; an `OwnedStr` is such a string and nothing else.
    unsafe {
        api!(RedisModule_Replicate(
            context.as_ptr(),
            c"DEHYDRATOR.PUSH".as_ptr(),
            c"sbssv".as_ptr(),
            key,
            timer.bytes().as_ptr(),
            timer.bytes().len(),
            element,
            id,
            words.as_ptr(),
            words.len()
        ))
    };
}

/// Says that an element's timer started anew.
pub fn touched(context: &Context, key: Str<'_>, id: &[u8], ttl: u64, deadline: u64) {
    if let Some(command) = unheard(context) {
        return verbatim(command);
    }
    greet(context);
    let timer = timer(ttl, deadline);
    // SAFETY: the context is live. The format says what follows: a string of the server's, and two buffers with their
    // lengths; all are copied.
    unsafe {
        api!(RedisModule_Replicate(
            context.as_ptr(),
            c"DEHYDRATOR.TOUCH".as_ptr(),
            c"sbb".as_ptr(),
            key.as_ptr(),
            id.as_ptr(),
            id.len(),
            timer.bytes().as_ptr(),
            timer.bytes().len(),
        ))
    };
}

/// Says what [`pushed`] says, into an append-only file that is being rewritten.
pub fn rewrite(io: &Io, key: Str<'_>, ttl: u64, element: Element<'_>, token: Option<Token>) {
    let Element { id, payload, deadline, deliveries } = element;
    let timer = timer(ttl, deadline);
    // What the format does not speak of is not looked at.
    let format = match (deliveries, token) {
        (0, _) => c"sbbb",
        (_, None) => c"sbbbcl",
        (_, Some(_)) => c"sbbbclcl",
    };
    // SAFETY: the io is live. The formats say what follows: a string of the server's, three buffers with their
    // lengths, and perhaps a C string and a number, once or twice; all are copied. Tokens are at most 2^63 - 1.
    unsafe {
        api!(RedisModule_EmitAOF(
            io.as_ptr(),
            c"DEHYDRATOR.PUSH".as_ptr(),
            format.as_ptr(),
            key.as_ptr(),
            timer.bytes().as_ptr(),
            timer.bytes().len(),
            payload.as_ptr(),
            payload.len(),
            id.as_ptr(),
            id.len(),
            c"DELIVERIES".as_ptr(),
            c_longlong::from(deliveries),
            c"TOKEN".as_ptr(),
            token.map_or(0, Token::number) as c_longlong
        ))
    };
}

/// Says what becomes of what comes due, into an append-only file that is being rewritten.
pub fn rewrite_policy(io: &Io, key: Str<'_>, policy: &Policy, trust: Trust) {
    let words: Vec<_> = policy.words_with(trust).iter().map(|word| OwnedStr::new(word)).collect();
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

/// Says that the policy came by RESTORE, and is to be confirmed.
pub fn unconfirmed(context: &Context, key: Str<'_>, policy: &Policy) {
    said_of_due(context, key, &policy.words_with(Trust::Unconfirmed));
}

/// Says what becomes of what comes due.
pub fn policy(context: &Context, key: Str<'_>, policy: &Policy) {
    said_of_due(context, key, &policy.words());
}

fn said_of_due(context: &Context, key: Str<'_>, words: &[Cow<'_, [u8]>]) {
    greet(context);
    let words: Vec<_> = words.iter().map(|word| OwnedStr::new(word)).collect();
    // SAFETY: the context is live. The format says what follows, as above.
    unsafe {
        api!(RedisModule_Replicate(
            context.as_ptr(),
            c"DEHYDRATOR.ONDUE".as_ptr(),
            c"sv".as_ptr(),
            key.as_ptr(),
            words.as_ptr(),
            words.len(),
        ))
    };
}

/// Says that nothing is given out or delivered for a while.
pub fn paused(context: &Context, key: Str<'_>, pause: Pause) {
    greet(context);
    let (context, name, key) = (context.as_ptr(), c"DEHYDRATOR.PAUSE".as_ptr(), key.as_ptr());
    // SAFETY: the context is live. The formats say what follows: a string of the server's, and perhaps a C string and
    // a number; all are copied. Times are at most 2^63 - 1.
    unsafe {
        match pause.end() {
            None => api!(RedisModule_Replicate(context, name, c"s".as_ptr(), key)),
            Some(end) => {
                let (format, at, end) = (c"scl".as_ptr(), c"AT".as_ptr(), end as c_longlong);
                api!(RedisModule_Replicate(context, name, format, key, at, end))
            }
        }
    };
}

/// Says what [`paused`] says, into an append-only file that is being rewritten.
pub fn rewrite_pause(io: &Io, key: Str<'_>, pause: Pause) {
    let (io, name, key) = (io.as_ptr(), c"DEHYDRATOR.PAUSE".as_ptr(), key.as_ptr());
    // SAFETY: the io is live. As above.
    unsafe {
        match pause.end() {
            None => api!(RedisModule_EmitAOF(io, name, c"s".as_ptr(), key)),
            Some(end) => {
                let (format, at, end) = (c"scl".as_ptr(), c"AT".as_ptr(), end as c_longlong);
                api!(RedisModule_EmitAOF(io, name, format, key, at, end))
            }
        }
    };
}

/// Says which limits hold, and what was given out under a rate, into an append-only file that is being rewritten.
pub fn rewrite_limits(io: &Io, key: Str<'_>, limits: &Limits) {
    let words: Vec<_> = limits.words().iter().map(|word| OwnedStr::new(word)).collect();
    // SAFETY: the io is live. The format says what follows: a string of the server's, and an array of such strings with
    // its length; an `OwnedStr` is such a string and nothing else.
    unsafe {
        api!(RedisModule_EmitAOF(
            io.as_ptr(),
            c"DEHYDRATOR.LIMIT".as_ptr(),
            c"sv".as_ptr(),
            key.as_ptr(),
            words.as_ptr(),
            words.len(),
        ))
    };
    for (moment, count) in limits.rate.iter().flat_map(Rate::entries) {
        // SAFETY: the io is live. The format says what follows: a string of the server's, and two numbers.
        unsafe {
            api!(RedisModule_EmitAOF(
                io.as_ptr(),
                c"DEHYDRATOR.GIVEN".as_ptr(),
                c"sll".as_ptr(),
                key.as_ptr(),
                moment as c_longlong,
                count as c_longlong,
            ))
        };
    }
}

/// Says that so many were given out at a moment, where there is a limit to that. It goes with what says that they were
/// taken, or leased.
pub fn given(context: &Context, key: Str<'_>, moment: u64, count: u64) {
    if quiet::is_quiet() {
        return;
    }
    greet(context);
    // SAFETY: the context is live. The format says what follows: a string of the server's, and two numbers.
    unsafe {
        api!(RedisModule_Replicate(
            context.as_ptr(),
            c"DEHYDRATOR.GIVEN".as_ptr(),
            c"sll".as_ptr(),
            key.as_ptr(),
            moment as c_longlong,
            count as c_longlong,
        ))
    };
}

/// Says until when the id of what has gone is remembered, into an append-only file that is being rewritten.
pub fn rewrite_settled(io: &Io, key: Str<'_>, until: u64, id: &[u8]) {
    // SAFETY: the io is live. The format says what follows: a string of the server's, a number, which is at most
    // 2^63 - 1, and a buffer with its length; all are copied.
    unsafe {
        api!(RedisModule_EmitAOF(
            io.as_ptr(),
            c"DEHYDRATOR.SETTLED".as_ptr(),
            c"slb".as_ptr(),
            key.as_ptr(),
            until as c_longlong,
            id.as_ptr(),
            id.len(),
        ))
    };
}

/// Says that a pause is over.
pub fn resumed(context: &Context, key: Str<'_>) {
    greet(context);
    let (context, name) = (context.as_ptr(), c"DEHYDRATOR.RESUME".as_ptr());
    // SAFETY: the context is live, and the format takes one string of the server's.
    unsafe { api!(RedisModule_Replicate(context, name, c"s".as_ptr(), key.as_ptr())) };
}

/// Returns whether a command is one that every server with the module has: not those that go by ReDe's names, which a replica
/// may not answer to, or the server that reads an append-only file next year.
fn is_known(name: Option<Str<'_>>) -> bool {
    const PREFIX: &[u8] = b"DEHYDRATOR.";
    let prefix = name.and_then(|name| name.bytes().get(..PREFIX.len()));
    prefix.is_some_and(|prefix| prefix.eq_ignore_ascii_case(PREFIX))
}

/// Says that one element was taken, by a command of this name that says which.
pub fn removed(context: &CommandContext, name: Option<Str<'_>>, key: Str<'_>, id: Str<'_>) {
    if is_known(name) || quiet::is_quiet() {
        return verbatim(context);
    }
    greet(context);
    // SAFETY: the context is live, and the format takes two strings of the server's.
    unsafe {
        api!(RedisModule_Replicate(
            context.as_ptr(),
            c"DEHYDRATOR.REM".as_ptr(),
            c"ss".as_ptr(),
            key.as_ptr(),
            id.as_ptr()
        ))
    };
}

/// Says that an element was replaced, and kept its deadline, by a command of this name that says so.
pub fn updated(
    context: &CommandContext,
    name: Option<Str<'_>>,
    key: Str<'_>,
    id: Str<'_>,
    element: Str<'_>,
) {
    if is_known(name) || quiet::is_quiet() {
        return verbatim(context);
    }
    greet(context);
    // SAFETY: the context is live, and the format takes three strings of the server's.
    unsafe {
        api!(RedisModule_Replicate(
            context.as_ptr(),
            c"DEHYDRATOR.UPDATE".as_ptr(),
            c"sss".as_ptr(),
            key.as_ptr(),
            id.as_ptr(),
            element.as_ptr()
        ))
    };
}

/// Says that the command did just what it says itself, in absolute terms.
pub fn verbatim(context: &CommandContext) {
    // Nobody hears it, and who begins to listen later is told then.
    if !quiet::is_quiet() {
        greet(context);
    }
    context.replicate_verbatim();
}

/// Says that a key expires at that moment, in milliseconds since the epoch.
pub fn expires(context: &Context, key: Str<'_>, at: u64) {
    // SAFETY: the context is live, and the format takes a string of the server's and a number, which the server gave.
    unsafe {
        api!(RedisModule_Replicate(
            context.as_ptr(),
            c"PEXPIREAT".as_ptr(),
            c"sl".as_ptr(),
            key.as_ptr(),
            at as c_longlong
        ))
    };
}

/// Says whatever a test wants to be heard.
#[cfg(debug_assertions)]
pub fn said(context: &Context, command: &str, arguments: &[Str<'_>]) {
    let command = std::ffi::CString::new(command).unwrap_or_default();
    let arguments: Vec<_> = arguments.iter().map(|argument| argument.as_ptr()).collect();
    let (words, count) = (arguments.as_ptr(), arguments.len());
    // SAFETY: the context is live. The format says what follows: an array of strings of the server's, which are the
    // command's arguments, with its length.
    unsafe {
        api!(RedisModule_Replicate(context.as_ptr(), command.as_ptr(), c"v".as_ptr(), words, count))
    };
}

/// Says that the dehydrator was found empty, and went.
pub fn deleted(context: &Context, key: Str<'_>) {
    // SAFETY: the context is live, and the format takes one string of the server's.
    unsafe {
        api!(RedisModule_Replicate(context.as_ptr(), c"DEL".as_ptr(), c"s".as_ptr(), key.as_ptr()))
    };
}
