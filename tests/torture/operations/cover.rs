//! Checks completeness: every command in the server's HELP is drawn, with every word of its syntax.

use std::collections::{BTreeMap, BTreeSet};

use super::words::words_of;
use super::{KEYS, Torture};
use crate::model::Op;
use crate::random::seed;
use harness::cmd;

/// Far more than needed for the rarest word.
const DRAWN: usize = 20_000;
/// Hooks for tests, which only debug builds have.
const HOOKS: &str = "DEHYDRATOR.DEBUG";
/// The model does not know what is in the streams: see tests/server/revive.rs.
const REVIVE: &str = "DEHYDRATOR.REVIVE";
#[test]
fn the_model_knows_every_command_and_every_word_of_it() {
    let mut torture = Torture::new(seed());
    let mut drawn: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for _ in 0..DRAWN {
        let (db, key) = (torture.random.below(2) as usize, torture.random.pick(&KEYS));
        let op = torture.op(db, key);
        if matches!(op, Op::Nonsense(_)) {
            continue;
        }
        let words = words_of(key, &op).into_iter();
        let mut words = words.map(|word| String::from_utf8_lossy(&word).to_uppercase());
        drawn.entry(words.next().expect("a verb")).or_default().extend(words);
    }
    let help: Vec<String> = cmd("DEHYDRATOR.HELP").query(&mut torture.client).expect("lines");
    let mut missing = Vec::new();
    for line in help.iter().filter(|line| line.starts_with("DEHYDRATOR.")) {
        let mut words = line.split(|it: char| !it.is_ascii_alphanumeric() && !"._-".contains(it));
        let verb = words.next().expect("a verb");
        let Some(known) = drawn.get(verb) else {
            missing.push(verb.to_owned());
            continue;
        };
        // Words in capitals are typed literally.
        let is_typed = |word: &&str| word.chars().all(|it| it.is_ascii_uppercase());
        let typed = words.filter(|word| !word.is_empty()).filter(is_typed);
        let typed = typed.filter(|word| !known.contains(*word));
        missing.extend(typed.map(|it| format!("{verb} {it}")));
    }
    // What groups do is drawn and judged by the simulation.
    let is_of_groups = |it: &str| {
        let (verb, word) = it.split_once(' ').unwrap_or((it, ""));
        matches!(word, "GROUP" | "EACH" | "SHARE")
            || verb == "DEHYDRATOR.PURGE"
            || it == "DEHYDRATOR.TOUCH COUNT"
    };
    missing.retain(|it| it != HOOKS && it != REVIVE && !is_of_groups(it));
    assert!(missing.is_empty(), "the model does not know {missing:?}");
}
