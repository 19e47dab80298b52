//! Changes of a cell's view, and what ends them (docs/rfd/0005).
//!
//! A view change carries the table: a target that can't be reached leaves it together with the gateways that can't be.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use topology::{ReplicaTable, Site, View};
use types::{CellId, DeviceId, GatewayId, Generation, ViewNumber};

use super::membership::{CellError, find_under};
use super::{CellRecord, InstalledView, Member};
use crate::limits::{
    GENERATION_LIMIT, MAX_FORMER_TABLES, MAX_FORMER_TABLES_TO_CHANGE, MAX_FORMER_TABLES_TO_GROW, NUMBER_LIMIT,
};
use crate::modules::device::{DeviceRecord, DeviceState};
use crate::operation::Operation;
use crate::snapshot::{CommandIndex, Edit, Snapshot};

/// Installs the view after the expected one. Who leaves has been in `removing` until its lease ended; who comes is a learner, and comes
/// alone: nobody leaves with the same change, and nobody is undecided.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstallView {
    pub cell: CellId,
    pub expected: ViewNumber,
    pub members: BTreeSet<GatewayId>,
    /// What the view writes to. Other devices than before, or the same ones elsewhere, make a table of the next generation.
    pub devices: BTreeSet<DeviceId>,
}

impl Operation for InstallView {
    type Reply = ViewNumber;
    type Refusal = CellError;

    fn apply(&self, _: CommandIndex, edit: &mut Edit<'_>) -> Result<ViewNumber, CellError> {
        let mut cell = find_under(edit, self.cell, self.expected)?;
        let Some(installed) = cell.installed.clone() else {
            return Err(CellError::NotFounding);
        };
        for gateway in &self.members {
            if !cell.members.contains_key(gateway) {
                return Err(CellError::NotRegistered { gateway: *gateway });
            }
            if cell.removing.contains(gateway) {
                return Err(CellError::Removing { gateway: *gateway });
            }
        }
        let view = next_view(&installed.view, self.members.iter().copied().collect())?;
        if let Some(gateway) = installed.view.leaving(&view).find(|gateway| !cell.removing.contains(gateway)) {
            return Err(CellError::NotRemoving { gateway });
        }
        let is_settled = cell.undecided.is_empty() && cell.removing.is_empty() && !installed.founding;
        if let Some(gateway) = self.members.iter().find(|gateway| !installed.view.contains(**gateway))
            && !is_settled
        {
            return Err(CellError::Unsettled { gateway: *gateway });
        }
        // A member that has just come knows least of what is under way. All stay strangers only if nobody of the view before stays.
        let stayed = view.members().iter().find(|gateway| installed.view.contains(**gateway));
        let leader = *stayed.ok_or(CellError::NotInView { gateway: view.members()[0] })?;
        let mut table = next_table(edit.state, &cell, &self.devices)?;
        if installed.table.is_laid_out_as(&table) {
            table = installed.table.clone();
        }
        cell.generation = cell.generation.max(table.generation());
        for gateway in installed.view.leaving(&view) {
            let member = cell.members.remove(&gateway).expect("members of the view are registered");
            raise_fence(&mut cell, member);
            cell.undecided.insert(gateway, member);
        }
        cell.removing.retain(|gateway| view.contains(*gateway));
        cell.ended.retain(|gateway| view.contains(*gateway));
        let number = view.number();
        let grows = table.devices().iter().any(|device| !installed.table.devices().contains(device));
        check_room(&cell, &table, if grows { MAX_FORMER_TABLES_TO_GROW } else { MAX_FORMER_TABLES_TO_CHANGE })?;
        cell.install(InstalledView { view, table, leader, founding: installed.founding });
        edit.set_cell(cell);
        Ok(number)
    }
}

/// Installs a view of one learner, which recovers everything from the devices: nobody of the view before lives, or there was none. All of
/// them have been in `removing` until their leases ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundView {
    pub cell: CellId,
    pub expected: ViewNumber,
    pub gateway: GatewayId,
    pub devices: BTreeSet<DeviceId>,
}

impl Operation for FoundView {
    type Reply = ViewNumber;
    type Refusal = CellError;

    fn apply(&self, _: CommandIndex, edit: &mut Edit<'_>) -> Result<ViewNumber, CellError> {
        let mut cell = find_under(edit, self.cell, self.expected)?;
        if !cell.members.contains_key(&self.gateway) {
            return Err(CellError::NotRegistered { gateway: self.gateway });
        }
        if cell.is_in_view(self.gateway) {
            return Err(CellError::InView { gateway: self.gateway });
        }
        let leaving = cell.view_members().to_vec();
        if let Some(gateway) = leaving.iter().find(|gateway| !cell.removing.contains(gateway)) {
            return Err(CellError::NotRemoving { gateway: *gateway });
        }
        let view = match &cell.installed {
            Some(installed) => next_view(&installed.view, vec![self.gateway])?,
            None => View::new(ViewNumber(1), vec![self.gateway])?,
        };
        // A generation of its own, even over the same devices: what the founder writes comes after whatever it could not see.
        let table = next_table(edit.state, &cell, &self.devices)?;
        cell.generation = table.generation();
        for gateway in leaving {
            let member = cell.members.remove(&gateway).expect("members of the view are registered");
            raise_fence(&mut cell, member);
        }
        cell.removing.clear();
        cell.ended.clear();
        cell.undecided.clear();
        let number = view.number();
        // It may grow, however many there are: nothing else would end in a checkpoint of what was written to the devices that are
        // back.
        let is_left_out = |device: &DeviceRecord| device.state == DeviceState::Active && !self.devices.contains(&device.id);
        let is_whole = !edit.state.devices().any(|device| is_left_out(device));
        check_room(&cell, &table, if is_whole { MAX_FORMER_TABLES } else { MAX_FORMER_TABLES_TO_CHANGE })?;
        cell.install(InstalledView { view, table, leader: self.gateway, founding: true });
        edit.set_cell(cell);
        Ok(number)
    }
}

/// Everything that removed gateways may have written is decided and in a checkpoint, and every member of the view knows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FinishRecovery {
    pub cell: CellId,
    pub view: ViewNumber,
    pub gateways: BTreeSet<GatewayId>,
}

impl Operation for FinishRecovery {
    type Reply = ();
    type Refusal = CellError;

    fn apply(&self, _: CommandIndex, edit: &mut Edit<'_>) -> Result<(), CellError> {
        let mut cell = find_under(edit, self.cell, self.view)?;
        cell.undecided.retain(|gateway, _| !self.gateways.contains(gateway));
        edit.set_cell(cell);
        Ok(())
    }
}

/// The founder has recovered everything and serves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FinishFounding {
    pub cell: CellId,
    pub view: ViewNumber,
    pub gateway: GatewayId,
}

impl Operation for FinishFounding {
    type Reply = ();
    type Refusal = CellError;

    fn apply(&self, _: CommandIndex, edit: &mut Edit<'_>) -> Result<(), CellError> {
        let mut cell = find_under(edit, self.cell, self.view)?;
        match &mut cell.installed {
            Some(installed) if installed.founding && installed.leader == self.gateway => installed.founding = false,
            _ => return Err(CellError::NotFounding),
        }
        edit.set_cell(cell);
        Ok(())
    }
}

/// Refuses a table that would leave too many behind.
fn check_room(cell: &CellRecord, next: &ReplicaTable, limit: usize) -> Result<(), CellError> {
    let Some(installed) = &cell.installed else { return Ok(()) };
    let is_another = !installed.table.is_laid_out_as(next);
    if is_another && cell.former_tables.len() >= limit { Err(CellError::TooManyTables { limit }) } else { Ok(()) }
}

fn next_view(view: &View, members: Vec<GatewayId>) -> Result<View, CellError> {
    let next = view.next(members)?;
    if next.number().0 >= NUMBER_LIMIT { Err(CellError::UsedUp) } else { Ok(next) }
}

/// Targets refuse the member's appends once they have heard of it.
fn raise_fence(cell: &mut CellRecord, member: Member) {
    let fence = cell.fences.entry(member.node).or_default();
    fence.0 = fence.0.max(member.token.0 + 1);
}

/// A table over these devices, under the next generation.
fn next_table(state: &Snapshot, cell: &CellRecord, devices: &BTreeSet<DeviceId>) -> Result<ReplicaTable, CellError> {
    let generation = Generation(cell.generation.0 + 1);
    if generation.0 >= GENERATION_LIMIT {
        return Err(CellError::UsedUp);
    }
    let sites: Result<Vec<Site>, CellError> = devices.iter().map(|device| site(state, *device)).collect();
    Ok(ReplicaTable::placed(generation, sites?)?)
}

fn site(state: &Snapshot, id: DeviceId) -> Result<Site, CellError> {
    let device = state.device(id).filter(|device| device.state == DeviceState::Active);
    let device = device.ok_or(CellError::NotWritable { device: id })?;
    let node = device.node.and_then(|node| state.node(node));
    let around = node.map_or(["", "", ""], |node| [&node.host, &node.rack, &node.zone]);
    Ok(Site::new(id, device.capacity_bytes, device.node, around))
}
