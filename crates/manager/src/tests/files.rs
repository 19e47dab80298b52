//! File volumes.

use types::{DeviceId, DeviceUuid, FileVolumeId, NodeId};

use super::format::hex;
use super::machine::Machine;
use super::nodes::node;
use crate::{
    AddDevice, AddFilePartition, AddFileTree, Command, CreateFileVolume, DeviceState, EndGroup, FileClass, FilePartition,
    FilePartitionId, FileQuota, FileTreeId, FileVolumeError, FileVolumeRecord, ForgetFileVolume, FoundGroup, GroupError,
    MAX_FILE_PARTITIONS, MAX_FILE_TREES, PlaceDevice, RemoveDevice, RemoveFileVolume, ResizeFileVolume, SetDeviceState,
    Snapshot,
};

const QUOTA: FileQuota = FileQuota { bytes: Some(300), inodes: None };

pub(super) fn record(id: u32, name: &str) -> FileVolumeRecord {
    FileVolumeRecord {
        id: FileVolumeId(id),
        name: name.to_owned(),
        created_ms: 5,
        quota: QUOTA,
        is_removing: false,
        partitions: Vec::new(),
        trees: vec![FileTreeId(id)],
        class: FileClass::Synchronous,
    }
}

fn add(expected: u32, members: &[u32], devices: &[u32]) -> AddFilePartition {
    let members = members.iter().copied().map(NodeId).collect();
    AddFilePartition { id: FileVolumeId(1), expected, members, devices: devices.iter().copied().map(DeviceId).collect() }
}

fn create(name: &str) -> CreateFileVolume {
    CreateFileVolume { name: name.to_owned(), created_ms: 5, quota: QUOTA, trees: 1, class: FileClass::Synchronous }
}

fn machine_with_a_device() -> Machine {
    let mut machine = Machine::default();
    machine.run(AddDevice { uuid: DeviceUuid([1; 16]), path: "disk".to_owned(), capacity_bytes: 1 << 30 }).unwrap();
    machine
}

#[test]
fn golden_bytes_of_file_volumes() {
    assert_eq!(hex(&postcard::to_allocvec(&record(1, "home")).unwrap()), "0104686f6d650501ac02000000010100");
    let partitions = vec![FilePartition { id: FilePartitionId(300), devices: vec![DeviceId(7), DeviceId(8)] }];
    let trees = vec![FileTreeId(1), FileTreeId(301)];
    let with_more = FileVolumeRecord { partitions, trees, class: FileClass::Ordered, ..record(1, "home") };
    assert_eq!(hex(&postcard::to_allocvec(&with_more).unwrap()), "0104686f6d650501ac02000001ac020207080201ad0201");
    let commands: [(Command, &str); 6] = [
        (CreateFileVolume { trees: 3, class: FileClass::Ordered, ..create("a") }.into(), "0a0001610501ac02000301"),
        (ResizeFileVolume { id: FileVolumeId(2), quota: FileQuota::default() }.into(), "0a01020000"),
        (RemoveFileVolume { id: FileVolumeId(2) }.into(), "0a0202"),
        (ForgetFileVolume { id: FileVolumeId(2) }.into(), "0a0302"),
        (add(3, &[4, 5], &[6]).into(), "0a0401030204050106"),
        (AddFileTree { id: FileVolumeId(1), expected: 3 }.into(), "0a050103"),
    ];
    for (command, bytes) in commands {
        assert_eq!(hex(&command.encode()), bytes, "{command:?}");
        assert_eq!(Command::decode(&command.encode()), Ok(command));
    }
}

#[test]
fn a_volume_is_made_resized_and_removed() {
    let mut machine = machine_with_a_device();
    let made = machine.run(create("home")).unwrap();
    assert_eq!(*made, record(1, "home"));
    assert_eq!(machine.run(create("home")), Err(FileVolumeError::AlreadyExists { name: "home".to_owned() }));
    let id = made.id;
    let quota = FileQuota { bytes: None, inodes: Some(7) };
    assert_eq!(machine.run(ResizeFileVolume { id, quota }).unwrap().quota, quota);
    assert_eq!(machine.run(ForgetFileVolume { id }), Err(FileVolumeError::NotRemoving));
    assert!(machine.run(RemoveFileVolume { id }).unwrap().is_removing);
    assert_eq!(machine.0.file_volume_named("home"), None);
    assert_eq!(machine.run(RemoveFileVolume { id }), Err(FileVolumeError::Removing));
    // The name is free before the contents are.
    assert_eq!(machine.run(create("home")).unwrap().id, FileVolumeId(2));
    machine.0.check().unwrap();
    machine.run(ForgetFileVolume { id }).unwrap();
    assert_eq!(machine.run(ForgetFileVolume { id }), Err(FileVolumeError::NotFound { id }));
    assert_eq!(machine.run(create("other")).unwrap().id, FileVolumeId(3), "an id is never used again");
}

#[test]
fn names_and_devices_are_checked() {
    let mut machine = machine_with_a_device();
    for name in ["", ".hidden", "-x", "a/b", "a b", "ä", &"x".repeat(129)] {
        assert_eq!(machine.run(create(name)), Err(FileVolumeError::Name { name: name.to_owned() }));
    }
    assert_eq!(Machine::default().run(create("home")), Err(FileVolumeError::NoDevice));
}

/// Nodes 1 and 2; devices 0 and 1 are of node 1, device 2 is of node 2, device 3 of none.
fn machine_with_two_nodes() -> Machine {
    let mut machine = Machine::default();
    (1..3).for_each(|number| drop(machine.run(node(number)).unwrap()));
    for (device, owner) in [(0, Some(1)), (1, Some(1)), (2, Some(2)), (3, None)] {
        machine.run(AddDevice { uuid: DeviceUuid([device; 16]), path: format!("disk-{device}"), capacity_bytes: 1 }).unwrap();
        machine.run(PlaceDevice { id: DeviceId(device.into()), node: owner.map(NodeId) }).unwrap();
    }
    machine.run(create("home")).unwrap();
    machine
}

#[test]
fn a_volume_gets_partitions_with_numbers_that_nothing_had() {
    let mut machine = machine_with_two_nodes();
    let first = machine.run(add(0, &[1, 2], &[1, 2])).unwrap();
    let id = FilePartitionId(2);
    assert_eq!(first.partitions, [FilePartition { id, devices: vec![DeviceId(1), DeviceId(2)] }]);
    assert_eq!(machine.0.group(id.group()).unwrap().founders, [NodeId(1), NodeId(2)], "its group is founded with it");
    assert_eq!(machine.run(add(0, &[1], &[])), Err(FileVolumeError::OtherPartitions { found: 1, expected: 0 }), "sent again");
    assert_eq!(machine.run(create("other")).unwrap().id, FileVolumeId(3), "one counter for both");
    let second = machine.run(add(1, &[1], &[])).unwrap();
    assert_eq!(second.partitions[1].id, FilePartitionId(4));
    assert_eq!(machine.0.file_partition(FilePartitionId(4)).map(|(volume, _)| volume.id), Some(FileVolumeId(1)));
    assert_eq!(machine.run(EndGroup { key: FilePartitionId(4).group() }), Err(GroupError::InUse));
    assert_eq!(machine.0.check(), Ok(()));
    assert_eq!(Snapshot::from_export(&machine.0.export()).as_ref(), Ok(&machine.0));
    for count in 2..MAX_FILE_PARTITIONS {
        machine.run(add(count as u32, &[1], &[])).unwrap();
    }
    assert_eq!(machine.run(add(MAX_FILE_PARTITIONS as u32, &[1], &[])), Err(FileVolumeError::TooManyPartitions));
    machine.run(RemoveFileVolume { id: FileVolumeId(1) }).unwrap();
    machine.run(ForgetFileVolume { id: FileVolumeId(1) }).unwrap();
    machine.run(EndGroup { key: FilePartitionId(4).group() }).unwrap();
    assert_eq!(machine.run(add(0, &[1], &[])), Err(FileVolumeError::NotFound { id: FileVolumeId(1) }));
}

#[test]
fn a_volume_gets_trees_with_numbers_that_nothing_had() {
    let mut machine = machine_with_two_nodes();
    let id = FileVolumeId(1);
    machine.run(add(0, &[1], &[])).unwrap();
    let tree = |expected| AddFileTree { id, expected };
    assert_eq!(machine.run(tree(1)).unwrap().trees, [FileTreeId(1), FileTreeId(3)], "one counter for trees and partitions");
    assert_eq!(machine.run(tree(1)), Err(FileVolumeError::OtherTrees { found: 2, expected: 1 }), "sent again");
    let other = machine.run(CreateFileVolume { trees: 3, ..create("other") }).unwrap();
    assert_eq!(other.trees, [4, 5, 6].map(FileTreeId));
    let found = |number| machine.0.file_tree(FileTreeId(number)).map(|(volume, at)| (volume.id.0, at));
    assert_eq!([3, 4, 6, 2].map(found), [Some((1, 1)), Some((4, 0)), Some((4, 2)), None]);
    assert_eq!(machine.0.check(), Ok(()));
    assert_eq!(Snapshot::from_export(&machine.0.export()).as_ref(), Ok(&machine.0));
    for wrong in [0, MAX_FILE_TREES as u32 + 1] {
        assert_eq!(machine.run(CreateFileVolume { trees: wrong, ..create("third") }), Err(FileVolumeError::Trees));
    }
    for count in 2..MAX_FILE_TREES {
        machine.run(tree(count as u32)).unwrap();
    }
    assert_eq!(machine.run(tree(MAX_FILE_TREES as u32)), Err(FileVolumeError::Trees));
    let (key, members) = (FileTreeId(3).group(), vec![NodeId(1)]);
    machine.run(FoundGroup { key, members }).unwrap();
    assert_eq!(machine.run(EndGroup { key }), Err(GroupError::InUse));
    machine.run(RemoveFileVolume { id }).unwrap();
    assert_eq!(machine.run(tree(MAX_FILE_TREES as u32)), Err(FileVolumeError::Removing));
    machine.run(ForgetFileVolume { id }).unwrap();
    machine.run(EndGroup { key }).unwrap();
}

#[test]
fn a_partition_is_on_one_active_device_of_each_node_and_forgets_devices_that_go() {
    let mut machine = machine_with_two_nodes();
    machine.run(SetDeviceState { id: DeviceId(1), state: DeviceState::Draining }).unwrap();
    for (devices, wrong) in [(&[3][..], 3), (&[9], 9), (&[1], 1), (&[0, 2], 2), (&[0, 0], 0)] {
        assert_eq!(machine.run(add(0, &[1], devices)), Err(FileVolumeError::Device { device: DeviceId(wrong) }), "{devices:?}");
    }
    assert_eq!(machine.run(add(0, &[7], &[])), Err(GroupError::NoSuchNode { node: NodeId(7) }.into()));
    assert_eq!(machine.0.file_volume(FileVolumeId(1)).unwrap().partitions, [], "what is refused changes nothing");
    machine.run(add(0, &[1, 2], &[0, 2])).unwrap();
    machine.run(SetDeviceState { id: DeviceId(2), state: DeviceState::Draining }).unwrap();
    machine.run(RemoveDevice { id: DeviceId(2) }).unwrap();
    assert_eq!(machine.0.file_volume(FileVolumeId(1)).unwrap().partitions[0].devices, [DeviceId(0)]);
    assert_eq!(machine.0.check(), Ok(()));
}
