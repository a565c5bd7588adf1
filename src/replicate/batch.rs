//! Effects of one kind on several elements.

use std::cell::Cell;

use redis_module::raw::RedisModuleString;

use crate::server::guard::trap;
use crate::server::{Context, OwnedStr, Str, api, listeners};
use lawn::Token;

use super::effect::{EFFECT, Effect, announce_level};
use super::head::{Head, Timer};

/// Ids in one effect: enough to make its overhead small, few enough that a replica's buffers and the
/// command itself stay small.
pub const IDS_MAX: usize = 1024;

thread_local! {
    // Commands run on the server's main thread alone. The vectors are reused for the next batch: allocating both for a
    // batch of one id would cost more than the rest of it.
    static BUFFER: Cell<IdBuffer> = const { Cell::new(IdBuffer { ids: Vec::new(), kept: Vec::new() }) };
}

/// The ids of a batch. Empty between batches.
#[derive(Default)]
struct IdBuffer {
    /// The server's strings: arguments of the command, or those in `kept`.
    ids: Vec<*mut RedisModuleString>,
    kept: Vec<OwnedStr>,
}

/// Effects on several elements: one as long as they are alike, and always in order.
pub struct Batch<'a> {
    context: &'a Context,
    key: Str<'a>,
    /// The change of the elements. `None`: they are removed.
    head: Option<Head>,
    buffer: IdBuffer,
    any: bool,
    is_heard: bool,
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        let is_told = self.buffer.ids.is_empty() || std::thread::panicking();
        debug_assert!(is_told, "a change without its effect");
    }
}

impl<'a> Batch<'a> {
    /// Begins a batch of elements that are removed, whatever for. `until`: how long their ids are remembered, if they are.
    #[inline]
    pub fn removed(context: &'a Context, key: Str<'a>, until: Option<u64>) -> Self {
        Self::new(context, key, until.map(|until| Head::Removed { until }))
    }

    /// Begins a batch of leased elements, in the order of the leases.
    pub fn leased(
        context: &'a Context,
        key: Str<'a>,
        ttl: u64,
        deadline: u64,
        token: Token,
    ) -> Self {
        let timer = Timer { ttl, deadline };
        Self::new(context, key, Some(Head::Leased { timer, token }))
    }

    /// Begins a batch of elements whose timers were restarted: [`Batch::restarted`] and [`Batch::uncounted`] add to it.
    pub fn restarts(context: &'a Context, key: Str<'a>) -> Self {
        Self::new(context, key, None)
    }

    #[inline]
    fn new(context: &'a Context, key: Str<'a>, head: Option<Head>) -> Self {
        let is_heard = !listeners::are_absent();
        let buffer = if is_heard { BUFFER.take() } else { IdBuffer::default() };
        Self { context, key, head, buffer, any: false, is_heard }
    }

    /// Adds an element whose timer was restarted. `until`: the end of its own, if that has changed.
    pub fn restarted(&mut self, id: &[u8], timer: Timer, until: Option<u64>) {
        self.turn_to(Head::Restarted { timer, until });
        self.push(id);
    }

    /// Adds an element that was given back as if it had not been given out.
    pub fn uncounted(&mut self, id: &[u8], deadline: u64) {
        self.turn_to(Head::Uncounted { deadline });
        self.push(id);
    }

    /// Adds why an element was given back.
    pub fn reasoned(&mut self, id: &[u8], reason: &[u8]) {
        self.one(|key| Effect::reason(key, reason, id));
    }

    /// Adds that an element was replaced.
    pub fn updated(&mut self, id: &[u8], element: &[u8]) {
        self.one(|key| Effect::updated(key, id, element));
    }

    /// Adds an effect on one element.
    fn one(&mut self, effect: impl FnOnce(Str<'a>) -> Effect<'a>) {
        self.any = true;
        if self.is_heard {
            self.flush();
            effect(self.key).replicate(self.context);
        }
    }

    /// Ends the effect if the next element is another kind of change.
    #[inline]
    fn turn_to(&mut self, head: Head) {
        if self.is_heard && self.head != Some(head) {
            self.flush();
            self.head = Some(head);
        }
    }

    pub fn push(&mut self, id: &[u8]) {
        if self.is_unheard() {
            return;
        }
        let id = OwnedStr::new(id);
        self.buffer.ids.push(id.as_str().as_ptr());
        self.buffer.kept.push(id);
    }

    /// Adds an id that the client sent.
    pub fn push_sent(&mut self, id: Str<'a>) {
        if !self.is_unheard() {
            self.buffer.ids.push(id.as_ptr());
        }
    }

    /// Makes room for an id. Returns whether it need not be replicated, because nothing listens.
    fn is_unheard(&mut self) -> bool {
        self.any = true;
        if self.buffer.ids.len() == IDS_MAX {
            self.flush();
        }
        !self.is_heard
    }

    /// Replicates the rest of the batch. Returns whether the batch had any ids.
    pub fn finish(mut self) -> bool {
        trap::pass("replicate");
        self.flush();
        if self.is_heard {
            BUFFER.set(std::mem::take(&mut self.buffer));
        } else if self.any {
            // The server counts changes by what is replicated.
            self.context.replicate_verbatim();
        }
        self.any
    }

    fn flush(&mut self) {
        if self.buffer.ids.is_empty() {
            return;
        }
        announce_level(self.context, self.key);
        let (context, key) = (self.context.as_ptr(), self.key.as_ptr());
        let (ids, count) = (self.buffer.ids.as_ptr(), self.buffer.ids.len());
        let remove = c"DEHYDRATOR.REM".as_ptr();
        // SAFETY: the context is live. The formats say what follows: a string of the server's, perhaps a buffer with
        // its length, and a string of the server's or an array of such with its length; those live, as arguments of the
        // command or in `kept`.
        unsafe {
            match (&self.head, &self.buffer.ids[..]) {
                // One id is by far the most frequent case, and for an array the server allocates once more.
                (None, [id]) => {
                    api!(RedisModule_Replicate(context, remove, c"ss".as_ptr(), key, *id))
                }
                (None, _) => {
                    api!(RedisModule_Replicate(context, remove, c"sv".as_ptr(), key, ids, count))
                }
                (Some(head), [id]) => {
                    let word = head.word();
                    let (start, length) = (word.bytes().as_ptr(), word.bytes().len());
                    let (name, format) = (EFFECT.as_ptr(), c"sbs".as_ptr());
                    api!(RedisModule_Replicate(context, name, format, key, start, length, *id))
                }
                (Some(head), _) => {
                    let word = head.word();
                    let (start, length) = (word.bytes().as_ptr(), word.bytes().len());
                    let (name, format) = (EFFECT.as_ptr(), c"sbv".as_ptr());
                    api!(RedisModule_Replicate(
                        context, name, format, key, start, length, ids, count
                    ))
                }
            }
        };
        self.buffer.ids.clear();
        self.buffer.kept.clear();
    }
}
