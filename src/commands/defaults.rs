//! The default policy of new dehydrators: `dehydrator.default-ondue`.
//!
//! A dehydrator that is deleted, also by FLUSHALL, loses its policy, and the next push creates the key without one. So an
//! operator can set a policy for all keys whose names match a pattern. It is set when a client's push creates the key, and
//! replicated as if the client had sent ONDUE. After that it is a policy like any other.

use std::cell::RefCell;
use std::mem::ManuallyDrop;

use crate::data_type::Writing;
use crate::policy::{Policy, Route, Trust};
use crate::replicate::Effect;
use crate::server::flags::is_cluster;
use crate::server::setting::Text;
use crate::server::string::Args;
use crate::server::{CommandContext, Error, OwnedStr, Str, log_warning};

use super::glob;
use super::ondue;

/// Separates two rules.
const NEXT: &[u8] = b";";
/// Stands for the key in the name of a stream, a list or a channel.
const KEY: u8 = b'*';

/// A rule: a pattern, and the arguments of ONDUE after the key.
struct Rule {
    pattern: Vec<u8>,
    words: Vec<Vec<u8>>,
}

thread_local! {
    // Commands and settings run on the server's main thread alone.
    // They are not dropped with the thread: see `Text`.
    static RULES: RefCell<ManuallyDrop<Vec<Rule>>> =
        const { RefCell::new(ManuallyDrop::new(Vec::new())) };
}

/// The setting.
pub static DEFAULT_ONDUE: Text = Text::new(c"default-ondue", set);

/// Parses and applies the setting. Fails if a rule is malformed.
fn set(text: &[u8]) -> Result<(), String> {
    let is_cluster = is_cluster();
    let words: Vec<_> =
        text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).collect();
    let rules: Vec<_> = words.split(|word| *word == NEXT).collect();
    if !words.is_empty() && rules.iter().any(|rule| rule.is_empty()) {
        return Err(
            "default-ondue: a rule is empty: there must be one on either side of ';'".to_owned()
        );
    }
    let rules: Vec<_> = rules
        .into_iter()
        .filter(|rule| !rule.is_empty())
        .map(|rule| Rule {
            pattern: rule[0].to_vec(),
            words: rule[1..].iter().map(|word| word.to_vec()).collect(),
        })
        .collect();
    for rule in &rules {
        rule.check(is_cluster).map_err(|reason| {
            format!("default-ondue: {}: {reason}", rule.pattern.escape_ascii())
        })?;
    }
    drop(ManuallyDrop::into_inner(RULES.replace(ManuallyDrop::new(rules))));
    Ok(())
}

/// Sets the default policy of a dehydrator that a client's command has just created.
#[inline(always)]
pub fn apply(context: &CommandContext, key: Str<'_>, dehydrator: &mut Writing<'_>) {
    if dehydrator.is_new() {
        apply_to_new(context, key, dehydrator);
    }
}

fn apply_to_new(context: &CommandContext, key: Str<'_>, dehydrator: &mut Writing<'_>) {
    if RULES.with_borrow(|rules| rules.is_empty()) || context.is_replaying() {
        return;
    }
    let is_cluster = is_cluster();
    let policy = RULES.with_borrow(|rules| {
        let rule = rules.iter().find(|rule| glob::matches(&rule.pattern, key.bytes()))?;
        let policy = rule.policy(key.bytes(), is_cluster).ok()?;
        if is_cluster && !is_in_slot(&policy, key.bytes()) {
            log_warning(&format!(
                "dehydrator: default-ondue does not hold for '{}': what it names is in another slot",
                key.bytes().escape_ascii()
            ));
            return None;
        }
        Some(policy)
    });
    if let Some(policy) = policy
        && dehydrator.change_rules(|rules| rules.policy = policy.clone())
    {
        Effect::policy(key, &policy, Trust::Confirmed).replicate(context);
    }
}

impl Rule {
    fn check(&self, is_cluster: bool) -> Result<(), String> {
        for key in [&b"jobs"[..], b"{jobs}:1"] {
            let policy = self.policy(key, is_cluster)?;
            if policy == Policy::Hold {
                return Err("HOLD without DELIVERIES is the default anyway".to_owned());
            }
            if is_cluster && !is_in_slot(&policy, key) {
                return Err(
                    "what it names must have a * for the key, to be in the key's slot".to_owned()
                );
            }
        }
        Ok(())
    }

    fn policy(&self, key: &[u8], is_cluster: bool) -> Result<Policy, String> {
        let stand_in = stand_in(key, is_cluster);
        let with_key = |word: &Vec<u8>| {
            let parts: Vec<_> = word.split(|byte| *byte == KEY).collect();
            OwnedStr::new(&parts.join(&stand_in[..]))
        };
        let head = [OwnedStr::new(b"DEHYDRATOR.ONDUE"), OwnedStr::new(key)];
        let words: Vec<_> = head.into_iter().chain(self.words.iter().map(with_key)).collect();
        let pointers: Vec<_> = words.iter().map(|word| word.as_str().as_ptr()).collect();
        // SAFETY: the strings live, unchanged, until this returns.
        let args = unsafe { Args::from_raw(pointers.as_ptr(), pointers.len()) };
        let (_, policy, only_new) = ondue::parse(args).map_err(|error| match error {
            Error::Refused(reason) => reason.into_owned(),
            _ => "what ONDUE says behind its key must follow".to_owned(),
        })?;
        if only_new { Err("NX is for ONDUE itself".to_owned()) } else { Ok(policy) }
    }
}

/// Returns the replacement for `*`: the key's name, in a cluster with braces if needed, so that the result is in the
/// key's slot.
pub(super) fn stand_in(key: &[u8], is_cluster: bool) -> Vec<u8> {
    if !is_cluster || tag(key).len() < key.len() {
        return key.to_vec();
    }
    [b"{", key, b"}"].concat()
}

/// Returns the part of a key that determines its slot.
fn tag(key: &[u8]) -> &[u8] {
    let tag = key.iter().position(|byte| *byte == b'{').and_then(|open| {
        let behind = &key[open + 1..];
        behind.iter().position(|byte| *byte == b'}').map(|close| &behind[..close])
    });
    tag.filter(|tag| !tag.is_empty()).unwrap_or(key)
}

/// Returns whether the destination key of a policy, if there is one, is in this key's slot.
fn is_in_slot(policy: &Policy, key: &[u8]) -> bool {
    match policy.route() {
        Some(Route::Stream { dest, .. } | Route::List { dest, .. }) => tag(dest) == tag(key),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_replacement_for_a_key_is_in_its_slot() {
        for (key, plain, clustered) in [
            ("jobs", "jobs", "{jobs}"),
            ("{jobs}:1", "{jobs}:1", "{jobs}:1"),
            ("a{b}c", "a{b}c", "a{b}c"),
            ("{}a", "{}a", "{{}a}"),
        ] {
            assert_eq!(stand_in(key.as_bytes(), false), plain.as_bytes());
            assert_eq!(stand_in(key.as_bytes(), true), clustered.as_bytes());
        }
        let tags = [("jobs", "jobs"), ("{jobs}:dead", "jobs"), ("{}a", "{}a"), ("{a", "{a")];
        assert!(tags.iter().all(|(key, of)| tag(key.as_bytes()) == of.as_bytes()));
        // So the slot is checked again when a key is created.
        assert_ne!(tag(b"{{}a}"), tag(b"{}a"));
    }
}
