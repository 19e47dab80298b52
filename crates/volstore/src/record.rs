//! Records of the log: mutations, in the order in which they count.
//!
//! A record is absolute: to apply one to a state that has it already changes nothing.

use std::sync::Arc;

use bytes::Bytes;
use format::attributes::Attributes;
use format::decode::DecodeError;
use serde::{Deserialize, Serialize};
use types::UploadId;

use crate::content::Content;
use crate::name::{Name, Opseq};

/// One record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The commit mark: mutations below this number were resolved, and durable with their content, when this one was made.
    pub settled_below: Opseq,
    pub mutation: Mutation,
}

/// What changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mutation {
    Put {
        name: Name,
        attributes: Box<[u8]>,
        #[serde(with = "shared")]
        content: Arc<Content>,
    },
    Delete {
        name: Name,
    },
    /// Other attributes for the version `base`.
    SetAttributes {
        name: Name,
        base: Opseq,
        attributes: Box<[u8]>,
    },
    CreateUpload {
        name: Name,
        upload: UploadId,
        attributes: Box<[u8]>,
    },
    PutPart {
        name: Name,
        upload: UploadId,
        number: u16,
        attributes: Box<[u8]>,
        #[serde(with = "shared")]
        content: Arc<Content>,
    },
    /// The parts with these numbers and opseqs are the object.
    Complete {
        name: Name,
        upload: UploadId,
        parts: Vec<(u16, Opseq)>,
        attributes: Box<[u8]>,
    },
    Abort {
        name: Name,
        upload: UploadId,
    },
    /// A start has not found the content of these mutations.
    Revoke {
        revoked: Vec<Opseq>,
    },
    /// Nothing but the commit mark.
    Mark,
}

/// An `Arc` is written as what is in it.
mod shared {
    use std::sync::Arc;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use crate::content::Content;

    pub fn serialize<S: Serializer>(content: &Arc<Content>, serializer: S) -> Result<S::Ok, S::Error> {
        content.as_ref().serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<Content>, D::Error> {
        Content::deserialize(deserializer).map(Arc::new)
    }
}

impl Mutation {
    pub fn name(&self) -> Option<&Name> {
        match self {
            Mutation::Put { name, .. }
            | Mutation::Delete { name }
            | Mutation::SetAttributes { name, .. }
            | Mutation::CreateUpload { name, .. }
            | Mutation::PutPart { name, .. }
            | Mutation::Complete { name, .. }
            | Mutation::Abort { name, .. } => Some(name),
            Mutation::Revoke { .. } | Mutation::Mark => None,
        }
    }

    fn attributes(&self) -> Option<&[u8]> {
        match self {
            Mutation::Put { attributes, .. }
            | Mutation::SetAttributes { attributes, .. }
            | Mutation::CreateUpload { attributes, .. }
            | Mutation::PutPart { attributes, .. }
            | Mutation::Complete { attributes, .. } => Some(attributes),
            _ => None,
        }
    }

    /// Content that it brings.
    pub fn content(&self) -> Option<&Arc<Content>> {
        match self {
            Mutation::Put { content, .. } | Mutation::PutPart { content, .. } => Some(content),
            _ => None,
        }
    }
}

impl Record {
    pub fn encode(&self) -> Vec<u8> {
        postcard::to_allocvec(self).expect("a record has no type that can't be written")
    }

    /// The record with the longest mark: its number is written in as many bytes as it needs.
    pub fn longest(mutation: Mutation) -> Record {
        Record { settled_below: Opseq(u64::MAX), mutation }
    }

    /// Reads a record; the reason where it is none.
    pub fn decode(bytes: &[u8]) -> Result<Record, String> {
        let (record, rest) = postcard::take_from_bytes::<Record>(bytes).map_err(|error| error.to_string())?;
        if !rest.is_empty() {
            return Err(format!("{} bytes follow it", rest.len()));
        }
        if record.mutation.name().is_some_and(|name| !name.is_sane()) {
            return Err("its name is none".to_owned());
        }
        if record.mutation.content().is_some_and(|content| !content.is_sane()) {
            return Err("its content contradicts itself".to_owned());
        }
        if record.mutation.attributes().is_some_and(|attributes| decode_attributes(attributes).is_err()) {
            return Err("its attributes can't be read".to_owned());
        }
        Ok(record)
    }
}

/// The attributes of a record or a row.
pub fn decode_attributes(bytes: &[u8]) -> Result<Attributes, DecodeError> {
    Attributes::decode(Bytes::copy_from_slice(bytes))
}

#[cfg(test)]
mod tests;
