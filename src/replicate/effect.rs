//! An effect: a command and its arguments.
//!
//! PUSH and TOUCH, here, and REM and LEASE, in `batch`, go to the server in a format of their own: they are frequent,
//! and an array of strings costs some hundred instructions more.

use std::ffi::{CStr, c_longlong};
use std::iter;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::level;
use crate::policy::{Limits, Pause, Policy, Trust};
use crate::server::guard::trap;
use crate::server::io::Io;
use crate::server::string::Args;
use crate::server::string::Digits;
use crate::server::{CommandContext, Context, OwnedStr, Str, api, listeners};
use crate::version;
use lawn::{Bounds, Element, GroupLimits, GroupSettings, Rate, Token};

/// A command that states what happened, and its arguments.
pub struct Effect<'a> {
    command: &'static CStr,
    words: Vec<Word<'a>>,
}

enum Word<'a> {
    /// A string that the server already has.
    Sent(Str<'a>),
    Made(OwnedStr),
}

impl Word<'_> {
    fn as_str(&self) -> Str<'_> {
        match self {
            Self::Sent(word) => *word,
            Self::Made(word) => word.as_str(),
        }
    }
}

impl<'a> Effect<'a> {
    /// Returns the effects that set these limits and the elements given out under a rate.
    pub fn limits(key: Str<'a>, limits: &Limits) -> impl Iterator<Item = Self> {
        let set = Self::new(c"DEHYDRATOR.LIMIT").sent(key).words(limits.words());
        iter::once(set).chain(limits.rate.iter().flat_map(move |log| Self::log(key, log, None)))
    }

    /// Returns the effects that state what was given out under a rate, of a group if one is named.
    pub fn log(key: Str<'a>, log: &Rate, group: Option<&[u8]>) -> impl Iterator<Item = Self> {
        log.entries().map(move |(moment, count)| Self::given(key, moment, count, group))
    }

    /// Returns the effect that sets a policy.
    pub fn policy(key: Str<'a>, policy: &Policy, trust: Trust) -> Self {
        Self::new(c"DEHYDRATOR.ONDUE").sent(key).words(policy.words(trust))
    }

    /// Returns the effect that limits each group, if there are limits.
    pub fn each_group(key: Str<'a>, limits: GroupLimits) -> Option<Self> {
        let effect = || Self::new(c"DEHYDRATOR.LIMIT").sent(key).word(b"EACH");
        (limits != GroupLimits::NONE).then(|| effect().group_limits(limits))
    }

    /// Returns the effects that set the share and the limits of a group, and that pause it.
    pub fn group(
        key: Str<'a>,
        group: &[u8],
        settings: GroupSettings,
    ) -> impl Iterator<Item = Self> {
        let GroupSettings { share, limits, paused_until } = settings;
        let has_limits = share != GroupSettings::NONE.share || limits != GroupLimits::NONE;
        let set = has_limits.then(|| {
            let effect = Self::new(c"DEHYDRATOR.LIMIT").sent(key).in_group(Some(group));
            effect.word(b"SHARE").number(share.into()).group_limits(limits)
        });
        let pause = Pause::of_group(paused_until);
        set.into_iter().chain(pause.map(|pause| Self::paused(key, pause, Some(group))))
    }

    /// Returns the effect that begins a pause, of a group if one is named.
    pub fn paused(key: Str<'a>, pause: Pause, group: Option<&[u8]>) -> Self {
        let effect = Self::new(c"DEHYDRATOR.PAUSE").sent(key);
        let effect = match pause.end() {
            None => effect,
            Some(end) => effect.word(b"AT").number(end),
        };
        effect.in_group(group)
    }

    /// Returns the effect that ends a pause, of a group if one is named.
    pub fn resumed(key: Str<'a>, group: Option<&[u8]>) -> Self {
        Self::new(c"DEHYDRATOR.RESUME").sent(key).in_group(group)
    }

    /// Returns the effect that removes `id` and remembers it until the moment `until`.
    pub fn settled(key: Str<'a>, until: u64, id: &[u8]) -> Self {
        Self::new(c"DEHYDRATOR.SETTLED").sent(key).number(until).word(id)
    }

    fn given(key: Str<'a>, moment: u64, count: u64, group: Option<&[u8]>) -> Self {
        Self::new(c"DEHYDRATOR.GIVEN").sent(key).number(moment).number(count).in_group(group)
    }

    fn level() -> Self {
        Self::new(c"DEHYDRATOR.REQUIRE").number(level::own()).word(version::TEXT.as_bytes())
    }

    fn new(command: &'static CStr) -> Self {
        Self { command, words: Vec::new() }
    }

    fn sent(mut self, word: Str<'a>) -> Self {
        self.words.push(Word::Sent(word));
        self
    }

    fn word(mut self, word: &[u8]) -> Self {
        self.words.push(Word::Made(OwnedStr::new(word)));
        self
    }

    fn number(mut self, number: u64) -> Self {
        self.words.push(Word::Made(OwnedStr::of_number(number)));
        self
    }

    fn words(self, words: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Self {
        words.into_iter().fold(self, |effect, word| effect.word(word.as_ref()))
    }

    fn in_group(self, group: Option<&[u8]>) -> Self {
        group.into_iter().fold(self, |effect, group| effect.word(b"GROUP").word(group))
    }

    fn group_limits(self, limits: GroupLimits) -> Self {
        let rate = [(&b"RATE"[..], limits.rate), (b"PER", limits.per)];
        self.numbers([(b"LENGTH", limits.length), (b"HELD", limits.held)]).numbers(rate)
    }

    /// Adds these options, but those that are 0.
    fn numbers(self, options: [(&[u8], u64); 2]) -> Self {
        let own = options.into_iter().filter(|(_, number)| *number > 0);
        own.fold(self, |effect, (name, number)| effect.word(name).number(number))
    }

    /// Adds the words for an element that was given out.
    fn delivered(self, deliveries: u16, token: Option<Token>) -> Self {
        let effect = self.word(b"DELIVERED").number(deliveries.into());
        match token {
            Some(token) => effect.word(b"TOKEN").number(token.number()),
            None => effect,
        }
    }

    /// Adds the words for an element's own bounds.
    fn bounds(self, bounds: Bounds) -> Self {
        let Bounds { deliveries, until } = bounds;
        self.numbers([(b"DELIVERIES", deliveries.into()), (b"UNTIL", until)])
    }

    /// Replicates the effect.
    pub fn replicate(&self, context: &Context) {
        announce_level(context);
        context.replicate(self.command, self.words.iter().map(Word::as_str));
    }

    /// Writes the effect into an append-only file that is being rewritten.
    pub fn rewrite(&self, io: &Io) {
        io.emit(self.command, self.words.iter().map(Word::as_str));
    }
}

/// Replicates the level that a listener must understand, before the first effect after new listeners connected.
#[inline]
pub(super) fn announce_level(context: &Context) {
    if listeners::take_new_listeners() {
        replicate_level(context);
    }
}

// `take_new_listeners` has reset the flag, so replicating the level does not recurse.
#[cold]
fn replicate_level(context: &Context) {
    Effect::level().replicate(context);
}

/// Writes the level into an append-only file that is being rewritten, once per rewrite.
pub fn rewrite_level(io: &Io) {
    /// The process that last wrote the level. The server forks a process for each rewrite.
    static WRITTEN_BY: AtomicU32 = AtomicU32::new(0);
    let process = std::process::id();
    if WRITTEN_BY.swap(process, Ordering::Relaxed) != process {
        Effect::level().rewrite(io);
    }
}

/// A pushed element, in the strings that the client sent: the server shares them instead of copying them.
pub struct Pushed<'a> {
    pub key: Str<'a>,
    pub ttl: u64,
    pub element: Str<'a>,
    pub id: Str<'a>,
    pub deadline: u64,
    pub bounds: Bounds,
    /// The name of its group, which is not empty.
    pub group: Option<Str<'a>>,
}

/// Formats a TTL and its deadline as `commands/args/number.rs` reads them: in one argument, because each argument costs
/// the server some 800 instructions in the append-only file alone.
pub(super) fn timer(ttl: u64, deadline: u64) -> Digits {
    Digits::new(ttl).and(b'@', deadline)
}

/// Replicates the running command as it was sent, if there is one and nothing listens to effects: only so that the server
/// counts the change. Returns whether it did.
fn is_unheard(context: &Context) -> bool {
    listeners::are_absent() && context.replicate_verbatim()
}

/// Replicates a push. `replaces`: the push replaced an element with the same id.
pub fn pushed(context: &Context, push: &Pushed<'_>, replaces: bool) {
    trap::pass("replicate");
    if is_unheard(context) {
        return;
    }
    if !push.bounds.is_none() || push.group.is_some() {
        return push_effect(push, replaces).replicate(context);
    }
    announce_level(context);
    let timer = timer(push.ttl, push.deadline);
    let [key, element, id] = [push.key, push.element, push.id].map(Str::as_ptr);
    // Without the last `c` in the format, REPLACE is ignored.
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

/// Returns the effect of a push, with its bounds and its group.
fn push_effect<'a>(push: &Pushed<'a>, replaces: bool) -> Effect<'a> {
    let timer = timer(push.ttl, push.deadline);
    let effect = Effect::new(c"DEHYDRATOR.PUSH").sent(push.key).word(timer.bytes());
    let effect = effect.sent(push.element).sent(push.id);
    let effect = effect.words(replaces.then_some(b"REPLACE")).bounds(push.bounds);
    match push.group {
        Some(group) => effect.word(b"GROUP").sent(group),
        None => effect,
    }
}

/// Replicates that an element taken for a client was given back as it was, because the client has disconnected.
/// `replaces`: the element stayed in the lawn, under a lease.
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
    push_effect(push, replaces).delivered(deliveries, token).replicate(context);
}

/// Replicates that an element's timer was restarted.
pub fn touched(context: &Context, key: Str<'_>, id: &[u8], ttl: u64, deadline: u64) {
    if is_unheard(context) {
        return;
    }
    announce_level(context);
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

/// Replicates that an element was given back as if it had not been given out: its timer was restarted, and its last delivery
/// is not counted.
pub fn uncounted(context: &Context, key: Str<'_>, id: &[u8], ttl: u64, deadline: u64) {
    let timer = timer(ttl, deadline);
    let effect = Effect::new(c"DEHYDRATOR.TOUCH").sent(key).word(id).word(timer.bytes());
    effect.word(b"UNCOUNTED").replicate(context);
}

/// Writes an element into an append-only file that is being rewritten.
pub fn rewrite_element(
    io: &Io,
    key: Str<'_>,
    ttl: u64,
    element: Element<'_>,
    token: Option<Token>,
    group: Option<&[u8]>,
) {
    let Element { id, payload, deadline, deliveries, bounds, .. } = element;
    let timer = timer(ttl, deadline);
    if !bounds.is_none() || group.is_some() {
        let effect = Effect::new(c"DEHYDRATOR.PUSH").sent(key).word(timer.bytes());
        let effect = effect.word(payload).word(id).bounds(bounds).in_group(group);
        return match deliveries {
            0 => effect.rewrite(io),
            _ => effect.delivered(deliveries, token).rewrite(io),
        };
    }
    // Arguments beyond the format are ignored.
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
            c"DELIVERED".as_ptr(),
            c_longlong::from(deliveries),
            c"TOKEN".as_ptr(),
            token.map_or(0, Token::number) as c_longlong
        ))
    };
}

/// Replicates how many elements were given out at a moment, of a group if one is named, if a rate limits that. Replicated
/// beside the effect that took or leased them.
pub fn given(context: &Context, key: Str<'_>, moment: u64, count: u64, group: Option<&[u8]>) {
    if !listeners::are_absent() {
        Effect::given(key, moment, count, group).replicate(context);
    }
}

/// Replicates a command whose arguments are its effect, in absolute terms. It is replicated as it was sent or, if it was
/// sent under ReDe's name, as `command` with the same arguments. A replica, or the server that reads an append-only file
/// next year, may not have ReDe's names.
pub fn as_sent(context: &CommandContext, args: Args<'_>, command: &'static CStr) {
    const PREFIX: &[u8] = b"DEHYDRATOR.";
    trap::pass("replicate");
    let prefix = args.get(0).and_then(|name| name.bytes().get(..PREFIX.len()));
    if listeners::are_absent() || prefix.is_some_and(|prefix| prefix.eq_ignore_ascii_case(PREFIX)) {
        return verbatim(context);
    }
    Effect { command, words: args.from(1).map(Word::Sent).collect() }.replicate(context);
}

/// Replicates a command as it was sent.
pub fn verbatim(context: &CommandContext) {
    // A listener that connects later receives the level then.
    if !listeners::are_absent() {
        announce_level(context);
    }
    context.replicate_verbatim();
}

/// Replicates that a key expires at `at`, in milliseconds since the epoch.
pub fn expires(context: &Context, key: Str<'_>, at: u64) {
    context.replicate(c"PEXPIREAT", [key, OwnedStr::of_number(at).as_str()]);
}

/// Replicates that an empty dehydrator was deleted.
pub fn deleted(context: &Context, key: Str<'_>) {
    context.replicate(c"DEL", [key]);
}
