//! Ids and counters.

use std::fmt;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

macro_rules! opaque {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        pub struct $name(pub [u8; 16]);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                for byte in &self.0 {
                    write!(f, "{byte:02x}")?;
                }
                Ok(())
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({self})", stringify!($name))
            }
        }

        impl std::str::FromStr for $name {
            type Err = InvalidId;

            /// Reads 32 hexadecimal digits.
            fn from_str(text: &str) -> Result<Self, InvalidId> {
                // A number may have a sign, the digits of an id none.
                if text.len() != 32 || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
                    return Err(InvalidId);
                }
                let mut bytes = [0u8; 16];
                for (index, byte) in bytes.iter_mut().enumerate() {
                    *byte = u8::from_str_radix(&text[2 * index..2 * index + 2], 16).map_err(|_| InvalidId)?;
                }
                Ok($name(bytes))
            }
        }
    };
}

number!(
    /// A cell: the gateways that share a set of zone logs.
    CellId(u16)
);
number!(
    /// A device's number within its cluster, handed out by the manager and never reused.
    DeviceId(u32)
);
number!(
    /// A gateway instance within its cell, never reused while records of it can still be walked.
    GatewayId(u16)
);
number!(
    /// A node's number within its cluster: a process with its data folder, handed out by the manager and never reused.
    NodeId(u32)
);
number!(
    /// A block image, for ever: its name may come to mean another one.
    ImageId(u64)
);
number!(
    /// What was written to an image between two of its snapshots. A snapshot ends a layer; writes go to the newest one (RFD 24).
    Layer(u32)
);
number!(
    /// Counts the changes of which devices hold copies of an image that count (RFD 24).
    ImageEpoch(u64)
);
number!(
    /// A file volume, for ever: its name may come to mean another one (RFD 25).
    FileVolumeId(u32)
);
number!(
    /// One incarnation of a bucket: a bucket deleted and made again has another id (RFD 2, decision 16).
    BucketId(u64)
);
number!(
    /// Checkpoint period of a cell.
    Epoch(u64)
);
number!(
    /// A gateway's own count of its writes.
    Sequence(u64)
);
number!(
    /// Generation of the replica-set table (RFD 2, decision 2).
    Generation(u32)
);
number!(
    /// Number of the cluster map.
    ViewNumber(u64)
);
number!(
    /// Fencing number handed out by the manager.
    Token(u64)
);

opaque!(
    /// The cluster that a device belongs to; random, made when the first device is formatted.
    ClusterId
);
opaque!(
    /// A device's own identity, random, made by `format`.
    DeviceUuid
);
opaque!(
    /// A node's own identity, random, kept in its data folder.
    NodeIdentity
);
opaque!(
    /// One multipart upload.
    UploadId
);

/// A text that is not an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected 32 hexadecimal digits")]
pub struct InvalidId;

#[cfg(test)]
mod tests;
