//! An effect: a command and its arguments. The rewrite of the append-only file uses the same ones.
//!
//! A push, here, and what `batch` has, go to the server in a format of their own: they are frequent, and an array of strings
//! costs some hundred instructions more.

use std::ffi::CStr;
use std::iter;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::level;
use crate::policy::{Limits, Pause, Policy, Trust};
use crate::schedule::{Schedule, Step};
use crate::server::guard::trap;
use crate::server::io::Io;
use crate::server::string::Args;
use crate::server::{CommandContext, Context, OwnedStr, Str, api, listeners};
use crate::version;
use lawn::{Bounds, Element, GroupLimits, GroupSettings, Rate, Since, Token};

use super::head::Head;

/// The command of all effects that no command of users states.
pub(super) const EFFECT: &CStr = c"DEHYDRATOR.EFFECT";

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
        let effect = match trust {
            Trust::Confirmed => Self::new(c"DEHYDRATOR.ONDUE").sent(key),
            Trust::Unannounced | Trust::Unconfirmed => Self::of(key, Head::Unconfirmed),
        };
        effect.words(policy.words(Trust::Confirmed))
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
        Self::of(key, Head::Paused { until: pause.group_end() }).named(group)
    }

    /// Returns the effect that ends a pause, of a group if one is named.
    pub fn resumed(key: Str<'a>, group: Option<&[u8]>) -> Self {
        Self::new(c"DEHYDRATOR.RESUME").sent(key).in_group(group)
    }

    /// Returns the effect that removes elements and remembers their ids until the moment `until`.
    pub fn removed<'i>(key: Str<'a>, until: u64, ids: impl Iterator<Item = &'i [u8]>) -> Self {
        Self::of(key, Head::Removed { until }).words(ids)
    }

    /// Returns the effect that records why an element was given back.
    pub fn reason(key: Str<'a>, reason: &[u8], id: &[u8]) -> Self {
        Self::of(key, Head::Reasoned).word(reason).word(id)
    }

    /// Returns the effect that replaces an element.
    pub fn updated(key: Str<'a>, id: &[u8], element: &[u8]) -> Self {
        Self::new(c"DEHYDRATOR.UPDATE").sent(key).word(id).word(element)
    }

    /// Returns the effect that sets a schedule.
    pub fn scheduled(key: Str<'a>, name: &[u8], schedule: &Schedule<'_>) -> Self {
        Self::of(key, Head::Scheduled).word(name).word(&schedule.encode())
    }

    /// Returns the effect that states what happened to a schedule.
    pub fn occurred(key: Str<'a>, name: &[u8], step: Step) -> Self {
        Self::of(key, Head::Occurred { step }).word(name)
    }

    fn given(key: Str<'a>, moment: u64, count: u64, group: Option<&[u8]>) -> Self {
        Self::of(key, Head::Given { moment, count }).named(group)
    }

    /// Returns the effect that states the level its reader must support. It has the key of the effect that follows, so that
    /// both go the same way through a cluster.
    fn level(key: Str<'a>) -> Self {
        Self::of(key, Head::Needed { level: level::own() }).word(version::TEXT.as_bytes())
    }

    fn of(key: Str<'a>, head: Head) -> Self {
        Self::new(EFFECT).sent(key).word(head.word().bytes())
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

    /// Adds the name of a group as the last word, if there is one.
    fn named(self, group: Option<&[u8]>) -> Self {
        self.words(group)
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

    /// Replicates the effect.
    pub fn replicate(&self, context: &Context) {
        if let Some(Word::Sent(key)) = self.words.first() {
            announce_level(context, *key);
        }
        context.replicate(self.command, self.words.iter().map(Word::as_str));
    }

    /// Writes the effect into an append-only file that is being rewritten.
    pub fn rewrite(&self, io: &Io) {
        io.emit(self.command, self.words.iter().map(Word::as_str));
    }
}

/// Replicates the level that a listener must understand, before the first effect after new listeners connected.
#[inline]
pub(super) fn announce_level(context: &Context, key: Str<'_>) {
    if listeners::take_new_listeners() {
        replicate_level(context, key);
    }
}

// `take_new_listeners` has reset the flag, so replicating the level does not recurse.
#[cold]
fn replicate_level(context: &Context, key: Str<'_>) {
    Effect::level(key).replicate(context);
}

/// Writes the level into an append-only file that is being rewritten, once per rewrite.
pub fn rewrite_level(io: &Io, key: Str<'_>) {
    /// The process that last wrote the level. The server forks a process for each rewrite.
    static WRITTEN_BY: AtomicU32 = AtomicU32::new(0);
    let process = std::process::id();
    if WRITTEN_BY.swap(process, Ordering::Relaxed) != process {
        Effect::level(key).rewrite(io);
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

/// Returns whether nothing listens to effects. If so, the server counts the change.
fn is_unheard(context: &Context) -> bool {
    let is_unheard = listeners::are_absent();
    if is_unheard {
        context.replicate_verbatim();
    }
    is_unheard
}

/// Replicates a push.
pub fn pushed(context: &Context, push: &Pushed<'_>) {
    trap::pass("replicate");
    if !is_unheard(context) {
        replicate_push(context, push, Head::pushed(push.ttl, push.deadline, push.bounds));
    }
}

/// Replicates that an element taken for a client was given back as it was, because the client has disconnected.
pub fn given_back(
    context: &Context,
    push: &Pushed<'_>,
    deliveries: u16,
    held: (Option<Token>, Option<Since>),
) {
    if deliveries == 0 {
        return pushed(context, push);
    }
    let Pushed { ttl, deadline, bounds, .. } = *push;
    replicate_push(context, push, Head::of_element(ttl, deadline, bounds, deliveries, held));
}

fn replicate_push(context: &Context, push: &Pushed<'_>, head: Head) {
    announce_level(context, push.key);
    let word = head.word();
    let [key, element, id] = [push.key, push.element, push.id].map(Str::as_ptr);
    // Without the last `s` in the format, the group is ignored.
    let format = if push.group.is_some() { c"sbsss" } else { c"sbss" };
    let group = push.group.map_or(std::ptr::null_mut(), Str::as_ptr);
    // SAFETY: the context is live. The formats say what follows: a string of the server's, a buffer with its length,
    // and two or three strings of the server's. The server counts its own references to its strings, and copies the rest.
    unsafe {
        api!(RedisModule_Replicate(
            context.as_ptr(),
            EFFECT.as_ptr(),
            format.as_ptr(),
            key,
            word.bytes().as_ptr(),
            word.bytes().len(),
            element,
            id,
            group,
        ))
    };
}

/// Writes an element into an append-only file that is being rewritten.
pub fn rewrite_element(
    io: &Io,
    key: Str<'_>,
    ttl: u64,
    element: Element<'_>,
    held: (Option<Token>, Option<Since>),
    group: Option<&[u8]>,
) {
    let Element { id, payload, deadline, deliveries, bounds, .. } = element;
    let word = Head::of_element(ttl, deadline, bounds, deliveries, held).word();
    let format = if group.is_some() { c"sbbbb" } else { c"sbbb" };
    let group = group.unwrap_or_default();
    // SAFETY: the io is live. The formats say what follows: a string of the server's, and three or four buffers with their
    // lengths; all are copied. Arguments beyond the format are ignored.
    unsafe {
        api!(RedisModule_EmitAOF(
            io.as_ptr(),
            EFFECT.as_ptr(),
            format.as_ptr(),
            key.as_ptr(),
            word.bytes().as_ptr(),
            word.bytes().len(),
            payload.as_ptr(),
            payload.len(),
            id.as_ptr(),
            id.len(),
            group.as_ptr(),
            group.len()
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
        return verbatim(context, args);
    }
    Effect { command, words: args.from(1).map(Word::Sent).collect() }.replicate(context);
}

/// Replicates a command as it was sent.
pub fn verbatim(context: &CommandContext, args: Args<'_>) {
    // A listener that connects later receives the level then.
    if let (false, Some(key)) = (listeners::are_absent(), args.get(1)) {
        announce_level(context, key);
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
