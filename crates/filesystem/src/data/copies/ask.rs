//! What a primary asks of a copy.

use bytes::Bytes;
use net::BoxFuture;
use serde::{Deserialize, Serialize};

use super::ExtentSums;
use super::gate::{NotAdmitted, Pass};
use crate::data::{DataError, DataRoom};
use crate::ids::ExtentId;

/// A request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ask {
    pub pass: Pass,
    /// The start of the copy's node that the primary has entered. An enter has any.
    pub boot: u64,
    pub what: What,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum What {
    Enter,
    Change(Change),
    Read { extent: ExtentId, offset: u64, len: u64 },
    Sums { extent: ExtentId, first_block: u64, most: u64 },
    List { partition: u32, after: Option<ExtentId>, most: u64 },
}

/// A change of an extent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    pub extent: ExtentId,
    pub what: ChangeWhat,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ChangeWhat {
    Create {
        #[serde(with = "as_bytes")]
        data: Bytes,
    },
    Append {
        offset: u64,
        #[serde(with = "as_bytes")]
        data: Bytes,
    },
    Overwrite {
        offset: u64,
        #[serde(with = "as_bytes")]
        data: Bytes,
    },
    Punch {
        offset: u64,
        len: u64,
    },
    Remove,
    Cut {
        len: u64,
    },
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    Entered {
        boot: u64,
        room: DataRoom,
    },
    Done {
        room: DataRoom,
    },
    Content(#[serde(with = "as_bytes")] Bytes),
    /// None: there is no such extent.
    Sums(Option<ExtentSums>),
    Extents(Vec<ExtentId>),
}

/// Why a copy gave no answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum CopyError {
    #[error(transparent)]
    NotAdmitted(NotAdmitted),
    #[error(transparent)]
    Data(DataError),
    #[error("the copy does not answer: {0}")]
    Silent(String),
}

/// A copy, here or on another node.
pub trait Copy: Send + Sync {
    /// The request may be carried out though no answer comes, and later.
    fn ask(&self, ask: Ask) -> BoxFuture<'_, Result<Answer, CopyError>>;
}

impl Change {
    /// Blocks that it changes, or whose bytes it depends on. An append has all from its first one on.
    pub fn blocks(&self) -> std::ops::Range<u64> {
        use crate::ids::BLOCK_BYTES as BLOCK;
        match &self.what {
            ChangeWhat::Create { .. } | ChangeWhat::Remove => 0..u64::MAX,
            ChangeWhat::Append { offset, .. } => offset / BLOCK..u64::MAX,
            ChangeWhat::Overwrite { offset, data } => offset / BLOCK..(offset + data.len() as u64).div_ceil(BLOCK),
            ChangeWhat::Punch { offset, len } => offset / BLOCK..offset.saturating_add(*len).div_ceil(BLOCK),
            ChangeWhat::Cut { len } => len / BLOCK..u64::MAX,
        }
    }
}

/// Content in a message, as one piece.
pub mod as_bytes {
    use std::fmt;

    use bytes::Bytes;
    use serde::de::{Error, Visitor};
    use serde::{Deserializer, Serializer};

    pub fn serialize<S: Serializer>(data: &Bytes, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(data)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Bytes, D::Error> {
        deserializer.deserialize_bytes(Content)
    }

    struct Content;

    impl Visitor<'_> for Content {
        type Value = Bytes;

        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("content")
        }

        fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Bytes, E> {
            Ok(Bytes::copy_from_slice(bytes))
        }
    }
}
