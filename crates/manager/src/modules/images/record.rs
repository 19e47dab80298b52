//! The record of an image.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use types::{DeviceId, ImageEpoch, ImageId, Layer, LayerOf, NodeId, Token};

use super::limits::{
    BRANCH_ROOM_BYTES, DEVICE_ROOM_BYTES, IMAGE_ROOM_BYTES, IMAGE_SECTOR_BYTES, LAYER_LIMIT, MAX_CLONE_DEPTH,
    MAX_IMAGE_BRANCHES, MAX_IMAGE_BYTES, MAX_IMAGE_COPIES, MAX_IMAGES, MAX_SNAPSHOTS, MIN_IMAGE_BYTES, SNAPSHOT_ROOM_BYTES,
};
use super::name::check_image_name;
use crate::kind::{Key, Numbers, Record};
use crate::limits::NUMBER_LIMIT;
use crate::modules::device::DeviceRecord;
use crate::snapshot::{Edit, ImpossibleState, Snapshot, check_number};

/// The layer that an image begins with. Nothing is below it but the parent image.
pub const FIRST_LAYER: Layer = Layer(0);

/// Numbers of images that an import skips.
pub const IMPORT_SKIPPED_IMAGES: u64 = 1 << 32;

/// Layers of each image that an import skips.
pub const IMPORT_SKIPPED_LAYERS: u32 = 1 << 10;

/// Epochs of each image that an import skips.
pub const IMPORT_SKIPPED_IMAGE_EPOCHS: u64 = 1 << 32;

/// A block image.
///
/// Snapshots and branches stand in the order of their layers, devices in that of their numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageRecord {
    pub id: ImageId,
    /// No other image has it, except those in the trash.
    pub name: String,
    pub size_bytes: u64,
    pub created_ms: u64,
    /// The newest layer, which takes the writes.
    pub layer: Layer,
    pub branches: Vec<Branch>,
    pub snapshots: Vec<SnapshotRecord>,
    /// Where the image reads what none of its own layers has; none if it is no clone.
    pub parent: Option<LayerOf>,
    /// Index of the command that opened or unlocked the image last; 0: it was never opened.
    pub token: Token,
    /// The node that has it open; none: it is closed.
    pub holder: Option<ImageHolder>,
    /// How many copies of each blob are wanted, on different hosts.
    pub copies: u8,
    /// Those that have blobs of the image, or may get some.
    pub devices: Vec<ImageDevice>,
    /// Counts how often devices were taken out.
    pub epoch: ImageEpoch,
    /// Every blob of the image has at least so many copies in sync.
    pub redundancy: Redundancy,
    /// Hosts of which a device was taken out with the redundancy that the holder told last, or was given up since. Each blob has copies on as many
    /// hosts as the redundancy says beside them, so another of their devices can go.
    pub short_hosts: Vec<NodeId>,
    /// The copies of each blob were equal when the image was closed last.
    pub is_settled: bool,
    /// When it went into the trash; none: it is not there.
    pub removed_ms: Option<u64>,
    /// A device in sync was given up: blobs of the image may be lost. It is not opened before a person has said that this is known.
    pub has_losses: bool,
    /// In the trash, and its blobs are being freed: it does not come back.
    pub is_purging: bool,
}

/// A rollback: layer `layer` begins above `base`. Any other layer begins above the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Branch {
    pub layer: Layer,
    pub base: Layer,
}

/// A snapshot: what its layer and those below it have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotRecord {
    pub name: String,
    pub layer: Layer,
    pub size_bytes: u64,
    pub created_ms: u64,
}

/// The node that has an image open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageHolder {
    /// It may have been removed from the cluster since.
    pub node: NodeId,
    pub since_ms: u64,
    /// It looks after the copies of an image that nothing uses, and makes way for all that do.
    pub is_keeper: bool,
}

impl ImageHolder {
    /// One that did not close the image may have left writes on some copies alone. A keeper makes none.
    pub(super) fn leaves_copies_equal(self) -> bool {
        self.is_keeper
    }
}

/// On how many hosts, and on how many devices, each blob of an image has a copy in sync: the least numbers of all blobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Redundancy {
    pub hosts: u8,
    pub devices: u8,
}

/// Whether each blob of an image has a copy although these devices, which are in sync, are silent or lost. Of devices whose host is not known
/// each counts as a host.
pub fn survives(
    redundancy: Redundancy,
    short_hosts: &[NodeId],
    silent: impl IntoIterator<Item = (DeviceId, Option<NodeId>)>,
) -> bool {
    let mut devices = 0;
    let mut hosts = BTreeSet::new();
    for (device, host) in silent {
        devices += 1;
        if host.is_none_or(|host| !short_hosts.contains(&host)) {
            hosts.insert(host.ok_or(device));
        }
    }
    devices == 0 || hosts.len() < usize::from(redundancy.hosts) || devices < usize::from(redundancy.devices)
}

impl Redundancy {
    /// Whether an image with so many copies can have it.
    pub(super) fn is_of(&self, copies: u8) -> bool {
        1 <= self.hosts && self.hosts <= self.devices && self.devices <= copies
    }
}

/// A device of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageDevice {
    pub device: DeviceId,
    /// The epoch that began when it was taken out; none: it is in sync.
    pub out_since: Option<ImageEpoch>,
}

impl ImageRecord {
    /// The layer below a layer; none below the first one.
    pub fn base_of(&self, layer: Layer) -> Option<Layer> {
        match self.branch_below(layer) {
            Some(branch) if branch.layer == layer => Some(branch.base),
            _ => layer.0.checked_sub(1).map(Layer),
        }
    }

    /// A snapshot by its name.
    pub fn snapshot(&self, name: &str) -> Option<&SnapshotRecord> {
        self.snapshots.iter().find(|snapshot| snapshot.name == name)
    }

    /// A device of the image by its number.
    pub fn device(&self, device: DeviceId) -> Option<&ImageDevice> {
        self.position(device).ok().map(|at| &self.devices[at])
    }

    /// Where a device stands in the list, or where it would.
    pub(super) fn position(&self, device: DeviceId) -> Result<usize, usize> {
        self.devices.binary_search_by_key(&device, |used| used.device)
    }

    /// The first branch that a walk down from a layer comes to.
    fn branch_below(&self, layer: Layer) -> Option<&Branch> {
        let above = self.branches.partition_point(|branch| branch.layer <= layer);
        self.branches[..above].last()
    }

    /// Forgets the branches that neither the image nor a snapshot needs.
    pub(super) fn forget_branches(&mut self) {
        let mut needed = BTreeSet::new();
        let views = self.snapshots.iter().map(|snapshot| snapshot.layer).chain([self.layer]);
        for view in views {
            let mut at = view;
            while let Some(branch) = self.branch_below(at) {
                if !needed.insert(branch.layer) {
                    break;
                }
                at = branch.base;
            }
        }
        self.branches.retain(|branch| needed.contains(&branch.layer));
    }

    /// Whether each blob has a copy although these devices, which are in sync, are silent. Devices come with their hosts.
    pub fn survives(&self, silent: impl IntoIterator<Item = (DeviceId, Option<NodeId>)>) -> bool {
        survives(self.redundancy, &self.short_hosts, silent)
    }

    /// A device of this host that was in sync is given up. Of a lone server's devices none has a host.
    fn lose_copies_on(&mut self, host: Option<NodeId>) {
        let Redundancy { hosts, devices } = &mut self.redundancy;
        if host.is_some_and(|host| self.short_hosts.contains(&host)) {
            *devices = (*devices - 1).max(*hosts);
            return;
        }
        self.has_losses |= *devices == 1;
        *devices = 1.max(*devices - 1);
        // A holder that begins a blob on fewer hosts than it knows of says so first: that clears the list.
        if *hosts > 1 {
            *hosts -= 1;
            self.short_hosts.extend(host);
        } else {
            self.short_hosts.clear();
        }
    }

    /// What the record counts for in [`super::limits::MAX_IMAGES_BYTES`].
    pub(super) fn room_bytes(&self) -> usize {
        IMAGE_ROOM_BYTES
            + self.snapshots.len() * SNAPSHOT_ROOM_BYTES
            + self.branches.len() * BRANCH_ROOM_BYTES
            + self.devices.len() * DEVICE_ROOM_BYTES
    }

    /// For a record that was read: what contradicts itself in it, or refers to what is not there.
    fn contradiction(&self, state: &Snapshot) -> Option<&'static str> {
        let exists = |used: &ImageDevice| state.devices.contains_key(&used.device);
        let is_past = |used: &ImageDevice| used.out_since.is_none_or(|epoch| epoch <= self.epoch);
        let checks = [
            (check_image_name(&self.name).is_ok(), "a name that no image has"),
            (is_image_size(self.size_bytes), "a size that no image has"),
            ((1..=MAX_IMAGE_COPIES).contains(&self.copies), "copies that no image has"),
            (self.redundancy.is_of(self.copies), "a redundancy that no image has"),
            (self.short_hosts.len() < usize::from(self.copies), "more hosts with too few devices than copies"),
            (self.snapshots_are_sound(), "snapshots that no image has"),
            (self.branches_are_sound(), "branches that no image has"),
            (self.parent.is_none_or(|parent| self.is_clone_of(parent, state)), "a parent that there is not"),
            (self.token.0 <= state.applied.0, "the token of a command to come"),
            (self.holder.is_none() || (self.token != Token(0) && self.removed_ms.is_none()), "a holder that can't be"),
            (!self.is_purging || self.removed_ms.is_some(), "a purge of an image that is not in the trash"),
            (self.devices.is_sorted_by(|one, next| one.device < next.device), "devices out of order"),
            (self.devices.iter().all(exists), "a device that there is not"),
            (self.devices.iter().all(is_past), "a device that was taken out in an epoch to come"),
        ];
        checks.into_iter().find(|(holds, _)| !holds).map(|(_, what)| what)
    }

    fn snapshots_are_sound(&self) -> bool {
        let names: BTreeSet<&str> = self.snapshots.iter().map(|snapshot| snapshot.name.as_str()).collect();
        let is_sound = |snapshot: &SnapshotRecord| {
            check_image_name(&snapshot.name).is_ok() && is_image_size(snapshot.size_bytes) && snapshot.layer < self.layer
        };
        self.snapshots.len() <= MAX_SNAPSHOTS
            && names.len() == self.snapshots.len()
            && self.snapshots.iter().all(is_sound)
            && self.snapshots.is_sorted_by(|one, next| one.layer < next.layer)
    }

    fn branches_are_sound(&self) -> bool {
        self.branches.len() <= MAX_IMAGE_BRANCHES
            && self.branches.iter().all(|branch| branch.base < branch.layer && branch.layer <= self.layer)
            && self.branches.is_sorted_by(|one, next| one.layer < next.layer)
    }

    /// A parent is older than its clones, so that there are no circles.
    fn is_clone_of(&self, parent: LayerOf, state: &Snapshot) -> bool {
        let has_layer = |image: &Arc<ImageRecord>| {
            image.removed_ms.is_none() && image.snapshots.iter().any(|snapshot| snapshot.layer == parent.layer)
        };
        parent.image < self.id
            && state.image(parent.image).is_some_and(has_layer)
            && clone_depth(state, self) <= MAX_CLONE_DEPTH
    }
}

/// How many images stand above each other from this one up to one that is no clone, this one not counted.
pub(super) fn clone_depth(state: &Snapshot, image: &ImageRecord) -> usize {
    let parent_of = |image: &&ImageRecord| state.image(image.parent?.image).map(Arc::as_ref);
    std::iter::successors(parent_of(&image), parent_of).take(MAX_CLONE_DEPTH + 1).count()
}

/// Whether an image can have the size.
pub(super) fn is_image_size(size_bytes: u64) -> bool {
    size_bytes.is_multiple_of(IMAGE_SECTOR_BYTES) && (MIN_IMAGE_BYTES..=MAX_IMAGE_BYTES).contains(&size_bytes)
}

impl Key for ImageId {
    fn encode(&self) -> Vec<u8> {
        self.0.to_be_bytes().to_vec()
    }

    fn decode(bytes: &[u8]) -> Option<ImageId> {
        bytes.try_into().ok().map(|number| ImageId(u64::from_be_bytes(number)))
    }
}

impl Record for ImageRecord {
    type Key = ImageId;

    const TAG: u8 = 16;
    const NAME: &'static str = "image";
    /// From 1, so that 0 can mean none in headers of blobs.
    const NUMBERS: Option<Numbers> = Some(Numbers { first: 1, limit: NUMBER_LIMIT, skipped: IMPORT_SKIPPED_IMAGES });

    fn is_at(&self, key: &ImageId) -> bool {
        self.id == *key
    }

    fn check(&self, key: &ImageId, state: &Snapshot) -> Result<(), ImpossibleState> {
        check_number(Self::NAME, key.0, state.images.next)?;
        check_number("layer", u64::from(self.layer.0), u64::from(LAYER_LIMIT))?;
        check_number("epoch of an image", self.epoch.0, NUMBER_LIMIT)?;
        // What is about all images is checked once, with the first.
        if state.images.keys().next() == Some(key) {
            check_number("images", state.images.len() as u64, MAX_IMAGES as u64 + 1)?;
            if let Some(other) = second_of_a_name(state) {
                return Err(Self::refuse(&other, "the name of another image"));
            }
        }
        self.contradiction(state).map_or(Ok(()), |what| Err(Self::refuse(key, what)))
    }

    /// Snapshots that were made after the copy are lost; the blobs that were written since are in the layers that are skipped, so the image
    /// still has them. A holder is over: another may have taken the image over after the copy.
    fn skip_lost(&mut self) {
        self.layer.0 += IMPORT_SKIPPED_LAYERS;
        self.epoch.0 += IMPORT_SKIPPED_IMAGE_EPOCHS;
        self.holder = None;
        self.is_settled = false;
    }

    fn forget_device(edit: &mut Edit<'_>, device: &DeviceRecord) {
        let users = edit.state.images.values().filter(|image| image.device(device.id).is_some());
        let users: Vec<Arc<ImageRecord>> = users.cloned().collect();
        for user in users {
            let mut image = ImageRecord::clone(&user);
            if image.device(device.id).is_some_and(|used| used.out_since.is_none()) {
                image.lose_copies_on(device.node.and_then(|node| edit.state.host_of(node)));
            }
            image.devices.retain(|used| used.device != device.id);
            edit.set(image.id, Arc::new(image));
        }
    }
}

/// An image whose name an older one has, neither of them in the trash.
fn second_of_a_name(state: &Snapshot) -> Option<ImageId> {
    let mut names = BTreeSet::new();
    let mut present = state.images.values().filter(|image| image.removed_ms.is_none());
    present.find(|image| !names.insert(image.name.as_str())).map(|image| image.id)
}
