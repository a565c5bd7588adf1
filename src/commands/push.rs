//! Putting elements away: PUSH, GIDPUSH.

use crate::clock;
use crate::data_type::Writing;
use crate::lawn::{Element, Lawn, StartError};
use crate::replicate;
use crate::server::string::Args;
use crate::server::{Context, Error, api, error::Result};

use super::args;

/// `PUSH key ttl element id [AT unix-ms]`: OK.
pub fn push(context: &Context, args: Args<'_>) -> Result {
    let request = args::Push::parse(args)?;
    let mut dehydrator = Writing::open(context, request.key)?;
    let args::Push { key, ttl, element: payload, id, at } = request;
    let now = clock::now();

    let deadline = dehydrator.lawn_or_new(|lawn| match at {
        Some(at) => lawn.start_at(id, ttl, payload, at).map(|()| at),
        None => lawn.start(id, ttl, payload, now),
    })?;
    if at.is_some() {
        replicate::verbatim(context);
    } else {
        replicate::pushed(context, key, ttl, Element { id, payload, deadline });
    }
    dehydrator.changed(c"dehydrator.push");
    context.reply_ok();
    Ok(())
}

/// `GIDPUSH key ttl element`: the id, which nobody else has.
pub fn gidpush(context: &Context, args: Args<'_>) -> Result {
    let args::GidPush { key, ttl, element: payload } = args::GidPush::parse(args)?;
    let mut dehydrator = Writing::open(context, key)?;
    let now = clock::now();

    let mut id = generated_id();
    let start = |lawn: &mut Lawn| {
        // One of 128 random bits is never there yet; but what is promised is that it is not.
        while lawn.look(&id).is_some() {
            id = generated_id();
        }
        lawn.start(&id, ttl, payload, now)
    };
    let deadline = dehydrator.lawn_or_new(start)?;
    replicate::pushed(context, key, ttl, Element { id: &id, payload, deadline });
    dehydrator.changed(c"dehydrator.push");
    context.reply_bulk(&id);
    Ok(())
}

/// 128 bits of the server's own random generator, as 32 hexadecimal digits.
fn generated_id() -> [u8; 32] {
    let mut bits = [0_u8; 16];
    // SAFETY: the pointer and the length describe `bits`.
    unsafe { api!(RedisModule_GetRandomBytes(bits.as_mut_ptr(), bits.len())) };
    let mut id = [0; 32];
    for (digits, byte) in id.chunks_exact_mut(2).zip(bits) {
        digits[0] = b"0123456789abcdef"[usize::from(byte >> 4)];
        digits[1] = b"0123456789abcdef"[usize::from(byte & 15)];
    }
    id
}

impl From<StartError> for Error {
    fn from(error: StartError) -> Self {
        match error {
            StartError::TooLate => {
                "ttl is too large: now + ttl does not fit in 63 bits of milliseconds".into()
            }
            StartError::Exists | StartError::Full => error.to_string().into(),
        }
    }
}
