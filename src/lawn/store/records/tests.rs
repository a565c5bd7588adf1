use super::*;

const NOWHERE: Spot = Spot { block: Handle::PLACEHOLDER, place: 0 };
const MOST: Bounds = Bounds { deliveries: u16::MAX, until: Bounds::UNTIL_MAX };

#[test]
fn a_record_reranks_id_and_payload_of_every_length() {
    let mut records = Records { secret: 1, ..Records::new() };
    let rank = Rank { deadline: u64::MAX >> 1, push: Rank::PUSHES - 1 };
    for id_length in [0, 1, 16, 127, 128, 300, 16_384] {
        for payload_length in [0, 1, 64, 127, 128, 20_000, 3_000_000] {
            let id: Vec<u8> = (0..id_length).map(|i| i as u8).collect();
            let payload = vec![0xff; payload_length];
            let bounds = [Bounds::NONE, Bounds { deliveries: 1, until: 0 }, MOST];
            let groups = [None, Handle::from_bits(7).map(Group)];
            for (bounds, group) in bounds.into_iter().flat_map(|it| groups.map(|to| (it, to))) {
                let room = records.reserve(&id, &payload, bounds, group.is_some());
                let reservation = room.expect("room");
                records.write(reservation, &id, &payload, (bounds, group), (rank, NOWHERE));
                let record = records.get(reservation.handle);
                assert_eq!(record.group(), group);
                assert_eq!((record.id(), record.payload()), (&id[..], &payload[..]));
                assert_eq!((record.rank(), record.spot()), (rank, NOWHERE));
                assert_eq!((record.bounds(), record.deliveries()), (bounds, 0));
                records.remove(reservation.handle);
            }
        }
    }
    assert_eq!(records.check(std::iter::empty()), 0);
}
