//! The manager and the leaders of a simulated cell: who is a member, and what is done about those who were.

use super::super::{Cell, CellMessage, Message, Output, Outputs};
use super::cell_world::{CellWorld, Envelope, Wrong};
use super::world::{Failure, OpId, gateway_id, key_hash, view};
use format::entry::Entry;
use model::choice::Choose;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use topology::View;
use types::{GatewayId, ViewNumber};

pub struct Manager {
    pub view: ViewNumber,
    pub members: Vec<usize>,
    /// Removed and not decided everywhere.
    pub undecided: Vec<usize>,
    /// Removed and decided: they may come back.
    gone: Vec<usize>,
    pub incarnations: BTreeMap<usize, u64>,
    pub removals: usize,
    pub joins: usize,
}

impl Manager {
    pub fn new(members: Vec<usize>) -> Self {
        let incarnations = members.iter().map(|member| (*member, 1)).collect();
        let (undecided, gone) = (Vec::new(), Vec::new());
        Manager { view: ViewNumber(1), members, undecided, gone, incarnations, removals: 0, joins: 0 }
    }

    pub fn view(&self) -> View {
        view(self.view.0, &self.members)
    }
}

/// What a leader has done, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Fence(usize),
    Walk,
    Copy,
    Spread,
    Wait,
    Done,
}

const STEPS: [Step; 5] = [Step::Fence(0), Step::Fence(1), Step::Walk, Step::Copy, Step::Spread];

pub struct Recovery {
    leader: usize,
    view: ViewNumber,
    of: Vec<usize>,
    taken: usize,
    found: Vec<Entry>,
    held: BTreeSet<usize>,
    decided: bool,
}

impl CellWorld {
    pub fn remove(&mut self, choices: &mut dyn Choose) -> Result<(), Failure> {
        let at = choices.below(self.manager.members.len());
        let gateway = self.manager.members.remove(at);
        self.manager.removals += 1;
        self.manager.view.0 += 1;
        self.manager.undecided.push(gateway);
        let keeps_lease = self.is_wrong(Wrong::NoWaitForLease);
        if let Some(process) = &mut self.gateways[gateway] {
            process.lease &= keeps_lease;
        }
        // Half of those who are removed are dead.
        if choices.below(2) == 0 {
            self.gateways[gateway] = None;
            self.lose_last_words_of(gateway, choices);
        }
        Ok(())
    }

    /// Every member has installed the view, and has heard what became of those who were removed.
    pub fn may_join(&self) -> bool {
        let settled = |member: &usize| {
            let decided = self.change_of(*member).is_none_or(|change| change.undecided.is_empty());
            self.gateway(*member).shard.view() == self.manager.view && decided
        };
        !(self.manager.undecided.is_empty() && self.manager.gone.is_empty()) && self.manager.members.iter().all(settled)
    }

    pub fn join(&mut self, choices: &mut dyn Choose) -> Result<(), Failure> {
        let decided = std::mem::take(&mut self.manager.undecided);
        self.manager.gone.extend(decided);
        let back = self.manager.gone.remove(choices.below(self.manager.gone.len()));
        self.lose_calls_of(back);
        let incarnation = self.manager.incarnations.get_mut(&back).expect("it was a member");
        *incarnation += 1;
        let incarnation = *incarnation;
        self.manager.joins += 1;
        self.manager.view.0 += 1;
        self.manager.members.push(back);
        self.manager.members.sort_unstable();
        self.report.joined += 1;
        self.recoveries.retain(|recovery| recovery.leader != back);
        self.cut(back);
        self.start(back, incarnation);
        // Who joined before may still wait for everybody's map.
        let view = self.manager.view;
        for to in self.gateway(back).shard.cell.clone().others() {
            self.send(back, to.0 as usize, Envelope::Map { entries: Vec::new(), view });
        }
        self.carried(back);
        Ok(())
    }

    pub fn install(&mut self, member: usize) -> Result<(), Failure> {
        let next = Cell::new(gateway_id(member), self.manager.view()).writing(self.setup.consistency_of(member));
        let next = Arc::new(next);
        let undecided = self.manager.undecided.clone();
        let removed: Vec<GatewayId> = undecided.iter().map(|gateway| gateway_id(*gateway)).collect();
        let (voids, forgets) = (self.is_wrong(Wrong::VoidsBeforeWalk), self.is_wrong(Wrong::ForgetsFreezes));
        let keeps = self.is_wrong(Wrong::KeepsAcknowledgements);
        let mut out = Outputs::new();
        let before = self.gateway(member).shard.cell.clone();
        let shard = &mut self.gateways[member].as_mut().expect("a member lives").shard;
        if forgets {
            shard.keys.values_mut().filter_map(|state| state.peers.as_mut()).for_each(|peers| peers.frozen.clear());
        }
        shard.install(next, &removed, &mut out);
        if voids {
            shard.receive_for_all(gateway_id(member), &CellMessage::Decided { gateways: removed }, &mut out);
        }
        out.retain(|output| !(forgets && matches!(output, Output::Send { message: Message::Carry { .. }, .. })));
        self.perform_install(member, out, keeps)?;
        let view = self.manager.view;
        let joined: Vec<usize> =
            self.manager.members.iter().copied().filter(|other| !before.view().contains(gateway_id(*other))).collect();
        for to in joined {
            let entries = self.map_of(member);
            self.send(member, to, Envelope::Map { entries, view });
        }
        self.carried(member);
        // Answers name the leader only, so it begins anew.
        self.recoveries.retain(|recovery| recovery.leader != member);
        if self.manager.members[0] == member && !undecided.is_empty() {
            self.report.repeated_recoveries +=
                usize::from(self.recoveries.iter().any(|other| other.of.iter().any(|of| undecided.contains(of))));
            let (found, held) = (Vec::new(), BTreeSet::new());
            self.recoveries.push(Recovery { leader: member, view, of: undecided, taken: 0, found, held, decided: false });
        }
        Ok(())
    }

    /// A wrong member takes every announcement that it repeats for heard, and every entry for published.
    fn perform_install(&mut self, member: usize, out: Outputs<OpId>, keeps: bool) -> Result<(), Failure> {
        let mut heard = Vec::new();
        let mut kept = Outputs::new();
        for output in out {
            match output {
                Output::Send { to, message: Message::Announce { hash, write, view } } if keeps => {
                    heard.push((to, Message::Announced { hash, write, view }));
                }
                Output::Spread { entry, to, view, .. } if keeps => {
                    heard.push((to, Message::HavePublished { hash: entry.hash, write: entry.write, view }));
                }
                other => {
                    self.report.spread_again += usize::from(matches!(other, Output::Spread { .. }));
                    kept.push(other);
                }
            }
        }
        self.perform(member, kept)?;
        for (to, message) in heard {
            let mut out = Outputs::new();
            self.gateways[member].as_mut().expect("a member lives").shard.receive(to, message, &mut out);
            self.perform(member, out)?;
        }
        Ok(())
    }

    fn map_of(&self, member: usize) -> Vec<Entry> {
        let newest = |key| self.gateway(member).shard.index().newest(&key_hash(key));
        (0..self.setup.keys).filter_map(newest).map(|newest| self.log[&newest.order].entry).collect()
    }

    fn carried(&mut self, member: usize) {
        let view = self.gateway(member).shard.view();
        for to in self.gateway(member).shard.cell.clone().others() {
            self.send(member, to.0 as usize, Envelope::All(CellMessage::Carried { view }));
        }
    }

    fn step_of(&self, recovery: &Recovery) -> Step {
        let waiting = if recovery.decided { Step::Done } else { Step::Wait };
        STEPS.get(recovery.taken).copied().unwrap_or(waiting)
    }

    pub fn recovery_goes_on(&self, recovery: usize) -> bool {
        let recovery = &self.recoveries[recovery];
        let Some(leader) = &self.gateways[recovery.leader] else { return false };
        // What they say from then on reaches those who have the view.
        let have_all_carried = leader.shard.change.as_ref().is_none_or(|change| change.uncarried.is_empty());
        match self.step_of(recovery) {
            Step::Walk => have_all_carried,
            step => step < Step::Wait,
        }
    }

    /// The leader's next step.
    pub fn recover(&mut self, index: usize) -> Result<(), Failure> {
        let step = self.step_of(&self.recoveries[index]);
        self.recoveries[index].taken += 1;
        let (leader, view, of) =
            (self.recoveries[index].leader, self.recoveries[index].view, self.recoveries[index].of.clone());
        match step {
            Step::Fence(target) => {
                for gateway in of {
                    // A leader that was removed itself has an old idea of who is who: tokens only grow.
                    let least = self.fences[target].entry(gateway).or_default();
                    *least =
                        (self.manager.incarnations[&gateway] + u64::from(!self.manager.members.contains(&gateway))).max(*least);
                }
            }
            Step::Walk => {
                let of: Vec<GatewayId> = of.iter().map(|gateway| gateway_id(*gateway)).collect();
                let found = self.log.values().map(|record| record.entry).filter(|entry| of.contains(&entry.write.gateway));
                self.recoveries[index].found = found.collect();
            }
            Step::Copy => {
                for entry in self.recoveries[index].found.clone() {
                    self.log.get_mut(&entry.order).expect("the walk found it").has_copies = true;
                }
            }
            Step::Spread => return self.spread(index, leader, view),
            Step::Wait | Step::Done => unreachable!("nothing to do"),
        }
        Ok(())
    }

    fn spread(&mut self, index: usize, leader: usize, view: ViewNumber) -> Result<(), Failure> {
        let found = self.recoveries[index].found.clone();
        self.report.recovered += found.len();
        let at_once = self.is_wrong(Wrong::PublishesOnArrival);
        let mut out = Outputs::new();
        let shard = &mut self.gateways[leader].as_mut().expect("it lives").shard;
        for &entry in &found {
            // As the shell (`newest_of`, `roll_on`): nobody is told of a write that another one has followed.
            let is_followed = found.iter().any(|other| other.hash == entry.hash && other.order > entry.order);
            if is_followed || shard.index().newest(&entry.hash).is_some_and(|newest| newest.order > entry.order) {
                continue;
            }
            shard.recover(entry, &mut out);
            if at_once {
                shard.index_mut().publish(entry).ok();
            }
        }
        let others = shard.cell.clone();
        self.perform(leader, out)?;
        if at_once || self.is_wrong(Wrong::DecidesUnheard) {
            return self.decide(index);
        }
        for to in others.others() {
            self.send(leader, to.0 as usize, Envelope::All(CellMessage::AllRecovered { view }));
        }
        self.hand_to(leader, leader, &CellMessage::AllRecovered { view })
    }

    fn hand_to(&mut self, from: usize, to: usize, message: &CellMessage) -> Result<(), Failure> {
        let mut out = Outputs::new();
        self.gateways[to].as_mut().expect("it lives").shard.receive_for_all(gateway_id(from), message, &mut out);
        self.perform(to, out)
    }

    /// A member's shard holds what was recovered: its leader is the first member of its view.
    pub fn says_held(&mut self, member: usize) -> Result<(), Failure> {
        let cell = self.gateway(member).shard.cell.clone();
        let leader = cell.view().members()[0].0 as usize;
        if leader == member {
            return self.recovery_held(leader, member, cell.number());
        }
        let held = Envelope::All(CellMessage::RecoveredHeld { view: cell.number() });
        if self.is_wrong(Wrong::HoldsUnheard) {
            self.send(member, leader, held);
            return Ok(());
        }
        // As the shell (`say_held`).
        let others: BTreeSet<usize> = cell.others().iter().map(|other| other.0 as usize).collect();
        others.iter().for_each(|other| self.send(member, *other, Envelope::HearOut { view: cell.number() }));
        self.gateways[member].as_mut().expect("it lives").unheard = others;
        Ok(())
    }

    /// A member has heard everything that another one had said.
    pub fn heard_out(&mut self, member: usize, other: usize, view: ViewNumber) {
        let process = self.gateways[member].as_mut().expect("it lives");
        let leader = process.shard.cell.view().members()[0].0 as usize;
        let is_last = process.shard.view() == view && process.unheard.remove(&other) && process.unheard.is_empty();
        if is_last {
            self.send(member, leader, Envelope::All(CellMessage::RecoveredHeld { view }));
        }
    }

    pub fn recovery_held(&mut self, leader: usize, member: usize, view: ViewNumber) -> Result<(), Failure> {
        let is_it = |recovery: &Recovery| recovery.leader == leader && recovery.view == view;
        let Some(index) = self.recoveries.iter().position(is_it) else { return Ok(()) };
        self.recoveries[index].held.insert(member);
        let all = self.gateway(leader).shard.cell.view().members().len();
        if self.recoveries[index].held.len() == all && !self.recoveries[index].decided {
            return self.decide(index);
        }
        Ok(())
    }

    fn decide(&mut self, index: usize) -> Result<(), Failure> {
        self.recoveries[index].decided = true;
        let leader = self.recoveries[index].leader;
        let gateways = self.recoveries[index].of.iter().map(|gateway| gateway_id(*gateway)).collect();
        let message = CellMessage::Decided { gateways };
        for to in self.gateway(leader).shard.cell.clone().others() {
            self.send(leader, to.0 as usize, Envelope::All(message.clone()));
        }
        self.hand_to(leader, leader, &message)
    }
}
