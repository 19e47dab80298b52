//! What happens in each step.

use super::{Action, At, FailedWrites, GENERATION, Kind, MAX_GATEWAYS, Mask, Message, Order, Outcome, Record, Stage, State};
use super::{View, Wire, Wrong, bit, each, has};

impl FailedWrites {
    pub fn present(&self, state: &State) -> View {
        *state.views.last().expect("there is a first view")
    }

    fn view_of(&self, state: &State, gateway: usize) -> View {
        state.views[usize::from(state.gateways[gateway].view) - 1]
    }

    fn others(&self, state: &State, gateway: usize) -> Mask {
        self.view_of(state, gateway).members & !bit(gateway)
    }

    /// Whether a gateway takes calls: after everything has died the one that founds does, under every name.
    pub fn serves(&self, state: &State, gateway: usize) -> bool {
        has(self.present(state).members, gateway) || state.founded.is_some()
    }

    fn writer(&self, state: &State, record: usize) -> usize {
        self.calls[state.records[record].call].0
    }

    fn records_of(&self, state: &State, gateway: usize) -> Mask {
        (0..state.records.len()).filter(|record| self.writer(state, *record) == gateway).map(bit).sum()
    }

    fn is_conditional(&self, call: usize) -> bool {
        self.calls[call].1 == Kind::PutIfAbsent
    }

    /// The call of a gateway that writes.
    fn writing(&self, state: &State, gateway: usize) -> Option<usize> {
        let is_writing = |call: &usize| matches!(state.calls[*call].stage, Stage::Writing { .. });
        (0..self.calls.len()).find(|call| self.calls[*call].0 == gateway && is_writing(call))
    }

    /// Whether no write may start here: a removed gateway's is undecided.
    fn must_wait(&self, state: &State, gateway: usize) -> bool {
        let gone = !self.view_of(state, gateway).members & self.first_members();
        !state.is_decided && each(gone).any(|gone| state.gateways[gateway].announced & self.records_of(state, gone) != 0)
    }

    fn first_members(&self) -> Mask {
        (0..self.gateways).map(bit).sum()
    }

    fn may_start(&self, state: &State, call: usize) -> bool {
        let gateway = self.calls[call].0;
        let is_frozen = state.freeze.is_some_and(|holder| holder != call);
        state.calls[call].stage == Stage::Queued
            && self.writing(state, gateway).is_none()
            && (self.is_conditional(call) || !is_frozen && !self.must_wait(state, gateway))
    }

    /// Every member has stopped writing, and nothing is undecided.
    fn may_freeze(&self, state: &State, call: usize) -> bool {
        let members = self.view_of(state, self.calls[call].0).members;
        let stopped = each(members).all(|member| {
            self.serves(state, member) && self.writing(state, member).is_none() && !self.must_wait(state, member)
        });
        let holder = state.freeze.is_none_or(|holder| holder == call);
        state.calls[call].stage == Stage::Freezing && holder && stopped
    }

    pub fn write_actions(&self, state: &State, actions: &mut Vec<Action>) {
        for call in (0..self.calls.len()).filter(|call| self.serves(state, self.calls[*call].0)) {
            if self.may_start(state, call) {
                actions.push(Action::Start(call));
            }
            if self.may_freeze(state, call) {
                actions.push(Action::Freeze(call));
            }
            match state.calls[call].stage {
                Stage::Writing { is_durable: false, has_failed: false, .. } if state.failures_left > 0 => {
                    actions.push(Action::Fail(call));
                }
                Stage::Writing { record, has_failed: true, .. } if self.may_settle(state, record) => {
                    actions.push(Action::Settle(call))
                }
                Stage::Failed => actions.extend([Action::TryAgain(call), Action::GiveUp(call)]),
                _ => {}
            }
        }
    }

    pub fn record_actions(&self, state: &State, actions: &mut Vec<Action>) {
        for (index, record) in state.records.iter().enumerate() {
            let waits = matches!(state.calls[record.call].stage, Stage::Writing { record, is_durable: false, has_failed: false, .. } if record == index);
            let is_late = self.wrong == Wrong::PublishesLateAnswers && !self.is_concluded(state, index);
            match record.at {
                At::OnTheWay => actions.push(Action::Land(index)),
                At::Landed(_) if (waits || is_late) && self.serves(state, self.writer(state, index)) => {
                    actions.push(Action::Answer(index));
                }
                At::Landed(_) | At::Never => {}
            }
        }
    }

    /// Whether its gateway has published this record, or something newer.
    fn is_concluded(&self, state: &State, record: usize) -> bool {
        matches!(state.records[record].at, At::Landed(order) if state.gateways[self.writer(state, record)].newest >= order)
    }

    pub fn cell_actions(&self, state: &State, actions: &mut Vec<Action>) {
        let present = self.present(state);
        if self.removes.is_some_and(|gateway| has(present.members, gateway)) {
            actions.push(Action::Remove);
        }
        if self.changes_table && present.generation == 0 {
            actions.push(Action::ChangeTable);
        }
        let current = state.views.len() as u8;
        let behind = |gateway: &usize| state.gateways[*gateway].view < current;
        actions.extend(each(present.members).filter(behind).map(Action::Install));
        if present.members.count_ones() as usize == self.gateways || state.is_decided {
            return;
        }
        if !state.is_fenced {
            actions.push(Action::Fence);
        } else if self.may_decide(state) {
            actions.push(Action::Decide);
        }
    }

    /// Every member has the view, and none that writes under a freeze would be passed by what was recovered.
    fn may_decide(&self, state: &State) -> bool {
        let current = state.views.len() as u8;
        let swaps = |gateway: usize| self.writing(state, gateway).is_some_and(|call| self.is_conditional(call));
        let found = self.recovered(state).is_some();
        each(self.present(state).members).all(|member| state.gateways[member].view == current && !(found && swaps(member)))
    }

    pub fn may_deliver(&self, state: &State, from: usize, to: usize) -> bool {
        let next = state.streams[from * MAX_GATEWAYS + to].first();
        has(self.present(state).members, to) && next.is_some_and(|wire| wire.view <= state.gateways[to].view)
    }

    pub fn call(&self, state: &mut State, call: usize) {
        let answered = |stage: &Stage| matches!(stage, Stage::Done(outcome) if *outcome != Outcome::Unknown);
        let after = (0..self.calls.len()).filter(|other| answered(&state.calls[*other].stage)).map(bit).sum();
        state.calls[call].after = after;
        state.calls[call].stage = if self.calls[call].1 == Kind::Get { Stage::Reading } else { Stage::Queued };
    }

    pub fn start(&self, state: &mut State, call: usize) {
        match self.is_conditional(call) {
            true => state.calls[call].stage = Stage::Freezing,
            false => self.dispatch(state, call),
        }
    }

    pub fn freeze(&self, state: &mut State, call: usize) {
        let members = self.view_of(state, self.calls[call].0).members;
        let newest = each(members).map(|member| state.gateways[member].newest).max().unwrap_or(0);
        if newest != 0 {
            state.freeze = None;
            return self.end(state, call, Outcome::Refused);
        }
        state.freeze = Some(call);
        self.dispatch(state, call);
    }

    fn dispatch(&self, state: &mut State, call: usize) {
        let gateway = self.calls[call].0;
        let generation = self.view_of(state, gateway).generation;
        if self.wrong != Wrong::NoSessions {
            self.begin_session(state, gateway, generation);
        }
        let record = state.records.len();
        assert!(record < Mask::BITS as usize, "records are named by a mask");
        state.records.push(Record { call, generation, at: At::OnTheWay });
        state.calls[call].stage = Stage::Writing { record, heard: 0, is_durable: false, has_failed: false };
        self.send_all(state, gateway, Message::Announce(record));
    }

    /// What a gateway has sent to a target before lands no more.
    fn begin_session(&self, state: &mut State, gateway: usize, generation: u8) {
        for record in each(self.records_of(state, gateway)) {
            if state.records[record].generation == generation && state.records[record].at == At::OnTheWay {
                state.records[record].at = At::Never;
            }
        }
    }

    fn send_all(&self, state: &mut State, from: usize, message: Message) {
        let view = state.gateways[from].view;
        for to in each(self.others(state, from)) {
            state.streams[from * MAX_GATEWAYS + to].push(Wire { view, message });
        }
    }

    pub fn land(&self, state: &mut State, record: usize) {
        let generation = state.records[record].generation;
        let appended = &mut state.appended[usize::from(generation)];
        *appended += 1;
        assert!(*appended < GENERATION, "a log holds fewer records");
        state.records[record].at = At::Landed(generation * GENERATION + *appended);
    }

    pub fn answer(&self, state: &mut State, record: usize) {
        let call = state.records[record].call;
        match &mut state.calls[call].stage {
            Stage::Writing { record: present, is_durable, has_failed: false, .. } if *present == record => *is_durable = true,
            _ => return self.publish(state, record),
        }
        self.conclude_if_complete(state, call);
    }

    /// The record counts here, and the others are told.
    fn publish(&self, state: &mut State, record: usize) {
        let At::Landed(order) = state.records[record].at else { return };
        let gateway = self.writer(state, record);
        let newest = &mut state.gateways[gateway].newest;
        *newest = order.max(*newest);
        self.send_all(state, gateway, Message::Conclude { record, order });
    }

    fn conclude_if_complete(&self, state: &mut State, call: usize) {
        let gateway = self.calls[call].0;
        let others = self.others(state, gateway);
        let Stage::Writing { record, heard, is_durable: true, has_failed: false } = state.calls[call].stage else { return };
        if heard & others == others {
            self.publish(state, record);
            self.end(state, call, Outcome::Written);
        }
    }

    pub fn end(&self, state: &mut State, call: usize, outcome: Outcome) {
        state.calls[call].stage = Stage::Done(outcome);
        if state.freeze == Some(call) {
            state.freeze = None;
        }
    }

    pub fn fail(&self, state: &mut State, call: usize) {
        state.failures_left -= 1;
        let Stage::Writing { has_failed, .. } = &mut state.calls[call].stage else { return };
        *has_failed = true;
    }

    /// Whether no member writes by an older table than that of this write's record.
    fn may_settle(&self, state: &State, record: usize) -> bool {
        let is_behind = |member: usize| self.view_of(state, member).generation < state.records[record].generation;
        matches!(self.wrong, Wrong::SettlesAhead | Wrong::VoidsAtOnce) || !each(self.present(state).members).any(is_behind)
    }

    /// The write is void: its record can do no harm any more.
    pub fn settle(&self, state: &mut State, call: usize) {
        let gateway = self.calls[call].0;
        let Stage::Writing { record, .. } = state.calls[call].stage else { return };
        let is_later = |member: usize| self.view_of(state, member).generation > state.records[record].generation;
        let is_outdated = match self.wrong {
            Wrong::OwnTableSuffices => is_later(gateway),
            _ => each(self.present(state).members).all(is_later),
        };
        if !is_outdated && !matches!(self.wrong, Wrong::VoidsAtOnce | Wrong::NoSessions) {
            self.begin_session(state, gateway, state.records[record].generation);
        }
        state.calls[call].stage = Stage::Failed;
        if self.wrong != Wrong::RetriesUnfrozen && state.freeze == Some(call) {
            state.freeze = None;
        }
        self.send_all(state, gateway, Message::Conclude { record, order: 0 });
    }

    pub fn try_again(&self, state: &mut State, call: usize) {
        if self.wrong == Wrong::RetriesUnfrozen && state.freeze == Some(call) {
            // What it had evaluated counts; the others were let go.
            state.freeze = None;
            return self.dispatch(state, call);
        }
        state.calls[call].stage = Stage::Queued;
    }

    pub fn may_read(&self, state: &State, call: usize) -> bool {
        let (gateway, kind) = self.calls[call];
        if kind != Kind::Get || state.calls[call].stage != Stage::Reading {
            return false;
        }
        if state.founded.is_some() {
            return true;
        }
        let members = self.present(state).members;
        let asked = |record: usize| self.writer(state, record);
        has(members, gateway)
            && each(state.gateways[gateway].announced)
                .all(|record| has(members, asked(record)) && self.is_heard(state, asked(record)))
    }

    /// Whether every member holds the announcement of what a gateway is writing: then it answers reads of others.
    fn is_heard(&self, state: &State, gateway: usize) -> bool {
        let others = self.others(state, gateway);
        self.writing(state, gateway)
            .is_none_or(|call| matches!(state.calls[call].stage, Stage::Writing { heard, .. } if heard & others == others))
    }

    pub fn read(&self, state: &mut State, call: usize) {
        let gateway = self.calls[call].0;
        let asked = each(state.gateways[gateway].announced).map(|record| self.writer(state, record));
        let newest = asked.chain([gateway]).map(|gateway| state.gateways[gateway].newest).max().unwrap_or(0);
        let found = self.content(state, state.founded.unwrap_or(newest));
        self.end(state, call, Outcome::Read(found));
    }

    /// The call that wrote the record of this order, from 1.
    fn content(&self, state: &State, order: Order) -> u8 {
        let record = state.records.iter().find(|record| record.at == At::Landed(order));
        record.map_or(0, |record| record.call as u8 + 1)
    }

    pub fn receive(&self, state: &mut State, from: usize, to: usize, Wire { view, message }: Wire) {
        let is_present = view == state.gateways[to].view;
        match message {
            Message::Announce(record) if is_present => {
                state.gateways[to].announced |= bit(record);
                let message = Message::Announced(record);
                state.streams[to * MAX_GATEWAYS + from].push(Wire { view, message });
            }
            Message::Announced(record) if is_present => {
                let call = state.records[record].call;
                match &mut state.calls[call].stage {
                    Stage::Writing { record: present, heard, .. } if *present == record => *heard |= bit(from),
                    _ => return,
                }
                self.conclude_if_complete(state, call);
            }
            Message::Announce(_) | Message::Announced(_) => {}
            Message::Conclude { record, order } => {
                let here = &mut state.gateways[to];
                here.announced &= !bit(record);
                here.newest = order.max(here.newest);
            }
        }
    }

    pub fn install(&self, state: &mut State, gateway: usize) {
        state.gateways[gateway].view = state.views.len() as u8;
        let Some(call) = self.writing(state, gateway) else { return };
        if let Stage::Writing { record, heard, .. } = &mut state.calls[call].stage {
            *heard = 0;
            let record = *record;
            self.send_all(state, gateway, Message::Announce(record));
        }
        self.conclude_if_complete(state, call);
    }

    pub fn fence(&self, state: &mut State) {
        state.is_fenced = true;
        for record in each(self.removed_records(state)) {
            if state.records[record].at == At::OnTheWay {
                state.records[record].at = At::Never;
            }
        }
    }

    fn removed_records(&self, state: &State) -> Mask {
        self.removes.map_or(0, |gateway| self.records_of(state, gateway))
    }

    /// The order of the removed gateway's record that counts.
    fn recovered(&self, state: &State) -> Option<Order> {
        let landed = each(self.removed_records(state)).filter_map(|record| match state.records[record].at {
            At::Landed(order) => Some(order),
            At::OnTheWay | At::Never => None,
        });
        match self.wrong {
            Wrong::RecoversTheFirst => landed.min(),
            _ => landed.max(),
        }
    }

    pub fn decide(&self, state: &mut State) {
        state.is_decided = true;
        let (found, of) = (self.recovered(state).unwrap_or(0), self.removed_records(state));
        for member in each(self.present(state).members) {
            let here = &mut state.gateways[member];
            here.announced &= !of;
            here.newest = here.newest.max(found);
        }
        if state.freeze.is_some_and(|holder| Some(self.calls[holder].0) == self.removes) {
            state.freeze = None;
        }
    }

    /// Of one gateway's records the last that it made counts, of several gateways' the one with the highest order (RFD 4).
    pub fn die(&self, state: &mut State) {
        let mut newest: Option<(usize, Order)> = None;
        let mut found: Vec<(usize, Order)> = Vec::new();
        for (index, record) in state.records.iter_mut().enumerate() {
            match record.at {
                At::Landed(order) => found.push((index, order)),
                At::OnTheWay | At::Never => record.at = At::Never,
            }
        }
        found.sort_by_key(|(_, order)| *order);
        for (record, order) in found {
            let is_newer =
                newest.is_none_or(|(known, known_order)| match self.writer(state, known) == self.writer(state, record) {
                    true => record > known,
                    false => order > known_order,
                });
            if is_newer {
                newest = Some((record, order));
            }
        }
        state.founded = Some(newest.map_or(0, |(_, order)| order));
        state.streams.iter_mut().for_each(Vec::clear);
        state.freeze = None;
    }

    pub fn has_ended(&self, state: &State) -> bool {
        if state.founded.is_some() {
            return true;
        }
        let members = self.present(state).members;
        let answered = |call: usize| !has(members, self.calls[call].0) || matches!(state.calls[call].stage, Stage::Done(_));
        (0..self.calls.len()).all(answered)
            && each(members).all(|member| state.gateways[member].announced == 0)
            && state.freeze.is_none()
    }
}
