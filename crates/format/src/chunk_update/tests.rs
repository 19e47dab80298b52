use proptest::prelude::*;

use super::{LookupChange, LookupUpdate, Stream};
use crate::chunk_id::tests::{any_id, id};
use crate::chunk_id::{ChunkNumber, ShardId};
use crate::chunk_place::ChunkPlaces;
use crate::chunk_place::tests::{any_places, place};

fn update(change: LookupChange) -> LookupUpdate {
    let stream = Stream { shard: ShardId(1), term: 2, generation: 3 };
    LookupUpdate { stream, number: 4, horizon: ChunkNumber(5), change }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn golden() {
    let head = concat!("0000", "01000000", "0200000000000000", "0300000000000000", "0400000000000000", "0500000000000000");
    assert_eq!(hex(&update(LookupChange::Keyed(vec![0xab, 0xcd])).encode()), format!("0101{head}abcd"));
    assert_eq!(hex(&update(LookupChange::Snapshot(vec![0xef])).encode()), format!("0103{head}ef"));
    let places = |device| ChunkPlaces::new(&[place(device, 1)]).expect("one");
    let exchanged = LookupChange::Exchanged { id: id(1, 2, 3), from: places(1), to: places(2) };
    let id = "0100000002000000000000000300000000000000";
    let (from, to) = ("01000004 00fcffffffffffffffffff3f", "01000008 00fcffffffffffffffffff3f");
    assert_eq!(hex(&update(exchanged).encode()), format!("0102{head}{id}{from}{to}").replace(' ', ""));
}

fn any_change() -> impl Strategy<Value = LookupChange> {
    let bytes = || prop::collection::vec(any::<u8>(), 0..50);
    let exchanged = (any_id(), any_places(), any_places());
    prop_oneof![
        bytes().prop_map(LookupChange::Keyed),
        bytes().prop_map(LookupChange::Snapshot),
        exchanged.prop_map(|(id, from, to)| LookupChange::Exchanged { id, from, to }),
    ]
}

proptest! {
    #[test]
    fn round_trip(shard: u32, term: u64, generation: u64, number: u64, horizon: u64, change in any_change()) {
        let stream = Stream { shard: ShardId(shard), term, generation };
        let written = LookupUpdate { stream, number, horizon: ChunkNumber(horizon), change };
        prop_assert_eq!(LookupUpdate::decode(&written.encode()), Ok(written));
    }

    #[test]
    fn what_is_accepted_is_written_the_same(mut bytes in prop::collection::vec(any::<u8>(), 0..120), kind in 0_u8..5) {
        for (at, value) in [1, kind, 0, 0].into_iter().enumerate().take(bytes.len()) {
            bytes[at] = value;
        }
        if let Ok(read) = LookupUpdate::decode(&bytes) {
            prop_assert_eq!(read.encode(), bytes);
        }
    }
}
