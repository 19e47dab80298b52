//! A unit for tests of what leaders look for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use consensus::Term;
use env::{Env, Instant, MachineUse};
use format::chunk_command::{ChunkCommand, ClientCall, CopyOf, PageRange, Registration};
use format::chunk_id::{ChunkNonce, ChunkNumber, ShardId};
use format::chunk_page::ChunkPage;
use format::chunk_place::{BlockPlace, ChunkPlaces};
use manager::{Manager, RegisterNode};
use types::{DeviceId, DeviceUuid, NodeId, NodeIdentity};

use super::Leading;
use crate::leader::Leader;
use crate::maintenance::{Answer, MaintenanceUnit, PageRef};
use crate::placement::PlacerChoice;
use crate::protocol::{DamagedBlock, NodeReport};
use crate::publisher::Begins;

pub const CHUNKS: u64 = 3;

/// On the only block that a device has.
pub fn place(device: u32) -> BlockPlace {
    BlockPlace::new(DeviceId(device), 0).expect("a place")
}

pub fn registration(call: u32) -> Registration {
    registration_of(call, 1)
}

/// The same, with further copies on the next devices.
pub fn registration_of(call: u32, copies: u32) -> Registration {
    let places: Vec<BlockPlace> = (0..copies).map(|copy| place((call + copy) % 4)).collect();
    let places = ChunkPlaces::new(&places).expect("few");
    let call = ClientCall { session: 1, request: call };
    Registration { call, nonce: ChunkNonce(7), bytes: 100, places, wanted: copies as u8, deadline_ms: 1 }
}

/// A unit with a page for each of its chunks; all on device 0, 1, 2, and pages on 2, 3, 0.
pub fn unit() -> MaintenanceUnit {
    unit_of(1)
}

/// The same, with further copies on the next devices.
pub fn unit_of(copies: u32) -> MaintenanceUnit {
    let mut unit = MaintenanceUnit::new(ShardId(1), CHUNKS);
    (0..4).for_each(|device| _ = unit.apply(&ChunkCommand::Grant { device: DeviceId(device), first_block: 0, blocks: 1 }));
    let page = |number| {
        let range = PageRange { first: ChunkNumber(number), last: ChunkNumber(number) };
        ChunkCommand::RegisterPage { registration: registration_of(10 + number as u32, copies), range }
    };
    let chunks = (0..CHUNKS as u32).map(|number| ChunkCommand::Register(registration_of(number, copies)));
    for command in chunks.chain((0..CHUNKS).map(page)) {
        let Ok(Answer::Registered { id, .. }) = unit.apply(&command).answer else { panic!("{command:?}") };
        unit.apply(&ChunkCommand::Commit(id)).answer.expect("it is pending");
    }
    unit
}

pub fn empty_page(unit: &MaintenanceUnit, at: PageRef) -> Arc<ChunkPage> {
    Arc::new(ChunkPage::new(unit.shard(), at.id.number, at.range.first, at.range.last))
}

/// A leadership that has just begun.
pub fn leading(unit: &MaintenanceUnit) -> Leading {
    let pages: BTreeMap<ChunkNumber, Arc<ChunkPage>> = unit.pages().map(|at| (at.id.number, empty_page(unit, at))).collect();
    let entries = unit.lookup_entries(&pages).expect("all pages are there");
    let (leader, _) = Leader::begin(unit, entries, Begins::with(1), 1, &BTreeSet::new()).expect("a small table");
    Leading::new(Instant::from_nanos(0), Term(1), leader, PlacerChoice::default())
}

/// A node says that it is there, and what is not as it was written.
pub fn report(node: u32, rotten: Vec<CopyOf>, damaged: Vec<DamagedBlock>) -> NodeReport {
    let machine = MachineUse::default();
    let (freed, stuck, rooms) = (Vec::new(), Vec::new(), Vec::new());
    NodeReport { node: NodeId(node), shard: ShardId(1), host: None, freed, rotten, damaged, stuck, rooms, machine }
}

/// Four nodes with a device each, which has so many blocks. Node 1 has device 0, and so on.
pub async fn manager_of_four(blocks: u32) -> Manager {
    let manager = Manager::open_in_memory(&Env::simulated(1)).await.expect("a manager");
    for number in 0..4 {
        let device = manager.add_device(DeviceUuid([number; 16]), "/dev/x", 1 << 40).await.expect("a device").id;
        let node = manager.register_node(node_record(number)).await.expect("a node").id;
        manager.place_device(device, Some(node)).await.expect("the node is there");
        manager.register_volume(device, blocks).await.expect("a device");
    }
    manager
}

/// Of one on a host of its own.
pub fn node_record(number: u8) -> RegisterNode {
    RegisterNode {
        identity: NodeIdentity([number; 16]),
        name: format!("node-{number}"),
        address: format!("node-{number}:1"),
        admin_address: format!("node-{number}:2"),
        s3_address: format!("node-{number}:3"),
        host: format!("host-{number}"),
        rack: String::new(),
        zone: String::new(),
        version: "1".to_owned(),
        joined_ms: 0,
    }
}
