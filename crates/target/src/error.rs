//! What a target refuses.

use device::{AppendError, NotesIoError};
use format::superblock::fences::FencesError;
use types::{DeviceId, ErrorKind, Token};

use crate::FenceKey;

/// Why a target did not start an append.
#[derive(Debug, Clone, thiserror::Error)]
pub enum AppendRefused {
    /// The writer has been fenced. It must stop writing; nothing was appended.
    #[error("{writer:?} writes under token {found}, the fence stands at {fence}")]
    Fenced { writer: FenceKey, found: Token, fence: Token },
    /// The target does not know yet whom it must refuse. Nothing was appended.
    #[error("the target's fences are not loaded yet")]
    FencesNotLoaded,
    /// Nothing was appended.
    #[error("the deadline passed before the append was admitted")]
    DeadlinePassed,
    #[error(transparent)]
    Device(#[from] AppendError),
}

impl AppendRefused {
    /// What the caller can do.
    pub fn kind(&self) -> ErrorKind {
        match self {
            AppendRefused::Fenced { .. } => ErrorKind::Denied,
            AppendRefused::FencesNotLoaded => ErrorKind::Unavailable,
            AppendRefused::DeadlinePassed => ErrorKind::Timeout,
            AppendRefused::Device(error) => error.kind(),
        }
    }
}

/// Why a fence could not be raised.
#[derive(Debug, Clone, thiserror::Error)]
pub enum FenceError {
    /// Somebody has raised it higher already: whoever asks is outdated itself.
    #[error("the fence of {writer:?} stands at {fence}, above {found}")]
    Older { writer: FenceKey, found: Token, fence: Token },
    #[error("this target holds {most} fences already")]
    TooMany { most: usize },
    #[error(transparent)]
    Notes(#[from] NotesIoError),
}

/// Why a target could not start.
#[derive(Debug, Clone, thiserror::Error)]
pub enum TargetOpenError {
    #[error("fences of device {device}: {cause}")]
    Fences { device: DeviceId, cause: FencesError },
    #[error(transparent)]
    Notes(#[from] NotesIoError),
}
