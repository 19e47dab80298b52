//! The installation of a view, and what its leader does about gateways that it leaves out.

use super::protocol::Message;
use super::{Action, Mask, Stage, State, Views, Wrong, bit, each, has};

/// What a view's leader knows and has done.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Recovery {
    pub leader: usize,
    /// The gateways that it decides about.
    pub of: Mask,
    /// Writes that the walk found; nothing before it.
    found: Option<Mask>,
    spread: bool,
    /// Members that hold what was recovered.
    held: Mask,
    decided: bool,
}

impl Views {
    /// A member learns of the newest view.
    pub fn install(&self, state: &mut State, member: usize) {
        state.gateways[member].view = state.views.len() as u8;
        let members = self.members(state, member);
        let here = &mut state.gateways[member];
        here.frozen.retain(|frozen| frozen.answered && self.wrong != Wrong::ForgetsFreezes);
        (here.holder, here.owes, here.carried) = (None, None, bit(member));
        here.waiting.clear();
        let of = self.undecided(state, member);
        if self.wrong == Wrong::VoidsBeforeWalk {
            state.gateways[member].announced &= !self.writes_of(of);
            self.told(state, member, of, 0);
        }
        match self.active(state, member) {
            Some(write) if self.is_writing(state, member) => self.announce_again(state, write),
            Some(write) => {
                state.writes[write].stage = Stage::Freezing { answered: 0, learned: 0 };
                self.ask_home(state, write);
            }
            None => {}
        }
        let newest = state.gateways[member].newest;
        self.send_all(state, member, Message::Carried { newest });
        let leads = each(members).next() == Some(member);
        // Answers name the leader only, so it begins anew.
        state.recoveries.retain(|recovery| recovery.leader != member);
        if leads && of != 0 {
            state.recoveries.push(Recovery { leader: member, of, found: None, spread: false, held: 0, decided: false });
        }
        if members == bit(member)
            && let Some(write) = self.active(state, member)
        {
            self.conclude(state, write);
        }
        self.lend(state, member);
        self.go_on(state, member);
    }

    /// Acknowledgements count for the view in which they were asked for; a held freeze is told to everybody.
    fn announce_again(&self, state: &mut State, write: usize) {
        let gateway = self.writer(write);
        let others = self.others(state, gateway);
        let Stage::Writing { heard } = &mut state.writes[write].stage else { return };
        // Whoever joins has the name of the gateway that was removed first.
        let known = if has(*heard, self.removals[0]) { *heard | bit(self.gateways) } else { *heard };
        *heard = if self.wrong == Wrong::KeepsAcknowledgements { known } else { 0 };
        let unheard = others & !*heard;
        if self.is_conditional(write) && self.wrong != Wrong::ForgetsFreezes {
            self.send_all(state, gateway, Message::Carry(write));
            if each(self.members(state, gateway)).nth(self.key % self.members(state, gateway).count_ones() as usize)
                == Some(gateway)
            {
                state.gateways[gateway].holder = Some(write);
            }
        }
        for to in each(unheard) {
            self.send(state, gateway, to, Message::Announce(write));
        }
    }

    pub fn recovery_actions(&self, state: &State, actions: &mut Vec<Action>) {
        let early = self.wrong == Wrong::WalksBeforeFence;
        for (index, recovery) in state.recoveries.iter().enumerate() {
            let fenced = |target: usize| state.fences[target] & recovery.of == recovery.of || target == 0 && state.primary_lost;
            let all_fenced = (0..2).all(fenced);
            let fence = |target: usize| Action::Fence { recovery: index, target };
            match recovery.found {
                None => {
                    actions.extend((0..2).filter(|target| !fenced(*target)).map(fence));
                    if all_fenced || early {
                        actions.push(Action::Walk(index));
                    }
                }
                Some(_) if !all_fenced => actions.extend((0..2).filter(|target| !fenced(*target)).map(fence)),
                Some(found) if !recovery.spread => {
                    let torn = |write: &usize| !state.writes[*write].on_second && !state.primary_lost;
                    let mut copies = each(found).filter(torn).peekable();
                    if copies.peek().is_none() || self.wrong == Wrong::SpreadsBeforeCopies {
                        actions.push(Action::Spread(index));
                    }
                    let may_copy = !has(state.fences[1], recovery.leader);
                    actions.extend(copies.filter(|_| may_copy).map(|write| Action::Copy { recovery: index, write }));
                }
                Some(_) => {}
            }
        }
    }

    /// What counts: a record on the primary, or on the second target if there is no primary to ask.
    pub fn walk(&self, state: &mut State, recovery: usize) {
        let counts = |write: &usize| match state.primary_lost {
            false => state.writes[*write].order > 0,
            true => state.writes[*write].on_second,
        };
        let of = self.writes_of(state.recoveries[recovery].of);
        state.recoveries[recovery].found = Some(each(of).filter(counts).map(bit).sum());
    }

    /// Tells every member what was found.
    pub fn spread(&self, state: &mut State, index: usize) {
        let Recovery { leader, found, of, .. } = state.recoveries[index].clone();
        let early = self.wrong == Wrong::SpreadsBeforeCopies;
        let readable = |write: &usize| state.writes[*write].on_second || !state.primary_lost || early;
        let found: Vec<usize> = each(found.expect("the walk is over")).filter(readable).collect();
        state.recoveries[index].spread = true;
        for write in found {
            self.send_all(state, leader, Message::Recovered(write));
            self.recovered(state, leader, write);
        }
        if matches!(self.wrong, Wrong::DecidesUnheard | Wrong::PublishesOnArrival) {
            state.recoveries[index].decided = true;
            self.send_all(state, leader, Message::Decided(of));
            return self.decided(state, leader, of);
        }
        self.send_all(state, leader, Message::AllRecovered);
        state.gateways[leader].owes = Some(leader);
        self.answer_recovery(state, leader);
    }

    pub fn recovered(&self, state: &mut State, member: usize, write: usize) {
        let order = state.writes[write].order;
        let here = &mut state.gateways[member];
        if has(here.decided, self.writer(write)) {
            return;
        }
        if self.wrong == Wrong::PublishesOnArrival {
            here.newest = order.max(here.newest);
        } else {
            here.held |= bit(write);
        }
    }

    /// Says "held" once no conditional write of this member's own is under way: what becomes visible must not stand below it.
    pub fn answer_recovery(&self, state: &mut State, member: usize) {
        let Some(leader) = state.gateways[member].owes else { return };
        let swaps =
            self.is_writing(state, member) && self.active(state, member).is_some_and(|write| self.is_conditional(write));
        if swaps && state.gateways[member].held != 0 && self.wrong != Wrong::HoldersDoNotHoldBack {
            return;
        }
        state.gateways[member].owes = None;
        if leader == member {
            self.recovery_held(state, leader, member);
        } else {
            self.send(state, member, leader, Message::RecoveredHeld);
        }
    }

    pub fn recovery_held(&self, state: &mut State, leader: usize, member: usize) {
        let all = self.members(state, leader);
        let Some(recovery) = state.recoveries.iter_mut().rfind(|recovery| recovery.leader == leader) else { return };
        recovery.held |= bit(member);
        if recovery.held & all == all && !recovery.decided {
            recovery.decided = true;
            let of = recovery.of;
            self.send_all(state, leader, Message::Decided(of));
            self.decided(state, leader, of);
        }
    }

    /// Publishes what is held of these gateways, voids what else they announced, ends their freezes.
    pub fn decided(&self, state: &mut State, member: usize, gateways: Mask) {
        let here = &mut state.gateways[member];
        let decided = gateways & !here.decided;
        let of = self.writes_of(decided);
        here.decided |= decided;
        for write in each(here.held & of) {
            here.newest = here.newest.max(state.writes[write].order);
        }
        here.held &= !of;
        here.announced &= !of;
        here.frozen.retain(|frozen| !has(of, frozen.write));
        self.lend(state, member);
        self.told(state, member, decided, 0);
        self.go_on(state, member);
    }
}
