use super::*;

/// Starts an element under the default limits.
fn start(small: &mut Small, id: &[u8], ttl: u64, payload: &[u8], deadline: u64) {
    let done = small.start(ttl, &Element::new(id, payload, deadline), SmallMax::USUAL);
    assert_eq!(done, Some(Ok(())), "{id:?}");
    small.check();
}

#[test]
fn an_element_costs_eleven_bytes_more_than_its_data() {
    let mut small = Small::default();
    assert_eq!((size_of::<Small>(), small.memory()), (32, 0));
    for id in 0..32_u128 {
        start(&mut small, &id.to_be_bytes(), 60_000, &[b'x'; 16], 1_700_000_000_000);
    }
    assert_eq!(small.bytes.len(), 32 * (16 + 16 + 11));
    assert_eq!(small.memory(), 1536);
    for id in 1..32_u128 {
        let at = small.stop(&id.to_be_bytes()).expect("it is there");
        small.free(at);
        small.check();
    }
    assert!(small.memory() <= 80, "{} bytes for one", small.memory());
    assert_eq!(small.clone().memory(), 48);
    assert_eq!((small.drain(u64::MAX, 1, |_, _| {}), small.memory()), (1, 0));
}
#[test]
fn an_insert_beyond_a_limit_is_refused_and_changes_nothing() {
    let mut small = Small::default();
    let max = SmallMax { elements: 2, bytes: 30 };
    let full = |elements, bytes| SmallMax { elements, bytes };
    // Nine bytes of header, no TTL, an id of one byte, a payload of two.
    assert_eq!(small.start(0, &Element::new(b"a", b"aa", 5), full(0, 30)), None);
    assert_eq!(small.start(0, &Element::new(b"a", b"aa", 5), full(1, 11)), None);
    assert_eq!(small.start(0, &Element::new(b"a", b"aa", 5), full(1, 12)), Some(Ok(())));
    assert_eq!(small.start(0, &Element::new(b"b", b"", 5), full(1, 30)), None);
    assert_eq!(small.start(0, &Element::new(b"b", b"bbbbbbbbb", 5), max), None);
    assert_eq!(small.start(0, &Element::new(b"b", b"bbbbbbbb", 5), max), Some(Ok(())));
    // An existing id is reported before a limit.
    assert_eq!(
        small.start(0, &Element::new(b"b", b"", 5), full(0, 0)),
        Some(Err(StartError::Exists))
    );
    let late = small.start(0, &Element::new(b"c", b"", DEADLINE_MAX + 1), full(0, 0));
    assert_eq!(late, Some(Err(StartError::TooLate)));
    assert!(small.may_update(b"a", b"aa", max) && !small.may_update(b"a", b"aaa", max));
    assert!(small.may_update(b"c", &[0; 100], max), "there is none to be updated");
    let long = vec![0; 65_536];
    let wide = full(10, 1 << 20);
    assert_eq!(small.start(0, &Element::new(&long, b"", 5), wide), None);
    assert_eq!(small.start(0, &Element::new(b"c", &long, 5), wide), None);
    assert!(!small.may_update(b"a", &long, wide));
    small.check();
    let ids: Vec<_> = small.rows(0, 5).map(|row| (row.element.id, row.element.payload)).collect();
    assert_eq!(ids, [(&b"a"[..], &b"aa"[..]), (b"b", b"bbbbbbbb")]);
}
