//! Shards of the chunk store, and volumes whose blocks are granted to them.

use std::sync::Arc;

use kv::{Kv, MemoryKv};
use types::{DeviceId, DeviceUuid, ErrorKind, NodeId};

use super::format::hex;
use super::machine::Machine;
use super::nodes::node;
use crate::modules::chunks::limits::{BULK_BLOCKS, MAX_SHARD_CHUNKS, MAX_SHARD_HOSTS, MAX_SHARDS, MAX_VOLUME_BLOCKS};
use crate::modules::chunks::unit_key;
use crate::modules::groups::MAX_GROUP_MEMBERS;
use crate::operation::Refusal;
use crate::{
    AddDevice, Bulk, BulkOwner, DeviceRecord, DeviceState, GrantBulk, GrantedRun, GroupError, GroupRecord,
    IMPORT_SKIPPED_BLOCKS, IMPORT_SKIPPED_SHARDS, ImpossibleState, OpenShard, RegisterVolume, ReleaseBulk, RemoveDevice,
    RemoveNode, SealShard, SetDeviceState, SetGroupMembers, SetShardHosts, ShardError, ShardRecord, Snapshot, VolumeError,
    VolumeRecord, table,
};

fn nodes(numbers: &[u32]) -> Vec<NodeId> {
    numbers.iter().copied().map(NodeId).collect()
}

fn open(expected_next: u32) -> OpenShard {
    OpenShard { expected_next, capacity: 1000, members: nodes(&[1, 2]), hosts: nodes(&[2, 3]) }
}

/// Three nodes and a device.
fn three_nodes() -> Machine {
    let mut machine = Machine::default();
    for number in 1..=3 {
        machine.run(node(number)).unwrap();
    }
    add_device(&mut machine, 1);
    machine
}

fn add_device(machine: &mut Machine, number: u8) -> DeviceId {
    let add = AddDevice { uuid: DeviceUuid([number; 16]), path: "/dev/x".to_owned(), capacity_bytes: 9 };
    machine.run(add).unwrap().id
}

/// As before, with a shard that is sealed, an open one, and a volume of device 0.
fn with_volume(blocks: u32) -> Machine {
    let mut machine = three_nodes();
    machine.run(open(1)).unwrap();
    machine.run(SealShard { shard: 1 }).unwrap();
    machine.run(open(2)).unwrap();
    machine.run(RegisterVolume { device: DeviceId(0), blocks }).unwrap();
    machine
}

fn grant(machine: &mut Machine, shard: u32) -> Result<(u32, u32), VolumeError> {
    machine.run(GrantBulk { shard, device: DeviceId(0) }).map(|bulk| {
        assert_eq!(bulk.owner, BulkOwner::Shard(shard));
        (bulk.first_block, bulk.blocks)
    })
}

#[test]
fn one_shard_is_open_at_a_time() {
    let mut machine = three_nodes();
    assert_eq!((machine.0.next_shard(), machine.0.open_shard()), (1, None));
    assert_eq!(machine.run(open(0)), Err(ShardError::Stale { expected: 0, found: 1 }));
    let one = machine.run(open(1)).unwrap();
    assert_eq!((one.id, one.capacity, one.is_open), (1, 1000, true));
    let unit = machine.0.unit(1).unwrap();
    assert_eq!((&unit.members, &unit.founders, &one.hosts), (&nodes(&[1, 2]), &nodes(&[1, 2]), &nodes(&[2, 3])));
    assert_eq!(machine.0.open_shard(), Some(&one));
    assert_eq!(machine.run(open(1)), Err(ShardError::Stale { expected: 1, found: 2 }), "another monitor was first");
    assert_eq!(machine.run(open(2)), Err(ShardError::StillOpen { shard: 1 }));
    assert_eq!(machine.run(SealShard { shard: 2 }), Err(ShardError::NotFound { shard: 2 }));
    let sealed = machine.run(SealShard { shard: 1 }).unwrap();
    assert_eq!(*sealed, ShardRecord { is_open: false, ..ShardRecord::clone(&one) });
    assert_eq!(machine.run(SealShard { shard: 1 }).unwrap(), sealed, "again changes nothing");
    assert_eq!(machine.0.open_shard(), None);
    let two = machine.run(open(2)).unwrap();
    assert_eq!(machine.0.shards().collect::<Vec<_>>(), [&sealed, &two]);
    assert_eq!(machine.0.open_shard(), Some(&two));
}

#[test]
fn members_and_hosts_are_replaced_also_beside_nodes_that_are_gone() {
    let mut machine = three_nodes();
    machine.run(open(1)).unwrap();
    machine.run(RemoveNode { id: NodeId(1) }).unwrap();
    machine.run(RemoveNode { id: NodeId(2) }).unwrap();
    let members = |numbers: &[u32]| SetGroupMembers { key: unit_key(1), members: nodes(numbers) };
    let hosts = |numbers: &[u32]| SetShardHosts { shard: 1, hosts: nodes(numbers) };
    assert_eq!(machine.run(members(&[3, 1])).unwrap().members, nodes(&[3, 1]), "the one that is gone may stay for now");
    assert_eq!(machine.run(members(&[3, 2])), Err(GroupError::NoSuchNode { node: NodeId(2) }), "and not come back");
    assert_eq!(machine.run(members(&[3])).unwrap().members, nodes(&[3]));
    assert_eq!(machine.run(hosts(&[1])), Err(ShardError::NoSuchNode { node: NodeId(1) }));
    let changed = machine.run(hosts(&[3])).unwrap();
    assert_eq!((&changed.hosts, changed.is_open), (&nodes(&[3]), true));
    assert_eq!(machine.0.unit(1).unwrap().founders, nodes(&[1, 2]), "a late founder begins the same group");
    let other = SetShardHosts { shard: 7, hosts: nodes(&[3]) };
    assert_eq!(machine.run(other), Err(ShardError::NotFound { shard: 7 }));
    let other = SetGroupMembers { key: unit_key(7), members: nodes(&[3]) };
    assert_eq!(machine.run(other).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(machine.run(open(2)), Err(ShardError::StillOpen { shard: 1 }));
    machine.run(SealShard { shard: 1 }).unwrap();
    assert_eq!(machine.run(open(2)), Err(ShardError::Unit(GroupError::NoSuchNode { node: NodeId(1) })));
}

#[test]
fn shards_have_limits() {
    let mut machine = three_nodes();
    for found in [0, MAX_SHARD_CHUNKS + 1] {
        assert_eq!(machine.run(OpenShard { capacity: found, ..open(1) }), Err(ShardError::Capacity { found }));
    }
    let many = |count: usize| (0..count).map(|number| NodeId(100 + number as u32)).collect::<Vec<_>>();
    for members in [Vec::new(), nodes(&[1, 2, 1]), many(MAX_GROUP_MEMBERS + 1)] {
        assert_eq!(machine.run(OpenShard { members, ..open(1) }), Err(ShardError::Unit(GroupError::Members)));
    }
    for hosts in [Vec::new(), nodes(&[1, 1]), many(MAX_SHARD_HOSTS + 1)] {
        assert_eq!(machine.run(OpenShard { hosts, ..open(1) }), Err(ShardError::Hosts));
    }
    let one = machine.run(OpenShard { capacity: MAX_SHARD_CHUNKS, ..open(1) }).unwrap();
    let mut machine = three_nodes();
    let sealed = |id| (id, Arc::new(ShardRecord { id, is_open: false, ..ShardRecord::clone(&one) }));
    let unit = |id| Arc::new(GroupRecord { key: unit_key(id), founders: nodes(&[1]), members: nodes(&[1]) });
    let next = MAX_SHARDS as u32 + 1;
    *machine.0.shards.records_mut() = (1..next).map(sealed).collect();
    machine.0.shards.next = next.into();
    *machine.0.groups.records_mut() = (1..=next).map(|id| (unit_key(id), unit(id))).collect();
    assert_eq!(machine.run(open(next)), Err(ShardError::TooMany));
    assert_eq!(Snapshot::from_export(&machine.0.export()).as_ref(), Ok(&machine.0), "so many there may be");
    *machine.0.shards.records_mut() = (1..=next).map(sealed).collect();
    machine.0.shards.next = u64::from(next) + 1;
    assert!(machine.0.check().is_err());
}

#[test]
fn bulks_are_granted_in_their_order_until_the_volume_is_full() {
    let mut machine = with_volume(2 * BULK_BLOCKS + 7);
    assert_eq!(grant(&mut machine, 1), Ok((0, 256)));
    assert_eq!(grant(&mut machine, 2), Ok((256, 256)), "to sealed shards and open ones");
    assert_eq!(grant(&mut machine, 2), Ok((512, 7)), "the last is short");
    assert_eq!(grant(&mut machine, 1), Err(VolumeError::Full { device: DeviceId(0) }));
    assert_eq!(grant(&mut machine, 3), Err(VolumeError::NoSuchShard { shard: 3 }));
    let elsewhere = GrantBulk { shard: 1, device: DeviceId(1) };
    assert_eq!(machine.run(elsewhere), Err(VolumeError::NoVolume { device: DeviceId(1) }));
    let volume = machine.0.volume(DeviceId(0)).unwrap();
    assert_eq!(volume.free_blocks(), 0);
    let bulk = |shard, first_block, blocks| Bulk { owner: BulkOwner::Shard(shard), first_block, blocks };
    assert_eq!(volume.bulks().collect::<Vec<_>>(), [bulk(1, 0, 256), bulk(2, 256, 256), bulk(2, 512, 7)]);
    assert_eq!(volume.bulks_of(2).collect::<Vec<_>>(), [bulk(2, 256, 256), bulk(2, 512, 7)]);
    assert_eq!(volume.granted.len(), 2, "neighbours of one shard are kept together");
}

#[test]
fn what_was_given_back_is_granted_again_before_anything_else() {
    let mut machine = with_volume(4 * BULK_BLOCKS);
    (0..3).for_each(|_| _ = grant(&mut machine, 1).unwrap());
    let release = |shard, first_block| ReleaseBulk { shard, device: DeviceId(0), first_block };
    let free = |machine: &Machine| machine.0.volume(DeviceId(0)).unwrap().free_blocks();
    let before = machine.0.volume(DeviceId(0)).cloned();
    for others in [release(2, 256), release(1, 255), release(1, 768), release(9, 0)] {
        machine.run(others).unwrap();
        assert_eq!(machine.0.volume(DeviceId(0)), before.as_ref(), "it is not its own");
    }
    machine.run(release(1, 256)).unwrap();
    machine.run(release(1, 256)).unwrap();
    assert_eq!(free(&machine), 2 * BULK_BLOCKS);
    let nowhere = ReleaseBulk { device: DeviceId(1), ..release(1, 0) };
    assert_eq!(machine.run(nowhere), Err(VolumeError::NoVolume { device: DeviceId(1) }));
    assert_eq!(Snapshot::from_export(&machine.0.export()).as_ref(), Ok(&machine.0));
    assert_eq!(grant(&mut machine, 2), Ok((256, 256)));
    assert_eq!(grant(&mut machine, 2), Ok((768, 256)));
    assert_eq!(free(&machine), 0);
    machine.run(release(1, 256)).unwrap();
    assert_eq!(free(&machine), 0, "it has another owner");
    let first_blocks =
        |shard| machine.0.volume(DeviceId(0)).unwrap().bulks_of(shard).map(|bulk| bulk.first_block).collect::<Vec<_>>();
    assert_eq!((first_blocks(1), first_blocks(2)), (vec![0, 512], vec![256, 768]));
}

/// It may have been granted to another shard since the copy.
#[test]
fn what_was_given_back_before_a_copy_is_set_aside_by_an_import() {
    let mut machine = with_volume(2 * BULK_BLOCKS);
    (0..2).for_each(|_| _ = grant(&mut machine, 1).unwrap());
    machine.run(ReleaseBulk { shard: 1, device: DeviceId(0), first_block: 0 }).unwrap();
    let mut machine = Machine(machine.0.skip_lost().unwrap());
    assert_eq!(machine.0.volume(DeviceId(0)).unwrap().granted[0].owner, BulkOwner::Skipped);
    assert_eq!(grant(&mut machine, 2), Err(VolumeError::Full { device: DeviceId(0) }));
}

/// A shard that has a short bulk does not own what comes behind it: its unit was not told of that.
#[test]
fn what_is_behind_a_short_bulk_is_a_bulk_of_its_own() {
    let mut machine = with_volume(10);
    assert_eq!(grant(&mut machine, 2), Ok((0, 10)));
    machine.run(RegisterVolume { device: DeviceId(0), blocks: 10 + 2 * BULK_BLOCKS }).unwrap();
    assert_eq!(grant(&mut machine, 2), Ok((10, 256)));
    assert_eq!(grant(&mut machine, 2), Ok((266, 256)));
    let volume = machine.0.volume(DeviceId(0)).unwrap();
    let runs = |blocks| GrantedRun { owner: BulkOwner::Shard(2), blocks };
    assert_eq!(volume.granted, [runs(10), runs(512)]);
    let bulks: Vec<_> = volume.bulks().map(|bulk| (bulk.first_block, bulk.blocks)).collect();
    assert_eq!(bulks, [(0, 10), (10, 256), (266, 256)], "as they were granted");
}

#[test]
fn volumes_grow_and_go_with_their_device() {
    let mut machine = with_volume(5);
    let device = DeviceId(0);
    let register = |blocks| RegisterVolume { device, blocks };
    assert_eq!(machine.run(register(4)), Err(VolumeError::Shrinks { device, before: 5, found: 4 }));
    for found in [0, MAX_VOLUME_BLOCKS + 1] {
        assert_eq!(machine.run(register(found)), Err(VolumeError::Blocks { found }));
    }
    grant(&mut machine, 1).unwrap();
    let before = machine.0.volume(device).cloned().unwrap();
    assert_eq!(machine.run(register(5)).unwrap(), before);
    let grown = machine.run(register(MAX_VOLUME_BLOCKS)).unwrap();
    assert_eq!((grown.blocks, &grown.granted), (MAX_VOLUME_BLOCKS, &before.granted));
    let nowhere = RegisterVolume { device: DeviceId(1), blocks: 5 };
    assert_eq!(machine.run(nowhere), Err(VolumeError::NoSuchDevice { device: DeviceId(1) }));

    machine.run(SetDeviceState { id: device, state: DeviceState::Draining }).unwrap();
    assert_eq!(grant(&mut machine, 1), Err(VolumeError::NotWritable { device }));
    machine.run(RemoveDevice { id: device }).unwrap();
    assert_eq!((machine.0.volume(device), machine.0.volumes().count()), (None, 0));
    assert_eq!(grant(&mut machine, 1), Err(VolumeError::NoVolume { device }));
}

/// A place has 16 bits for a device.
#[test]
fn a_device_that_no_place_can_name_has_no_volume() {
    let mut machine = three_nodes();
    machine.0.devices.next = 65_534;
    let last = add_device(&mut machine, 2);
    // As a former build gave it.
    let beyond = DeviceId(last.0 + 1);
    let record = DeviceRecord { id: beyond, ..machine.0.device(last).unwrap().as_ref().clone() };
    machine.0.devices.records_mut().insert(beyond, Arc::new(record));
    machine.run(RegisterVolume { device: last, blocks: 5 }).unwrap();
    let refused = machine.run(RegisterVolume { device: beyond, blocks: 5 }).unwrap_err();
    assert_eq!(refused, VolumeError::DeviceNumber { device: beyond });
    assert_eq!(refused.kind(), ErrorKind::Full);
}

/// A copy, and then another shard and two bulks, and then all managers are lost.
#[test]
fn an_import_gives_out_nothing_that_may_have_been_given_out() {
    let blocks = IMPORT_SKIPPED_BLOCKS + 2 * BULK_BLOCKS;
    let mut machine = with_volume(blocks);
    grant(&mut machine, 2).unwrap();
    let copy = machine.0.export();
    grant(&mut machine, 2).unwrap();
    machine.run(SealShard { shard: 2 }).unwrap();
    machine.run(open(3)).unwrap();
    let lost = grant(&mut machine, 3).unwrap();

    let mut machine = Machine(Snapshot::from_export(&copy).unwrap().skip_lost().unwrap());
    assert_eq!(machine.0.open_shard().unwrap().id, 2, "what was in the copy is there");
    assert_eq!(machine.0.next_shard(), 3 + IMPORT_SKIPPED_SHARDS);
    let next = grant(&mut machine, 2).unwrap();
    assert_eq!(next, (BULK_BLOCKS + IMPORT_SKIPPED_BLOCKS, BULK_BLOCKS));
    assert!(next.0 >= lost.0 + lost.1);
    assert_eq!(grant(&mut machine, 2), Err(VolumeError::Full { device: DeviceId(0) }));
    let owners = machine.0.volume(DeviceId(0)).unwrap().granted.iter().map(|run| run.owner).collect::<Vec<_>>();
    assert_eq!(owners, [BulkOwner::Shard(2), BulkOwner::Skipped, BulkOwner::Shard(2)]);
    // Where less is free than is skipped, all of it is.
    let full = machine.0.skip_lost().unwrap();
    assert_eq!(full.volume(DeviceId(0)).unwrap().free_blocks(), 0);
}

#[test]
fn golden_bytes_of_shards_and_volumes() {
    let shard = ShardRecord { id: 300, capacity: 1000, hosts: nodes(&[3]), is_open: true };
    let bytes = hex(&postcard::to_extend(&shard, Vec::new()).unwrap());
    assert_eq!(bytes, concat!("ac02", "e807", "0103", "01"));
    let granted = vec![
        GrantedRun { owner: BulkOwner::Shard(300), blocks: 512 },
        GrantedRun { owner: BulkOwner::Free, blocks: 256 },
        GrantedRun { owner: BulkOwner::Skipped, blocks: 7 },
    ];
    let volume = VolumeRecord { device: DeviceId(1), blocks: 1000, granted };
    let bytes = hex(&postcard::to_extend(&volume, Vec::new()).unwrap());
    assert_eq!(bytes, concat!("01", "e807", "03", "01ac028004", "028002", "0007"));

    let mut machine = with_volume(1000);
    grant(&mut machine, 2).unwrap();
    let kv = MemoryKv::new();
    kv.commit(table::batch(&machine.0, table::all_entries(&machine.0))).unwrap();
    let entry = |key: &[u8]| hex(&kv::KvRead::get(&kv, key).unwrap().unwrap());
    assert_eq!(entry(&[2, 13]), "03", "the next shard");
    assert_eq!(entry(&[13, 0, 0, 0, 1]), "01e80702020300");
    assert_eq!(entry(&[13, 0, 0, 0, 2]), "02e80702020301");
    assert_eq!(entry(&[14, 0, 0, 0, 0]), "00e8070101028002");
    assert_eq!(table::load(&kv).unwrap(), machine.0);
}

type Change = Box<dyn Fn(&mut Snapshot)>;

#[test]
fn impossible_shards_and_volumes_are_refused() {
    let shard = |id: u32, change: fn(&mut ShardRecord)| {
        move |state: &mut Snapshot| change(Arc::make_mut(state.shards.records_mut().get_mut(&id).unwrap()))
    };
    let volume = |change: fn(&mut VolumeRecord)| {
        move |state: &mut Snapshot| change(Arc::make_mut(state.volumes.records_mut().get_mut(&DeviceId(0)).unwrap()))
    };
    let changes: Vec<Change> = vec![
        Box::new(shard(1, |shard| shard.is_open = true)),
        Box::new(shard(2, |shard| shard.capacity = 0)),
        Box::new(|state: &mut Snapshot| state.groups.records_mut().clear()),
        Box::new(shard(2, |shard| shard.hosts = nodes(&[1, 1]))),
        Box::new(|state: &mut Snapshot| state.shards.next = 2),
        Box::new(|state: &mut Snapshot| state.shards.next = u64::MAX),
        Box::new(volume(|volume| volume.blocks = 255)),
        Box::new(volume(|volume| volume.blocks = MAX_VOLUME_BLOCKS + 1)),
        Box::new(volume(|volume| volume.granted.push(GrantedRun { owner: BulkOwner::Skipped, blocks: 0 }))),
        Box::new(volume(|volume| volume.granted.push(GrantedRun { owner: BulkOwner::Skipped, blocks: u32::MAX }))),
        Box::new(volume(|volume| volume.granted[0].owner = BulkOwner::Shard(9))),
        Box::new(|state: &mut Snapshot| state.devices.records_mut().clear()),
    ];
    let mut sound = with_volume(1000);
    grant(&mut sound, 2).unwrap();
    assert_eq!(sound.0.check(), Ok(()));
    for (number, change) in changes.iter().enumerate() {
        let mut state = sound.0.clone();
        change(&mut state);
        assert!(state.check().is_err(), "change {number}");
        assert!(Snapshot::from_export(&state.export()).is_err(), "change {number}");
    }
    let mut state = sound.0.clone();
    changes[0](&mut state);
    let what = "registrations beside a newer one";
    assert_eq!(state.check(), Err(ImpossibleState::Record { kind: "shard", key: "1".to_owned(), what }));
}
