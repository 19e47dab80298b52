//! Error numbers of the protocol.

use crate::export::ExportErrorKind;

/// An error number as replies carry it. The protocol fixes these numbers; they are not those of the operating system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Errno {
    NotPermitted = 1,
    Io = 5,
    Invalid = 22,
    NoSpace = 28,
    Overflow = 75,
    NotSupported = 95,
    Shutdown = 108,
}

impl Errno {
    pub fn number(self) -> u32 {
        self as u32
    }
}

impl From<ExportErrorKind> for Errno {
    fn from(kind: ExportErrorKind) -> Errno {
        match kind {
            ExportErrorKind::Io => Errno::Io,
            ExportErrorKind::NoSpace => Errno::NoSpace,
            ExportErrorKind::Invalid => Errno::Invalid,
            ExportErrorKind::NotPermitted => Errno::NotPermitted,
            ExportErrorKind::TooLong => Errno::Overflow,
            ExportErrorKind::NotFast => Errno::NotSupported,
            ExportErrorKind::ShuttingDown => Errno::Shutdown,
        }
    }
}
