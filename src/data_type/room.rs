//! Whether limits leave room for an element.

use crate::config;
use lawn::Lawn;

/// Returns whether the LENGTH limit of `most` elements (0: no limit) leaves room for one more.
#[inline]
pub fn is_within_length(lawn: &Lawn, most: u64) -> bool {
    most == 0 || (lawn.len() as u64) < most
}

/// Returns whether a group has as many elements as its LENGTH limit allows, or that of each group.
#[inline]
pub fn is_group_full(lawn: &Lawn, group: &[u8]) -> bool {
    let most = group_length(lawn, group);
    most > 0 && lawn.group_len(Some(group)) as u64 >= most
}

/// Returns the LENGTH limit of a group, or that of each group. 0: no limit.
#[inline]
pub fn group_length(lawn: &Lawn, group: &[u8]) -> u64 {
    let rules = lawn.group_rules();
    if rules.may_limit_length() { rules.limits(group).length } else { 0 }
}

/// Returns whether `dehydrator.max-elements` leaves room for one more element.
#[inline]
pub fn has_room(lawn: &Lawn) -> bool {
    config::MAX_ELEMENTS.limit().is_none_or(|max| (lawn.len() as u64) < max)
}
