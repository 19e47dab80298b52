//! The replicated state as bytes: what a snapshot of consensus holds. Its checksum is consensus's.
//!
//! ```text
//!   version 1 byte | postcard(Body)
//! ```

use serde::{Deserialize, Serialize};

use crate::export::DecodeExportError;
use crate::replicated::assembly::Assemblies;
use crate::replicated::sessions::Sessions;
use crate::snapshot::Snapshot;

/// The version that is written; 1: the first.
const IMAGE_VERSION: u8 = 1;

#[derive(Serialize, Deserialize)]
struct Body {
    /// [`Snapshot::export`].
    copy: Vec<u8>,
    sessions: Sessions,
    /// Proposer, serial, and the bytes so far.
    assemblies: Vec<(u64, u64, Vec<u8>)>,
}

/// Bytes that are no replicated state.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ImageError {
    #[error("expected version {IMAGE_VERSION} of a replicated manager's state, found {found:?}; use a newer Trilith")]
    Version { found: Option<u8> },
    #[error("a replicated manager's state that cannot be decoded")]
    Body(#[from] postcard::Error),
    #[error("a replicated manager's state that remembers impossible proposals")]
    Proposals,
    #[error(transparent)]
    Copy(#[from] DecodeExportError),
}

/// The replicated state: the manager's, and what is remembered of proposals.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Image {
    pub(crate) state: Snapshot,
    pub(crate) sessions: Sessions,
    pub(crate) assemblies: Assemblies,
}

impl Image {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let body = Body { copy: self.state.export(), sessions: self.sessions.clone(), assemblies: self.assemblies.export() };
        postcard::to_extend(&body, vec![IMAGE_VERSION]).expect("encoding into memory cannot fail")
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Image, ImageError> {
        let body: Body = match bytes.split_first() {
            Some((&IMAGE_VERSION, body)) => postcard::from_bytes(body)?,
            other => return Err(ImageError::Version { found: other.map(|(version, _)| *version) }),
        };
        let assemblies = Assemblies::import(body.assemblies).ok_or(ImageError::Proposals)?;
        if !body.sessions.are_sound() {
            return Err(ImageError::Proposals);
        }
        Ok(Image { state: Snapshot::from_export(&body.copy)?, sessions: body.sessions, assemblies })
    }
}
