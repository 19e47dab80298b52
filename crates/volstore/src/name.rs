//! Names and numbers.

use crate::sums::crc;
use bytes::Bytes;
use engine::ObjectKey;
use serde::{Deserialize, Serialize};
use types::{Activation, BucketId, Generation, Order, ZoneOffset};

const BUCKET_BYTES: usize = 8;

/// The number of a mutation in its placement group's log: 1 for the first, without gaps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Opseq(pub u64);

impl Opseq {
    pub fn next(self) -> Opseq {
        Opseq(self.0 + 1)
    }

    /// As the object engines' interface names a version.
    pub fn order(self) -> Order {
        Order { generation: Generation(1), activation: Activation(self.0), offset: ZoneOffset(0) }
    }

    pub fn of_order(order: Order) -> Opseq {
        Opseq(order.activation.0)
    }
}

/// A bucket incarnation, big endian, and a key: names of one bucket follow one another in the order of their keys.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Name(Box<[u8]>);

impl Name {
    pub fn of(key: &ObjectKey) -> Name {
        Name::starting(key.bucket(), key.key())
    }

    /// The least name of a bucket whose key starts so.
    pub fn starting(bucket: BucketId, prefix: &[u8]) -> Name {
        let mut bytes = Vec::with_capacity(BUCKET_BYTES + prefix.len());
        bytes.extend_from_slice(&bucket.0.to_be_bytes());
        bytes.extend_from_slice(prefix);
        Name(bytes.into())
    }

    /// Whether it can be one: read from a disk.
    pub fn is_sane(&self) -> bool {
        let key = self.0.get(BUCKET_BYTES..).map(Bytes::copy_from_slice);
        key.is_some_and(|key| ObjectKey::new(self.bucket(), key).is_ok())
    }

    /// The placement group of the name, of so many.
    pub fn group(&self, groups: u32) -> u32 {
        crc(&self.0) % groups
    }

    pub fn bucket(&self) -> BucketId {
        BucketId(u64::from_be_bytes(self.0[..BUCKET_BYTES].try_into().expect("eight bytes")))
    }

    /// The name whose bytes these are.
    pub fn from_bytes(bytes: &[u8]) -> Name {
        Name(bytes.into())
    }

    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    pub fn key(&self) -> &[u8] {
        &self.0[BUCKET_BYTES..]
    }
}
