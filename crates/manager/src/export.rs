//! The whole state as bytes: what is copied into superblocks, so that losing every manager loses no data.
//!
//! ```text
//!   0  magic        8  "TRILMGR\0"
//!   8  version      4  little-endian, as all numbers
//!  12  checksum     4  CRC32C of the version and the body
//!  16  body            postcard(list of entries), ascending (see `entry`)
//! ```
//!
//! A copy may be older than the state that was lost. Ids and tokens that were handed out after it must not be handed out again:
//! a bucket made anew under a lost bucket's id would show that bucket's objects, and a token would stop fencing, and
//! a start would write under another's generation, a shard would give ids that lead to another's chunks, and two shards would put chunks
//! into the same blocks. So an import skips more of them than any manager can have handed out between two copies. Each kind of record says
//! what it skips ([`crate::kind::Record::skip_lost`], [`crate::kind::Numbers`]).

use crate::entry::{self, EntryError, EntryKey};
use crate::modules;
use crate::snapshot::{ImpossibleState, Snapshot};

/// The version that is written and read.
pub const EXPORT_VERSION: u32 = 1;

/// Commands, and so tokens, that an import skips.
pub const IMPORT_SKIPPED_COMMANDS: u64 = 1 << 32;

const MAGIC: [u8; 8] = *b"TRILMGR\0";
const BODY_OFFSET: usize = 16;

/// Bytes that are no state.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeExportError {
    #[error("not a copy of a manager's state")]
    Magic,
    #[error("expected checksum {expected:#010x}, found {found:#010x}")]
    Checksum { expected: u32, found: u32 },
    #[error("expected version {EXPORT_VERSION} of a manager's state, found {found}; use a newer Trilith")]
    Version { found: u32 },
    #[error("a manager's state that cannot be decoded")]
    Body(#[source] postcard::Error),
    #[error("a manager's state with an entry {key:02x?} that does not come after the one before")]
    Order { key: Vec<u8> },
    #[error(transparent)]
    Entry(#[from] EntryError),
    #[error(transparent)]
    Impossible(#[from] ImpossibleState),
}

impl Snapshot {
    /// The whole state as bytes. The same state gives the same bytes.
    pub fn export(&self) -> Vec<u8> {
        let mut bytes = Vec::from(MAGIC);
        bytes.extend_from_slice(&EXPORT_VERSION.to_le_bytes());
        bytes.extend_from_slice(&[0; 4]);
        let mut bytes = postcard::to_extend(&entry::all(self), bytes).expect("encoding into memory cannot fail");
        let checksum = checksum(&bytes);
        bytes[12..BODY_OFFSET].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// The state that [`Snapshot::export`] wrote.
    pub fn from_export(bytes: &[u8]) -> Result<Snapshot, DecodeExportError> {
        if bytes.len() < BODY_OFFSET || bytes[..8] != MAGIC {
            return Err(DecodeExportError::Magic);
        }
        let (expected, found) = (checksum(bytes), u32::from_le_bytes(bytes[12..16].try_into().expect("four bytes")));
        if expected != found {
            return Err(DecodeExportError::Checksum { expected, found });
        }
        let version = u32::from_le_bytes(bytes[8..12].try_into().expect("four bytes"));
        if version != EXPORT_VERSION {
            return Err(DecodeExportError::Version { found: version });
        }
        let entries: Vec<(EntryKey, Vec<u8>)> = postcard::from_bytes(&bytes[BODY_OFFSET..]).map_err(DecodeExportError::Body)?;
        if let Some(pair) = entries.windows(2).find(|pair| pair[0].0 >= pair[1].0) {
            return Err(DecodeExportError::Order { key: pair[1].0.clone() });
        }
        let mut state = Snapshot::default();
        for (key, value) in &entries {
            entry::load(&mut state, key, value)?;
        }
        state.check()?;
        Ok(state)
    }

    /// This state as the beginning of a manager that knows nothing later: with everything skipped that may have been handed out.
    /// An error if that leads to numbers with which the manager could not be opened again.
    pub(crate) fn skip_lost(mut self) -> Result<Snapshot, ImpossibleState> {
        self.applied.0 += IMPORT_SKIPPED_COMMANDS;
        modules::skip_lost(&mut self);
        self.check()?;
        Ok(self)
    }
}

fn checksum(bytes: &[u8]) -> u32 {
    let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
    digest.update(&bytes[8..12]);
    digest.update(&bytes[BODY_OFFSET..]);
    digest.finalize() as u32
}
