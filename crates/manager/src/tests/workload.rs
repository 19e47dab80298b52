//! Random commands over few names, so that many meet what others left and some are refused.

use env::Env;
use types::{
    BucketId, CellId, ClusterId, DeviceId, DeviceUuid, Epoch, FileVolumeId, GatewayId, Generation, ImageId, Layer, NodeId,
    NodeIdentity, Token, ViewNumber,
};

use crate::modules::chunks::limits::BULK_BLOCKS;
use crate::operation::Operation;
use crate::snapshot::{CommandIndex, Edit};
use crate::{
    AcceptLosses, ActivatePlacement, AddCredential, AddDevice, AddFilePartition, AddFileTree, BeginPurge, BeginRemoval,
    BeginStart, BucketEngine, CloseImage, Command, CreateBucket, CreateCell, CreateFileVolume, CreateImage, DeviceState,
    EndGroup, EtagMode, FileClass, FileQuota, FinishFounding, FinishRecovery, FlattenImage, ForgetFileVolume, ForgetTables,
    FoundGroup, FoundView, GrantBulk, GroupKey, GroupKind, InitCluster, InstallCellManifest, InstallManifest,
    InstallReplicaTable, InstallView, LeaveCell, MarkBucketDeleting, NamePlacement, OpenImage, OpenShard, ParentSnapshot,
    PlaceDevice, PurgeImage, RaiseFormatVersion, ReactivateBucket, Redundancy, RegisterGateway, RegisterNode, RegisterVolume,
    ReleaseBulk, Removal, RemoveBucket, RemoveCredential, RemoveDevice, RemoveFileVolume, RemoveImage, RemoveImageSnapshot,
    RemoveNode, RenameImage, ResizeFileVolume, ResizeImage, RestoreImage, RollbackImage, SealShard, SetBucketPolicy, SetConfig,
    SetDeviceIn, SetDeviceOut, SetDeviceState, SetGroupMembers, SetRootCredential, SetShardHosts, SnapshotImage, TakeToken,
    TakeTokenError, UnlockImage, UpdateDevice, UseDevices,
};

/// A command proposed as it is; answers whether it was not refused.
impl Operation for Command {
    type Reply = bool;
    type Refusal = TakeTokenError;

    fn apply(&self, index: CommandIndex, edit: &mut Edit<'_>) -> Result<bool, TakeTokenError> {
        Ok(self.carry_out(index, edit))
    }
}

/// Kinds of commands in [`random_command`].
const KINDS: u64 = 19;

/// Kinds of commands in [`random_command_of_cells`].
const KINDS_OF_CELLS: u64 = 13;

/// Kinds of commands in [`random_command_of_shards`].
const KINDS_OF_SHARDS: u64 = 10;

/// Kinds of commands in [`random_command_of_images`].
const KINDS_OF_IMAGES: u64 = 21;

/// Kinds of commands in [`random_command_of_files`].
const KINDS_OF_FILES: u64 = 7;

/// Kinds of commands in [`random_command_of_placements`].
const KINDS_OF_PLACEMENTS: u64 = 2;

pub(super) fn random_command(env: &Env) -> Command {
    let below = |bound| env.random_below(bound);
    let name = format!("bucket-{}", below(4));
    let id = BucketId(1 + below(12));
    let device = DeviceId(below(6) as u32);
    let access_key = format!("KEY{}", below(4));
    let bytes = || (0..below(200)).map(|_| below(256) as u8).collect::<Vec<u8>>();
    match below(KINDS + KINDS_OF_CELLS + KINDS_OF_SHARDS + KINDS_OF_IMAGES + KINDS_OF_FILES + KINDS_OF_PLACEMENTS) {
        0 => InitCluster { id: ClusterId([below(256) as u8; 16]), format_version: 1, created_ms: below(1_000) }.into(),
        1 => RaiseFormatVersion { format_version: below(5) as u32 }.into(),
        2 => AddDevice { uuid: DeviceUuid([below(6) as u8; 16]), path: name, capacity_bytes: below(1 << 40) }.into(),
        3 => UpdateDevice { id: device, path: name, capacity_bytes: below(1 << 40) }.into(),
        4 => {
            let state =
                [DeviceState::Active, DeviceState::Draining, DeviceState::Failed, DeviceState::Replaced][below(4) as usize];
            SetDeviceState { id: device, state }.into()
        }
        5 => RemoveDevice { id: device }.into(),
        6 | 7 => {
            let owner = format!("user-{}", below(2));
            CreateBucket { name, owner, engine: BucketEngine::Log, etag: EtagMode::Fast, created_ms: below(1_000) }.into()
        }
        8 => MarkBucketDeleting { name, id }.into(),
        9 => ReactivateBucket { name, id, removal: Removal(below(24)) }.into(),
        10 => RemoveBucket { name, id, removal: Removal(below(24)) }.into(),
        11 => SetBucketPolicy { name, id, policy: (below(3) > 0).then(bytes) }.into(),
        12 => SetRootCredential { access_key, secret: format!("secret-{}", below(100)) }.into(),
        13 => AddCredential { access_key, secret: format!("secret-{}", below(100)), user: "alice".to_owned() }.into(),
        14 => RemoveCredential { access_key }.into(),
        15 => {
            let (cell, expected) = (CellId(below(2) as u16), Epoch(below(4)));
            let manifest = InstallManifest { cell, expected, epoch: Epoch(below(5)), bytes: bytes() };
            match below(2) {
                0 => manifest.into(),
                _ => InstallCellManifest { leader: GatewayId(below(4) as u16), manifest }.into(),
            }
        }
        16 => {
            let expected = (below(2) > 0).then(|| Generation(below(3) as u32));
            InstallReplicaTable { expected, generation: Generation(below(4) as u32), bytes: bytes() }.into()
        }
        17 => BeginStart { cell: CellId(below(3) as u16) }.into(),
        18 if below(2) == 0 => TakeToken {}.into(),
        18 => SetConfig { key: format!("key-{}", below(4)), value: (below(3) > 0).then(|| below(100).to_string()) }.into(),
        kind if kind < KINDS + KINDS_OF_CELLS => random_command_of_cells(env),
        kind if kind < KINDS + KINDS_OF_CELLS + KINDS_OF_SHARDS => random_command_of_shards(env),
        kind if kind < KINDS + KINDS_OF_CELLS + KINDS_OF_SHARDS + KINDS_OF_IMAGES => random_command_of_images(env),
        kind if kind >= KINDS + KINDS_OF_CELLS + KINDS_OF_SHARDS + KINDS_OF_IMAGES + KINDS_OF_FILES => {
            random_command_of_placements(env)
        }
        _ => random_command_of_files(env),
    }
}

/// Mostly about one cell of three nodes, so that views come about.
fn random_command_of_cells(env: &Env) -> Command {
    let below = |bound| env.random_below(bound);
    let cell = CellId((below(8) == 0).into());
    let node = NodeId(1 + below(3) as u32);
    let gateway = GatewayId(1 + below(6) as u16);
    let view = ViewNumber(below(4));
    let gateways = || (1..7).map(GatewayId).filter(|_| below(3) == 0).collect();
    let devices = || (0..4).map(DeviceId).filter(|_| below(2) == 0).collect();
    match below(KINDS_OF_CELLS) {
        0 => {
            let text = |name: &str, bound: u64| format!("{name}-{}", below(bound));
            let (identity, joined_ms) = (NodeIdentity([below(4) as u8; 16]), below(1_000));
            let (name, address, host) = (text("node", 4), text("address", 4), text("host", 3));
            let (rack, zone, version) = (text("rack", 2), text("zone", 2), text("1", 2));
            let (admin_address, s3_address) = (text("admin", 2), text("s3", 2));
            let node =
                RegisterNode { identity, name, address, admin_address, s3_address, host, rack, zone, version, joined_ms };
            node.into()
        }
        1 => RemoveNode { id: node }.into(),
        2 => PlaceDevice { id: DeviceId(below(6) as u32), node: (below(4) > 0).then_some(node) }.into(),
        3 => CreateCell { cell, generation: Generation(below(300) as u32) }.into(),
        4 | 5 => RegisterGateway { cell, node, former: Token(below(2) * u64::MAX) }.into(),
        6 => BeginRemoval { cell, view, gateways: gateways() }.into(),
        7 => LeaveCell { cell, gateway }.into(),
        8 => InstallView { cell, expected: view, members: gateways(), devices: devices() }.into(),
        9 => FoundView { cell, expected: view, gateway, devices: devices() }.into(),
        10 => FinishRecovery { cell, view, gateways: gateways() }.into(),
        11 => ForgetTables { cell, below: Generation(below(300) as u32) }.into(),
        _ => FinishFounding { cell, view, gateway }.into(),
    }
}

/// Few shards of the same three nodes, and the volumes of the devices.
fn random_command_of_shards(env: &Env) -> Command {
    let below = |bound| env.random_below(bound);
    let shard = 1 + below(4) as u32;
    let device = DeviceId(below(6) as u32);
    let nodes = || (1..4).map(NodeId).filter(|_| below(3) > 0).collect();
    let group = GroupKey { kind: GroupKind::CHUNK_UNITS, number: shard + 8 * below(2) as u32 };
    match below(KINDS_OF_SHARDS) {
        0 | 1 => OpenShard { expected_next: shard, capacity: below(1_000), members: nodes(), hosts: nodes() }.into(),
        2 => SealShard { shard }.into(),
        3 => SetShardHosts { shard, hosts: nodes() }.into(),
        4 => SetGroupMembers { key: group, members: nodes() }.into(),
        8 => FoundGroup { key: group, members: nodes() }.into(),
        9 => EndGroup { key: group }.into(),
        5 => RegisterVolume { device, blocks: below(2_000) as u32 }.into(),
        6 => ReleaseBulk { shard, device, first_block: BULK_BLOCKS * below(4) as u32 }.into(),
        _ => GrantBulk { shard, device }.into(),
    }
}

/// Few images, and tokens as they come about in short runs.
fn random_command_of_images(env: &Env) -> Command {
    let below = |bound| env.random_below(bound);
    let id = ImageId(1 + below(3));
    let token = Token(1 + below(40));
    let text = |what: &str, bound: u64| format!("{what}-{}", below(bound));
    let size_bytes = (1 + below(4)) << 20;
    let devices = || (0..3).map(DeviceId).filter(|_| below(2) == 0).collect();
    let hosts = 1 + below(3) as u8;
    let redundancy = Redundancy { hosts, devices: hosts + below(2) as u8 };
    match below(KINDS_OF_IMAGES) {
        0 | 1 => {
            let parent = (below(3) == 0).then(|| ParentSnapshot { image: id, snapshot: text("snapshot", 2) });
            let (name, copies, created_ms) = (text("image", 3), 1 + below(3) as u8, below(1_000));
            CreateImage { name, size_bytes, copies, created_ms, parent }.into()
        }
        2..5 => {
            let (node, since_ms) = (NodeId(1 + below(3) as u32), below(1_000));
            OpenImage { id, node, since_ms, expected: (below(2) == 0).then_some(token), as_keeper: below(3) == 0 }.into()
        }
        5 => CloseImage { id, token, is_settled: below(2) == 0 }.into(),
        6 => UnlockImage { id, token }.into(),
        7 => ResizeImage { id, token: (below(2) == 0).then_some(token), size_bytes }.into(),
        8 => SnapshotImage { id, token, name: text("snapshot", 2), created_ms: below(1_000), ended: None }.into(),
        9 => RemoveImageSnapshot { id, name: text("snapshot", 2) }.into(),
        10 => RollbackImage { id, token, snapshot: text("snapshot", 2), ended: Some(Layer(below(4) as u32)) }.into(),
        11 => RemoveImage { id, with_snapshots: below(2) == 0, removed_ms: below(1_000) }.into(),
        12 => RestoreImage { id, name: text("image", 3) }.into(),
        13 => PurgeImage { id }.into(),
        14 => FlattenImage { id, token }.into(),
        15 => UseDevices { id, token, devices: devices() }.into(),
        16 => SetDeviceOut { id, token, devices: devices(), redundancy, short_host: None }.into(),
        17 => SetDeviceIn { id, token, device: DeviceId(below(3) as u32), redundancy }.into(),
        18 => BeginPurge { id }.into(),
        19 => AcceptLosses { id }.into(),
        _ => RenameImage { id, name: text("image", 3) }.into(),
    }
}

/// Few groups, mostly their first views: a later one must name the one before it.
fn random_command_of_placements(env: &Env) -> Command {
    let below = |bound| env.random_below(bound);
    let (group, view) = (below(3) as u32, ViewNumber(below(200)));
    let node = NodeId(1 + below(4) as u32);
    match below(KINDS_OF_PLACEMENTS) {
        0 => {
            let after = (below(2) == 0).then_some(view);
            NamePlacement { group, after, primary: node, voters: vec![node], learners: Vec::new() }.into()
        }
        _ => ActivatePlacement { group, view }.into(),
    }
}

/// Few file volumes, so that names collide and ids are found.
fn random_command_of_files(env: &Env) -> Command {
    let below = |bound| env.random_below(bound);
    let id = FileVolumeId(1 + below(4) as u32);
    let some = |bound| (below(2) == 0).then(|| below(bound));
    let quota = FileQuota { bytes: some(1 << 30), inodes: some(1 << 10) };
    match below(KINDS_OF_FILES) {
        0 => {
            let (name, created_ms) = (format!("volume-{}", below(3)), below(1_000));
            let class = if below(2) == 0 { FileClass::Synchronous } else { FileClass::Ordered };
            CreateFileVolume { name, created_ms, quota, trees: below(4) as u32, class }.into()
        }
        1 => ResizeFileVolume { id, quota }.into(),
        2 => RemoveFileVolume { id }.into(),
        3 => ForgetFileVolume { id }.into(),
        4 => AddFileTree { id, expected: below(4) as u32 }.into(),
        _ => {
            let members = (1..4).map(NodeId).filter(|_| below(3) > 0).collect();
            let devices = (0..2).map(DeviceId).filter(|_| below(3) == 0).collect();
            AddFilePartition { id, expected: below(3) as u32, members, devices }.into()
        }
    }
}
