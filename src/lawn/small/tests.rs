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
fn heads_are_read_as_they_were_written() {
    let mut small = Small::default();
    let max = SmallMax { elements: 1000, bytes: 1 << 20 };
    let mut expected = Vec::new();
    let lengths = [0, 1, 230, 256, 30_000];
    let deadlines = [0, 1, (1 << 48) - 1, 1 << 48, DEADLINE_MAX];
    let ttls = [0, 1, 255, 256, 1 << 20, 1 << 32, 1 << 63, u64::MAX];
    for (number, deadline) in deadlines.into_iter().enumerate() {
        for (index, ttl) in ttls.into_iter().enumerate() {
            let id = [number as u8, index as u8].repeat(lengths[index % 5].max(2) / 2);
            // Widths around the limit of one byte, too.
            let payload = vec![7; lengths[number] + if index % 5 < 2 { index } else { 0 }];
            let deliveries = [0, 1, u16::MAX][index % 3];
            let new = Element::new(&id, &payload, deadline);
            assert_eq!(small.start(ttl, &new, max), Some(Ok(())));
            let token = Token::new((index as u64 % 2) * (u64::MAX >> 1)).filter(|_| deliveries > 0);
            assert!(small.set_deliveries(&id, deliveries, token));
            expected.push((ttl, id, payload, deadline, deliveries, token));
        }
    }
    small.check();
    let found = small.rows(0, DEADLINE_MAX).map(|Row { ttl, element: it, .. }| {
        let (id, payload) = (it.id.to_vec(), it.payload.to_vec());
        (ttl, id, payload, it.deadline, it.deliveries, small.token(&it))
    });
    assert!(found.eq(expected));
    assert_eq!((small.counts().ttls, small.len()), (8, 40));
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
