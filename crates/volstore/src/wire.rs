//! Questions about blocks, from a placement group's primary to its other members.
//!
//! Little endian: `kind` u8, `from` u32, `group` u32, `view` u64, then
//!
//! | kind | asks | body | answer |
//! |---|---|---|---|
//! | 1 | which units have space | | 1, then u32 of each |
//! | 2 | for space | `offset` u64, `len` u64 | 0, or 3: the device is full |
//! | 3 | to write blocks | `offset` u64, the bytes | 0 |
//! | 4 | for blocks | `offset` u64, `len` u32, from the medium u8 (0 or 1) | 2, the bytes; or 4: the medium refuses to read them |
//! | 5 | to flush | | 0 |
//! | 6 | to need entries through this no more | `through` u64 | 0 |
//! | 7 | to give the space of all units back but these | u32 of each | 0 |

use bytes::{Buf, BufMut, Bytes, BytesMut};
use types::{NodeId, ViewNumber};

/// A question under a view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockQuestion {
    pub from: NodeId,
    pub group: u32,
    pub view: ViewNumber,
    pub ask: BlockAsk,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BlockAsk {
    Units,
    Reserve { offset: u64, len: u64 },
    Write { offset: u64, bytes: Bytes },
    Read { offset: u64, len: u32, is_from_medium: bool },
    Flush,
    Released { through: u64 },
    KeepUnits { units: Vec<u32> },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BlockAnswer {
    Done,
    Units(Vec<u32>),
    Bytes(Bytes),
    Full,
    Unreadable,
}

impl BlockQuestion {
    pub fn encode(&self) -> Bytes {
        let room = 64 + if let BlockAsk::Write { bytes, .. } = &self.ask { bytes.len() } else { 0 };
        let mut out = BytesMut::with_capacity(room);
        out.put_u8(match self.ask {
            BlockAsk::Units => 1,
            BlockAsk::Reserve { .. } => 2,
            BlockAsk::Write { .. } => 3,
            BlockAsk::Read { .. } => 4,
            BlockAsk::Flush => 5,
            BlockAsk::Released { .. } => 6,
            BlockAsk::KeepUnits { .. } => 7,
        });
        out.put_u32_le(self.from.0);
        out.put_u32_le(self.group);
        out.put_u64_le(self.view.0);
        match &self.ask {
            BlockAsk::Units | BlockAsk::Flush => {}
            BlockAsk::Reserve { offset, len } => [offset, len].iter().for_each(|number| out.put_u64_le(**number)),
            BlockAsk::Write { offset, bytes } => {
                out.put_u64_le(*offset);
                out.put_slice(bytes);
            }
            BlockAsk::Read { offset, len, is_from_medium } => {
                out.put_u64_le(*offset);
                out.put_u32_le(*len);
                out.put_u8(u8::from(*is_from_medium));
            }
            BlockAsk::Released { through } => out.put_u64_le(*through),
            BlockAsk::KeepUnits { units } => units.iter().for_each(|unit| out.put_u32_le(*unit)),
        }
        out.freeze()
    }

    /// Reads a question; none if the bytes are no question.
    pub fn decode(mut bytes: Bytes) -> Option<BlockQuestion> {
        let kind = bytes.try_get_u8().ok()?;
        let (from, group) = (NodeId(bytes.try_get_u32_le().ok()?), bytes.try_get_u32_le().ok()?);
        let view = ViewNumber(bytes.try_get_u64_le().ok()?);
        let ask = match kind {
            1 => BlockAsk::Units,
            2 => BlockAsk::Reserve { offset: bytes.try_get_u64_le().ok()?, len: bytes.try_get_u64_le().ok()? },
            3 => BlockAsk::Write { offset: bytes.try_get_u64_le().ok()?, bytes: std::mem::take(&mut bytes) },
            4 => {
                let (offset, len) = (bytes.try_get_u64_le().ok()?, bytes.try_get_u32_le().ok()?);
                BlockAsk::Read { offset, len, is_from_medium: bytes.try_get_u8().ok()? == 1 }
            }
            5 => BlockAsk::Flush,
            6 => BlockAsk::Released { through: bytes.try_get_u64_le().ok()? },
            7 if bytes.len().is_multiple_of(4) => BlockAsk::KeepUnits { units: units_in(std::mem::take(&mut bytes)) },
            _ => return None,
        };
        bytes.is_empty().then_some(BlockQuestion { from, group, view, ask })
    }
}

impl BlockAnswer {
    pub fn encode(&self) -> Bytes {
        let mut out = BytesMut::new();
        match self {
            BlockAnswer::Done => out.put_u8(0),
            BlockAnswer::Units(units) => {
                out.put_u8(1);
                units.iter().for_each(|unit| out.put_u32_le(*unit));
            }
            BlockAnswer::Bytes(bytes) => {
                out.put_u8(2);
                out.put_slice(bytes);
            }
            BlockAnswer::Full => out.put_u8(3),
            BlockAnswer::Unreadable => out.put_u8(4),
        }
        out.freeze()
    }

    pub fn decode(mut bytes: Bytes) -> Option<BlockAnswer> {
        match bytes.try_get_u8().ok()? {
            0 if bytes.is_empty() => Some(BlockAnswer::Done),
            1 if bytes.len().is_multiple_of(4) => Some(BlockAnswer::Units(units_in(bytes))),
            2 => Some(BlockAnswer::Bytes(bytes)),
            3 if bytes.is_empty() => Some(BlockAnswer::Full),
            4 if bytes.is_empty() => Some(BlockAnswer::Unreadable),
            _ => None,
        }
    }
}

fn units_in(bytes: Bytes) -> Vec<u32> {
    bytes.chunks(4).map(|unit| u32::from_le_bytes(unit.try_into().expect("four"))).collect()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use types::{NodeId, ViewNumber};

    use super::{BlockAnswer, BlockAsk, BlockQuestion};

    #[test]
    fn questions_and_answers_are_read_as_they_were_written() {
        let asks = [
            BlockAsk::Units,
            BlockAsk::Reserve { offset: 1 << 40, len: 7 },
            BlockAsk::Write { offset: 8192, bytes: Bytes::from_static(b"blocks") },
            BlockAsk::Read { offset: 4096, len: 77, is_from_medium: true },
            BlockAsk::Flush,
            BlockAsk::Released { through: 9 },
            BlockAsk::KeepUnits { units: vec![0, 70_000] },
        ];
        for ask in asks {
            let question = BlockQuestion { from: NodeId(3), group: 5, view: ViewNumber(7), ask };
            let bytes = question.encode();
            assert_eq!(BlockQuestion::decode(bytes.clone()), Some(question.clone()));
            if !matches!(question.ask, BlockAsk::Write { .. }) {
                assert_eq!(BlockQuestion::decode([&bytes[..], &[1]].concat().into()), None, "{question:?} and a byte");
            }
            assert_eq!(BlockQuestion::decode(bytes.slice(..16)), None, "{question:?} cut short");
        }
        let answers = [
            BlockAnswer::Done,
            BlockAnswer::Units(vec![1, 70_000]),
            BlockAnswer::Bytes(Bytes::from_static(b"x")),
            BlockAnswer::Full,
            BlockAnswer::Unreadable,
        ];
        for answer in answers {
            assert_eq!(BlockAnswer::decode(answer.encode()), Some(answer));
        }
        assert_eq!(BlockAnswer::decode(Bytes::from_static(&[9])), None);
    }
}
