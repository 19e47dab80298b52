//! Snapshots: a lookup structure as bytes, whole or the classifier alone.
//!
//! All numbers are little-endian. Sizes of the arrays follow from the first fields (see [`Shape`]), so the length is known from
//! the head, and nothing is allocated for bytes that are not there.
//!
//! ```text
//!   0  8  magic "LUDOHASH"
//!   8  4  version                       12  4  kind: 1 whole, 2 classifier
//!  16  4  value bits                    20  4  fingerprint bits
//!  24  8  capacity in keys              32  8  hash seed
//!  40  8  classifier seed               48  8  generation
//!  56  8  kind 1: sequence of the next update; kind 2: where the generation before ended
//!  64  8  overlay entries o             72  8  their choices, bit i of entry i
//!  80  16 · o   digests of the overlay
//!      8 · ⌈(a + b) / 64⌉   classifier bits
//!      8 · ⌈buckets · stride / 64⌉   buckets          (kind 1)
//!      8 · overflow places   seed overflow table      (kind 1)
//!      4  CRC-32C of everything before
//! ```
//!
//! Version history: 2, seeds of six bits and other hash functions; 1, the first. The hash functions are part of the version.

use std::fmt;
use std::sync::Arc;

use crate::bits::BitArray;
use crate::checksum::crc32c;
use crate::classifier::Classifier;
use crate::generation::Generation;
use crate::hash::{Digest, Hasher};
use crate::lookup::LookupOf;
use crate::maintenance::Maintenance;
use crate::overlay::OVERLAY_CAPACITY;
use crate::shape::{Shape, ShapeError};
use crate::table::{ESCAPE, Table};
use crate::value::PackedValue;
use crate::word::Word;

/// Version written. 2: seeds of six bits, other hash functions. 1: the first; no longer read.
pub const SNAPSHOT_VERSION: u32 = 2;

const MAGIC: [u8; 8] = *b"LUDOHASH";
const WHOLE: u32 = 1;
const CLASSIFIER: u32 = 2;
const HEAD_BYTES: usize = 80;
const CHECKSUM_BYTES: usize = 4;
const DIGEST_BYTES: usize = 16;

/// Why bytes are not a snapshot that can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotError {
    /// The bytes have another length than their head says.
    Length {
        expected: u64,
        found: u64,
    },
    /// The bytes do not begin as a snapshot does.
    Magic,
    /// A version that this program does not know.
    Version(u32),
    /// Not the kind of snapshot that was asked for.
    Kind(u32),
    Shape(ShapeError),
    /// The bytes have been changed.
    Checksum {
        expected: u32,
        found: u32,
    },
    /// A field has a value that no encoder writes.
    Field(&'static str),
    /// A classifier for another structure, or for another moment of it.
    Elsewhere,
}

impl fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length { expected, found } => write!(f, "snapshot of {found} bytes, not {expected}"),
            Self::Magic => f.write_str("not a snapshot of a lookup structure"),
            Self::Version(found) => write!(f, "snapshot of version {found}, not {SNAPSHOT_VERSION}"),
            Self::Kind(found) => write!(f, "snapshot of another kind, {found}"),
            Self::Shape(error) => write!(f, "snapshot with a {error}"),
            Self::Checksum { expected, found } => write!(f, "snapshot with checksum {found:08x}, not {expected:08x}"),
            Self::Field(name) => write!(f, "the snapshot's {name} is out of range"),
            Self::Elsewhere => f.write_str("the classifier does not follow this structure's state"),
        }
    }
}

impl std::error::Error for SnapshotError {}

impl<W: Word> LookupOf<W> {
    /// The whole structure as bytes.
    pub fn snapshot(&self) -> Vec<u8> {
        let generation = self.current();
        let mut out = encode_head(generation, WHOLE, self.next_sequence());
        put_words(&mut out, generation.table.array());
        put_words(&mut out, generation.table.overflow().array());
        seal(&mut out);
        out
    }

    /// Reads a whole structure. No bytes make it panic, and what it returns can be looked up in and updated.
    pub fn from_snapshot(bytes: &[u8]) -> Result<Self, SnapshotError> {
        let (head, mut body) = Head::decode(bytes, WHOLE)?;
        let classifier = head.classifier(&mut body)?;
        let table = Table::new(&head.shape);
        body.fill(table.array(), head.shape.buckets() * head.shape.stride_bits(), "buckets")?;
        let overflow_bits = head.shape.overflow_places() * 64;
        body.fill(table.overflow().array(), overflow_bits, "overflow table")?;
        check_overflow(&head.shape, &table)?;
        let hasher = Hasher::new(head.hash_seed);
        let generation = Generation::new(head.generation, head.shape, hasher, classifier, Arc::new(table));
        Ok(Self::of_generation(generation, head.sequence))
    }

    /// Goes to the next generation, whose classifier the bytes hold. The structure must have applied all updates of its own.
    pub fn renew_from(&mut self, bytes: &[u8]) -> Result<(), SnapshotError> {
        let (head, mut body) = Head::decode(bytes, CLASSIFIER)?;
        let current = self.current();
        let follows = Some(head.generation) == current.number.checked_add(1) && head.sequence == self.next_sequence();
        if !follows || head.shape != current.shape || head.hash_seed != current.hasher.seed() {
            return Err(SnapshotError::Elsewhere);
        }
        let classifier = head.classifier(&mut body)?;
        let table = Arc::clone(&current.table);
        let next = Generation::new(head.generation, head.shape, current.hasher, classifier, table);
        self.replace(next);
        Ok(())
    }
}

impl<V: PackedValue> Maintenance<V> {
    /// The classifier alone, for lookup units that have applied all updates of the generation before: 2.33 bits a key instead
    /// of the whole. None if this generation has seen updates already, or differs from the one before in more.
    pub fn classifier_snapshot(&self) -> Option<Vec<u8>> {
        let ended = self.ended_before()?;
        let mut out = encode_head(self.lookup().current(), CLASSIFIER, ended);
        seal(&mut out);
        Some(out)
    }
}

/// Head, overlay and classifier.
fn encode_head<W: Word>(generation: &Generation<W>, kind: u32, sequence: u64) -> Vec<u8> {
    let (shape, classifier) = (&generation.shape, &generation.classifier);
    let mut out = Vec::with_capacity(snapshot_bytes(shape, kind, classifier.overlay().len() as u64) as usize);
    out.extend_from_slice(&MAGIC);
    for number in [SNAPSHOT_VERSION, kind, shape.value_bits(), shape.fingerprint_bits()] {
        out.extend_from_slice(&number.to_le_bytes());
    }
    let entries: Vec<(Digest, u32)> = classifier.overlay().entries().collect();
    let choices = entries.iter().enumerate().fold(0, |bits, (index, (_, choice))| bits | u64::from(*choice) << index);
    let (hash_seed, overlay) = (generation.hasher.seed(), entries.len() as u64);
    for number in [shape.capacity(), hash_seed, classifier.seed(), generation.number, sequence, overlay, choices] {
        out.extend_from_slice(&number.to_le_bytes());
    }
    for (digest, _) in entries {
        out.extend_from_slice(&digest.x.to_le_bytes());
        out.extend_from_slice(&digest.y.to_le_bytes());
    }
    put_words(&mut out, classifier.array());
    out
}

fn put_words<W: Word>(out: &mut Vec<u8>, array: &BitArray<W>) {
    (0..array.words()).for_each(|index| out.extend_from_slice(&array.word(index).to_le_bytes()));
}

fn seal(out: &mut Vec<u8>) {
    let checksum = crc32c(out);
    out.extend_from_slice(&checksum.to_le_bytes());
}

fn snapshot_bytes(shape: &Shape, kind: u32, overlay: u64) -> u64 {
    let words = |bits: u64| bits.div_ceil(64) * 8;
    let classifier = words(shape.side_a() + shape.side_b());
    let table = words(shape.buckets() * shape.stride_bits()) + 8 * shape.overflow_places();
    let rest = (HEAD_BYTES + CHECKSUM_BYTES) as u64 + overlay * DIGEST_BYTES as u64;
    rest + classifier + if kind == WHOLE { table } else { 0 }
}

struct Head {
    shape: Shape,
    hash_seed: u64,
    classifier_seed: u64,
    generation: u64,
    sequence: u64,
    overlay: u64,
    choices: u64,
}

impl Head {
    /// Checks everything up to the arrays, and returns those.
    fn decode(bytes: &[u8], kind: u32) -> Result<(Self, Body<'_>), SnapshotError> {
        let least = (HEAD_BYTES + CHECKSUM_BYTES) as u64;
        let too_short = SnapshotError::Length { expected: least, found: bytes.len() as u64 };
        let (rest, checksum) = bytes.split_last_chunk::<CHECKSUM_BYTES>().ok_or(too_short)?;
        let (head, body) = rest.split_first_chunk::<HEAD_BYTES>().ok_or(too_short)?;
        let short = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().expect("four bytes"));
        let long = |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().expect("eight bytes"));
        if head[..8] != MAGIC {
            return Err(SnapshotError::Magic);
        }
        if short(8) != SNAPSHOT_VERSION {
            return Err(SnapshotError::Version(short(8)));
        }
        if short(12) != kind {
            return Err(SnapshotError::Kind(short(12)));
        }
        let shape = Shape::new(long(24), short(16), short(20)).map_err(SnapshotError::Shape)?;
        let head = Self {
            shape,
            hash_seed: long(32),
            classifier_seed: long(40),
            generation: long(48),
            sequence: long(56),
            overlay: long(64),
            choices: long(72),
        };
        if head.overlay > OVERLAY_CAPACITY as u64 || head.choices.checked_shr(head.overlay as u32).unwrap_or(0) != 0 {
            return Err(SnapshotError::Field("overlay"));
        }
        // Numbers that count up to these ends are not reached by counting.
        if head.generation == u64::MAX || head.sequence == u64::MAX {
            return Err(SnapshotError::Field("generation or sequence"));
        }
        let (expected, found) = (snapshot_bytes(&shape, kind, head.overlay), bytes.len() as u64);
        if expected != found {
            return Err(SnapshotError::Length { expected, found });
        }
        let (expected, found) = (crc32c(rest), u32::from_le_bytes(*checksum));
        if expected != found {
            return Err(SnapshotError::Checksum { expected, found });
        }
        Ok((head, Body { bytes: body }))
    }

    fn classifier<W: Word>(&self, body: &mut Body<'_>) -> Result<Classifier<W>, SnapshotError> {
        let classifier = Classifier::new(&self.shape, self.classifier_seed);
        for index in 0..self.overlay {
            let digest = Digest { x: body.word(), y: body.word() };
            if classifier.overlay().choice(digest).is_some() {
                return Err(SnapshotError::Field("overlay"));
            }
            classifier.overlay().put(digest, (self.choices >> index) as u32 & 1);
        }
        body.fill(classifier.array(), self.shape.side_a() + self.shape.side_b(), "classifier")?;
        Ok(classifier)
    }
}

/// Arrays that have been found to be as long as they must be.
struct Body<'a> {
    bytes: &'a [u8],
}

impl Body<'_> {
    fn word(&mut self) -> u64 {
        let (word, rest) = self.bytes.split_first_chunk().expect("the length was checked");
        self.bytes = rest;
        u64::from_le_bytes(*word)
    }

    fn fill<W: Word>(&mut self, array: &BitArray<W>, bits: u64, name: &'static str) -> Result<(), SnapshotError> {
        for index in 0..array.words() {
            array.set_word(index, self.word());
        }
        let used = bits % 64;
        if used > 0 && array.word(array.words() - 1) >> used != 0 {
            return Err(SnapshotError::Field(name));
        }
        Ok(())
    }
}

/// Every escaped bucket has its long seed, nobody else has one, and a place is free.
fn check_overflow<W: Word>(shape: &Shape, table: &Table<W>) -> Result<(), SnapshotError> {
    let refused = Err(SnapshotError::Field("overflow table"));
    let mut entries = 0;
    for (bucket, seed) in table.overflow().entries() {
        if bucket >= shape.buckets() || seed < ESCAPE || table.seed_field(bucket) != ESCAPE {
            return refused;
        }
        entries += 1;
    }
    if entries >= shape.overflow_places() {
        return refused;
    }
    let mut escaped = 0;
    for bucket in (0..shape.buckets()).filter(|bucket| table.seed_field(*bucket) == ESCAPE) {
        if table.overflow().seed(bucket).is_none() {
            return refused;
        }
        escaped += 1;
    }
    if escaped == entries { Ok(()) } else { refused }
}

#[cfg(test)]
mod tests;
