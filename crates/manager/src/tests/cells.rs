//! Cells: who is in the view, who leaves it, what a view change carries.

use std::collections::BTreeSet;
use std::sync::Arc;

use topology::ViewError;
use types::{CellId, DeviceId, DeviceUuid, GatewayId, Generation, NodeId, Token, ViewNumber};

use super::machine::Machine;
use super::nodes::{node, register};
use crate::limits::MAX_LEARNERS;
use crate::{
    AddDevice, BeginRemoval, CellError, CellRecord, CreateCell, DeviceState, FinishFounding, FinishRecovery, FoundView,
    InstallView, LeaveCell, PlaceDevice, Registered, SetDeviceState, Snapshot, table,
};

pub(super) const CELL: CellId = CellId(0);

pub(super) fn gateways(numbers: &[u16]) -> BTreeSet<GatewayId> {
    numbers.iter().copied().map(GatewayId).collect()
}

pub(super) fn devices(numbers: &[u32]) -> BTreeSet<DeviceId> {
    numbers.iter().copied().map(DeviceId).collect()
}

pub(super) fn begin(view: u64, leaving: &[u16]) -> BeginRemoval {
    BeginRemoval { cell: CELL, view: ViewNumber(view), gateways: gateways(leaving) }
}

pub(super) fn install(expected: u64, members: &[u16], on: &[u32]) -> InstallView {
    InstallView { cell: CELL, expected: ViewNumber(expected), members: gateways(members), devices: devices(on) }
}

pub(super) fn found(expected: u64, gateway: u16, on: &[u32]) -> FoundView {
    FoundView { cell: CELL, expected: ViewNumber(expected), gateway: GatewayId(gateway), devices: devices(on) }
}

fn recovered(view: u64, decided: &[u16]) -> FinishRecovery {
    FinishRecovery { cell: CELL, view: ViewNumber(view), gateways: gateways(decided) }
}

pub(super) fn cell(machine: &Machine) -> CellRecord {
    CellRecord::clone(machine.0.cell(CELL).unwrap())
}

/// Three nodes with a device each, whose gateways 1, 2 and 3 wait to be taken in; generations up to 512 were used.
pub(super) fn three_learners() -> Machine {
    let mut machine = Machine::default();
    machine.run(CreateCell { cell: CELL, generation: Generation(512) }).unwrap();
    for number in 1..4u8 {
        let node = machine.run(node(number)).unwrap().id;
        let add = AddDevice { uuid: DeviceUuid([number; 16]), path: "/dev/x".to_owned(), capacity_bytes: 1 << 40 };
        let id = machine.run(add).unwrap().id;
        machine.run(PlaceDevice { id, node: Some(node) }).unwrap();
        let registered = machine.run(register(CELL, node)).unwrap();
        assert_eq!(registered, Registered { gateway: GatewayId(number.into()), token: Token(machine.0.applied().0) });
    }
    machine
}

/// View 3 of all three, over all devices.
pub(super) fn three_members() -> Machine {
    let mut machine = three_learners();
    machine.run(found(0, 1, &[0, 1, 2])).unwrap();
    machine.run(FinishFounding { cell: CELL, view: ViewNumber(1), gateway: GatewayId(1) }).unwrap();
    machine.run(install(1, &[1, 2], &[0, 1, 2])).unwrap();
    machine.run(install(2, &[1, 2, 3], &[0, 1, 2])).unwrap();
    machine
}

#[test]
fn a_cell_is_founded_and_grows() {
    let mut machine = three_learners();
    assert_eq!(machine.run(install(0, &[1], &[0])), Err(CellError::NotFounding), "nothing to follow");
    assert_eq!(machine.run(found(0, 1, &[0, 1, 2])), Ok(ViewNumber(1)));
    let founded = cell(&machine).installed.unwrap();
    assert!(founded.founding);
    assert_eq!((founded.leader, founded.table.generation(), founded.table.copies()), (GatewayId(1), Generation(513), 3));
    let early = Err(CellError::Unsettled { gateway: GatewayId(2) });
    assert_eq!(machine.run(install(1, &[1, 2], &[0, 1, 2])), early, "the founder has not recovered everything");
    let finish = |gateway| FinishFounding { cell: CELL, view: ViewNumber(1), gateway: GatewayId(gateway) };
    assert_eq!(machine.run(finish(2)), Err(CellError::NotFounding));
    machine.run(finish(1)).unwrap();
    assert_eq!(machine.run(finish(1)), Err(CellError::NotFounding));
    machine.run(install(1, &[1, 2], &[0, 1, 2])).unwrap();
    machine.run(install(2, &[1, 2, 3], &[0, 1, 2])).unwrap();
    let installed = cell(&machine).installed.unwrap();
    assert_eq!(installed.view.members(), [GatewayId(1), GatewayId(2), GatewayId(3)]);
    assert_eq!(installed.table, founded.table, "the same devices: the same table, and the same generation");
    assert_eq!(cell(&machine).learners().count(), 0);
}

#[test]
fn a_member_leaves_through_its_removal_and_comes_back_after_its_recovery() {
    let mut machine = three_members();
    let token = cell(&machine).members[&GatewayId(1)].token;
    assert_eq!(machine.run(install(3, &[2, 3], &[1, 2])), Err(CellError::NotRemoving { gateway: GatewayId(1) }));
    assert_eq!(machine.run(begin(2, &[1])), Err(CellError::Stale { expected: ViewNumber(2), found: ViewNumber(3) }));
    assert_eq!(machine.run(begin(3, &[9])), Err(CellError::NotInView { gateway: GatewayId(9) }));
    machine.run(begin(3, &[1])).unwrap();
    machine.run(begin(3, &[1])).unwrap();
    assert_eq!(machine.run(install(3, &[1, 2, 3], &[1, 2])), Err(CellError::Removing { gateway: GatewayId(1) }));
    machine.run(install(3, &[2, 3], &[1, 2])).unwrap();
    let shrunk = cell(&machine);
    assert_eq!((shrunk.fence(NodeId(1)), shrunk.fence(NodeId(2))), (Token(token.0 + 1), Token(0)));
    assert!(shrunk.removing.is_empty() && shrunk.undecided.contains_key(&GatewayId(1)));
    let installed = shrunk.installed.unwrap();
    assert_eq!((installed.leader, installed.table.generation(), installed.table.copies()), (GatewayId(2), Generation(514), 2));
    assert!(!machine.0.cell(CELL).unwrap().members.contains_key(&GatewayId(1)));

    let again = machine.run(register(CELL, NodeId(1))).unwrap();
    assert_eq!(again.gateway, GatewayId(4));
    assert!(again.token >= cell(&machine).fence(NodeId(1)));
    assert_eq!(machine.run(install(4, &[2, 3, 4], &[1, 2])), Err(CellError::Unsettled { gateway: again.gateway }));
    let stale = CellError::Stale { expected: ViewNumber(3), found: ViewNumber(4) };
    assert_eq!(machine.run(recovered(3, &[1])), Err(stale));
    machine.run(recovered(4, &[1])).unwrap();
    machine.run(install(4, &[2, 3, 4], &[0, 1, 2])).unwrap();
    assert_eq!(cell(&machine).installed.unwrap().table.generation(), Generation(515), "a generation is used once");
}

#[test]
fn nobody_joins_while_somebody_leaves() {
    let mut machine = three_learners();
    machine.run(found(0, 1, &[0])).unwrap();
    machine.run(FinishFounding { cell: CELL, view: ViewNumber(1), gateway: GatewayId(1) }).unwrap();
    machine.run(install(1, &[1, 2], &[0])).unwrap();
    machine.run(begin(2, &[2])).unwrap();
    let unsettled = Err(CellError::Unsettled { gateway: GatewayId(3) });
    assert_eq!(machine.run(install(2, &[1, 3], &[0])), unsettled);
    machine.run(begin(2, &[1])).unwrap();
    assert_eq!(machine.run(install(2, &[3], &[0])), unsettled);
    assert_eq!(machine.run(install(2, &[], &[0])), Err(CellError::View(ViewError::Empty)));
}

/// The least member leads; one that has just joined does not.
#[test]
fn who_joins_does_not_lead() {
    let mut machine = three_learners();
    machine.run(found(0, 3, &[0])).unwrap();
    machine.run(FinishFounding { cell: CELL, view: ViewNumber(1), gateway: GatewayId(3) }).unwrap();
    machine.run(install(1, &[2, 3], &[0])).unwrap();
    assert_eq!(cell(&machine).installed.unwrap().leader, GatewayId(3));
    machine.run(install(2, &[1, 2, 3], &[0])).unwrap();
    assert_eq!(cell(&machine).installed.unwrap().leader, GatewayId(2));
}

#[test]
fn a_new_incarnation_ends_the_former_one() {
    let mut machine = three_members();
    let again = machine.run(register(CELL, NodeId(2))).unwrap();
    let with_learner = cell(&machine);
    assert_eq!((&with_learner.removing, &with_learner.ended), (&gateways(&[2]), &gateways(&[2])));
    assert_eq!(again.gateway, GatewayId(4));
    // The one after it: the learner is forgotten, the member goes on leaving.
    assert_eq!(machine.run(register(CELL, NodeId(2))).unwrap().gateway, GatewayId(5));
    assert_eq!(cell(&machine).members.keys().copied().collect::<BTreeSet<_>>(), gateways(&[1, 2, 3, 5]));
    machine.run(install(3, &[1, 3], &[0, 1, 2])).unwrap();
    let shrunk = cell(&machine);
    assert!(shrunk.ended.is_empty() && shrunk.removing.is_empty());
    assert_eq!(shrunk.undecided.keys().copied().collect::<BTreeSet<_>>(), gateways(&[2]));
    assert_eq!(machine.run(register(CELL, NodeId(9))), Err(CellError::NoSuchNode { node: NodeId(9) }));
}

#[test]
fn who_leaves_by_itself_is_not_waited_for() {
    let mut machine = three_members();
    let leave = |gateway| LeaveCell { cell: CELL, gateway: GatewayId(gateway) };
    machine.run(begin(3, &[3])).unwrap();
    machine.run(leave(3)).unwrap();
    assert_eq!(cell(&machine).ended, gateways(&[3]));
    assert_eq!(machine.run(leave(8)), Err(CellError::NotRegistered { gateway: GatewayId(8) }));
    for gateway in [1, 2] {
        machine.run(leave(gateway)).unwrap();
    }
    assert_eq!(cell(&machine).ended, gateways(&[1, 2, 3]));
    machine.run(register(CELL, NodeId(1))).unwrap();
    machine.run(leave(4)).unwrap();
    assert_eq!(cell(&machine).learners().count(), 0);
}

#[test]
fn a_founding_fences_everybody_and_leaves_nobody_undecided() {
    let mut machine = three_members();
    machine.run(begin(3, &[1])).unwrap();
    machine.run(install(3, &[2, 3], &[1, 2])).unwrap();
    let founder = machine.run(register(CELL, NodeId(2))).unwrap();
    let not_removed = Err(CellError::NotRemoving { gateway: GatewayId(3) });
    assert_eq!(machine.run(found(4, 4, &[1, 2])), not_removed);
    machine.run(begin(4, &[3])).unwrap();
    assert_eq!(machine.run(found(4, 3, &[1, 2])), Err(CellError::InView { gateway: GatewayId(3) }));
    assert_eq!(machine.run(found(4, 1, &[1, 2])), Err(CellError::NotRegistered { gateway: GatewayId(1) }));
    let stale = CellError::Stale { expected: ViewNumber(3), found: ViewNumber(4) };
    assert_eq!(machine.run(found(3, 4, &[1, 2])), Err(stale));
    let before = cell(&machine);
    machine.run(found(4, 4, &[1, 2])).unwrap();
    let founded = cell(&machine);
    assert!(founded.undecided.is_empty() && founded.removing.is_empty() && founded.ended.is_empty());
    for gateway in [2, 3] {
        let member = before.members[&GatewayId(gateway)];
        assert_eq!(founded.fence(member.node), Token(member.token.0 + 1));
    }
    assert_eq!(founded.fence(NodeId(1)), before.fence(NodeId(1)));
    assert!(founder.token >= founded.fence(NodeId(2)), "the founder may write");
    let installed = founded.installed.unwrap();
    assert_eq!(installed.table.generation(), Generation(515), "a new one, although the devices are the same");
    assert_eq!((installed.leader, installed.founding), (GatewayId(4), true));
    // A device that comes back while the founder recovers does not end the founding.
    machine.run(install(5, &[4], &[0, 1, 2])).unwrap();
    assert!(cell(&machine).is_founding());
}

#[test]
fn a_view_writes_to_devices_that_take_writes() {
    let mut machine = three_members();
    assert_eq!(machine.run(install(3, &[1, 2, 3], &[0, 7])), Err(CellError::NotWritable { device: DeviceId(7) }));
    machine.run(SetDeviceState { id: DeviceId(1), state: DeviceState::Draining }).unwrap();
    assert_eq!(machine.run(install(3, &[1, 2, 3], &[0, 1])), Err(CellError::NotWritable { device: DeviceId(1) }));
    assert!(matches!(machine.run(install(3, &[1, 2, 3], &[])), Err(CellError::Table(_))));
    machine.run(install(3, &[1, 2, 3], &[0, 2])).unwrap();
    assert_eq!(cell(&machine).installed.unwrap().table.devices(), [DeviceId(0), DeviceId(2)]);
}

#[test]
fn a_device_that_moves_makes_another_table() {
    let mut machine = three_members();
    let before = cell(&machine).installed.unwrap().table;
    machine.run(PlaceDevice { id: DeviceId(2), node: Some(NodeId(1)) }).unwrap();
    machine.run(install(3, &[1, 2, 3], &[0, 1, 2])).unwrap();
    let after = cell(&machine).installed.unwrap().table;
    assert_eq!((after.generation(), after.copies()), (Generation(before.generation().0 + 1), 2));
}

#[test]
fn gateways_numbers_begin_again_without_those_in_use() {
    let mut machine = three_members();
    let mut record = cell(&machine);
    record.last_gateway = GatewayId(u16::MAX);
    record.undecided.insert(GatewayId(4), record.members[&GatewayId(1)]);
    machine.0.cells.records_mut().insert(CELL, Arc::new(record));
    assert_eq!(machine.run(register(CELL, NodeId(1))).unwrap().gateway, GatewayId(5));
}

#[test]
fn learners_are_few() {
    let mut machine = three_learners();
    let mut record = cell(&machine);
    let member = record.members[&GatewayId(1)];
    record.members.extend((100..).take(MAX_LEARNERS).map(|gateway| (GatewayId(gateway), member)));
    record.members.values_mut().for_each(|member| member.node = NodeId(1));
    machine.0.cells.records_mut().insert(CELL, Arc::new(record));
    assert_eq!(machine.run(register(CELL, NodeId(2))), Err(CellError::TooManyLearners));
    machine.run(register(CELL, NodeId(1))).unwrap();
}

#[test]
fn cells_are_made_once() {
    let mut machine = three_learners();
    let create = |cell, generation| CreateCell { cell: CellId(cell), generation: Generation(generation) };
    assert_eq!(machine.run(create(0, 0)), Err(CellError::AlreadyExists { cell: CELL }));
    assert_eq!(machine.run(create(1, u32::MAX)), Err(CellError::UsedUp));
    let nowhere = register(CellId(1), NodeId(1));
    assert_eq!(machine.run(nowhere), Err(CellError::NotFound { cell: CellId(1) }));
}

/// A copy from which a manager begins again: what was given out after it may be in use.
#[test]
fn an_import_skips_numbers_of_cells() {
    let machine = three_members();
    let before = cell(&machine);
    let mut restored = Machine(Snapshot::from_export(&machine.0.export()).unwrap().skip_lost().unwrap());
    let after = cell(&restored);
    assert!(after.view_number().0 > before.view_number().0 + 1_000 && after.generation.0 > before.generation.0 + 1_000);
    assert_eq!((after.view_members(), &after.members), (before.view_members(), &before.members));
    let again = restored.run(register(CELL, NodeId(1))).unwrap();
    assert!(again.gateway.0 > 1_000 && again.token.0 > 1_000);
    assert!(restored.run(super::nodes::node(9)).unwrap().id.0 > 1_000);
}

#[test]
fn cells_that_contradict_themselves_are_refused() {
    let mut machine = three_members();
    machine.run(begin(3, &[3])).unwrap();
    let sound = machine.0;
    assert_eq!(Snapshot::from_export(&sound.export()).unwrap(), sound);
    let changes: [fn(&mut CellRecord); 10] = [
        |cell| {
            cell.members.remove(&GatewayId(1));
        },
        |cell| {
            cell.removing.insert(GatewayId(9));
        },
        |cell| {
            cell.ended.insert(GatewayId(1));
        },
        |cell| {
            cell.undecided.insert(GatewayId(1), cell.members[&GatewayId(1)]);
        },
        |cell| cell.installed.as_mut().unwrap().leader = GatewayId(9),
        |cell| cell.installed.as_mut().unwrap().founding = true,
        |cell| cell.generation = Generation(512),
        |cell| cell.generation = Generation(u32::MAX),
        |cell| {
            cell.fences.insert(NodeId(1), Token(15));
        },
        |cell| cell.members.get_mut(&GatewayId(1)).unwrap().token = Token(1 << 40),
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let mut record = CellRecord::clone(sound.cell(CELL).unwrap());
        change(&mut record);
        let mut state = sound.clone();
        state.cells.records_mut().insert(CELL, Arc::new(record));
        assert!(Snapshot::from_export(&state.export()).is_err(), "change {number}");
        let kv = kv::MemoryKv::new();
        kv::Kv::commit(&kv, table::batch(&state, table::all_entries(&state))).unwrap();
        assert!(table::load(&kv).is_err(), "change {number}");
    }
}
