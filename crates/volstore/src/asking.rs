//! What a gateway asks of a placement group's primary, and what it is answered. In postcard; attributes and tags as records have them.

mod convert;

use serde::{Deserialize, Serialize};
use types::{BucketId, UploadId};

use crate::content::PartMark;
use crate::name::{Name, Opseq};

pub use convert::{condition_of, engine_error, failure_of, listed_of, wire_condition, wire_listed};

/// A question. `group` is the one that the name is mapped to.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Question {
    pub group: u32,
    pub is_strict: bool,
    pub ask: Ask,
}

/// Bytes of attributes.
pub type Packed = Box<[u8]>;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Ask {
    /// Small content is answered at once; larger content is held, and read by [`Ask::Read`].
    Open {
        name: Name,
    },
    Info {
        name: Name,
    },
    Read {
        held: u64,
        from: u64,
        to: u64,
    },
    /// Readers that have ended, and content that is not wanted any more.
    Drop {
        held: u64,
    },
    Put {
        name: Name,
        attributes: Packed,
        #[serde(with = "serde_bytes")]
        bytes: Vec<u8>,
        condition: WireCondition,
    },
    /// Adds to what is held; 0 begins.
    Stage {
        name: Name,
        held: u64,
        #[serde(with = "serde_bytes")]
        bytes: Vec<u8>,
    },
    Commit {
        name: Name,
        attributes: Packed,
        held: u64,
        condition: WireCondition,
    },
    SetTags {
        name: Name,
        tags: Vec<(Vec<u8>, Vec<u8>)>,
    },
    Delete {
        name: Name,
        condition: WireCondition,
    },
    List {
        bucket: BucketId,
        prefix: Vec<u8>,
        start_after: Vec<u8>,
        delimiter: Vec<u8>,
        max_items: u32,
    },
    IsEmpty {
        bucket: BucketId,
    },
    CreateUpload {
        name: Name,
        attributes: Packed,
    },
    Upload {
        name: Name,
        upload: UploadId,
    },
    PutPart {
        name: Name,
        upload: UploadId,
        number: u16,
        attributes: Packed,
        bytes: PartSource,
    },
    Parts {
        name: Name,
        upload: UploadId,
        after: u16,
        max_parts: u32,
    },
    Complete {
        name: Name,
        upload: UploadId,
        parts: Vec<(u16, Opseq)>,
        attributes: Packed,
        condition: WireCondition,
    },
    Abort {
        name: Name,
        upload: UploadId,
    },
    Uploads {
        bucket: BucketId,
        prefix: Vec<u8>,
        after: Option<(Vec<u8>, Option<UploadId>)>,
        delimiter: Vec<u8>,
        max_items: u32,
    },
}

impl Ask {
    /// Whether its answer may be lost: it can be asked again although it may have been carried out.
    pub fn may_be_repeated(&self) -> bool {
        self.is_read() || matches!(self, Ask::Read { .. } | Ask::Drop { .. })
    }

    /// Whether any primary of the group can answer it.
    pub fn is_read(&self) -> bool {
        use Ask::{Info, IsEmpty, List, Open, Parts, Upload, Uploads};
        matches!(self, Open { .. } | Info { .. } | List { .. } | IsEmpty { .. } | Upload { .. } | Parts { .. } | Uploads { .. })
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum PartSource {
    Whole(#[serde(with = "serde_bytes")] Vec<u8>),
    Held(u64),
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum WireCondition {
    None,
    Absent,
    MatchAny,
    MatchOneOf(Vec<Packed>),
    NoneMatch(Vec<Packed>),
}

/// A version, as it was found.
#[derive(Debug, Serialize, Deserialize)]
pub struct WireInfo {
    pub length: u64,
    pub attributes: Packed,
    pub opseq: Opseq,
}

#[derive(Debug, Serialize, Deserialize)]
pub enum WireItem {
    Object { key: Vec<u8>, length: u64, attributes: Packed },
    Prefix(Vec<u8>),
}

#[derive(Debug, Serialize, Deserialize)]
pub struct WirePart {
    pub number: u16,
    pub length: u64,
    pub attributes: Packed,
    pub opseq: Opseq,
}

#[derive(Debug, Serialize, Deserialize)]
pub enum Answer {
    Failed(Failure),
    Whole {
        info: WireInfo,
        #[serde(with = "serde_bytes")]
        bytes: Vec<u8>,
    },
    Held {
        info: WireInfo,
        parts: Option<Vec<PartMark>>,
        held: u64,
    },
    Info(WireInfo),
    Bytes(#[serde(with = "serde_bytes")] Vec<u8>),
    Staged {
        held: u64,
    },
    /// Tag and time, and which version it is.
    Committed {
        attributes: Packed,
        opseq: Opseq,
    },
    Done,
    Listed {
        items: Vec<WireItem>,
        truncated: bool,
    },
    IsEmpty(bool),
    Upload(UploadId),
    Attributes(Packed),
    Parts(Vec<WirePart>),
    Uploads {
        uploads: Vec<(Vec<u8>, UploadId, Packed)>,
        prefixes: Vec<Vec<u8>>,
        truncated: bool,
    },
}

#[derive(Debug, Serialize, Deserialize)]
pub enum Failure {
    NotFound,
    NoSuchUpload,
    InvalidPart(u16),
    PreconditionFailed,
    Conflict(String),
    Full,
    Unavailable(String),
    DeviceMissing(String),
    Corrupt(String),
    Busy(String),
    Invalid(String),
    Internal(String),
}
