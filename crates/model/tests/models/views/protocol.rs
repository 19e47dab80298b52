//! What gateways tell each other: writes, reads, freezes.

use super::{Frozen, Gateway, MAX_GATEWAYS, Mask, Order, PendingRead, Stage, State, Views, Wrong, bit, each, has};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Message {
    Announce(usize),
    Announced(usize),
    Conclude {
        write: usize,
        order: Order,
    },
    Ask,
    Told {
        newest: Order,
    },
    FreezeAsk(usize),
    Freeze(usize),
    Frozen {
        write: usize,
        newest: Order,
    },
    /// A freeze that its sender holds in the new view.
    Carry(usize),
    /// All freezes that the sender holds have been told; to one that joins, also the sender's map.
    Carried {
        newest: Order,
    },
    Recovered(usize),
    AllRecovered,
    RecoveredHeld,
    Decided(Mask),
}

/// A message with the view that its sender had installed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Wire {
    pub view: u8,
    pub message: Message,
}

impl Views {
    pub fn members(&self, state: &State, gateway: usize) -> Mask {
        state.views[usize::from(state.gateways[gateway].view) - 1]
    }

    pub fn others(&self, state: &State, gateway: usize) -> Mask {
        self.members(state, gateway) & !bit(gateway)
    }

    /// Gateways that the installed view of this one has left out and that it has no decision of.
    pub fn undecided(&self, state: &State, gateway: usize) -> Mask {
        state.removed & !self.members(state, gateway) & !state.gateways[gateway].decided
    }

    /// Whether a removed gateway's write of the key is in flight here.
    pub fn waits_for_decision(&self, state: &State, gateway: usize) -> bool {
        let here = &state.gateways[gateway];
        (here.announced & self.writes_of(self.undecided(state, gateway))) | here.held != 0
    }

    fn home(&self, state: &State, gateway: usize) -> usize {
        let members: Vec<usize> = each(self.members(state, gateway)).collect();
        members[self.key % members.len()]
    }

    pub fn send(&self, state: &mut State, from: usize, to: usize, message: Message) {
        let wire = Wire { view: state.gateways[from].view, message };
        let stream = &mut state.streams[from * MAX_GATEWAYS + to];
        let overtakes = matches!(message, Message::AllRecovered | Message::Decided(_));
        let at = if overtakes && self.wrong == Wrong::DecidesOnAnotherStream { 0 } else { stream.len() };
        stream.insert(at, wire);
    }

    pub fn send_all(&self, state: &mut State, from: usize, message: Message) {
        for to in each(self.others(state, from)) {
            self.send(state, from, to, message);
        }
    }

    /// The write of this gateway that is freezing or writing.
    pub fn active(&self, state: &State, gateway: usize) -> Option<usize> {
        let is_active = |stage: &Stage| matches!(stage, Stage::Freezing { .. } | Stage::Writing { .. });
        (0..self.writes.len()).find(|write| self.writer(*write) == gateway && is_active(&state.writes[*write].stage))
    }

    pub fn is_writing(&self, state: &State, gateway: usize) -> bool {
        self.active(state, gateway).is_some_and(|write| matches!(state.writes[write].stage, Stage::Writing { .. }))
    }

    pub fn next_turn(&self, state: &mut State, gateway: usize) {
        if self.active(state, gateway).is_some() {
            return;
        }
        let queued = |write: &usize| self.writer(*write) == gateway && state.writes[*write].stage == Stage::Queued;
        let Some(write) = (0..self.writes.len()).find(queued) else { return };
        if self.is_conditional(write) {
            state.writes[write].stage = Stage::Freezing { answered: 0, learned: 0 };
            return self.ask_home(state, write);
        }
        let here = &state.gateways[gateway];
        let new = !self.has_joined(state, gateway) && self.wrong != Wrong::JoinsWithoutFreezes;
        if !here.frozen.iter().any(|frozen| frozen.answered) && self.may_start(state, gateway) && !new {
            self.dispatch(state, write, 0);
        }
    }

    /// Whether a gateway knows what every member knows; only one that joined a moment ago does not.
    pub fn has_joined(&self, state: &State, gateway: usize) -> bool {
        let (here, members) = (&state.gateways[gateway], self.members(state, gateway));
        let decided = self.undecided(state, gateway) == 0 || self.wrong == Wrong::JoinsUndecided;
        gateway != self.gateways || here.lease || here.carried & members == members && decided
    }

    fn may_start(&self, state: &State, gateway: usize) -> bool {
        !self.waits_for_decision(state, gateway) || self.wrong == Wrong::StartsUndecided
    }

    fn dispatch(&self, state: &mut State, write: usize, learned: Order) {
        let gateway = self.writer(write);
        state.writes[write].stage = Stage::Writing { heard: 0 };
        state.writes[write].base = learned.max(state.gateways[gateway].newest);
        self.send_all(state, gateway, Message::Announce(write));
    }

    pub fn receive(&self, state: &mut State, from: usize, to: usize, wire: Wire) {
        let is_old = wire.view < state.gateways[to].view && self.wrong != Wrong::OldAnswersCount;
        match wire.message {
            Message::Announce(write) if !is_old => {
                state.gateways[to].announced |= bit(write);
                self.send(state, to, from, Message::Announced(write));
            }
            Message::Announced(write) if !is_old => {
                if let Stage::Writing { heard } = &mut state.writes[write].stage {
                    *heard |= bit(from);
                }
                self.conclude(state, write);
            }
            Message::Conclude { write, order } => {
                state.gateways[to].announced &= !bit(write);
                state.gateways[to].newest = order.max(state.gateways[to].newest);
                self.released(state, to, write);
            }
            // An answer that waits until every member has heard of the asked gateway's write is one that was asked for later.
            Message::Ask => {
                let newest = state.gateways[to].newest;
                self.send(state, to, from, Message::Told { newest });
            }
            Message::Told { newest } => self.told(state, to, bit(from), newest),
            Message::FreezeAsk(write) if !is_old => self.asked(state, to, write),
            Message::Freeze(write) if !is_old => self.freeze(state, to, write),
            Message::Frozen { write, newest } if !is_old => self.frozen(state, from, write, newest),
            Message::Carry(write) if !is_old => self.carry(state, to, write),
            Message::Carried { newest } if !is_old => self.carried(state, from, to, newest),
            Message::Recovered(write) => self.recovered(state, to, write),
            Message::AllRecovered if !is_old => {
                state.gateways[to].owes = Some(from);
                self.answer_recovery(state, to);
            }
            Message::RecoveredHeld if !is_old => self.recovery_held(state, to, from),
            Message::Decided(gateways) => self.decided(state, to, gateways),
            _ => {}
        }
    }

    /// Acknowledges a write that is complete.
    pub fn conclude(&self, state: &mut State, index: usize) {
        let gateway = self.writer(index);
        let write = &mut state.writes[index];
        let Stage::Writing { heard } = write.stage else { return };
        let durable = write.order > 0 && write.on_second;
        let order = write.order;
        let others = self.others(state, gateway);
        if !durable || heard & others != others {
            return;
        }
        state.writes[index].stage = Stage::Done;
        state.writes[index].known = true;
        state.floor = order.max(state.floor);
        let newest = &mut state.gateways[gateway].newest;
        *newest = order.max(*newest);
        self.send_all(state, gateway, Message::Conclude { write: index, order });
        self.released(state, gateway, index);
        self.answer_recovery(state, gateway);
    }

    fn released(&self, state: &mut State, member: usize, write: usize) {
        state.gateways[member].frozen.retain(|frozen| frozen.write != write);
        if state.gateways[member].holder == Some(write) {
            state.gateways[member].holder = None;
            self.grant(state, member);
        }
        self.go_on(state, member);
    }

    pub fn go_on(&self, state: &mut State, member: usize) {
        self.answer_freeze(state, member);
        if let Some(write) = self.active(state, member) {
            self.dispatch_frozen(state, write);
        }
        self.next_turn(state, member);
    }

    pub fn read(&self, state: &mut State, gateway: usize) {
        state.reads_left -= 1;
        let here = &state.gateways[gateway];
        let missing: Mask = each(here.announced | here.held).map(|write| bit(self.writer(write))).fold(0, |all, one| all | one);
        let (newest, floor) = (here.newest, state.floor);
        if missing == 0 {
            return self.answer_read(state, floor, newest);
        }
        state.gateways[gateway].read = Some(PendingRead { floor, missing, newest });
        for to in each(missing & self.members(state, gateway)) {
            self.send(state, gateway, to, Message::Ask);
        }
    }

    /// Somebody has answered, or will not be asked any more.
    pub fn told(&self, state: &mut State, gateway: usize, by: Mask, newest: Order) {
        let Gateway { read, newest: own, lease, .. } = &mut state.gateways[gateway];
        let Some(pending) = read else { return };
        pending.newest = newest.max(pending.newest);
        pending.missing &= !by;
        if pending.missing == 0 {
            let (floor, newest) = (pending.floor, pending.newest.max(*own));
            *read = None;
            // Without a lease it is a 503.
            if *lease {
                self.answer_read(state, floor, newest);
            }
        }
    }

    fn answer_read(&self, state: &mut State, floor: Order, newest: Order) {
        state.stale |= newest < floor;
        state.floor = newest.max(state.floor);
        state.writes.iter_mut().filter(|write| write.order == newest && newest > 0).for_each(|write| write.known = true);
    }

    pub fn ask_home(&self, state: &mut State, write: usize) {
        let gateway = self.writer(write);
        let home = self.home(state, gateway);
        if home == gateway {
            self.asked(state, home, write);
        } else {
            self.send(state, gateway, home, Message::FreezeAsk(write));
        }
    }

    fn asked(&self, state: &mut State, home: usize, write: usize) {
        state.gateways[home].waiting.push(write);
        self.grant(state, home);
    }

    fn grant(&self, state: &mut State, home: usize) {
        let members = self.members(state, home);
        let here = &mut state.gateways[home];
        if here.holder.is_some() || here.waiting.is_empty() || here.carried & members != members {
            return;
        }
        let write = here.waiting.remove(0);
        here.holder = Some(write);
        self.send_all(state, home, Message::Freeze(write));
        self.freeze(state, home, write);
    }

    fn freeze(&self, state: &mut State, member: usize, write: usize) {
        let Gateway { view, newest, frozen, .. } = &mut state.gateways[member];
        if self.writer(write) == member {
            let newest = *newest;
            return self.frozen(state, member, write, newest);
        }
        let view = *view;
        match frozen.iter_mut().find(|frozen| frozen.write == write) {
            Some(known) => *known = Frozen { write, answered: false, view },
            None => frozen.push(Frozen { write, answered: false, view }),
        }
        self.next_turn(state, member);
        self.answer_freeze(state, member);
    }

    fn answer_freeze(&self, state: &mut State, member: usize) {
        if self.is_writing(state, member) {
            return;
        }
        let Gateway { newest, frozen, .. } = &mut state.gateways[member];
        let Some(first) = frozen.first_mut().filter(|first| !first.answered) else { return };
        first.answered = true;
        let (write, newest) = (first.write, *newest);
        self.send(state, member, self.writer(write), Message::Frozen { write, newest });
    }

    fn frozen(&self, state: &mut State, from: usize, write: usize, told: Order) {
        let Stage::Freezing { answered, learned } = &mut state.writes[write].stage else { return };
        *answered |= bit(from);
        *learned = told.max(*learned);
        self.dispatch_frozen(state, write);
    }

    fn dispatch_frozen(&self, state: &mut State, write: usize) {
        let gateway = self.writer(write);
        let all = self.members(state, gateway);
        let Stage::Freezing { answered, learned } = state.writes[write].stage else { return };
        let stopped = state.gateways[gateway].frozen.iter().any(|frozen| frozen.answered);
        let waits = stopped && self.wrong != Wrong::HoldersDoNotStop;
        if answered & all == all && self.may_start(state, gateway) && !waits {
            self.dispatch(state, write, learned);
        }
    }

    /// Whoever joins gets a lease when it has every member's map and knows what they know.
    pub fn lend(&self, state: &mut State, member: usize) {
        state.gateways[member].lease |=
            member == self.gateways && !has(state.removed, member) && self.has_joined(state, member);
    }

    /// A member holds this freeze in the present view.
    fn carry(&self, state: &mut State, member: usize, write: usize) {
        let home = self.home(state, member);
        let here = &mut state.gateways[member];
        here.frozen.retain(|frozen| frozen.write != write);
        here.frozen.insert(0, Frozen { write, answered: true, view: here.view });
        if home == member {
            here.holder = Some(write);
        }
    }

    /// A member has told all that it holds: what else was answered to it in an older view is over.
    fn carried(&self, state: &mut State, from: usize, member: usize, newest: Order) {
        let here = &mut state.gateways[member];
        let view = here.view;
        here.carried |= bit(from);
        here.frozen.retain(|frozen| self.writer(frozen.write) != from || frozen.view == view);
        if member == self.gateways {
            here.newest = newest.max(here.newest);
        }
        self.lend(state, member);
        self.grant(state, member);
        self.go_on(state, member);
    }
}
