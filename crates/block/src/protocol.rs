//! What a person asks of images, as a command beside a node sends it and any node answers.

use net::ServiceTag;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::path::PathBuf;

/// The service that answers [`Ask`].
pub const IMAGES: ServiceTag = ServiceTag::IMAGES;
/// Most bytes of content that one request brings or takes.
pub const MAX_CONTENT_BYTES: u32 = 1 << 20;

/// What the service takes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    pub ask: Ask,
    /// Another node sent it here, where it took the image's holder to be: it is carried out here, and not sent on.
    pub is_forwarded: bool,
}

/// A request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ask {
    Create {
        name: String,
        size_bytes: u64,
        /// As many as the cluster has hosts, at most 3, without a number.
        copies: Option<u8>,
        /// All blobs are made at once.
        is_preallocated: bool,
    },
    /// A new image that begins as a snapshot of another.
    Clone {
        image: String,
        snapshot: String,
        name: String,
    },
    List {
        in_trash: bool,
    },
    Info {
        image: String,
    },
    Rename {
        image: String,
        name: String,
    },
    Resize {
        image: String,
        size_bytes: u64,
        may_shrink: bool,
    },
    Snapshot {
        image: String,
        name: String,
    },
    RemoveSnapshot {
        image: String,
        name: String,
    },
    /// Makes a clone independent of its parent.
    Flatten {
        image: String,
    },
    Rollback {
        image: String,
        snapshot: String,
    },
    /// Into the trash.
    Remove {
        image: String,
        with_snapshots: bool,
    },
    /// Out of the trash, by its id.
    Restore {
        id: u64,
        name: String,
    },
    /// For good; all that are in the trash without an id.
    Purge {
        id: Option<u64>,
    },
    /// Lets an image be opened that has lost blobs.
    AcceptLosses {
        image: String,
    },
    /// Ends the holder of an image.
    Unlock {
        image: String,
    },
    /// Serves images by NBD at a place until it is told otherwise.
    Serve {
        images: Vec<String>,
        at: ListenAt,
    },
    /// Ends that.
    EndServing {
        at: ListenAt,
    },
    Served,
    /// Content of an image or a snapshot.
    Read {
        image: String,
        /// Of the image that is meant: the name may come to mean another.
        id: u64,
        snapshot: Option<String>,
        offset: u64,
        length: u32,
    },
    /// For a new image that is filled from a file.
    Write {
        image: String,
        id: u64,
        offset: u64,
        content: Vec<u8>,
    },
}

impl Ask {
    /// The image that is to be open for it, or about which the node must be asked that has it open.
    pub fn holder_of(&self) -> Option<&str> {
        match self {
            Ask::Rename { image, .. }
            | Ask::Resize { image, .. }
            | Ask::Snapshot { image, .. }
            | Ask::RemoveSnapshot { image, .. }
            | Ask::Flatten { image }
            | Ask::Rollback { image, .. }
            | Ask::Remove { image, .. }
            | Ask::Read { image, snapshot: None, .. }
            | Ask::Write { image, .. } => Some(image),
            Ask::Create { .. }
            | Ask::Clone { .. }
            | Ask::List { .. }
            | Ask::Info { .. }
            | Ask::Read { snapshot: Some(_), .. }
            | Ask::Restore { .. }
            | Ask::Purge { .. }
            | Ask::AcceptLosses { .. }
            | Ask::Unlock { .. }
            | Ask::Serve { .. }
            | Ask::EndServing { .. }
            | Ask::Served => None,
        }
    }
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Told {
    Done,
    Images {
        images: Vec<ImageInfo>,
        /// Nodes that did not tell what their devices have: the images' space is counted without them.
        unheard: Vec<String>,
    },
    Served(Vec<Serving>),
    /// What of a range is not zeros: offsets from the start of the range.
    Content(Vec<(u32, Vec<u8>)>),
    /// Nothing was done, or not all; the reason says what to do.
    Refused(String),
}

/// An image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageInfo {
    pub id: u64,
    pub name: String,
    pub size_bytes: u64,
    pub created_ms: u64,
    pub removed_ms: Option<u64>,
    /// Copies that each part shall have.
    pub copies: u8,
    /// Each part has copies that count on at least so many hosts, and on so many devices.
    pub redundancy: (u8, u8),
    /// Devices whose copies do not count now.
    pub out: Vec<DeviceInfo>,
    /// The node that has it open, by its name; none if it is closed.
    pub holder: Option<String>,
    /// `image@snapshot` that it was cloned from.
    pub parent: Option<String>,
    pub snapshots: Vec<SnapshotInfo>,
    /// Space that it has on all devices, and what of it has content; all copies count.
    pub allocated_bytes: u64,
    pub data_bytes: u64,
}

/// A device of an image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceInfo {
    pub device: u32,
    /// The node that serves it, by its name.
    pub node: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotInfo {
    pub name: String,
    pub size_bytes: u64,
    pub created_ms: u64,
}

/// Where NBD clients connect.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ListenAt {
    Socket(PathBuf),
    Address(SocketAddr),
}

impl std::fmt::Display for ListenAt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ListenAt::Socket(path) => write!(f, "{}", path.display()),
            ListenAt::Address(address) => address.fmt(f),
        }
    }
}

/// Images that are served at one place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Serving {
    pub at: ListenAt,
    pub images: Vec<String>,
    /// False while the node waits for one of the images, or for the place.
    pub is_open: bool,
    pub clients: u64,
}
