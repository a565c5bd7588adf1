//! Looking ahead without touching, in the order of delivery: RANGE.

use crate::clock;
use crate::data_type::{Dehydrator, Reading};
use crate::server::string::Args;
use crate::server::{CommandContext, error::Result, random};
use lawn::{Row, Start};

use super::args;
use super::look::is_leased;

/// Runs `RANGE key start end [COUNT n] [WITHELEMENTS] [WITHTOKENS]`: where to go on, or nil, and the elements from `start` to `end`.
pub fn range(context: &CommandContext, args: Args<'_>) -> Result {
    let args::Range { key, from, end, count, with_elements, with_tokens } =
        args::read(context, args, args::Range::parse)?;
    let dehydrator = Reading::open(context, key)?;
    let now = clock::now();

    let serial = dehydrator.dehydrator().map_or(0, serial);
    let rows = dehydrator.lawn().zip(from).zip(end).map(|((lawn, from), end)| {
        // A number of another dehydrator, or of this one before it was loaded, says nothing here: what has the same
        // deadline is shown again.
        let behind = from.start.behind.filter(|_| from.serial == Some(serial));
        lawn.rows(Start { behind, ..from.start }, end)
    });
    let mut rows = rows.into_iter().flatten().peekable();
    let mut shown: Vec<Row<'_>> = Vec::new();
    let mut next = None;
    while let Some(row) = rows.peek() {
        // Where elements of one deadline cannot be told apart, they are shown together.
        if shown.len() >= count
            && let Some(last) = shown.last()
            && (last.number.is_some() || last.element.deadline < row.element.deadline)
        {
            next = Some(match last.number {
                Some(number) => format!("({}-{number}-{serial}", last.element.deadline),
                None => format!("({}", last.element.deadline),
            });
            break;
        }
        shown.extend(rows.next());
    }
    let mut reply = context.reply_array(2);
    match next {
        Some(next) => reply.push_bulk(next.as_bytes()),
        None => reply.push_null(),
    }
    let mut list = reply.push_array(shown.len());
    for row in shown {
        let count = 5 + usize::from(with_elements) + usize::from(with_tokens);
        let mut fields = list.push_array(count);
        fields.push_bulk(row.element.id);
        fields.push_integer(row.element.deadline as i64);
        fields.push_integer(row.ttl as i64);
        fields.push_integer(row.element.deliveries.into());
        fields.push_integer(is_leased(&row, now).into());
        if with_elements {
            fields.push_bulk(row.element.payload);
        }
        if with_tokens {
            match dehydrator.lawn().and_then(|lawn| lawn.token(&row.element)) {
                Some(token) => fields.push_bulk(token.number().to_string().as_bytes()),
                None => fields.push_null(),
            }
        }
    }
    Ok(())
}

thread_local! {
    // Tells this process from others: serials begin anew in each.
    static PROCESS: u64 = {
        u32::from_le_bytes(random::bytes()).into()
    };
}

/// Tells this dehydrator from all others, and from itself before it was loaded.
fn serial(dehydrator: &Dehydrator) -> u64 {
    let serial = dehydrator.tracking().serial();
    PROCESS.with(|process| process.wrapping_add(serial) % (1 << 32))
}
