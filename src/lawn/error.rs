//! The lawn's errors.

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

/// Why an element was not updated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UpdateError {
    /// There is no element with this id.
    Missing,
    /// As [`StartError::Full`].
    Full,
}
