//! What an overseer decides. Each rule looks at what is known and says what to propose; the first that has something to say is followed.

use std::collections::BTreeSet;

use topology::ClockReading;
use types::{DeviceId, GatewayId, NodeId};

use super::wire::Heartbeat;
use super::{
    FEW_HOSTS_BACKOFF_MS, FOUNDING_WAIT_MS, LEAST_HOSTS, Proposal, Reason, UNREACHABLE_DEVICE_MS, Watch, elapsed_ms, reach,
};
use crate::modules::cell::CellRecord;
use crate::modules::cell::{BeginRemoval, FinishFounding, FinishRecovery, FoundView, InstallView};

pub(super) fn decide(watch: &Watch, now: ClockReading) -> Option<(Proposal, Reason)> {
    if watch.facts.cell.installed.is_none() || live_members(watch, now).is_empty() {
        return found(watch, now);
    }
    if let Some(removal) = begin_removal(watch, now) {
        return Some(removal);
    }
    if !watch.facts.cell.removing.is_empty() {
        // Nothing else changes the view meanwhile: it would have to keep who must not stay.
        return remove(watch, now);
    }
    // First what changes neither the view nor the table: another table may be refused while what these end with has not forgotten former ones.
    finish_founding(watch, now)
        .or_else(|| finish_recovery(watch, now))
        .or_else(|| change_devices(watch, now))
        .or_else(|| join(watch, now))
}

/// Notes since when nobody of the view lives although somebody else does.
pub(super) fn note_orphans(watch: &mut Watch, now: ClockReading) {
    let is_orphaned = live_members(watch, now).is_empty() && founder(watch, now).is_some();
    watch.orphaned_since = if is_orphaned { watch.orphaned_since.or(Some(now)) } else { None };
}

/// Whether a proposal can change nothing more.
pub(super) fn has_effect(proposal: &Proposal, cell: &CellRecord) -> bool {
    let view = cell.view_number();
    match proposal {
        Proposal::BeginRemoval(begin) => begin.view != view || begin.gateways.is_subset(&cell.removing),
        // One that keeps who has begun to leave is refused.
        Proposal::InstallView(install) => install.expected != view || !install.members.is_disjoint(&cell.removing),
        Proposal::FoundView(found) => found.expected != view,
        Proposal::FinishRecovery(finish) => {
            finish.view != view || finish.gateways.iter().all(|gateway| !cell.undecided.contains_key(gateway))
        }
        Proposal::FinishFounding(finish) => finish.view != view || !cell.is_founding(),
    }
}

/// Members that stay as far as the state says.
pub(super) fn staying(watch: &Watch) -> impl Iterator<Item = GatewayId> + '_ {
    let cell = &watch.facts.cell;
    cell.view_members().iter().copied().filter(|gateway| !cell.removing.contains(gateway))
}

/// Those of them that were heard of, and whose nodes follow.
pub(super) fn live_members(watch: &Watch, now: ClockReading) -> BTreeSet<GatewayId> {
    staying(watch).filter(|gateway| watch.heard.is_gateway_heard(*gateway, now) && !is_stuck(watch, *gateway, now)).collect()
}

/// Whether a gateway's node has not applied for long what the manager decided.
fn is_stuck(watch: &Watch, gateway: GatewayId, now: ClockReading) -> bool {
    watch.facts.cell.members.get(&gateway).is_some_and(|member| watch.heard.is_stuck(member.node, now))
}

/// What a gateway said last, if it was heard of.
pub(super) fn last_of(watch: &Watch, gateway: GatewayId, now: ClockReading) -> Option<&Heartbeat> {
    let member = watch.facts.cell.members.get(&gateway)?;
    watch.heard.last(member.node, now).filter(|heartbeat| heartbeat.gateway == Some(gateway))
}

fn all_leases_ended(watch: &Watch, leaving: impl Iterator<Item = GatewayId>, now: ClockReading) -> bool {
    let ended = &watch.facts.cell.ended;
    let waited_for = leaving.filter(|gateway| !ended.contains(gateway));
    watch.leases.as_ref().is_none_or(|leases| leases.all_ended_at(waited_for, now).is_none())
}

/// Who is silent leaves; else who does not follow; else the one with the most links to others that don't carry; else one that can't reach devices that the
/// others do. Somebody who lives stays.
fn begin_removal(watch: &Watch, now: ClockReading) -> Option<(Proposal, Reason)> {
    let live = live_members(watch, now);
    let gone = staying(watch).filter(|gateway| !live.contains(gateway));
    let (stuck, silent): (BTreeSet<_>, BTreeSet<_>) = gone.partition(|gateway| watch.heard.is_gateway_heard(*gateway, now));
    if !silent.is_empty() {
        return Some((begin(watch, silent.clone()), Reason::Silent(silent)));
    }
    if !stuck.is_empty() {
        return Some((begin(watch, stuck.clone()), Reason::Stuck(stuck)));
    }
    if live.len() < 2 {
        return None;
    }
    let unreachable = || reach::unreachable(watch, &live, now).map(|gateway| (gateway, Reason::Unreachable(gateway)));
    let one_sided = || reach::one_sided(watch, &live, now).map(|gateway| (gateway, Reason::OneSided(gateway)));
    let (gateway, reason) = unreachable().or_else(one_sided)?;
    Some((begin(watch, BTreeSet::from([gateway])), reason))
}

fn begin(watch: &Watch, gateways: BTreeSet<GatewayId>) -> Proposal {
    Proposal::BeginRemoval(BeginRemoval { cell: watch.facts.cell.id, view: watch.view(), gateways })
}

/// A view without those that leave, once nobody of them can answer reads any more.
fn remove(watch: &Watch, now: ClockReading) -> Option<(Proposal, Reason)> {
    let cell = &watch.facts.cell;
    if !all_leases_ended(watch, cell.removing.iter().copied(), now) {
        return None;
    }
    let devices = without_cut_off(watch, devices(watch, false, now)?, now);
    let proposal = install(watch, staying(watch).collect(), devices);
    Some((proposal, Reason::LeasesEnded(cell.removing.clone())))
}

/// Without the devices beside gateways that leave, if a member that stays can't reach them: what was believed of the gateway is believed
/// of them. Recovery would wait for them, and so would every write. At least one stays.
fn without_cut_off(watch: &Watch, devices: BTreeSet<DeviceId>, now: ClockReading) -> BTreeSet<DeviceId> {
    let cell = &watch.facts.cell;
    let leaving: BTreeSet<NodeId> = cell.removing.iter().filter_map(|gateway| Some(cell.members.get(gateway)?.node)).collect();
    let is_beside = |device: &DeviceId| watch.facts.node_of(*device).is_some_and(|node| leaving.contains(&node));
    let stays = |device: &DeviceId| !is_beside(device) || !is_reported(watch, *device, now);
    let remaining: BTreeSet<DeviceId> = devices.iter().copied().filter(stays).collect();
    if remaining.is_empty() { devices } else { remaining }
}

fn install(watch: &Watch, members: BTreeSet<GatewayId>, devices: BTreeSet<DeviceId>) -> Proposal {
    Proposal::InstallView(InstallView { cell: watch.facts.cell.id, expected: watch.view(), members, devices })
}

fn change_devices(watch: &Watch, now: ClockReading) -> Option<(Proposal, Reason)> {
    let devices = devices(watch, is_settled(watch, now), now)?;
    if devices == watch.facts.table_devices() {
        return None;
    }
    Some((install(watch, staying(watch).collect(), devices.clone()), Reason::Devices(devices)))
}

/// Whether nobody leaves, is undecided or recovers everything, and every member has told that it has installed the view. Who or what comes
/// waits for that; who or what goes does not.
fn is_settled(watch: &Watch, now: ClockReading) -> bool {
    let cell = &watch.facts.cell;
    let has_installed = |gateway| last_of(watch, gateway, now).is_some_and(|heartbeat| heartbeat.view == watch.view());
    let is_quiet = cell.undecided.is_empty() && cell.removing.is_empty() && !cell.is_founding();
    is_quiet && staying(watch).all(has_installed)
}

/// The devices that the next view writes to: those of now that are not lost, and those that may come back: who waits does sooner where
/// too few hosts would be left without it, and at once where none would. None if there would be none.
fn devices(watch: &Watch, may_return: bool, now: ClockReading) -> Option<BTreeSet<DeviceId>> {
    let table = watch.facts.table_devices();
    let active = |device: &DeviceId| watch.facts.devices.contains_key(device);
    let spared = reach::spared(watch, &live_members(watch, now), now);
    let stays = |device: &DeviceId| active(device) && (spared.contains(device) || !is_lost(watch, *device, now));
    let mut devices = without_leaving(watch, table.iter().copied().filter(stays).collect(), now);
    if may_return {
        let ready =
            watch.facts.devices.keys().copied().filter(|device| !table.contains(device) && is_ready(watch, *device, now));
        let ready = ready.filter(|device| !is_reported(watch, *device, now));
        let (waiting, returning): (BTreeSet<_>, BTreeSet<_>) =
            ready.partition(|device| watch.device_backoffs.is_waiting(device, now));
        devices.extend(returning);
        let has_waited = |device: &DeviceId| watch.device_backoffs.has_waited(device, FEW_HOSTS_BACKOFF_MS, now);
        // Those of a node that is about to stop are as good as gone.
        let remaining = remaining(watch, &devices, now);
        // Each time that it hangs again no write is acknowledged for some seconds.
        let early = if remaining.is_empty() { waiting } else { waiting.into_iter().filter(has_waited).collect() };
        if !reach::has_as_many_hosts(watch, &remaining, &(&remaining | &early), LEAST_HOSTS) {
            env::mark("overseer: a device comes back before its time");
            devices.extend(early);
        }
    }
    if devices.is_empty() {
        // Better to write to devices that may be lost than to none.
        devices = table.into_iter().filter(active).collect();
    }
    (!devices.is_empty()).then_some(devices)
}

/// Without the devices of nodes that are about to stop: what finds them gone waits until their silence is noticed. When all nodes stop at once those that are left stay: what
/// was written to one alone would be missing where that one does not come back.
fn without_leaving(watch: &Watch, devices: BTreeSet<DeviceId>, now: ClockReading) -> BTreeSet<DeviceId> {
    let remaining = remaining(watch, &devices, now);
    if remaining.len() == devices.len() || !reach::has_as_many_hosts(watch, &remaining, &devices, LEAST_HOSTS) {
        return devices;
    }
    env::mark("overseer: the devices of a node that stops leave");
    remaining
}

/// Those of the devices whose nodes don't say that they are about to stop.
fn remaining(watch: &Watch, devices: &BTreeSet<DeviceId>, now: ClockReading) -> BTreeSet<DeviceId> {
    devices.iter().copied().filter(|device| !is_leaving(watch, *device, now)).collect()
}

/// Whether a device's node says that it is about to stop.
fn is_leaving(watch: &Watch, device: DeviceId, now: ClockReading) -> bool {
    let last = watch.facts.node_of(device).and_then(|node| watch.heard.last(node, now));
    last.is_some_and(|heartbeat| heartbeat.leaves)
}

/// Whether a device of the table can't be written to. A device that belongs to no node has nobody to tell.
fn is_lost(watch: &Watch, device: DeviceId, now: ClockReading) -> bool {
    let Some(node) = watch.facts.node_of(device) else { return false };
    if !watch.heard.is_node_heard(node, now) {
        return true;
    }
    // Taken as heard by a new leader, it may not have said anything.
    watch.heard.last(node, now).is_some_and(|heartbeat| !heartbeat.serves(device)) || is_unreachable(watch, device, now)
}

/// Whether members say that they can't reach a device: a majority of them, or one for long (but for those that are
/// [`reach::spared`]).
fn is_unreachable(watch: &Watch, device: DeviceId, now: ClockReading) -> bool {
    let reports = reports(watch, device, now);
    reports.len() >= reach::majority(watch) || reports.iter().any(|reported_ms| *reported_ms >= UNREACHABLE_DEVICE_MS)
}

/// Whether a device's node has spoken to this leader, a moment ago. To be taken as heard by a new leader is not enough: then it may be dead.
pub(super) fn is_spoken_for(watch: &Watch, device: DeviceId, now: ClockReading) -> bool {
    watch.facts.node_of(device).is_some_and(|node| watch.heard.last(node, now).is_some())
}

/// The same of a gateway.
pub(super) fn speaks(watch: &Watch, gateway: GatewayId, now: ClockReading) -> bool {
    last_of(watch, gateway, now).is_some()
}

/// Whether any member says so.
pub(super) fn is_reported(watch: &Watch, device: DeviceId, now: ClockReading) -> bool {
    !reports(watch, device, now).is_empty()
}

/// Whether a device's node says that it has failed, or hangs.
pub(super) fn has_failed(watch: &Watch, device: DeviceId, now: ClockReading) -> bool {
    let last = watch.facts.node_of(device).and_then(|node| watch.heard.last(node, now));
    last.is_some_and(|heartbeat| heartbeat.failed_devices.contains(&device))
}

/// For how long each member that can't reach a device has said so.
pub(super) fn reports(watch: &Watch, device: DeviceId, now: ClockReading) -> Vec<u64> {
    let live = live_members(watch, now);
    let nodes = live.iter().map(|gateway| watch.facts.cell.members[gateway].node);
    nodes.filter_map(|node| watch.heard.device_reported_ms(node, device, now)).collect()
}

/// Whether a device's node says that it is well and has all fences, and stays.
pub(super) fn is_ready(watch: &Watch, device: DeviceId, now: ClockReading) -> bool {
    let last = watch.facts.node_of(device).and_then(|node| watch.heard.last(node, now));
    last.is_some_and(|heartbeat| heartbeat.serves(device) && heartbeat.fences >= watch.view() && !heartbeat.leaves)
}

/// Whether a device's node lists it among its own.
fn is_served(watch: &Watch, device: DeviceId, now: ClockReading) -> bool {
    let last = watch.facts.node_of(device).and_then(|node| watch.heard.last(node, now));
    last.is_some_and(|heartbeat| heartbeat.devices.iter().any(|report| report.device == device))
}

fn finish_founding(watch: &Watch, now: ClockReading) -> Option<(Proposal, Reason)> {
    let cell = &watch.facts.cell;
    let gateway = cell.installed.as_ref().filter(|installed| installed.founding)?.leader;
    let heartbeat = last_of(watch, gateway, now)?;
    if heartbeat.view != watch.view() || !heartbeat.founding_done {
        return None;
    }
    let proposal = FinishFounding { cell: cell.id, view: watch.view(), gateway };
    Some((Proposal::FinishFounding(proposal), Reason::Founded(gateway)))
}

/// Recovery is over for those that the leader has recovered and in a checkpoint, and that every member has heard to be decided.
fn finish_recovery(watch: &Watch, now: ClockReading) -> Option<(Proposal, Reason)> {
    let cell = &watch.facts.cell;
    let under_view = |gateway| last_of(watch, gateway, now).filter(|heartbeat| heartbeat.view == watch.view());
    if !under_view(cell.installed.as_ref()?.leader)?.recovered {
        return None;
    }
    let knows = |member, gateway| under_view(member).is_some_and(|heartbeat| heartbeat.decided.contains(&gateway));
    let is_decided = |gateway: &GatewayId| cell.view_members().iter().all(|member| knows(*member, *gateway));
    let gateways: BTreeSet<GatewayId> = cell.undecided.keys().copied().filter(is_decided).collect();
    if gateways.is_empty() {
        return None;
    }
    let proposal = FinishRecovery { cell: cell.id, view: watch.view(), gateways: gateways.clone() };
    Some((Proposal::FinishRecovery(proposal), Reason::Recovered(gateways)))
}

/// Whether no member says that it can't reach a gateway, and the gateway does not say so of a member. Who joins over a link that does not
/// carry stops everybody's writes until it is removed again.
fn is_reached_by_all(watch: &Watch, gateway: GatewayId, now: ClockReading) -> bool {
    let says_of = |by: GatewayId, of: GatewayId| {
        last_of(watch, by, now).is_some_and(|heartbeat| heartbeat.unreachable_gateways.contains(&of))
    };
    staying(watch).all(|member| !says_of(member, gateway) && !says_of(gateway, member))
}

/// One learner at a time, when nothing is under way.
fn join(watch: &Watch, now: ClockReading) -> Option<(Proposal, Reason)> {
    let cell = &watch.facts.cell;
    if !is_settled(watch, now) || cell.is_full() {
        return None;
    }
    // Everybody would wait for one that does not install the view.
    let follows = |heartbeat: &Heartbeat| !watch.is_behind(heartbeat, now);
    let is_loadable =
        |gateway| last_of(watch, gateway, now).is_some_and(|heartbeat| heartbeat.is_loadable && follows(heartbeat));
    let may_join = |gateway, node| {
        let is_waiting = watch.gateway_backoffs.is_waiting(&node, now);
        !is_waiting && is_reached_by_all(watch, gateway, now) && !reach::would_be_one_sided(watch, gateway, now)
    };
    let (gateway, _) = cell.learners().find(|(gateway, member)| is_loadable(*gateway) && may_join(*gateway, member.node))?;
    let mut members: BTreeSet<GatewayId> = staying(watch).collect();
    members.insert(gateway);
    Some((install(watch, members, devices(watch, true, now)?), Reason::Joins(gateway)))
}

/// The learner that would recover everything: the least one that lives and follows.
fn founder(watch: &Watch, now: ClockReading) -> Option<GatewayId> {
    let lives = |gateway: &GatewayId| last_of(watch, *gateway, now).is_some_and(|heartbeat| !watch.is_behind(heartbeat, now));
    watch.facts.cell.learners().map(|(gateway, _)| gateway).find(lives)
}

/// Nobody of the view lives and follows: a learner begins anew with all devices, or with those that are well after a while, or at once where the
/// nodes of the others say that they lack them. First it is made sure that
/// nobody's lease is renewed, should somebody come back.
fn found(watch: &Watch, now: ClockReading) -> Option<(Proposal, Reason)> {
    let cell = &watch.facts.cell;
    let gateway = founder(watch, now)?;
    if !all_leases_ended(watch, cell.view_members().iter().copied(), now) {
        return None;
    }
    let all: BTreeSet<DeviceId> = watch.facts.devices.keys().copied().collect();
    let ready: BTreeSet<DeviceId> = all.iter().copied().filter(|device| is_ready(watch, *device, now)).collect();
    let has_waited = watch.orphaned_since.is_some_and(|since| elapsed_ms(since, now) >= FOUNDING_WAIT_MS);
    // Its node has opened its devices, and this one is not among them: to wait for it brings nothing.
    let is_told_to_lack =
        |device: &DeviceId| is_spoken_for(watch, *device, now) && !ready.contains(device) && !is_served(watch, *device, now);
    let all_told = all.iter().all(|device| ready.contains(device) || is_told_to_lack(device));
    if ready.is_empty() || (ready != all && !has_waited && !all_told) {
        return None;
    }
    let remaining: BTreeSet<GatewayId> = staying(watch).collect();
    if !remaining.is_empty() {
        return Some((begin(watch, remaining), Reason::NobodyLives(gateway)));
    }
    let proposal = FoundView { cell: cell.id, expected: watch.view(), gateway, devices: ready };
    Some((Proposal::FoundView(proposal), Reason::NobodyLives(gateway)))
}
