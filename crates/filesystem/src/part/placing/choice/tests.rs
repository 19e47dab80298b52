use env::Env;
use manager::{DeviceState, FileClass, FileQuota, Manager, RegisterNode};
use types::{DeviceUuid, FileVolumeId, NodeIdentity};

use super::*;
use crate::data::PartitionUse;

const CAPACITY: u64 = 1 << 30;

/// A cluster without running nodes.
struct Cluster {
    manager: Manager,
    said: Said,
}

impl Cluster {
    /// Nodes 1 and on, each with so many devices, numbered through, which are empty.
    async fn new(devices: &[u32]) -> Cluster {
        let manager = Manager::open_in_memory(&Env::simulated(1)).await.expect("a manager");
        let mut cluster = Cluster { manager, said: Said::default() };
        for count in devices {
            cluster.add_node(*count).await;
        }
        cluster
    }

    async fn add_node(&mut self, devices: u32) {
        let number = self.manager.snapshot().nodes().count() as u8 + 1;
        let text = |what: &str| format!("{what}-{number}");
        let node = RegisterNode {
            identity: NodeIdentity([number; 16]),
            name: text("node"),
            address: text("address"),
            admin_address: String::new(),
            s3_address: String::new(),
            host: text("host"),
            rack: String::new(),
            zone: String::new(),
            version: String::new(),
            joined_ms: 0,
        };
        let node = self.manager.register_node(node).await.expect("a node").id;
        for _ in 0..devices {
            self.add_device(node).await;
        }
    }

    async fn add_device(&mut self, node: NodeId) {
        let next = self.manager.snapshot().next_device();
        let added = self.manager.add_device(DeviceUuid([next.0 as u8; 16]), "disk", CAPACITY).await.expect("a device");
        self.manager.place_device(added.id, Some(node)).await.expect("it is there");
        self.fill(added.id.0, CAPACITY);
    }

    /// So much is free on a device.
    fn fill(&mut self, device: u32, free_bytes: u64) {
        self.said.rooms.insert(DeviceId(device), DataRoom { total_bytes: CAPACITY, free_bytes });
    }

    async fn volume(&self, name: &str) -> FileVolumeId {
        self.manager.create_file_volume(name, FileQuota::default(), 1, FileClass::Synchronous).await.expect("a volume").id
    }

    /// Gives a volume all partitions that it is to have now; nodes and devices of each.
    async fn place(&mut self, volume: FileVolumeId, silent: &[u32]) -> Vec<(Vec<u32>, Vec<u32>)> {
        let mut placed = Vec::new();
        loop {
            let state = self.manager.snapshot();
            let heard = Heard::of(&state, silent.iter().copied().map(NodeId).collect(), true);
            let record = state.file_volume(volume).expect("it is there");
            let Some(addition) = Scene::new(&state, &self.said, &heard).next(record) else { return placed };
            let numbers = |nodes: &[NodeId]| nodes.iter().map(|node| node.0).collect();
            placed.push((numbers(&addition.members), addition.devices.iter().map(|device| device.0).collect()));
            let devices = addition.devices.clone();
            let record = self.manager.add_file_partition(addition).await.expect("the manager takes it");
            self.tell(record.partitions.last().expect("it was added").id, &devices, true);
        }
    }

    /// A partition says where its copies are, and whether it takes new extents.
    fn tell(&mut self, partition: FilePartitionId, devices: &[DeviceId], is_open: bool) {
        let state = self.manager.snapshot();
        let node_of = |device: &DeviceId| state.device(*device).and_then(|record| record.node).expect("it is on a node");
        let copies = devices.iter().map(|device| (node_of(device), *device)).collect();
        let room = PartitionRoom { is_open, used: PartitionUse::default(), devices: Vec::new() };
        self.said.partitions.insert(partition, (copies, room));
    }

    /// All partitions are beyond their thresholds.
    fn close_all(&mut self) {
        self.said.partitions.values_mut().for_each(|(_, room)| room.is_open = false);
    }
}

#[tokio::test]
async fn a_lone_server_uses_all_of_its_devices() {
    let mut cluster = Cluster::new(&[2]).await;
    let home = cluster.volume("home").await;
    assert_eq!(cluster.place(home, &[]).await, [(vec![1], vec![0]), (vec![1], vec![1])]);
    assert_eq!(cluster.place(home, &[]).await, [], "and then it is enough");
    cluster.add_device(NodeId(1)).await;
    assert_eq!(cluster.place(home, &[]).await, [(vec![1], vec![2])], "a device more is a partition more");
}

#[tokio::test]
async fn partitions_are_where_the_least_is() {
    let mut cluster = Cluster::new(&[1, 1, 1, 1, 1, 1]).await;
    cluster.fill(3, CAPACITY / 2);
    let home = cluster.volume("home").await;
    let placed = cluster.place(home, &[]).await;
    assert_eq!(placed, [(vec![1, 2, 3], vec![0, 1, 2]), (vec![5, 6, 4], vec![4, 5, 3])], "six nodes are two threes");
    let other = cluster.volume("other").await;
    assert_eq!(cluster.place(other, &[]).await.len(), 2);
    let mut four = Cluster::new(&[1, 1, 1, 1]).await;
    let home = four.volume("home").await;
    assert_eq!(four.place(home, &[]).await, [(vec![1, 2, 3], vec![0, 1, 2]), (vec![4, 1, 2], vec![3, 0, 1])]);
}

#[tokio::test]
async fn a_partition_follows_before_the_old_one_is_full() {
    let mut cluster = Cluster::new(&[2]).await;
    cluster.fill(1, low_bytes(CAPACITY));
    let home = cluster.volume("home").await;
    assert_eq!(cluster.place(home, &[]).await, [(vec![1], vec![0])], "a device that is nearly low gets none");
    cluster.fill(0, low_bytes(CAPACITY) - 1);
    cluster.close_all();
    assert_eq!(cluster.place(home, &[]).await, [], "there is no room elsewhere");
    cluster.fill(1, CAPACITY);
    assert_eq!(cluster.place(home, &[]).await, [(vec![1], vec![1])]);
    cluster.close_all();
    assert_eq!(
        cluster.place(home, &[]).await,
        [(vec![1], vec![1])],
        "one that has many extents is followed on the same device"
    );
}

/// Three copies want three nodes with room, and copies come before partitions.
#[tokio::test]
async fn new_partitions_have_all_of_their_copies() {
    let mut cluster = Cluster::new(&[1]).await;
    let home = cluster.volume("home").await;
    assert_eq!(cluster.place(home, &[]).await, [(vec![1], vec![0])]);
    cluster.add_node(1).await;
    cluster.add_node(1).await;
    assert_eq!(cluster.place(home, &[]).await, [], "its group has one member still");
    let first = cluster.manager.snapshot().file_volume(home).expect("it is there").partitions[0].id;
    let members = [1, 2, 3].map(NodeId).to_vec();
    cluster.manager.set_group_members(first.group(), members).await.expect("the group grows");
    assert_eq!(cluster.place(home, &[]).await, [], "its copies are on all devices, or will be");
    cluster.add_node(1).await;
    cluster.fill(1, 0);
    cluster.fill(2, 0);
    assert_eq!(cluster.place(home, &[]).await, [], "two nodes have room");
    cluster.fill(2, CAPACITY);
    assert_eq!(cluster.place(home, &[2]).await, [(vec![4, 1, 3], vec![3, 0, 2])]);
}

#[tokio::test]
async fn a_volume_begins_with_nodes_away_and_on_full_devices() {
    let mut cluster = Cluster::new(&[1, 1, 1]).await;
    (0..2).for_each(|device| cluster.fill(device, 0));
    cluster.said.rooms.remove(&DeviceId(2));
    let home = cluster.volume("home").await;
    assert_eq!(cluster.place(home, &[3]).await, [(vec![1, 2, 3], vec![0, 1])], "node 3 takes a device when it is there");
}

#[tokio::test]
async fn devices_that_are_drained_get_none_and_growth_is_bounded() {
    let mut cluster = Cluster::new(&[12]).await;
    cluster.manager.set_device_state(DeviceId(0), DeviceState::Draining).await.expect("it drains");
    let home = cluster.volume("home").await;
    let placed = cluster.place(home, &[]).await;
    assert_eq!((placed.len(), placed.iter().any(|(_, devices)| devices.contains(&0))), (MAX_OPEN, false));
    for _ in 0..MAX_FILE_PARTITIONS / MAX_OPEN {
        cluster.close_all();
        cluster.place(home, &[]).await;
    }
    assert_eq!(cluster.manager.snapshot().file_volume(home).expect("it is there").partitions.len(), MAX_FILE_PARTITIONS);
}
