//! The rule of ONDUE: where elements go that are due.

use super::Bytes;
use super::entry::Entry;

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Policy {
    #[default]
    Hold,
    Drop,
    Stream(Bytes),
    List(Bytes),
    Publish(Bytes),
    /// HOLD with a limit of deliveries, and the destination of dead letters.
    Limit(u64, Box<Policy>),
}

impl Policy {
    pub fn route(&self) -> &Self {
        if let Self::Limit(_, route) = self { route } else { self }
    }

    pub fn holds(&self) -> bool {
        matches!(self, Self::Hold | Self::Limit(..))
    }

    /// Returns whether an element that is due leaves by itself.
    pub fn sends(&self, entry: &Entry) -> bool {
        match self {
            Self::Hold => false,
            Self::Limit(most, _) => {
                entry.deliveries >= if entry.most > 0 { entry.most } else { *most }
            }
            _ => true,
        }
    }

    pub fn destination(&self) -> Option<&Bytes> {
        match self {
            Self::Stream(to) | Self::List(to) | Self::Publish(to) => Some(to),
            _ => None,
        }
    }
}
