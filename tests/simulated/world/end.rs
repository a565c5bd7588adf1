//! The end of a run: a file reloads to the same value, and when all is gone, so is its memory, and nothing runs on.

use super::run::{Result, World};
use crate::judges::Promise;
use crate::judges::model::DATABASES;
use crate::machine::Image;

/// What the module keeps for itself, in bytes.
const KEPT_BYTES: usize = 256 * 1024;

impl World {
    pub(super) fn at_end(&mut self) -> Result {
        self.leave()?;
        self.advance(2)?;
        // Or both servers store what occurs, not in the same moment.
        self.unschedule()?;
        let image = self.machine.rdb(self.primary);
        let third = self.machine.start(&[]);
        self.machine.restart(third, &Image::Rdb(image));
        self.equal(third, Promise::Reload)?;
        for db in 0..DATABASES {
            self.ask(self.primary, db, &[b"FLUSHDB".to_vec()]);
        }
        self.advance(5000)?;
        let memory = self.machine.memory(self.primary);
        if memory > self.memory + KEPT_BYTES {
            return Err(
                Promise::Memory.broken(format!("{memory} bytes stay, {} at first", self.memory))
            );
        }
        Ok(())
    }
}
