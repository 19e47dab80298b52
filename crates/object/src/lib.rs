//! Objects as people know them: buckets, keys, parts, conditions, digests, policy.
//!
//! Interfaces translate their requests into the operations of [`ObjectService`], and its [`ObjectError`]s into their codes.
//! Below it stand the engines, which keep bytes and attributes, and the manager, which keeps buckets.
//!
//! Invariants
//! - Every operation authorises its principal itself, for the target and for every source of a copy.
//! - Content becomes visible only after everything that its client declared of it (length, digests, trailer) was verified.
//! - A request looks up its bucket without a lock or an await; the manager is asked only by operations on buckets.
#![forbid(unsafe_code)]

mod error;
mod policy;
mod principal;

mod buckets;
mod directory;
mod gate;
mod peers;
mod service;

mod body;
mod copy;
mod delete;
mod digest;
mod intake;
mod lanes;
mod put;
mod upload_memory;

mod conditions;
mod describe;
mod list;
mod range;
mod read;
mod read_ahead;
mod stream;
mod tagging;

mod multipart;

pub use body::{Body, BodyError, BodyStream, ChecksumWish, DEFAULT_CHECKSUM, Trailer, TrailerFault, Upload};
pub use buckets::{BucketOptions, ListedBucket};
pub use conditions::ReadConditions;
pub use copy::{CopyRequest, CopySource, MetadataDirective, OwnAttributes};
pub use delete::{DeleteKey, MAX_DELETE_KEYS};
pub use describe::{Described, ObjectParts, PartsQuery};
pub use digest::ChecksumDigest;
pub use directory::Bucket;
pub use error::ObjectError;
pub use list::{ListRequest, Listing, MAX_LIST_ITEMS};
pub use multipart::{
    CompleteRequest, Completed, CopyPartRequest, ListUploadsRequest, NamedPart, PartsPage, UploadMark, UploadName, UploadsPage,
    WrittenPart,
};
pub use peers::{Peers, Settling, Unsettled};
pub use policy::{InvalidPolicy, MAX_POLICY_BYTES, Policy, StatementFault};
pub use principal::{Action, Principal};
pub use put::{PutRequest, Written};
pub use range::ByteRange;
pub use read::{Head, Read, ReadBody, ReadRequest, Select};
pub use service::{Engines, MAX_CONTENT_HEADER_BYTES, ObjectService, check_attributes};
pub use stream::{ChunkStream, READ_AHEAD_CHUNKS};
pub use upload_memory::{LEAST_UPLOAD_MEMORY, ROOM_PATIENCE, UploadMemory, UploadMemoryStats};

#[cfg(test)]
mod tests;
