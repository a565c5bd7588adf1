//! The server command that moves elements.

use std::ffi::CStr;

use crate::clock;
use crate::data_type::ElementCopy;
use crate::pending::timer;
use crate::policy::{End, MaxLen, Route};
use crate::server::{Context, OwnedStr};

/// The server command that moves elements.
pub(super) struct SendCommand {
    /// `None`: elements are dropped.
    name: Option<&'static CStr>,
    /// The arguments before the id, or before the element if only the element is sent.
    head: Vec<OwnedStr>,
    /// The names of the fields of a stream's entry. `None`: not a stream.
    fields: Option<FieldNames>,
    /// Set if one call moves a whole batch.
    pub(super) takes_all: bool,
    /// Set if it adds data, which a server that is out of memory refuses.
    pub(super) adds: bool,
    /// Set if the stream's last id is later than the clock. Then the server generates the next id.
    is_ahead: bool,
}

/// The names of the fields of a stream's entry.
struct FieldNames {
    id: OwnedStr,
    element: OwnedStr,
    /// Only for dead letters.
    deliveries: Option<OwnedStr>,
    /// The field for why it is a dead letter, and its value for expired elements.
    reason: [OwnedStr; 2],
    /// Only for dead letters that are in a group.
    group: OwnedStr,
}

impl SendCommand {
    /// Returns the command for a route.
    pub(super) fn of(route: &Route, is_dead: bool) -> Self {
        let (name, key, takes_all, adds) = match route {
            Route::Drop => (None, &Box::default(), true, false),
            Route::Stream { dest, .. } => (Some(c"XADD"), dest, false, true),
            Route::List { dest, end: End::Right } => (Some(c"RPUSH"), dest, true, true),
            Route::List { dest, end: End::Left } => (Some(c"LPUSH"), dest, true, true),
            Route::Publish { channel } => (Some(c"PUBLISH"), channel, false, false),
        };
        let mut command = Self {
            name,
            head: vec![OwnedStr::new(key)],
            fields: None,
            takes_all,
            adds,
            is_ahead: false,
        };
        if let Route::Stream { maxlen, .. } = route {
            let trim = maxlen.map(MaxLen::words).into_iter().flatten();
            command.head.extend(trim.map(|word| OwnedStr::new(&word)));
            command.fields = Some(FieldNames {
                id: OwnedStr::new(b"id"),
                element: OwnedStr::new(b"element"),
                deliveries: if is_dead { Some(OwnedStr::new(b"deliveries")) } else { None },
                reason: [&b"reason"[..], b"expired"].map(OwnedStr::new),
                group: OwnedStr::new(b"group"),
            });
        }
        command
    }

    /// Sends these elements, in order.
    pub(super) fn send(&mut self, context: &Context, load: &[ElementCopy]) -> Result<(), String> {
        let Some(name) = self.name else { return Ok(()) };
        // After a client's command, and on Redis 7.0, the server itself serves the clients blocked on the key.
        if self.adds && !context.is_command() && !context.serves_after_modules() {
            timer::request_extra_pass();
        }
        let Some(fields) = &self.fields else {
            let elements = load.iter().map(|copy| &copy.payload);
            let words = self.head.iter().chain(elements).map(OwnedStr::as_str);
            return context.call(name, &words.collect::<Vec<_>>());
        };
        for copy in load {
            let deliveries = OwnedStr::of_number(copy.deliveries.into());
            let mut pairs = vec![&fields.id, &copy.id, &fields.element, &copy.payload];
            if let Some(field) = &fields.deliveries {
                pairs.extend([field, &deliveries]);
            }
            if copy.is_expired(clock::now()) {
                pairs.extend(&fields.reason);
            } else if fields.deliveries.is_some()
                && let Some(reason) = &copy.reason
            {
                pairs.extend([&fields.reason[0], reason]);
            }
            if fields.deliveries.is_some()
                && let Some(group) = &copy.group
            {
                pairs.extend([&fields.group, group]);
            }
            loop {
                // The id holds the time of delivery. The server's own `*` may use a cached time, which can be before the
                // deadline (Redis 8, Valkey 8).
                let id = if self.is_ahead { "*" } else { &format!("{}-*", clock::now()) };
                let id = OwnedStr::new(id.as_bytes());
                let words = self.head.iter().chain([&id]).chain(pairs.iter().copied());
                let words: Vec<_> = words.map(OwnedStr::as_str).collect();
                match context.call(name, &words) {
                    Err(reason) if !self.is_ahead && reason.contains("equal or smaller") => {
                        self.is_ahead = true;
                    }
                    Err(reason) => return Err(reason),
                    Ok(()) => break,
                }
            }
        }
        Ok(())
    }
}
