//! The command of the server's by which elements are moved.

use std::ffi::CStr;

use crate::clock;
use crate::data_type::ElementCopy;
use crate::pending::timer;
use crate::policy::{End, MaxLen, Route};
use crate::server::{Context, OwnedStr};

/// The command of the server's that moves elements.
pub(super) struct Carrier {
    name: &'static CStr,
    /// The words before the id, or before the element if that is all that is sent.
    head: Vec<OwnedStr>,
    /// The names of a stream's fields.
    fields: Option<FieldNames>,
    /// Whether it moves a batch at once.
    pub(super) takes_all: bool,
    /// Whether it adds data, which a server without memory does not take.
    pub(super) adds: bool,
    /// Whether the stream's last id is later than the clock, so that the server makes the next one.
    is_ahead: bool,
}

/// The names of the fields of a stream's entry.
struct FieldNames {
    id: OwnedStr,
    element: OwnedStr,
    /// Of a dead letter's.
    deliveries: Option<OwnedStr>,
}

impl Carrier {
    /// Makes the command. `None` if nothing is sent.
    pub(super) fn of(route: &Route, is_dead: bool) -> Option<Self> {
        let plain = |name, key: &[u8]| Self {
            name,
            head: vec![OwnedStr::new(key)],
            fields: None,
            takes_all: false,
            adds: false,
            is_ahead: false,
        };
        match route {
            Route::Drop => None,
            Route::Stream { dest, maxlen } => {
                let mut carrier = Self { adds: true, ..plain(c"XADD", dest) };
                let trim = maxlen.map(MaxLen::words).into_iter().flatten();
                carrier.head.extend(trim.map(|word| OwnedStr::new(&word)));
                carrier.fields = Some(FieldNames {
                    id: OwnedStr::new(b"id"),
                    element: OwnedStr::new(b"element"),
                    deliveries: is_dead.then(|| OwnedStr::new(b"deliveries")),
                });
                Some(carrier)
            }
            Route::List { dest, end } => {
                let name = match end {
                    End::Right => c"RPUSH",
                    End::Left => c"LPUSH",
                };
                Some(Self { takes_all: true, adds: true, ..plain(name, dest) })
            }
            Route::Publish { channel } => Some(plain(c"PUBLISH", channel)),
        }
    }

    /// Sends copies of these elements, in order.
    pub(super) fn send(&mut self, context: &Context, load: &[ElementCopy]) -> Result<(), String> {
        let result = if self.fields.is_some() {
            load.iter().try_for_each(|copy| self.add(context, copy))
        } else {
            let elements = load.iter().map(|copy| &copy.payload);
            let words = self.head.iter().chain(elements).map(OwnedStr::as_str);
            context.call(self.name, &words.collect::<Vec<_>>())
        };
        // After a command the server looks by itself for who waits for the key.
        if self.adds && context.command().is_none() {
            timer::request_extra_pass();
        }
        result
    }

    /// Adds one to the stream.
    fn add(&mut self, context: &Context, copy: &ElementCopy) -> Result<(), String> {
        let Some(fields) = &self.fields else { return Ok(()) };
        let deliveries = OwnedStr::of_number(copy.deliveries.into());
        let mut pairs = vec![&fields.id, &copy.id, &fields.element, &copy.payload];
        pairs.extend(fields.deliveries.iter().flat_map(|name| [name, &deliveries]));
        let add = |id: &OwnedStr| {
            let pairs = pairs.iter().copied().map(OwnedStr::as_str);
            let words = self.head.iter().chain([id]).map(OwnedStr::as_str).chain(pairs);
            context.call(self.name, &words.collect::<Vec<_>>())
        };
        // The id says when the element was delivered. The server's own `*` may say what time it was when the
        // server last looked, which can be before the deadline (Redis 8, Valkey 8).
        if !self.is_ahead {
            let result = add(&OwnedStr::new(format!("{}-*", clock::now()).as_bytes()));
            match result {
                Err(reason) if reason.contains("equal or smaller") => self.is_ahead = true,
                result => return result,
            }
        }
        add(&OwnedStr::new(b"*"))
    }
}
