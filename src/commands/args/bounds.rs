//! The options of PUSH, MPUSH and GIDPUSH for an element's own bounds.

use crate::server::error::Result;
use lawn::Bounds;

use super::number::positive;
use super::options::{Opt, Options};

/// `[DELIVERIES n] [WITHIN ms]` and, in replication, `[UNTIL unix-ms]` in the place of WITHIN.
#[derive(Clone, Copy, Default)]
pub struct BoundOptions {
    deliveries: Option<u16>,
    end: Option<End>,
}

/// When an element is too late to be given out.
#[derive(Clone, Copy)]
enum End {
    /// That many milliseconds after its deadline.
    Within(u64),
    /// From this moment on, in milliseconds since the epoch.
    Until(u64),
}

impl BoundOptions {
    /// Reads an option. Returns `false` if it is unknown or repeated.
    pub fn parse<'a>(&mut self, option: &Opt<'a>, options: &mut Options<'a>) -> Result<bool> {
        match option.name() {
            b"DELIVERIES" if self.deliveries.is_none() => {
                self.deliveries = Some(options.deliveries("DELIVERIES")?);
            }
            b"WITHIN" if self.end.is_none() => {
                let word = options.value("WITHIN")?.bytes();
                let ms = positive("WITHIN", word, "a whole number of milliseconds from 1 on")?;
                self.end = Some(End::Within(ms));
            }
            b"UNTIL" if self.end.is_none() => {
                let word = options.value("UNTIL")?.bytes();
                let at = positive("UNTIL", word, "a whole number of unix milliseconds from 1 on")?;
                self.end = Some(End::Until(at));
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Returns the bounds of an element with this deadline. A moment that is too late to be stored never comes.
    pub fn bounds(self, deadline: u64) -> Bounds {
        let until = self.end.map(|end| match end {
            End::Within(ms) => deadline.saturating_add(ms),
            End::Until(at) => at,
        });
        let until = until.filter(|until| *until <= Bounds::UNTIL_MAX);
        Bounds { deliveries: self.deliveries.unwrap_or(0), until: until.unwrap_or(0) }
    }
}
