//! What a start finds after everything has died.

use super::{Checkpoint, Entry, Epochs, MAX_GATEWAYS, Manifest, Position, Slot, Stage, State, each};

impl Epochs {
    /// Whether a start finds what was acknowledged last of a key, or something newer, and nothing that a delete has ended.
    pub fn is_kept(&self, state: &State, key: usize) -> bool {
        let manifest = &state.manifests[state.manifests.len() - 1];
        let order = |write: usize| match state.writes[write] {
            Stage::Done(order) if self.writes[write].1 == key => Some((order, self.writes[write].2)),
            _ => None,
        };
        let last = (0..self.writes.len()).filter_map(order).max();
        let row = manifest.rows.iter().find(|row| row.key == key).copied();
        let found = self.walked(state, key).filter(|found| row.is_none_or(|row| found.order > row.order)).or(row);
        // A delete that has landed may have taken effect before anybody was told, and be forgotten.
        let is_deleted = |after: Position| {
            let delete = |slot: &Slot| !slot.is_copy && self.writes[slot.write].1 == key && self.writes[slot.write].2;
            state.log.iter().skip(usize::from(after) - 1).any(delete)
        };
        match (last, found) {
            (None, None) => true,
            (Some((order, _)), None) => is_deleted(order),
            (last, Some(found)) => {
                let stands = |place: Position| !state.log[usize::from(place) - 1].is_reset;
                let is_new = last.is_none_or(|(order, _)| found.order >= order);
                is_new && (found.is_delete || stands(self.moved(state, &found)))
            }
        }
    }

    /// The first write is made, and every member has the checkpoint that covers it.
    pub fn cover_first(&self, state: &mut State) {
        let (_, key, is_delete) = self.writes[0];
        let entry = Entry { key, order: 1, epoch: 1, place: 1, is_delete };
        state.writes[0] = Stage::Done(1);
        state.log.push(Slot { write: 0, epoch: 1, is_copy: false, is_reset: false });
        state.manifests.push(Manifest { epoch: 1, start: 2, rows: vec![entry] });
        for member in &mut state.members {
            member.index[key] = Some(entry);
            (member.present, member.begun, member.installed, member.in_step) = (2, [2; MAX_GATEWAYS], 1, 1);
        }
    }

    /// Whether every member rests, and all have the same live entries.
    pub fn has_ended(&self, state: &State) -> bool {
        let live = |member: usize| {
            state.members[member]
                .index
                .map(|entry| entry.filter(|entry| !entry.is_delete).map(|entry| (entry.order, entry.place)))
        };
        let members = state.views[state.views.len() - 1];
        let first = each(members).next().map(live);
        each(members).all(|member| {
            let here = &state.members[member];
            here.goal.is_none() && here.checkpoint == Checkpoint::None && Some(live(member)) == first
        })
    }

    /// The newest record of a key behind the manifest's start vector that no checkpoint covers.
    fn walked(&self, state: &State, key: usize) -> Option<Entry> {
        let manifest = &state.manifests[state.manifests.len() - 1];
        let start = usize::from(manifest.start.max(1)) - 1;
        let found = state.log.iter().enumerate().skip(start).filter(|(_, slot)| {
            !slot.is_copy && !slot.is_reset && self.writes[slot.write].1 == key && slot.epoch > manifest.epoch
        });
        let (at, slot) = found.max_by_key(|(at, _)| *at)?;
        let order = at as Position + 1;
        Some(Entry { key, order, epoch: slot.epoch, place: order, is_delete: self.writes[slot.write].2 })
    }

    /// Where a record stands after the copies of it that the walk finds.
    fn moved(&self, state: &State, found: &Entry) -> Position {
        let manifest = &state.manifests[state.manifests.len() - 1];
        let write = state.log[usize::from(found.order) - 1].write;
        let start = usize::from(manifest.start.max(1)) - 1;
        let copies = state.log.iter().enumerate().skip(start).filter(|(_, slot)| slot.is_copy && !slot.is_reset);
        let last = copies.filter(|(_, slot)| slot.write == write).max_by_key(|(at, _)| *at);
        last.map_or(found.place, |(at, _)| at as Position + 1)
    }
}
