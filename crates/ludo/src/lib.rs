//! Ludo hashing: a dynamic map that is looked up in without its keys.
#![forbid(unsafe_code)]

mod bits;
mod checksum;
mod classifier;
mod cuckoo;
mod forest;
mod generation;
mod hash;
mod lookup;
mod maintenance;
mod overflow;
mod overlay;
mod seeds;
mod sequence;
mod shape;
mod simple;
mod snapshot;
mod table;
mod update;
mod value;
mod word;

#[cfg(test)]
mod model;

pub use lookup::{Applied, ApplyError, Exchanged, Lookup, LookupOf, Reader, ReaderOf, ValueTooWide};
pub use maintenance::{BuildError, ChangeError, Config, InsertError, Maintenance, Renewal};
pub use shape::{MAX_CAPACITY, MAX_FINGERPRINT_BITS, Shape, ShapeError};
pub use simple::Simple;
pub use snapshot::{SNAPSHOT_VERSION, SnapshotError};
pub use update::{DecodeUpdateError, MAX_UPDATE_ITEMS, UPDATE_VERSION, Update};
pub use value::{MAX_VALUE_BITS, PackedValue, VALUE_WORDS, ValueWords};
