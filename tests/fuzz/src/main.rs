//! Loads arbitrary bytes as a dump: they are refused, or give a consistent dehydrator that survives saving and loading.
//!
//! The module's own sources are compiled here by path, which also shows that the core and the encoding are independent.

#![no_main]
#![allow(dead_code, unused_imports)]

#[path = "../../../src/data_type/encoding/mod.rs"]
mod encoding;
#[path = "../../../src/data_type/fields.rs"]
mod fields;
#[path = "../../../src/policy/mod.rs"]
mod policy;
#[path = "../../../src/schedule/mod.rs"]
mod schedule;

use std::sync::Arc;

use ahash::RandomState;
use encoding::{Corrupt, Source};
use fields::Fields;
use lawn::{Aside, Element, Lawn, Shared, SmallMax};
use libfuzzer_sys::fuzz_target;

/// Fields cut from the fuzzer's bytes: each a number, or a string with its length before it.
struct Cut<'a>(&'a [u8]);

impl<'a> Cut<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], Corrupt> {
        let (head, tail) = self.0.split_at_checked(length).ok_or(Corrupt("the end"))?;
        self.0 = tail;
        Ok(head)
    }
}

impl<'a> Source for Cut<'a> {
    type Bytes = &'a [u8];

    fn unsigned(&mut self) -> Result<u64, Corrupt> {
        // Favours small numbers, which occur as counts; the first byte tells how many bytes follow.
        let length = usize::from(self.take(1)?[0] % 9);
        let mut bytes = [0; 8];
        bytes[..length].copy_from_slice(self.take(length)?);
        Ok(u64::from_le_bytes(bytes))
    }

    fn bytes(&mut self) -> Result<&'a [u8], Corrupt> {
        let length = self.take(2)?;
        self.take(usize::from(u16::from_le_bytes([length[0], length[1]])))
    }
}

/// Returns a lawn that is small up to this many elements.
fn empty(elements: u8) -> Lawn {
    let small_max = move || SmallMax { elements: elements.into(), ..SmallMax::USUAL };
    Lawn::new(Arc::new(Shared::new(RandomState::with_seeds(1, 2, 3, 4), small_max)))
}

/// Returns the elements with their TTLs and the names of their groups: two lawns may number the same group differently.
fn elements(lawn: &Lawn) -> Vec<(u64, Element<'_>, Option<&[u8]>)> {
    let named = |it: &Element<'_>| it.group.map(|group| lawn.group_name(group));
    lawn.iter().map(|(ttl, it)| (ttl, Element { group: None, ..it }, named(&it))).collect()
}

fuzz_target!(|data: &[u8]| {
    let Some((version, rest)) = data.split_first() else { return };
    // Either form, and often close to a change of form.
    let small = version >> 1 & 7;
    let Ok((mut lawn, rules, mut remembered, schedules)) =
        encoding::load(empty(small), &mut Cut(rest), i32::from(version % 2))
    else {
        return;
    };
    lawn.check();
    let mut saved = Fields::default();
    remembered.check();
    schedules.check();
    let some = Some(&schedules).filter(|it| !it.is_empty());
    encoding::save((&lawn, &remembered, some), &rules, 0, &mut saved);
    let (again, same, known, planned) =
        encoding::load(empty(7 - small), &mut saved, encoding::VERSION).expect("our own words");
    assert!(
        elements(&lawn) == elements(&again)
            && rules == same
            && schedules.payloads().eq(planned.payloads())
    );
    let ids = |ids: &Aside| {
        let mut all: Vec<_> = ids.iter().map(|(at, id)| (id.to_vec(), at)).collect();
        all.sort();
        all
    };
    assert_eq!(ids(&remembered), ids(&known));
    let count = remembered.len();
    assert_eq!(remembered.forget(u64::MAX, usize::MAX), count);
    remembered.check();
    let tokens = |lawn: &Lawn| lawn.iter().map(|(_, it)| lawn.token(&it)).collect::<Vec<_>>();
    assert_eq!(tokens(&lawn), tokens(&again));

    // Elements popped one by one must equal the list.
    let now = u64::from(*version) << 56;
    let due: Vec<Vec<u8>> = lawn.iter_until(now).map(|(_, element)| element.id.to_vec()).collect();
    for id in due {
        assert_eq!(lawn.drain(now, 1, |_, element| assert_eq!(element.id, id)), 1);
    }
    assert_eq!(lawn.drain(now, 1, |_, _| {}), 0);
    while lawn.compact(8) {}
    lawn.check();
});
