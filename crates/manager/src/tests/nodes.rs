//! Nodes, and which devices they serve.

use std::sync::Arc;

use types::{CellId, DeviceId, DeviceUuid, ErrorKind, Generation, NodeId, NodeIdentity, Token};

use super::machine::Machine;
use crate::limits::{MAX_FENCED_NODES, MAX_NODE_TEXT_BYTES};
use crate::operation::Refusal;
use crate::{
    AddDevice, CellRecord, CreateCell, DeviceError, NodeError, PlaceDevice, RegisterGateway, RegisterNode, RemoveNode,
};

/// A gateway of the node, which ends whatever others it has.
pub(crate) fn register(cell: CellId, node: NodeId) -> RegisterGateway {
    RegisterGateway { cell, node, former: Token(u64::MAX) }
}

/// Node `number` with its own host.
pub(crate) fn node(number: u8) -> RegisterNode {
    RegisterNode {
        identity: NodeIdentity([number; 16]),
        name: format!("node-{number}"),
        address: format!("10.0.0.{number}:9002"),
        admin_address: format!("10.0.0.{number}:9001"),
        s3_address: format!("10.0.0.{number}:9000"),
        host: format!("host-{number}"),
        rack: String::new(),
        zone: String::new(),
        version: "1".to_owned(),
        joined_ms: u64::from(number),
    }
}

#[test]
fn a_node_keeps_its_number_whatever_changes() {
    let mut machine = Machine::default();
    let one = machine.run(node(1)).unwrap();
    assert_eq!((one.id, one.joined_ms), (NodeId(1), 1));
    assert_eq!(machine.run(node(1)).unwrap(), one);
    let moved = RegisterNode { address: "10.0.1.1:9002".to_owned(), version: "2".to_owned(), joined_ms: 9, ..node(1) };
    let moved = machine.run(moved).unwrap();
    assert_eq!(
        (moved.id, moved.joined_ms, moved.address.as_str(), moved.version.as_str()),
        (NodeId(1), 1, "10.0.1.1:9002", "2")
    );
    assert_eq!(machine.run(node(2)).unwrap().id, NodeId(2));
    machine.run(RemoveNode { id: NodeId(2) }).unwrap();
    assert_eq!(machine.run(RemoveNode { id: NodeId(2) }), Err(NodeError::NotFound { id: NodeId(2) }));
    assert_eq!(machine.run(node(2)).unwrap().id, NodeId(3), "a number is not given out again");
}

/// Devices could not load the fences of more, and none would be ready ever again.
#[test]
fn nodes_that_come_and_go_leave_no_more_fences_than_devices_take() {
    let mut machine = Machine::default();
    let cell = CellId(1);
    machine.run(CreateCell { cell, generation: Generation(0) }).unwrap();
    machine.run(node(1)).unwrap();
    let mut record = CellRecord::clone(machine.0.cell(cell).unwrap());
    // Fences of nodes that are there count once.
    record.fences = (1..MAX_FENCED_NODES as u32).map(|number| (NodeId(number), Token(1))).collect();
    machine.0.cells.records_mut().insert(cell, Arc::new(record));
    machine.0.nodes.next = MAX_FENCED_NODES as u64;
    machine.run(node(2)).unwrap();
    assert_eq!(machine.run(node(3)), Err(NodeError::TooManyFences));
    machine.run(node(2)).expect("it is there");
    machine.run(RemoveNode { id: NodeId(MAX_FENCED_NODES as u32) }).unwrap();
    machine.run(node(3)).expect("who had no gateway left no fence");
}

#[test]
fn names_and_addresses_are_one_nodes() {
    let mut machine = Machine::default();
    machine.run(node(1)).unwrap();
    machine.run(node(2)).unwrap();
    let id = NodeId(1);
    let same_name = RegisterNode { name: "node-1".to_owned(), ..node(3) };
    assert_eq!(machine.run(same_name), Err(NodeError::NameTaken { id }));
    let same_address = RegisterNode { address: node(1).address, ..node(3) };
    assert_eq!(machine.run(same_address), Err(NodeError::AddressTaken { id }));
    let takes_over = RegisterNode { address: node(1).address, ..node(2) };
    assert_eq!(machine.run(takes_over).unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!(machine.run(RegisterNode { name: String::new(), ..node(3) }), Err(NodeError::Empty));
    assert_eq!(machine.run(RegisterNode { address: String::new(), ..node(3) }), Err(NodeError::Empty));
    let found = MAX_NODE_TEXT_BYTES + 1;
    assert_eq!(machine.run(RegisterNode { rack: "r".repeat(found), ..node(3) }), Err(NodeError::TextLength { found }));
}

#[test]
fn a_node_with_a_device_or_a_gateway_stays() {
    let mut machine = Machine::default();
    let id = machine.run(node(1)).unwrap().id;
    let add = AddDevice { uuid: DeviceUuid([1; 16]), path: "/dev/x".to_owned(), capacity_bytes: 9 };
    let device = machine.run(add).unwrap();
    assert_eq!(device.node, None);
    let place = |node| PlaceDevice { id: device.id, node };
    assert_eq!(machine.run(place(Some(NodeId(7)))), Err(DeviceError::NoSuchNode { node: NodeId(7) }));
    let missing = PlaceDevice { id: DeviceId(7), node: None };
    assert_eq!(machine.run(missing), Err(DeviceError::NotFound { id: DeviceId(7) }));
    assert_eq!(machine.run(place(Some(id))).unwrap().node, Some(id));
    assert_eq!(machine.run(RemoveNode { id }), Err(NodeError::HasDevice { id, device: device.id }));

    let cell = CellId(0);
    machine.run(CreateCell { cell, generation: Generation(0) }).unwrap();
    let gateway = machine.run(register(cell, id)).unwrap().gateway;
    let devices = [device.id].into();
    let found = crate::FoundView { cell, expected: types::ViewNumber(0), gateway, devices };
    machine.run(found).unwrap();
    machine.run(place(None)).unwrap();
    assert_eq!(machine.run(RemoveNode { id }), Err(NodeError::HasGateway { id, cell, gateway }));
    machine.run(crate::LeaveCell { cell, gateway }).unwrap();
    assert!(machine.run(RemoveNode { id }).is_err(), "it is in the view still");
}

#[test]
fn a_nodes_learners_go_with_it() {
    let mut machine = Machine::default();
    let id = machine.run(node(1)).unwrap().id;
    let cell = CellId(3);
    machine.run(CreateCell { cell, generation: Generation(0) }).unwrap();
    machine.run(register(cell, id)).unwrap();
    machine.run(RemoveNode { id }).unwrap();
    assert_eq!(machine.0.cell(cell).unwrap().learners().count(), 0);
}
