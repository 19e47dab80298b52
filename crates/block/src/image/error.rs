//! Why a request to an image failed.

use std::borrow::Cow;

use types::DeviceId;

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ImageError {
    pub kind: ImageErrorKind,
    /// For people.
    pub message: Cow<'static, str>,
}

/// What the caller can do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageErrorKind {
    /// There was no space for a named time ([`super::SPACE_PATIENCE`]). Nothing changed in the part that lacked it.
    NoSpace,
    /// A device failed or was silent. Whether a write took effect is unknown.
    Io,
    /// The request makes no sense; the message says why.
    Invalid,
    /// Another holder has the image. Every request fails from now on.
    Superseded,
    /// The image was closed here. Every request fails from now on.
    Closed,
}

impl ImageError {
    pub(crate) fn new(kind: ImageErrorKind, message: impl Into<Cow<'static, str>>) -> ImageError {
        ImageError { kind, message: message.into() }
    }

    pub(crate) fn io(message: impl Into<Cow<'static, str>>) -> ImageError {
        ImageError::new(ImageErrorKind::Io, message)
    }

    pub(crate) fn invalid(message: impl Into<Cow<'static, str>>) -> ImageError {
        ImageError::new(ImageErrorKind::Invalid, message)
    }
}

/// Why an image could not be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    #[error("another holder has the image")]
    Superseded,
    #[error("device {device} does not tell its blobs: {reason}")]
    Unreachable { device: DeviceId, reason: String },
    /// The record or the blobs contradict each other or themselves.
    #[error("{0}")]
    Damaged(String),
    #[error("the manager does not note which devices count: {0}")]
    Unrecorded(String),
    #[error("the images below the clone can't be read: {0}")]
    Parent(String),
}

/// What became of a question to a store, after all that a holder can do about it was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    NoSpace(DeviceId),
    /// The blob does not stand there.
    Absent(DeviceId),
    /// The device failed, or was silent for a named time. The effect of a change is unknown.
    Device(DeviceId, String),
    Error(ImageError),
}

impl From<ImageError> for Fault {
    fn from(error: ImageError) -> Fault {
        Fault::Error(error)
    }
}

impl From<Fault> for ImageError {
    fn from(fault: Fault) -> ImageError {
        match fault {
            Fault::NoSpace(device) => ImageError::new(ImageErrorKind::NoSpace, format!("device {device} has no space left")),
            Fault::Absent(device) => ImageError::io(format!("a blob of the image does not stand on device {device} any more")),
            Fault::Device(device, reason) => ImageError::io(format!("device {device}: {reason}")),
            Fault::Error(error) => error,
        }
    }
}
