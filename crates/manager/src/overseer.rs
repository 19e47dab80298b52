//! The overseer: the part of the manager's leader that grants serve leases and decides who leaves a cell's view and who joins it
//! (docs/rfd/0005, "The manager's part").
//!
//! It is a state machine without I/O, one for each cell, that lives as long as a leadership. The shell feeds it heartbeats, changes of the
//! state and ticks, sends its answers, and puts its proposals through the log. Nothing that it remembers is needed for safety:
//!
//! - That a gateway's lease is not renewed is in the state (`removing`), so the next leader does not renew it either.
//! - Who may still hold a lease is unknown to a new leader, so it takes every member's for granted at its start.
//! - A proposal names the view that it was made under, and is refused under any other.
//!
//! What the shell owes it:
//! - [`Input::Started`] comes after all that former leaders committed has been applied, and no former leader grants anything afterwards. So a
//!   grant leaves only under the consensus leader's lease, and [`Input::Stopped`] comes before that ends.
//! - A heartbeat is handed in with a reading of the clock that was taken after it was received.
//! - Every change of the cell, of devices and of nodes is handed in, before any answer that was made after it.

mod applied;
mod backoff;
mod facts;
mod heard;
mod reach;
mod rules;
mod wire;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use topology::{ClockReading, GrantedLeases, LeaseTerms};
use types::{CellId, DeviceId, GatewayId, NodeId, ViewNumber};

use crate::CommandIndex;
use crate::command::Command;
use crate::modules::cell::{BeginRemoval, FinishFounding, FinishRecovery, FoundView, InstallView};
use applied::Applied;
use backoff::Backoffs;
pub use facts::Facts;
use heard::Heard;
pub use wire::{Answer, DeviceReport, HEARTBEAT_VERSION, Heartbeat, MAX_HEARTBEAT_BYTES, Refused, WireError};

/// How often a node sends a heartbeat.
pub const HEARTBEAT_INTERVAL_MS: u64 = 250;

/// A gateway or a node that was not heard of for so long has failed.
pub const SILENCE_MS: u64 = 1_500;

/// An overseer to which nothing was told for longer was itself deaf: it stood still, or its followers' disks did. What it did not hear meanwhile was no silence.
pub const DEAF_MS: u64 = 500;
const _: () = assert!(DEAF_MS >= 2 * HEARTBEAT_INTERVAL_MS && DEAF_MS < SILENCE_MS / 2);

/// A gateway whose node has not applied for so long what the leader had gets no lease: it would go on serving by policies that were taken away. Less than a change of
/// them waits for gateways that do not say that they know of it.
pub const BEHIND_MS: u64 = 5_000;

/// A gateway whose node's heartbeats have all shown for so long that it is behind ([`BEHIND_MS`]) leaves as a silent one does: it installs no view, and whoever changes
/// a policy waits for it. One late heartbeat shows nothing. Not less than [`SILENCE_MS`]: how long before a founding its members got their last leases is counted by that.
pub const STUCK_MS: u64 = 1_500;
const _: () = assert!(STUCK_MS >= SILENCE_MS);

/// A peer that a member has reported as unreachable in all heartbeats for so long is believed to be. A member reports what has missed several
/// of its questions: with them it is as long as [`SILENCE_MS`] and more.
pub const UNREACHABLE_GATEWAY_MS: u64 = 1_000;

/// A member's own reports count against itself after so long, where it reports more than others report. When several are lost at
/// once, the others notice that within this time of each other: they ask at least every 750 ms, and what does not answer at all
/// is missed later than what refuses.
pub const ONE_SIDED_GATEWAY_MS: u64 = 2_000;

// Who has died is silent before anybody leaves who has noticed that alone.
const _: () = assert!(ONE_SIDED_GATEWAY_MS > SILENCE_MS && ONE_SIDED_GATEWAY_MS > UNREACHABLE_GATEWAY_MS);

/// A device that one member alone reports as unreachable leaves after so long; one that a majority reports leaves at once.
pub const UNREACHABLE_DEVICE_MS: u64 = 3_000;

/// A proposal that has had no effect for so long is made again.
pub const PROPOSAL_RETRY_MS: u64 = 2_000;

/// How long a founding waits for devices that nobody has reported as well.
pub const FOUNDING_WAIT_MS: u64 = 10_000;

/// The wait of a node, or a device, after it was first removed because it could not be reached, or because the device failed or hung, before it is taken in
/// again: a disk that stands still now and then would cost all writes some seconds each time.
pub const FIRST_BACKOFF_MS: u64 = 5_000;

/// The longest such wait: it doubles up to this.
pub const MAX_BACKOFF_MS: u64 = 300_000;

/// Where fewer hosts than these would be left to write to, devices wait for [`FEW_HOSTS_BACKOFF_MS`] at most: one copy of what is acknowledged meanwhile may be lost
/// with the next disk. With none nothing would be acknowledged, and they do not wait.
pub const LEAST_HOSTS: usize = 2;

/// A disk that hangs as soon as it is written to, and answers when nobody does, costs all writes some seconds each time that it is taken in again.
pub const FEW_HOSTS_BACKOFF_MS: u64 = 30_000;

/// What was not removed again for so long after its wait begins with the first one.
pub const BACKOFF_FORGOTTEN_MS: u64 = 60_000;

const NANOS_PER_MS: u64 = 1_000_000;

/// What the overseer is told.
#[derive(Clone, Debug)]
pub enum Input {
    /// This manager leads from now on.
    Started(Facts),
    /// It does not lead any more.
    Stopped,
    Heartbeat(Heartbeat),
    /// Something of the facts has changed.
    Changed(Facts),
    /// Time has passed. At least as often as heartbeats come.
    Tick,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// The answer to the heartbeat of a node.
    Answer { node: NodeId, answer: Answer },
    /// A command to put through the log, and why.
    Propose { proposal: Proposal, reason: Reason },
}

/// The commands that an overseer proposes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Proposal {
    BeginRemoval(BeginRemoval),
    InstallView(InstallView),
    FoundView(FoundView),
    FinishRecovery(FinishRecovery),
    FinishFounding(FinishFounding),
}

impl Reason {
    /// The mark of a proposal for this reason.
    fn mark(&self) -> &'static str {
        match self {
            Reason::Silent(_) => "overseer: silent gateways begin to leave",
            Reason::Stuck(_) => "overseer: gateways whose nodes do not follow begin to leave",
            Reason::Unreachable(_) => "overseer: an unreachable gateway begins to leave",
            Reason::OneSided(_) => "overseer: a gateway that alone can't reach devices begins to leave",
            Reason::LeasesEnded(_) => "overseer: a view without those whose leases have ended",
            Reason::Devices(_) => "overseer: other devices",
            Reason::Joins(_) => "overseer: a gateway joins",
            Reason::NobodyLives(_) => "overseer: nobody of the view lives",
            Reason::Recovered(_) => "overseer: a recovery is finished",
            Reason::Founded(_) => "overseer: a founding is finished",
        }
    }
}

impl From<Proposal> for Command {
    fn from(proposal: Proposal) -> Command {
        match proposal {
            Proposal::BeginRemoval(operation) => operation.into(),
            Proposal::InstallView(operation) => operation.into(),
            Proposal::FoundView(operation) => operation.into(),
            Proposal::FinishRecovery(operation) => operation.into(),
            Proposal::FinishFounding(operation) => operation.into(),
        }
    }
}

/// Why something is proposed: for the log of a person.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    #[error("gateways {0:?} were not heard of for {SILENCE_MS} ms")]
    Silent(BTreeSet<GatewayId>),
    #[error("the nodes of gateways {0:?} have not applied for {ms} ms what the manager decided: their logs have no room, or they are cut off from its leader", ms = BEHIND_MS + STUCK_MS)]
    Stuck(BTreeSet<GatewayId>),
    #[error("gateway {0} and other members can't reach each other")]
    Unreachable(GatewayId),
    #[error("gateway {0} can't reach devices that most others can, and there would be fewer copies without them")]
    OneSided(GatewayId),
    #[error("the leases of those that leave have ended: {0:?}")]
    LeasesEnded(BTreeSet<GatewayId>),
    #[error("the devices that are well have changed to {0:?}")]
    Devices(BTreeSet<DeviceId>),
    #[error("gateway {0} joins")]
    Joins(GatewayId),
    #[error("no member of the view lives, gateway {0} does")]
    NobodyLives(GatewayId),
    #[error("every member has heard what gateways {0:?} had written")]
    Recovered(BTreeSet<GatewayId>),
    #[error("gateway {0} has recovered everything")]
    Founded(GatewayId),
}

/// Oversees one cell. See the module.
#[derive(Debug)]
pub struct Overseer {
    cell: CellId,
    terms: LeaseTerms,
    watch: Option<Watch>,
}

/// What is known during one leadership.
#[derive(Debug)]
struct Watch {
    terms: LeaseTerms,
    facts: Facts,
    heard: Heard,
    /// When something was told last.
    told_at: ClockReading,
    applied: Applied,
    /// None before the cell has a view.
    leases: Option<GrantedLeases>,
    outstanding: Option<Outstanding>,
    /// Members whose removal was proposed because they can't be reached, or do not follow.
    suspected: BTreeSet<GatewayId>,
    /// Members that have joined and did not get their maps so far.
    joining: BTreeSet<GatewayId>,
    gateway_backoffs: Backoffs<NodeId>,
    device_backoffs: Backoffs<DeviceId>,
    /// Since when no member lives and a learner does.
    orphaned_since: Option<ClockReading>,
}

#[derive(Debug)]
struct Outstanding {
    proposal: Proposal,
    made_at: ClockReading,
}

impl Overseer {
    pub fn new(cell: CellId, terms: LeaseTerms) -> Overseer {
        Overseer { cell, terms, watch: None }
    }

    /// The leader has applied the manager's commands up to here. To be said before each step.
    pub fn follow(&mut self, applied: CommandIndex, now: ClockReading) {
        if let Some(watch) = &mut self.watch {
            watch.applied.note(applied, now);
        }
    }

    /// Takes in what happened, and says what is to be done. While this manager does not lead nothing is.
    pub fn step(&mut self, input: Input, now: ClockReading) -> Vec<Output> {
        let mut outputs = Vec::new();
        if let Some(watch) = &mut self.watch {
            watch.excuse_own_deafness(now);
        }
        match (input, &mut self.watch) {
            (Input::Started(facts), watch) => {
                env::mark("overseer: another leader of the manager");
                *watch = Some(Watch::new(self.terms, facts, now));
            }
            (Input::Stopped, watch) => *watch = None,
            (Input::Heartbeat(heartbeat), Some(watch)) if heartbeat.cell == self.cell => {
                let node = heartbeat.node;
                outputs.push(Output::Answer { node, answer: watch.take_in(heartbeat, now) });
            }
            (Input::Changed(facts), Some(watch)) => watch.change(facts, now),
            (Input::Heartbeat(_) | Input::Changed(_) | Input::Tick, _) => {}
        }
        if let Some(watch) = &mut self.watch {
            watch.excuse_the_silent(now);
            outputs.extend(watch.propose(now));
        }
        outputs
    }
}

impl Watch {
    fn new(terms: LeaseTerms, facts: Facts, now: ClockReading) -> Watch {
        let leases = facts.cell.installed.as_ref().map(|installed| GrantedLeases::starting(terms, &installed.view, now));
        Watch {
            terms,
            heard: Heard::starting(&facts, now),
            facts,
            told_at: now,
            applied: Applied::default(),
            leases,
            outstanding: None,
            suspected: BTreeSet::new(),
            joining: BTreeSet::new(),
            gateway_backoffs: Backoffs::default(),
            device_backoffs: Backoffs::default(),
            orphaned_since: None,
        }
    }

    /// Notes what a node says, and answers its wish for a lease.
    fn take_in(&mut self, heartbeat: Heartbeat, now: ClockReading) -> Answer {
        let answer = self.grant(&heartbeat, now);
        if let Some(gateway) = heartbeat.gateway.filter(|_| heartbeat.wants_lease) {
            self.joining.remove(&gateway);
        }
        let is_behind = self.is_behind(&heartbeat, now);
        self.heard.note(&self.facts, heartbeat, is_behind, now);
        answer
    }

    fn grant(&mut self, heartbeat: &Heartbeat, now: ClockReading) -> Answer {
        let view = self.facts.cell.view_number();
        let refused = |why| Answer { view, lease: Err(why) };
        if !self.facts.nodes.contains_key(&heartbeat.node) {
            return refused(Refused::NotRegistered);
        }
        let Some(gateway) = heartbeat.gateway.filter(|_| heartbeat.wants_lease) else {
            return refused(Refused::NotWanted);
        };
        let member = self.facts.cell.members.get(&gateway);
        if member.is_none_or(|member| member.node != heartbeat.node) {
            return refused(Refused::NotRegistered);
        }
        if !self.facts.cell.is_in_view(gateway) {
            return refused(Refused::NotInView);
        }
        if self.facts.cell.removing.contains(&gateway) {
            return refused(Refused::Removing);
        }
        if heartbeat.view != view {
            return refused(Refused::OtherView);
        }
        if self.is_behind(heartbeat, now) {
            env::mark("overseer: no lease for a gateway whose node does not follow");
            return refused(Refused::Behind);
        }
        let Some(leases) = &mut self.leases else { return refused(Refused::NotInView) };
        leases.grant(gateway, now);
        Answer { view, lease: Ok(gateway) }
    }

    /// Whether a node has not applied what this leader had applied long ago.
    fn is_behind(&self, heartbeat: &Heartbeat, now: ClockReading) -> bool {
        self.applied.is_behind(CommandIndex(heartbeat.applied), now)
    }

    fn change(&mut self, facts: Facts, now: ClockReading) {
        let before = std::mem::replace(&mut self.facts, facts);
        // First: what fails now may have failed long ago.
        self.gateway_backoffs.forget(now);
        self.device_backoffs.forget(now);
        if !self.facts.cell.is_founding() {
            let members = self.facts.cell.view_members().iter().copied();
            self.joining.extend(members.filter(|gateway| !before.cell.is_in_view(*gateway)));
        }
        let newly_removing = self.facts.cell.removing.difference(&before.cell.removing);
        // One that could not get its maps would join again at once, and could not again: two views and a recovery each time.
        for gateway in newly_removing.filter(|gateway| self.suspected.contains(gateway) || self.joining.contains(gateway)) {
            if let Some(member) = self.facts.cell.members.get(gateway) {
                self.gateway_backoffs.fail(member.node, now);
            }
        }
        let table = self.facts.table_devices();
        for device in before.table_devices().difference(&table) {
            // One that went with its silent node comes back with it: the node is waited for, not a link, nor a disk.
            let is_reported = rules::is_reported(self, *device, now) && rules::is_spoken_for(self, *device, now);
            if is_reported || rules::has_failed(self, *device, now) {
                self.device_backoffs.fail(*device, now);
            }
        }
        let members = &self.facts.cell.members;
        self.suspected.retain(|gateway| members.contains_key(gateway));
        self.joining.retain(|gateway| members.contains_key(gateway));
        self.heard.forget(&self.facts);
        if let Some(installed) = &self.facts.cell.installed {
            let leases = self.leases.get_or_insert_with(|| GrantedLeases::starting(self.terms, &installed.view, now));
            leases.forget_ended(now);
        }
        self.outstanding.take_if(|outstanding| rules::has_effect(&outstanding.proposal, &self.facts.cell));
    }

    /// The first heartbeat after a stall finds all others old, though they lie behind it: nobody is silent who was not listened to. A part of each gap counts, so
    /// that who is dead is found out also where there is one after the other.
    ///
    /// The stall may have begun earlier: where all links pause, the leader knows for a second that it leads, is told the time,
    /// and hears nobody but itself.
    fn excuse_own_deafness(&mut self, now: ClockReading) {
        let told_at = std::mem::replace(&mut self.told_at, now);
        if elapsed_ms(told_at, now) > DEAF_MS {
            env::mark("overseer: its own deafness is no silence of others");
            // Longer before, and they were judged without a stall.
            let others_at = self.heard.others_heard_at().filter(|at| elapsed_ms(*at, told_at) < SILENCE_MS);
            let deaf_since = others_at.map_or(told_at, |at| at.min(told_at));
            self.heard.excuse(elapsed_ms(deaf_since, now) - DEAF_MS, now);
        }
    }

    /// Members report a node that died before its silence has lasted: it was not a link that failed. Who starts it again is not kept waiting.
    fn excuse_the_silent(&mut self, now: ClockReading) {
        let (heard, devices) = (&self.heard, &self.facts.devices);
        let is_silent = |node: &NodeId| !heard.is_node_heard(*node, now);
        self.gateway_backoffs.excuse(is_silent, now);
        self.device_backoffs.excuse(|device| devices.get(device).is_some_and(|node| node.as_ref().is_some_and(is_silent)), now);
    }

    /// One proposal at a time: the next is made when the one before has had its effect, or none for long.
    fn propose(&mut self, now: ClockReading) -> Option<Output> {
        rules::note_orphans(self, now);
        if let Some(outstanding) = &self.outstanding
            && elapsed_ms(outstanding.made_at, now) < PROPOSAL_RETRY_MS
        {
            return None;
        }
        self.outstanding = None;
        let (proposal, reason) = rules::decide(self, now)?;
        env::mark(reason.mark());
        match &reason {
            Reason::Unreachable(gateway) | Reason::OneSided(gateway) if rules::speaks(self, *gateway, now) => {
                self.suspected.insert(*gateway);
            }
            // One that follows now and then would cost a view and a recovery each time.
            Reason::Stuck(gateways) => self.suspected.extend(gateways),
            _ => {}
        }
        self.outstanding = Some(Outstanding { proposal: proposal.clone(), made_at: now });
        Some(Output::Propose { proposal, reason })
    }

    fn view(&self) -> ViewNumber {
        self.facts.cell.view_number()
    }
}

/// Milliseconds of the overseer's clock between two readings.
fn elapsed_ms(from: ClockReading, to: ClockReading) -> u64 {
    to.nanos.saturating_sub(from.nanos) / NANOS_PER_MS
}
