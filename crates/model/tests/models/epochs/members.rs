//! What every member does: writes, epochs, and following its leader.

use super::{Action, Collection, Entry, Epoch, Epochs, MAX_GATEWAYS, Mask, Message, Position, Slot, Stage, State, Wire, Wrong};
use super::{bit, each, has};

/// The place of a record wherever it stands.
const ANYWHERE: Position = 0;

impl Epochs {
    pub fn first_members(&self) -> Mask {
        (0..self.gateways).map(bit).sum()
    }

    pub fn members(&self, state: &State, member: usize) -> Mask {
        state.views[usize::from(state.members[member].view) - 1]
    }

    pub fn others(&self, state: &State, member: usize) -> Mask {
        self.members(state, member) & !bit(member)
    }

    /// Whether a gateway is in the newest view.
    pub fn lives(&self, state: &State, gateway: usize) -> bool {
        !has(state.removed, gateway)
    }

    pub fn write_actions(&self, state: &State, actions: &mut Vec<Action>) {
        for (index, (gateway, key, _)) in self.writes.iter().enumerate() {
            let is_done = |write: &usize| matches!(state.writes[*write], Stage::Done(_));
            let mut earlier = (0..index).filter(|earlier| self.writes[*earlier].0 == *gateway);
            match state.writes[index] {
                Stage::Idle => {
                    let waits = self.undecided(state, *gateway) & self.busy_writers(state, *key) != 0;
                    if self.lives(state, *gateway) && !waits && earlier.all(|earlier| is_done(&earlier)) {
                        actions.push(Action::Begin(index));
                    }
                }
                Stage::Begun(_) if !has(state.fenced, *gateway) => actions.push(Action::Land(index)),
                // Also of one that is removed and does not know: its record is found.
                Stage::Landed(..) => actions.push(Action::Acknowledge(index)),
                Stage::Begun(_) | Stage::Done(_) => {}
            }
        }
    }

    /// Gateways with a write of this key under way.
    fn busy_writers(&self, state: &State, key: usize) -> Mask {
        let busy = |write: &usize| matches!(state.writes[*write], Stage::Begun(_) | Stage::Landed(..));
        let of_key = (0..self.writes.len()).filter(|write| self.writes[*write].1 == key);
        of_key.filter(busy).fold(0, |mask, write| mask | bit(self.writes[write].0))
    }

    pub fn undecided(&self, state: &State, member: usize) -> Mask {
        let gone = self.first_members() & !self.members(state, member);
        gone & !state.members[member].decided
    }

    pub fn may_deliver(&self, state: &State, from: usize, to: usize) -> bool {
        let next = state.streams[from * MAX_GATEWAYS + to].first();
        let has_left = !has(self.members(state, to), from) && self.wrong != Wrong::HearsWhoLeft;
        self.lives(state, to) && !has_left && next.is_some_and(|wire| wire.view <= state.members[to].view)
    }

    pub fn member_actions(&self, state: &State, member: usize, actions: &mut Vec<Action>) {
        let here = &state.members[member];
        if self.may_follow(state, member) {
            actions.push(Action::Follow(member));
        }
        if let Some((_, goal)) = here.goal {
            if here.present < goal && self.is_drained(state, member, here.present - 1) {
                actions.push(Action::Advance(member));
            }
            let is_drained = self.is_drained(state, member, here.present - 1) || self.wrong == Wrong::ReportsBeforeDraining;
            if here.present >= goal && is_drained {
                actions.push(Action::Report(member));
            }
        }
        if usize::from(here.view) < state.views.len() {
            actions.push(Action::InstallView(member));
        }
    }

    /// Whether nothing of this epoch and before is under way at a member.
    pub fn is_drained(&self, state: &State, member: usize, epoch: Epoch) -> bool {
        let of_epoch = |write: usize| match state.writes[write] {
            Stage::Begun(begun) => begun <= epoch,
            Stage::Landed(begun, _) => begun <= epoch && self.wrong != Wrong::LeavesEarly,
            Stage::Idle | Stage::Done(_) => false,
        };
        let moves = matches!(state.members[member].collection, Collection::Copying(entry) if entry.epoch <= epoch);
        !moves && (0..self.writes.len()).all(|write| self.writes[write].0 != member || !of_epoch(write))
    }

    pub fn send(&self, state: &mut State, from: usize, to: usize, message: Message) {
        let view = match message {
            // Facts that count in any view.
            Message::Conclude(_) | Message::Installed(_) | Message::Decided { .. } => 0,
            _ => state.members[from].view,
        };
        state.streams[from * MAX_GATEWAYS + to].push(Wire { view, message });
    }

    pub fn send_all(&self, state: &mut State, from: usize, message: &Message) {
        for to in each(self.others(state, from)) {
            self.send(state, from, to, message.clone());
        }
    }

    pub fn land(&self, state: &mut State, write: usize) {
        let Stage::Begun(epoch) = state.writes[write] else { return };
        state.log.push(Slot { write, epoch, is_copy: false, is_reset: false });
        state.writes[write] = Stage::Landed(epoch, state.log.len() as Position);
    }

    pub fn acknowledge(&self, state: &mut State, write: usize) {
        let Stage::Landed(epoch, order) = state.writes[write] else { return };
        let (gateway, key, is_delete) = self.writes[write];
        let entry = Entry { key, order, epoch, place: order, is_delete };
        state.writes[write] = Stage::Done(order);
        self.publish(state, gateway, entry);
        self.send_all(state, gateway, &Message::Conclude(entry));
    }

    /// Takes an entry in if it is newer than what is known, and the moves of it that were told before.
    pub fn publish(&self, state: &mut State, member: usize, entry: Entry) {
        let here = &mut state.members[member];
        if here.index[entry.key].is_some_and(|known| known.order >= entry.order) {
            return;
        }
        here.index[entry.key] = Some(entry);
        here.names.push(entry);
        here.names.sort_unstable();
        let early: Vec<(Position, Entry)> = here.early.extract_if(.., |(_, moved)| moved.key == entry.key).collect();
        for (old, moved) in early {
            self.take_move(state, member, old, moved);
        }
    }

    /// Of a record that is known here, if it stands where it was; of one that is not, later.
    pub fn take_move(&self, state: &mut State, member: usize, old: Position, moved: Entry) {
        let here = &mut state.members[member];
        match here.index[moved.key] {
            Some(known) if known.order > moved.order => {}
            Some(known) if known.order == moved.order => {
                if old == ANYWHERE && known.place != moved.place {
                    here.moves.push((known.place, moved));
                }
                if known.place == old || old == ANYWHERE && known.place != moved.place {
                    here.index[moved.key] = Some(moved);
                    here.names.push(moved);
                    here.names.sort_unstable();
                    if self.wrong == Wrong::NotesWhenApplied {
                        here.moves.push((old, moved));
                    }
                }
            }
            _ => here.early.push((old, moved)),
        }
    }

    /// It is told again in the next view, applied or not.
    pub fn hear_of_move(&self, state: &mut State, member: usize, old: Position, moved: Entry) {
        if self.wrong != Wrong::NotesWhenApplied {
            state.members[member].moves.push((old, moved));
        }
    }

    pub fn receive(&self, state: &mut State, from: usize, to: usize, Wire { view, message }: Wire) {
        let is_old = view != 0 && view < state.members[to].view;
        match message {
            Message::Conclude(entry) => self.publish(state, to, entry),
            Message::BeginEpoch(epoch) if !is_old => state.members[to].goal = Some((view, epoch)),
            Message::EpochBegun(epoch) => {
                let begun = &mut state.members[to].begun[from];
                *begun = epoch.max(*begun);
            }
            Message::Installed(_) => state.members[to].following.push((from, message)),
            Message::Relocated { old, entry } if !is_old => {
                self.hear_of_move(state, to, old, entry);
                let leads = each(self.members(state, to)).next() == Some(from);
                let is_fresh = self.moves_again && leads && has(state.members[to].carried, from);
                let old = if is_fresh { ANYWHERE } else { old };
                state.members[to].following.push((from, Message::Relocated { old, entry }));
            }
            Message::Retire if !is_old => state.members[to].following.push((from, message)),
            Message::Retired if !is_old => {
                if let Collection::Retiring(_, missing) = &mut state.members[to].collection {
                    *missing &= !bit(from);
                }
            }
            Message::Carried { present, installed } if !is_old => {
                let here = &mut state.members[to];
                here.carried |= bit(from);
                (here.present_of[from], here.installed_of[from]) = (present, installed);
            }
            Message::Decided { gateway, entries } => self.decide(state, to, gateway, &entries),
            Message::BeginEpoch(_)
            | Message::Relocated { .. }
            | Message::Retire
            | Message::Retired
            | Message::Carried { .. } => {}
        }
    }

    /// A manifest is taken over when everything that it covers is known here.
    fn may_follow(&self, state: &State, member: usize) -> bool {
        let here = &state.members[member];
        let has_ended = |epoch: Epoch| each(self.others(state, member)).all(|other| here.begun[other] > epoch);
        match here.following.first() {
            Some((_, Message::Installed(number))) => *number <= here.installed || has_ended(state.manifests[*number].epoch),
            Some(_) => true,
            None => false,
        }
    }

    pub fn follow(&self, state: &mut State, member: usize) {
        let (from, message) = state.members[member].following.remove(0);
        match message {
            Message::Installed(number) => self.adopt(state, member, number),
            Message::Relocated { old, entry } => self.take_move(state, member, old, entry),
            Message::Retire => self.send(state, member, from, Message::Retired),
            _ => unreachable!("only what changes places is followed"),
        }
    }

    /// What a manifest has is saved; its tombstones that are old enough are forgotten.
    pub fn adopt(&self, state: &mut State, member: usize, number: usize) {
        let here = &mut state.members[member];
        if number <= here.installed {
            return;
        }
        let covered = state.manifests[number].epoch;
        here.installed = number;
        here.names.retain(|entry| entry.epoch > covered);
        here.moves.retain(|(_, entry)| entry.epoch > covered);
        here.early.retain(|(_, entry)| entry.epoch > covered);
        for entry in &mut here.index {
            if entry.is_some_and(|entry| self.is_forgotten(&entry, covered)) {
                *entry = None;
            }
        }
    }

    pub fn is_forgotten(&self, entry: &Entry, covered: Epoch) -> bool {
        entry.is_delete && entry.epoch + self.tombstone_epochs <= covered
    }

    pub fn report(&self, state: &mut State, member: usize) {
        let here = &mut state.members[member];
        here.goal = None;
        let present = here.present;
        self.send_all(state, member, &Message::EpochBegun(present));
    }

    pub fn install_view(&self, state: &mut State, member: usize) {
        let view = state.views.len() as u8;
        let here = &mut state.members[member];
        here.view = view;
        if self.wrong != Wrong::AdvancesForOldViews {
            here.goal = None;
        }
        here.carried = bit(member);
        here.checkpoint = super::Checkpoint::None;
        if let Collection::Retiring(..) = here.collection {
            here.collection = Collection::None;
        }
        let (present, moves) = (here.present, here.moves.clone());
        let installed = state.manifests[here.installed].epoch;
        if self.wrong != Wrong::ToldOnce {
            for (old, entry) in moves {
                self.send_all(state, member, &Message::Relocated { old, entry });
            }
            if self.wrong == Wrong::ToldBeforeHello {
                // Nothing that waits for the view stands before them.
                state.streams.iter_mut().skip(member * MAX_GATEWAYS).take(MAX_GATEWAYS).flatten().for_each(|wire| {
                    if let Message::Relocated { .. } = wire.message {
                        wire.view = 0;
                    }
                });
            }
        }
        self.send_all(state, member, &Message::Carried { present, installed });
    }

    /// All members hold the same places of what a removed gateway wrote.
    pub fn decide(&self, state: &mut State, member: usize, gateway: usize, entries: &[Entry]) {
        state.members[member].decided |= bit(gateway);
        for entry in entries {
            let here = &mut state.members[member];
            let known = here.index[entry.key].filter(|known| known.order == entry.order);
            match known {
                Some(known) if known.place != entry.place => {
                    here.moves.retain(|(_, moved)| moved.key != entry.key);
                    here.early.retain(|(_, moved)| moved.key != entry.key);
                    here.index[entry.key] = Some(*entry);
                    here.names.push(*entry);
                    here.names.sort_unstable();
                }
                Some(_) => {}
                None => self.publish(state, member, *entry),
            }
        }
    }
}
