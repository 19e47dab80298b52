//! What a holder knows of its image's record at the manager, and the commands by which it changes the record (docs/rfd/0024).
//!
//! A command may be carried out although its answer was lost. So each can be sent again: the same command twice is answered as once.
//! Commands that switch the layer name the layer that they end. One that arrives late is thereby refused.

use manager::Redundancy;
use net::BoxFuture;
use types::{DeviceId, ImageEpoch, ImageId, Layer, LayerOf, NodeId, Token};

/// What a holder needs of an image's record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    pub id: ImageId,
    /// A multiple of 512.
    pub size_bytes: u64,
    /// The newest: writes go there.
    pub layer: Layer,
    pub branches: Vec<Branch>,
    pub snapshots: Vec<Snapshot>,
    /// What a clone began with.
    pub parent: Option<LayerOf>,
    pub token: Token,
    pub epoch: ImageEpoch,
    /// Copies that each blob shall have.
    pub copies: u8,
    /// Those in sync.
    pub devices: Vec<DeviceId>,
    /// Those that are out, and the epoch that began when each was taken out.
    pub out: Vec<(DeviceId, ImageEpoch)>,
    /// Every blob has at least so many copies in sync.
    pub redundancy: Redundancy,
    /// As in [`manager::ImageRecord`].
    pub short_hosts: Vec<NodeId>,
    /// Before the image was opened, the copies of each blob were equal.
    pub is_settled: bool,
}

impl View {
    /// Whether each blob has a copy although these devices, which are in sync, are silent. Devices come with their hosts.
    pub fn survives(&self, silent: impl IntoIterator<Item = (DeviceId, Option<NodeId>)>) -> bool {
        manager::survives(self.redundancy, &self.short_hosts, silent)
    }
}

/// A layer that does not follow its predecessor: a rollback began it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Branch {
    /// The first layer of the branch.
    pub layer: Layer,
    /// What it stands on; less than `layer`.
    pub base: Layer,
}

/// A layer that was ended under a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    pub name: String,
    pub layer: Layer,
}

/// Why a command was not carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegistryError {
    /// The record names another token.
    #[error("another holder has the image")]
    Superseded,
    #[error("there is no snapshot of this name")]
    NoSuchSnapshot,
    #[error("there is a snapshot of this name")]
    SnapshotExists,
    /// Nothing changed; the reason says what to do.
    #[error("{0}")]
    Refused(String),
    /// No answer. Whether the command was carried out, or will be, is unknown.
    #[error("{0}")]
    Unclear(String),
}

/// The record after a command.
pub type Recorded<'a> = BoxFuture<'a, Result<View, RegistryError>>;

/// The commands of a holder on its image's record.
pub trait Registry: Send + Sync {
    /// Ends layer `ended` under a name, and begins the next one.
    fn snapshot<'a>(&'a self, image: ImageId, token: Token, name: &'a str, ended: Layer) -> Recorded<'a>;

    /// Takes a name away. The holder frees the blobs afterwards.
    fn remove_snapshot<'a>(&'a self, image: ImageId, token: Token, name: &'a str) -> Recorded<'a>;

    /// Begins a layer above a snapshot's, with the snapshot's size, after `ended`.
    fn rollback<'a>(&'a self, image: ImageId, token: Token, name: &'a str, ended: Layer) -> Recorded<'a>;

    /// Adds devices, in sync, before the first blob is placed on them.
    fn use_devices(&self, image: ImageId, token: Token, devices: Vec<DeviceId>) -> Recorded<'_>;

    /// Begins an epoch, and takes devices out; without any it sets the redundancy alone.
    fn take_out(
        &self,
        image: ImageId,
        token: Token,
        devices: Vec<DeviceId>,
        redundancy: Redundancy,
        short_host: Option<NodeId>,
    ) -> Recorded<'_>;

    /// Puts a device in; of one that is in sync it sets the redundancy alone.
    fn put_in(&self, image: ImageId, token: Token, device: DeviceId, redundancy: Redundancy) -> Recorded<'_>;

    /// Forgets the parent. What was read from there is the image's own by now.
    fn flatten(&self, image: ImageId, token: Token) -> Recorded<'_>;

    fn set_size(&self, image: ImageId, token: Token, size_bytes: u64) -> Recorded<'_>;
}
