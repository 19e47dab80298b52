//! What each action does; nothing if it can't be taken.

use super::{Change, Copies, Kind, Message, Node, Rebuild, Reign, Stage, State, Version, Wrong, bit, has};

impl Reign {
    /// One that can't do anything any more.
    fn over(primary: Node) -> Reign {
        Reign {
            primary,
            entered: 0,
            sessions: [0; 3],
            is_serving: false,
            in_sync: 0,
            is_open: false,
            change: None,
            rebuild: Rebuild::None,
        }
    }
}

impl State {
    fn newest(&self) -> Option<usize> {
        self.reigns.len().checked_sub(1)
    }
}

impl Copies {
    pub(super) fn elect(&self, state: &mut State, node: Node) -> Option<()> {
        let leads = state.reigns.last().is_some_and(|reign| reign.primary == node);
        let may_lead = has(state.record.in_sync, node) || self.wrong == Wrong::OutsidersLead;
        if state.reigns.len() == self.reigns || leads || !may_lead {
            return None;
        }
        let (in_sync, is_open) = (state.record.in_sync, state.record.is_open);
        // It enters its own copy first.
        self.promise(state, state.reigns.len(), node, 0)?;
        state.reigns.push(Reign {
            primary: node,
            entered: bit(node),
            sessions: [0; 3],
            is_serving: false,
            in_sync,
            is_open,
            change: None,
            rebuild: Rebuild::None,
        });
        Some(())
    }

    /// What no copy admits any more is as if it had been lost, and a primary that no copy obeys is as if it had ended.
    pub(super) fn forget_dead(&self, state: &mut State) {
        if matches!(self.wrong, Wrong::KeepsItsSession | Wrong::DoesNotEnter | Wrong::ForgetsPromises) {
            return;
        }
        let promises = state.promises;
        let is_dead =
            |message: &Message| message.stage == Stage::InFlight && promises[message.to] > (message.reign + 1, message.session);
        state.messages.retain(|message| !is_dead(message));
        let deposed = state.reigns.len() - 1;
        for (at, reign) in state.reigns[..deposed].iter_mut().enumerate() {
            let is_admitted = |message: &Message| message.reign == at;
            let is_powerless = promises.iter().all(|promise| promise.0 > at + 1) && !state.messages.iter().any(is_admitted);
            // A change that all have may still be acknowledged.
            let is_whole = reign.change.is_some_and(|change| change.needs & !change.has == 0);
            if is_powerless && !is_whole && self.wrong == Wrong::Nothing {
                *reign = Reign::over(reign.primary);
            }
        }
    }

    /// Older reigns may come too late for this: the copy's own member of the group knows the newest one, as soon as that has entered it.
    pub(super) fn enter(&self, state: &mut State, reign: usize, node: Node) -> Option<()> {
        let session = state.reigns[reign].sessions[node];
        let is_first = !has(state.reigns[reign].entered, node);
        if !is_first
            || state.promises[node] > (reign + 1, session)
            || self.wrong == Wrong::DoesNotEnter && node != state.reigns[reign].primary
        {
            return None;
        }
        self.promise(state, reign, node, session)?;
        state.reigns[reign].entered |= bit(node);
        Some(())
    }

    fn promise(&self, state: &mut State, reign: usize, node: Node, session: u8) -> Option<()> {
        let is_admitted = |message: &Message| message.to == node && message.stage == Stage::Admitted;
        if self.wrong != Wrong::DoesNotDrain && state.messages.iter().any(is_admitted) {
            return None;
        }
        state.promises[node] = (reign + 1, session);
        Some(())
    }

    /// All copies in sync were entered. They are aligned, where the record says that they may differ, and that is settled.
    pub(super) fn serve(&self, state: &mut State) -> Option<()> {
        let at = state.newest()?;
        let reign = &state.reigns[at];
        let needs = if self.wrong == Wrong::DoesNotEnter { bit(reign.primary) } else { state.record.in_sync };
        if reign.is_serving || reign.entered & needs != needs {
            return None;
        }
        if state.record.is_open && self.wrong != Wrong::DoesNotAlign {
            let own = state.copies[reign.primary];
            let in_sync = state.record.in_sync;
            (0..3).filter(|node| has(in_sync, *node)).for_each(|node| state.copies[node] = own);
        }
        state.record.is_open = false;
        let reign = &mut state.reigns[at];
        (reign.is_serving, reign.is_open) = (true, false);
        Some(())
    }

    pub(super) fn open(&self, state: &mut State) -> Option<()> {
        let at = state.newest()?;
        if !state.reigns[at].is_serving {
            return None;
        }
        state.record.is_open = self.wrong != Wrong::OpensNothing;
        state.reigns[at].is_open = true;
        Some(())
    }

    pub(super) fn settle(&self, state: &mut State) -> Option<()> {
        let at = state.newest()?;
        let reign = &mut state.reigns[at];
        if !reign.is_serving || !reign.is_open || reign.change.is_some() && self.wrong != Wrong::SettlesEarly {
            return None;
        }
        state.record.is_open = false;
        // The one that is under way goes on.
        reign.is_open = reign.change.is_some();
        Some(())
    }

    /// What a change makes of a copy; none where a copy refuses it.
    fn changed(&self, copy: Version, version: Version) -> Option<Version> {
        match self.kind {
            Kind::Overwrite => Some(version),
            Kind::Append if version > copy + 1 => None,
            Kind::Append => Some(copy.max(version)),
        }
    }

    pub(super) fn begin(&self, state: &mut State, at: usize) -> Option<()> {
        let version = if state.is_waiting { state.last } else { state.last + 1 };
        let reign = &mut state.reigns[at];
        let is_held = matches!(reign.rebuild, Rebuild::Read(..)) && self.wrong != Wrong::CopiesWithoutLock;
        if version > self.versions || !reign.is_serving || !reign.is_open || reign.change.is_some() || is_held {
            return None;
        }
        // Its own copy refuses what is older than the promise that it has made.
        let primary = reign.primary;
        if state.promises[primary].0 > at + 1 {
            return None;
        }
        let changed = self.changed(state.copies[primary], version)?;
        let mut needs = reign.in_sync;
        if let Rebuild::Copied(node) = reign.rebuild {
            needs |= bit(node);
        }
        reign.change = Some(Change { version, needs, has: bit(primary) });
        state.copies[primary] = changed;
        (state.last, state.is_waiting) = (version, true);
        let sessions = reign.sessions;
        for to in (0..3).filter(|node| has(needs, *node) && *node != primary) {
            state.messages.push(Message { to, reign: at, session: sessions[to], version, stage: Stage::InFlight });
        }
        Some(())
    }

    /// Enters a copy anew, and sends it again what has no answer.
    pub(super) fn send_again(&self, state: &mut State, at: usize, node: Node) -> Option<()> {
        let reign = &state.reigns[at];
        let change = reign.change?;
        let session = reign.sessions[node] + 1;
        let waits = has(change.needs & !change.has, node) && node != reign.primary;
        if !waits || session > self.sessions || state.promises[node].0 > at + 1 {
            return None;
        }
        let keeps = self.wrong == Wrong::KeepsItsSession;
        if !keeps {
            self.promise(state, at, node, session)?;
        }
        state.reigns[at].sessions[node] = session;
        let told = if keeps { 0 } else { session };
        state.messages.push(Message { to: node, reign: at, session: told, version: change.version, stage: Stage::InFlight });
        Some(())
    }

    pub(super) fn admit(&self, state: &mut State, at: usize) -> Option<()> {
        let message = &mut state.messages[at];
        let promised = state.promises[message.to];
        let is_obeyed = promised == (message.reign + 1, message.session)
            || self.wrong == Wrong::KeepsItsSession && promised.0 == message.reign + 1;
        let is_obeyed = is_obeyed || self.wrong == Wrong::DoesNotEnter && promised.0 <= message.reign + 1;
        if message.stage != Stage::InFlight || !is_obeyed {
            return None;
        }
        message.stage = Stage::Admitted;
        if self.admits { Some(()) } else { self.apply(state, at) }
    }

    pub(super) fn apply(&self, state: &mut State, at: usize) -> Option<()> {
        let message = state.messages[at];
        if message.stage != Stage::Admitted {
            return None;
        }
        state.messages.remove(at);
        // One that refuses an append gives no good answer.
        if let Some(changed) = self.changed(state.copies[message.to], message.version) {
            state.copies[message.to] = changed;
            if let Some(change) = state.reigns[message.reign].change.as_mut().filter(|change| change.version == message.version)
            {
                change.has |= bit(message.to);
            }
        }
        Some(())
    }

    pub(super) fn complete(&self, state: &mut State, at: usize) -> Option<()> {
        let reign = &mut state.reigns[at];
        let change = reign.change?;
        let mut needs = change.needs & reign.in_sync;
        if let Rebuild::Copied(node) = reign.rebuild {
            needs |= change.needs & bit(node);
        }
        let lacks = (needs & !change.has).count_ones();
        if lacks > u32::from(self.wrong == Wrong::AcknowledgesBeforeLeave) {
            return None;
        }
        reign.change = None;
        if state.is_waiting && change.version == state.last {
            (state.acknowledged, state.is_waiting) = (change.version, false);
        }
        Some(())
    }

    pub(super) fn give_up(&self, state: &mut State) -> Option<()> {
        state.is_waiting.then(|| state.is_waiting = false)
    }

    pub(super) fn leave(&self, state: &mut State, node: Node) -> Option<()> {
        let at = state.newest()?;
        let least = if self.wrong == Wrong::LeavesOne { 2 } else { 3 };
        let reign = &mut state.reigns[at];
        let is_bound = reign.sessions[node] > self.sessions;
        if is_bound || reign.primary == node || !has(state.record.in_sync, node) || state.record.in_sync.count_ones() < least {
            return None;
        }
        state.record.in_sync &= !bit(node);
        reign.in_sync = state.record.in_sync;
        // What it is sent no more is refused by the next session.
        reign.entered &= !bit(node);
        reign.sessions[node] += 1;
        Some(())
    }

    pub(super) fn read(&self, state: &mut State, at: usize) -> Option<()> {
        let reign = &state.reigns[at];
        let has_lease = Some(at) == state.newest() || self.wrong == Wrong::ReadsWithoutLease;
        let is_changing = reign.change.is_some() && self.wrong != Wrong::ReadsWhatIsUnderWay;
        if !reign.is_serving || !has_lease || is_changing {
            return None;
        }
        let found = state.copies[reign.primary];
        state.is_taken_back |= found < state.seen.max(state.acknowledged);
        state.seen = state.seen.max(found);
        Some(())
    }

    /// Takes the lock of the extent and reads it. A change that waits for a copy has ended at the primary's own: it is among what is read.
    pub(super) fn rebuild_read(&self, state: &mut State, node: Node) -> Option<()> {
        let at = state.newest()?;
        let reign = &mut state.reigns[at];
        let is_out = !has(state.record.in_sync, node) && has(reign.entered, node);
        if !self.rebuilds || !reign.is_serving || !is_out || reign.rebuild != Rebuild::None {
            return None;
        }
        reign.rebuild = Rebuild::Read(node, state.copies[reign.primary]);
        Some(())
    }

    pub(super) fn rebuild_write(&self, state: &mut State, at: usize) -> Option<()> {
        let Rebuild::Read(node, version) = state.reigns[at].rebuild else { return None };
        if state.promises[node] != (at + 1, state.reigns[at].sessions[node]) {
            return None;
        }
        state.copies[node] = version;
        state.reigns[at].rebuild = Rebuild::Copied(node);
        Some(())
    }

    pub(super) fn join(&self, state: &mut State) -> Option<()> {
        let at = state.newest()?;
        let reign = &mut state.reigns[at];
        let Rebuild::Copied(node) = reign.rebuild else { return None };
        state.record.in_sync |= bit(node);
        (reign.in_sync, reign.rebuild) = (state.record.in_sync, Rebuild::None);
        Some(())
    }

    /// What was admitted is lost. Its log knows the term.
    pub(super) fn restart(&self, state: &mut State, node: Node) -> Option<()> {
        state.messages.retain(|message| message.to != node || message.stage == Stage::InFlight);
        if self.wrong == Wrong::ForgetsPromises {
            state.promises[node] = (0, 0);
        }
        Some(())
    }
}
