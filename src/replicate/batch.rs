//! Effects of one kind on several elements.

use std::cell::Cell;
use std::ffi::CStr;

use redis_module::raw::RedisModuleString;

use crate::server::guard::trap;
use crate::server::string::Digits;
use crate::server::{Context, OwnedStr, Str, api, listeners};
use lawn::Token;

use super::effect::{announce_level, timer, verbatim};

/// Ids in one `REM`: enough to make its overhead small, few enough that a replica's buffers and the
/// command itself stay small.
const IDS_MAX: usize = 1024;

thread_local! {
    // Commands run on the server's main thread alone. What a batch holds its ids in is kept for the next one: to
    // allocate both for a batch of one would cost more than the rest of it.
    static ROOM: Cell<Room> = const { Cell::new(Room { ids: Vec::new(), kept: Vec::new() }) };
}

/// Where the ids of a batch are put. It is empty between batches.
#[derive(Default)]
struct Room {
    /// Strings of the server's: of the command's arguments, or among those that are kept.
    ids: Vec<*mut RedisModuleString>,
    kept: Vec<OwnedStr>,
}

/// Effects on several elements, told in as few words as may be: a verb with the ids behind it.
pub struct Batch<'a> {
    context: &'a Context,
    key: Str<'a>,
    /// What is said of them, and in a word how: the TTL of a lease, its deadline and its token; or until when ids are
    /// remembered. `None`: the elements are removed.
    how: Option<(&'static CStr, Digits)>,
    room: Room,
    any: bool,
    is_heard: bool,
}

impl<'a> Batch<'a> {
    /// Begins to say which elements are removed.
    #[inline]
    pub fn removed(context: &'a Context, key: Str<'a>) -> Self {
        Self::new(context, key, None)
    }

    /// Begins to say which elements are settled, taken or delivered, and until when their ids are remembered, if they are.
    #[inline]
    pub fn settled(context: &'a Context, key: Str<'a>, until: Option<u64>) -> Self {
        match until {
            None => Self::removed(context, key),
            Some(until) => Self::remembered(context, key, until),
        }
    }

    #[cold]
    fn remembered(context: &'a Context, key: Str<'a>, until: u64) -> Self {
        Self::new(context, key, Some((c"DEHYDRATOR.SETTLED", Digits::new(until))))
    }

    /// Begins to say which elements are leased, in the order in which they were.
    pub fn leased(
        context: &'a Context,
        key: Str<'a>,
        ttl: u64,
        deadline: u64,
        token: Token,
    ) -> Self {
        let timer = timer(ttl, deadline).and(b'@', token.number());
        Self::new(context, key, Some((c"DEHYDRATOR.LEASE", timer)))
    }

    #[inline]
    fn new(context: &'a Context, key: Str<'a>, how: Option<(&'static CStr, Digits)>) -> Self {
        let is_heard = !listeners::are_absent();
        let room = if is_heard { ROOM.take() } else { Room::default() };
        Self { context, key, how, room, any: false, is_heard }
    }

    /// Adds one more.
    pub fn push(&mut self, id: &[u8]) {
        if self.is_enough() {
            return;
        }
        let id = OwnedStr::new(id);
        self.room.ids.push(id.as_str().as_ptr());
        self.room.kept.push(id);
        self.flush_if_full();
    }

    /// Adds one more, whose id the client sent.
    pub fn push_sent(&mut self, id: Str<'a>) {
        if self.is_enough() {
            return;
        }
        self.room.ids.push(id.as_ptr());
        self.flush_if_full();
    }

    /// Takes note of one more. Returns whether nobody need hear of it: the server, which counts the change, is told of
    /// the command as it was sent, or, outside of a command, where nothing was sent, of the first id.
    fn is_enough(&mut self) -> bool {
        let is_first = !std::mem::replace(&mut self.any, true);
        !self.is_heard && (!is_first || self.context.command().is_some())
    }

    /// Tells what is left to tell. Returns whether there was anything at all.
    pub fn finish(mut self) -> bool {
        trap::pass("replicate");
        self.flush();
        if self.is_heard {
            ROOM.set(std::mem::take(&mut self.room));
        } else if let Some(command) = self.context.command().filter(|_| self.any) {
            verbatim(command);
        }
        self.any
    }

    fn flush_if_full(&mut self) {
        if self.room.ids.len() == IDS_MAX {
            self.flush();
        }
    }

    fn flush(&mut self) {
        if self.room.ids.is_empty() {
            return;
        }
        announce_level(self.context);
        let (context, key) = (self.context.as_ptr(), self.key.as_ptr());
        let (ids, count) = (self.room.ids.as_ptr(), self.room.ids.len());
        let remove = c"DEHYDRATOR.REM".as_ptr();
        // SAFETY: the context is live. The formats say what follows: a string of the server's, perhaps a buffer with
        // its length, and a string of the server's or an array of such with its length; those live, as arguments of the
        // command or in `kept`.
        unsafe {
            match (&self.how, &self.room.ids[..]) {
                // One is by far the most frequent, and for an array the server allocates once more.
                (None, [id]) => {
                    api!(RedisModule_Replicate(context, remove, c"ss".as_ptr(), key, *id))
                }
                (None, _) => {
                    api!(RedisModule_Replicate(context, remove, c"sv".as_ptr(), key, ids, count))
                }
                (Some((name, word)), [id]) => {
                    let (start, length) = (word.bytes().as_ptr(), word.bytes().len());
                    let (name, format) = (name.as_ptr(), c"sbs".as_ptr());
                    api!(RedisModule_Replicate(context, name, format, key, start, length, *id))
                }
                (Some((name, word)), _) => {
                    let (start, length) = (word.bytes().as_ptr(), word.bytes().len());
                    let (name, format) = (name.as_ptr(), c"sbv".as_ptr());
                    api!(RedisModule_Replicate(
                        context, name, format, key, start, length, ids, count
                    ))
                }
            }
        };
        self.room.ids.clear();
        self.room.kept.clear();
    }
}
