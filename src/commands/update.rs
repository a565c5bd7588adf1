//! Changing what was put away: UPDATE.

use crate::data_type::Writing;
use crate::lawn::UpdateError;
use crate::replicate;
use crate::server::string::Args;
use crate::server::{Context, Error, error::Result};

use super::args;

/// `UPDATE key id element`: the old element. The deadline stays.
pub fn update(context: &Context, args: Args<'_>) -> Result {
    let args::Update { key, id, element } = args::Update::parse(args)?;
    let mut dehydrator = Writing::open(context, key)?;

    let lawn = dehydrator.lawn().ok_or(UpdateError::Missing)?;
    let old = lawn.update(id, element)?;
    context.reply_bulk(old.element().payload);
    drop(old);
    replicate::verbatim(context);
    dehydrator.changed(c"dehydrator.update");
    Ok(())
}

impl From<UpdateError> for Error {
    fn from(error: UpdateError) -> Self {
        error.to_string().into()
    }
}
