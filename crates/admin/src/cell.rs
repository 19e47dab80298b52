//! What a member of the manager knows of its cluster's cell.

use crate::sources::{Surroundings, state_name};
use crate::status::{CellDevice, CellNode, CellStatus};
use manager::{Manager, MemberRole, member_id};
use std::collections::BTreeSet;
use types::{CellId, NodeId};

/// The one cell of a cluster.
const CELL: CellId = CellId(1);

/// Describes the cell; none while the node does not know it yet.
pub(crate) fn describe(manager: &Manager, surroundings: &Surroundings) -> Option<CellStatus> {
    let Surroundings { silent, clocks_off_ms, repair_left, was_removed: _ } = surroundings;
    let replication = manager.replication()?;
    let state = manager.snapshot();
    let cell = state.cell(CELL)?;
    let serving: BTreeSet<NodeId> =
        cell.members.iter().filter(|(gateway, _)| cell.is_in_view(**gateway)).map(|(_, member)| member.node).collect();
    let learning: BTreeSet<NodeId> = cell.learners().map(|(_, member)| member.node).collect();
    let name = |id: NodeId| state.node(id).map(|node| node.name.clone());
    let voters = replication.members.iter().filter(|member| member.role == MemberRole::Voter);
    let voters: BTreeSet<_> = voters.map(|member| member.node).collect();
    let installed = cell.installed.as_ref();
    let leader = installed.and_then(|installed| cell.members.get(&installed.leader)).and_then(|member| name(member.node));
    let manager_leader =
        manager.leader().and_then(|peer| state.nodes().find(|node| node.address == peer.address).map(|node| node.name.clone()));
    let tables = cell.former_tables.iter().chain(installed.map(|installed| &installed.table));
    let alone: BTreeSet<u32> =
        tables.filter(|table| table.copies() == 1).flat_map(|table| table.devices()).map(|device| device.0).collect();
    let is_written = |device| installed.is_some_and(|installed| installed.table.devices().contains(&device));
    // A device is written to while its node is heard of: who is registered may have ended.
    let is_heard = |id| state.devices().any(|device| device.node == Some(id) && is_written(device.id));
    let waits = |id| cell.is_full() && learning.contains(&id) && is_heard(id);
    Some(CellStatus {
        view: cell.view_number().0,
        gateways: cell.view_members().len(),
        leader,
        manager_leader,
        copies: installed.map_or(0, |installed| installed.table.copies()),
        alone: alone.into_iter().collect(),
        repair_left: *repair_left,
        unregistered: manager.unregistered_members().into_iter().map(|member| member.address).collect(),
        undecided: cell.undecided.keys().map(|gateway| gateway.0).collect(),
        nodes: state
            .nodes()
            .map(|node| CellNode {
                name: node.name.clone(),
                address: node.address.clone(),
                s3_address: node.s3_address.clone(),
                admin_address: node.admin_address.clone(),
                version: node.version.clone(),
                serves: serving.contains(&node.id),
                waits: waits(node.id),
                is_silent: silent.contains(&node.id),
                votes: voters.contains(&member_id(node.identity)),
                clock_off_ms: clocks_off_ms.get(&node.id).copied(),
            })
            .collect(),
        devices: state
            .devices()
            .map(|device| CellDevice {
                device: device.id.0,
                node: device.node.and_then(name),
                is_written: is_written(device.id),
                state: state_name(device.state).to_owned(),
                capacity_bytes: device.capacity_bytes,
            })
            .collect(),
    })
}

/// Whether the cell takes no further gateway.
pub(crate) fn is_full(manager: &Manager) -> bool {
    manager.snapshot().cell(CELL).is_some_and(|cell| cell.is_full())
}
