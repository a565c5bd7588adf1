//! The lawn's errors.

use std::fmt;

/// Why an element was not started.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StartError {
    /// An element with this id exists. It is unchanged.
    Exists,
    /// The deadline would be after [`DEADLINE_MAX`](super::DEADLINE_MAX).
    TooLate,
    /// The lawn is full: its handles name up to 32 GiB of records. A record of more than 8 KiB counts as 32 bytes.
    Full,
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Exists => "id already exists",
            Self::TooLate => "the deadline does not fit in 63 bits",
            Self::Full => "the dehydrator is full",
        })
    }
}

impl std::error::Error for StartError {}

/// Why an element was not updated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UpdateError {
    /// There is no element with this id.
    Missing,
    /// As [`StartError::Full`].
    Full,
}

impl fmt::Display for UpdateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("no such id"),
            Self::Full => StartError::Full.fmt(f),
        }
    }
}

impl std::error::Error for UpdateError {}
