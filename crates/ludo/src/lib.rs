//! Ludo hashing: a dynamic map that is looked up in without its keys.
//!
//! A *lookup structure* of n keys with values of l bits takes about 3.76 + 1.05 · l bits a key, whatever the keys' length, and
//! answers with three memory accesses. A *maintenance structure* holds the keys and changes a lookup structure in constant
//! expected time; to lookup structures elsewhere it sends [`Update`]s of a few tens of bytes. After Shi and Qian, "Ludo Hashing"
//! (2020), as used in Liu et al., "Smash" (2023), sections 2.2 and 4.
//!
//! ```
//! use ludo::{Config, Lookup, Maintenance, Shape, Update};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let shape = Shape::new(1_000, 60, 0)?; // up to 1,000 keys, values of 60 bits, no fingerprint
//! let entries = (0..900_u64).map(|number| (number.to_le_bytes(), number * 7));
//! let mut keyed = Maintenance::build(Config { key_bytes: 8, shape, seed: 42 }, entries)?;
//!
//! // Elsewhere: a snapshot, then messages.
//! let mut remote = Lookup::from_snapshot(&keyed.lookup().snapshot())?;
//! let mut reader = remote.reader::<u64>()?;
//! let mut message = Vec::new();
//! keyed.insert(&5_000_u64.to_le_bytes(), 1)?.encode(&shape, &mut message);
//! remote.apply(&Update::decode(&message, &shape)?)?;
//! assert_eq!(reader.get(&5_000_u64.to_le_bytes()), Some(1));
//! assert_eq!(reader.get(&3_u64.to_le_bytes()), Some(21));
//! # Ok(())
//! # }
//! ```
//!
//! # What a lookup promises
//!
//! A key that is present yields its value. A key that is not (an *alien*) yields the value of some other key: the structure has
//! nothing to compare with. Whoever uses the value compares the full key that stands beside the data. A fingerprint of f bits
//! turns all but 2⁻ᶠ of the aliens away and costs 1.05 · f bits a key. Removed keys are aliens. [`Maintenance::get`] is exact.
//!
//! # How it works
//!
//! ```text
//! key ──hash──▶ two classifier nodes ──xor──▶ 0 or 1: which of two buckets
//!          └──▶ bucket: [ seed | value | value | value | value ] ──hash(seed, key)──▶ which slot
//! ```
//!
//! - A (2,4)-cuckoo table puts every key into one of two buckets, four to a bucket. Insertions almost surely succeed up to
//!   98.03% load; buckets are ⌈0.263 · n⌉, a load of 95%.
//! - The *classifier* is an Othello: two bit arrays of 1.33 · n and n; a key's bit is the exclusive or of one bit of each. Keys
//!   are edges of a bipartite graph, which must have no cycle. The number of cycles is Poisson with mean −½ ln(1 − c), where
//!   c = n² / (1.33 · n · n) = 0.75: mean 0.69, so a random seed is free of cycles with probability √(1 − c) = 1/2 and a build
//!   needs two attempts in expectation. Of 64 attempts all fail with 2⁻⁶⁴.
//! - The *seed* of a bucket sends its keys to different slots: four keys with probability 4!/4⁴ = 9.4%, three with 37.5%. All
//!   63 seeds of six bits fail for 0.51% of the full buckets, about 0.11% of the keys at 95% load; their longer seeds stand in an
//!   exact overflow table. A lookup reads two classifier words and a bucket, and the overflow table for the 0.4% of the buckets
//!   that are escaped: 3.004 accesses (the paper's five bits: 3.016).
//!
//! # Sizes
//!
//! | part | bits a key at capacity |
//! |---|---|
//! | classifier | 2.33 |
//! | seeds | 6 / 3.8 = 1.58 |
//! | overflow table, 64-bit places at 71% | 0.10 |
//! | values and fingerprints | (l + f) / 0.95 |
//!
//! That is 4.01 + 1.053 · (l + f). The paper's 3.76 has seeds of five bits and counts 0.11 bits a key for their overflow table; the
//! exact one that those need, with the number of its bucket in every entry, takes 0.86. A bucket is padded to whole words where that
//! costs at most 1%: values of 126 bits make it one cache line. A maintenance structure takes beside its lookup structure
//! 1.053 · (key bytes + 1) bytes a key for the keys and 21.9 for the forest ([`Maintenance::memory_bytes`]).
//!
//! # What can fail, and how often
//!
//! | event | how often | what happens |
//! |---|---|---|
//! | an insertion closes a cycle of the classifier | −½ d/dn ln(1 − n²/(1.33 N²)): 0.7 times while N keys come in, then every N/3 insertions | the key goes to the exact overlay of 64; [`Maintenance::renew`] builds a new classifier in steps |
//! | the overlay is full | after 21 · N insertions without a renewal | [`InsertError::NeedsRebuild`] |
//! | no room in the cuckoo table below capacity | not seen from 10⁵ keys on; with few keys, it happens | [`InsertError::NeedsRebuild`]; a build takes another hash seed |
//! | the overflow table is full | 40% and 32 buckets above its mean: 7 standard deviations at 10⁵ keys, more with fewer or more | as above |
//! | two keys have one digest | n² · 2⁻¹²⁹; n² · 2⁻⁶⁵ at most, whatever the keys | no seed separates them: as above |
//!
//! Keys that others choose need a secret [`Config::seed`]: it is part of both factors of every product.
//!
//! # Many keys
//!
//! Beyond the caches every access costs as much as some hundred instructions, and what counts is how many of them wait at the
//! same time. [`Reader::get_many`] looks up in groups. [`Maintenance::build`] solves the classifier by taking leaves of its graph
//! away, which needs no walks through trees. For a stream of insertions, [`Maintenance::warm`] asks for what the next keys will
//! touch.
//!
//! # Readers
//!
//! [`Reader`]s write nothing and take no lock while they look up: a sequence number covers classifier, overlay, seeds and slots
//! together, and a lookup that a change overtakes is repeated. A writer that stops in the middle of a change stops its readers;
//! a change is some tens of word writes. A new generation is a new classifier over the same table, or a new structure; readers of
//! the old one are sent on, copying one pointer under a lock, once.
//!
//! # Messages
//!
//! Updates are numbered without gaps within a generation. [`Lookup::apply`] ignores repeated ones and refuses later ones; who has
//! a gap that stays asks for a snapshot. A renewal reaches lookup structures as [`Maintenance::classifier_snapshot`] (2.33 bits a
//! key), a rebuild as [`Lookup::snapshot`].
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
mod peel;
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
