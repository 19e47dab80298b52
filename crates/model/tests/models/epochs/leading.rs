//! What the leader of a view does: checkpoints, moves, resets, recoveries.

use super::{Action, Checkpoint, Collection, Entry, Epoch, Epochs, KEYS, Manifest, Message, Position, Slot, State, Wrong};
use super::{bit, each};

impl Epochs {
    /// Whether this member leads its view, which is settled.
    fn leads(&self, state: &State, member: usize) -> bool {
        let (here, members) = (&state.members[member], self.members(state, member));
        each(members).next() == Some(member) && here.carried & members == members && self.undecided(state, member) == 0
    }

    pub fn leader_actions(&self, state: &State, member: usize, actions: &mut Vec<Action>) {
        self.checkpoint_actions(state, member, actions);
        self.collection_actions(state, member, actions);
        let (here, members) = (&state.members[member], self.members(state, member));
        let is_first = each(members).next() == Some(member);
        let undecided = self.undecided(state, member);
        let is_fenced = undecided & !state.fenced == 0;
        if is_first && undecided != 0 && is_fenced && here.carried & members == members && here.following.is_empty() {
            actions.push(Action::Recover(member));
        }
    }

    /// A removed leader does not know it: the manager and the targets do.
    pub fn deposed_actions(&self, state: &State, gateway: usize, actions: &mut Vec<Action>) {
        let here = &state.members[gateway];
        if let Checkpoint::Announced(_, next) = here.checkpoint
            && each(self.others(state, gateway)).all(|other| here.begun[other] >= next)
            && here.present >= next
        {
            actions.push(Action::Install(gateway));
        }
        if matches!(here.collection, Collection::Retiring(_, 0)) && state.fenced & bit(gateway) == 0 {
            actions.push(Action::Reset(gateway));
        }
    }

    fn checkpoint_actions(&self, state: &State, member: usize, actions: &mut Vec<Action>) {
        let here = &state.members[member];
        let begins_first = self.wrong != Wrong::AnnouncesBeforeMoves;
        match here.checkpoint {
            Checkpoint::None => {
                if state.checkpoints_left > 0 && self.leads(state, member) && here.following.is_empty() && here.goal.is_none() {
                    actions.push(Action::ReadPositions(member));
                }
            }
            Checkpoint::Read(_) if self.leads(state, member) => actions.push(Action::BeginEpoch(member)),
            Checkpoint::Begun(_, next) => {
                let has_begun = here.present >= next && here.goal.is_none();
                if has_begun || !begins_first {
                    actions.push(Action::Announce(member));
                }
            }
            Checkpoint::Announced(_, next) => {
                let begun = each(self.others(state, member)).all(|other| here.begun[other] >= next);
                if begun && here.present >= next && here.goal.is_none() {
                    actions.push(Action::Install(member));
                }
            }
            Checkpoint::Installed(_) => actions.push(Action::Tell(member)),
            Checkpoint::Read(_) => {}
        }
    }

    pub fn begin_epoch(&self, state: &mut State, leader: usize) {
        let Checkpoint::Read(start) = state.members[leader].checkpoint else { return };
        let here = &state.members[leader];
        let known = each(self.others(state, leader)).map(|other| here.begun[other].max(here.present_of[other]));
        let greatest = match self.wrong {
            Wrong::CountsAlone => here.present,
            Wrong::CountsNoEntries => known.fold(here.present, Epoch::max),
            _ => known.chain(here.names.iter().map(|name| name.epoch)).fold(here.present, Epoch::max),
        };
        let view = here.view;
        state.members[leader].goal = Some((view, greatest + 1));
        state.members[leader].checkpoint = Checkpoint::Begun(start, greatest + 1);
    }

    pub fn announce(&self, state: &mut State, leader: usize) {
        let Checkpoint::Begun(start, next) = state.members[leader].checkpoint else { return };
        state.members[leader].checkpoint = Checkpoint::Announced(start, next);
        self.send_all(state, leader, &Message::BeginEpoch(next));
    }

    /// Everything of the epochs before goes into a manifest, on top of the manager's. The manager refuses who does not lead.
    pub fn install_manifest(&self, state: &mut State, leader: usize) {
        let Checkpoint::Announced(start, next) = state.members[leader].checkpoint else { return };
        let ended = next - 1;
        let is_first = each(state.views[state.views.len() - 1]).next() == Some(leader);
        let knows_newest = state.members[leader].installed + 1 == state.manifests.len();
        state.members[leader].in_step = state.members[leader].view;
        if !is_first && self.wrong != Wrong::TakesFromDeposed {
            state.members[leader].checkpoint = Checkpoint::None;
            return;
        }
        if !knows_newest && is_first {
            self.take_over(state, leader);
        }
        let base = &state.manifests[state.members[leader].installed];
        let names = state.members[leader].names.iter().filter(|entry| entry.epoch <= ended);
        let rows = (0..KEYS).filter_map(|key| {
            // Of equal orders the later place.
            let rows = base.rows.iter().chain(names.clone()).filter(|entry| entry.key == key);
            rows.max_by_key(|entry| (entry.order, entry.epoch)).copied()
        });
        let rows: Vec<Entry> = rows.filter(|entry| !self.is_forgotten(entry, ended)).collect();
        let start = if self.wrong == Wrong::ReadsAfterAnnouncing { state.log.len() as Position + 1 } else { start };
        state.manifests.push(Manifest { epoch: ended, start, rows });
        state.members[leader].checkpoint = Checkpoint::Installed(state.manifests.len() - 1);
    }

    /// The manager has a manifest that a former leader told nobody of: its places become everybody's.
    fn take_over(&self, state: &mut State, leader: usize) {
        let number = state.manifests.len() - 1;
        let manifest = state.manifests[number].clone();
        for row in &manifest.rows {
            let here = &state.members[leader];
            let is_newer_here = here.names.iter().any(|name| name.key == row.key && name.epoch > manifest.epoch);
            let known = here.index[row.key].filter(|known| known.order == row.order && known.place != row.place);
            let Some(known) = known.filter(|_| !is_newer_here) else { continue };
            let entry = Entry { epoch: here.present, ..*row };
            self.take_move(state, leader, known.place, entry);
            self.hear_of_move(state, leader, known.place, entry);
            self.send_all(state, leader, &Message::Relocated { old: known.place, entry });
        }
        self.adopt(state, leader, number);
        self.send_all(state, leader, &Message::Installed(number));
    }

    pub fn tell_installed(&self, state: &mut State, leader: usize) {
        let Checkpoint::Installed(number) = state.members[leader].checkpoint else { return };
        state.members[leader].checkpoint = Checkpoint::None;
        self.send_all(state, leader, &Message::Installed(number));
        self.adopt(state, leader, number);
    }

    fn collection_actions(&self, state: &State, leader: usize, actions: &mut Vec<Action>) {
        let here = &state.members[leader];
        let manifest = &state.manifests[here.installed];
        if let Collection::Moved(..) = here.collection
            && self.moves_again
        {
            actions.extend(self.copies(state, leader));
        }
        match here.collection {
            Collection::None => actions.extend(self.copies(state, leader)),
            Collection::Copying(_) => actions.push(Action::Move(leader)),
            Collection::Moved(_, epoch) => {
                if manifest.epoch >= epoch && self.leads(state, leader) {
                    actions.push(Action::Retire(leader));
                }
            }
            Collection::Retiring(_, missing) => {
                if missing == 0 || self.wrong == Wrong::ResetsUnheard {
                    actions.push(Action::Reset(leader));
                }
            }
        }
    }

    /// Records that the leader may copy elsewhere.
    fn copies(&self, state: &State, leader: usize) -> Vec<Action> {
        let here = &state.members[leader];
        let in_step = here.in_step == here.view && here.following.is_empty();
        if state.moves_left == 0 || !self.leads(state, leader) || !in_step {
            return Vec::new();
        }
        let start = state.manifests[here.installed].start;
        let may_move = |entry: Entry| !entry.is_delete && (entry.place < start || self.moves_again);
        let keys = (0..KEYS).filter(|key| here.index[*key].is_some_and(may_move));
        keys.map(|key| Action::Copy { leader, key }).collect()
    }

    pub fn finish_move(&self, state: &mut State, leader: usize) {
        let Collection::Copying(from) = state.members[leader].collection else { return };
        let write = state.log[usize::from(from.order) - 1].write;
        state.log.push(Slot { write, epoch: from.epoch, is_copy: true, is_reset: false });
        let entry = Entry { place: state.log.len() as Position, ..from };
        let known = state.members[leader].index[from.key];
        if known.is_none_or(|known| (known.order, known.place) != (from.order, from.place)) {
            state.members[leader].collection = Collection::None;
            return;
        }
        self.take_move(state, leader, from.place, entry);
        self.hear_of_move(state, leader, from.place, entry);
        self.send_all(state, leader, &Message::Relocated { old: from.place, entry });
        state.members[leader].collection = Collection::Moved(from.place, from.epoch);
    }

    pub fn retire(&self, state: &mut State, leader: usize) {
        let Collection::Moved(old, _) = state.members[leader].collection else { return };
        state.members[leader].collection = Collection::Retiring(old, self.others(state, leader));
        self.send_all(state, leader, &Message::Retire);
    }

    /// A target refuses a leader that was fenced; one that looks again finds what is still named.
    pub fn reset(&self, state: &mut State, leader: usize) {
        let Collection::Retiring(old, _) = state.members[leader].collection else { return };
        state.members[leader].collection = Collection::None;
        if state.members[leader].index.iter().flatten().all(|entry| entry.place != old) {
            state.log[usize::from(old) - 1].is_reset = true;
        }
    }

    /// Decides what one removed gateway left: walks from where the member's checkpoint ends that has come least far.
    pub fn recover(&self, state: &mut State, leader: usize) {
        let Some(gateway) = each(self.undecided(state, leader)).next() else { return };
        let here = &state.members[leader];
        let own = state.manifests[here.installed].epoch;
        let least = each(self.others(state, leader)).map(|other| here.installed_of[other]).fold(own, Epoch::min);
        let least = if self.wrong == Wrong::WalksFromOwn { own } else { least };
        let from = state.manifests.iter().rfind(|manifest| manifest.epoch <= least).expect("the first one covers nothing");
        let mut entries = Vec::new();
        for key in 0..KEYS {
            let found = state.log.iter().enumerate().skip(usize::from(from.start.max(1)) - 1).filter(|(_, slot)| {
                let (writer, of, _) = self.writes[slot.write];
                !slot.is_copy && !slot.is_reset && writer == gateway && of == key && slot.epoch > from.epoch
            });
            let Some((at, slot)) = found.max_by_key(|(at, _)| *at) else { continue };
            let order = at as Position + 1;
            let known = here.index[key].filter(|known| known.order == order);
            if known.is_none() && slot.epoch <= own && self.wrong != Wrong::BringsBackForgotten {
                continue;
            }
            let early = here.early.iter().filter(|(_, moved)| moved.key == key && moved.order == order);
            let moved = early.fold(order, |place, (old, moved)| if place == *old { moved.place } else { place });
            let place = known.map_or(moved, |known| known.place);
            entries.push(Entry { key, order, epoch: here.present, place, is_delete: self.writes[slot.write].2 });
        }
        self.send_all(state, leader, &Message::Decided { gateway, entries: entries.clone() });
        self.decide(state, leader, gateway, &entries);
        debug_assert!(state.members[leader].decided & bit(gateway) != 0);
    }
}
