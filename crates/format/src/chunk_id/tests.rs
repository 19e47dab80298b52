use proptest::prelude::*;

use super::{ChunkId, ChunkNonce, ChunkNumber, ShardId};

pub(crate) fn id(shard: u32, number: u64, nonce: u64) -> ChunkId {
    ChunkId { shard: ShardId(shard), number: ChunkNumber(number), nonce: ChunkNonce(nonce) }
}

pub(crate) fn any_id() -> impl Strategy<Value = ChunkId> {
    any::<(u32, u64, u64)>().prop_map(|(shard, number, nonce)| id(shard, number, nonce))
}

#[test]
fn golden() {
    let bytes = id(0x0102_0304, 0x1112_1314_1516_1718, 0x2122_2324_2526_2728).to_bytes();
    let expected = [4, 3, 2, 1, 0x18, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11, 0x28, 0x27, 0x26, 0x25, 0x24, 0x23, 0x22, 0x21];
    assert_eq!(bytes, expected);
    assert_eq!(id(1, 0x2a, 0xabc).to_string(), "1.2a.0000000000000abc");
}

proptest! {
    #[test]
    fn round_trip(id in any_id()) {
        prop_assert_eq!(ChunkId::from_bytes(id.to_bytes()), id);
        prop_assert_eq!(id.to_string().parse(), Ok(id));
    }
}

#[test]
fn text_that_is_no_id_is_refused() {
    for text in ["", "1", "1.2", "1.2.3.4", "1.2.g", "+1.2.3", "1..3", "100000000.0.0", "0.0.10000000000000000"] {
        assert!(text.parse::<ChunkId>().is_err(), "{text}");
    }
}
