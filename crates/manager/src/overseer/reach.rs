//! Who leaves a view because links do not carry, and what a report of one member alone can't do.
//!
//! A report says that a link is bad, not which of its ends. So of gateways the one leaves that most bad links end at, whoever
//! reports them: it takes the fewest to leave that way. Of devices, which report nobody, most members are believed; one alone
//! takes a device out of the table only where copies stay as many and as far apart. Else it would leave all that everybody writes
//! on one host, for its own link.

use std::collections::BTreeSet;

use topology::ClockReading;
use types::limits::MAX_REPLICAS;
use types::{DeviceId, GatewayId, NodeId};

use super::rules::{is_ready, is_reported, last_of, live_members, reports, staying};
use super::{ONE_SIDED_GATEWAY_MS, UNREACHABLE_DEVICE_MS, UNREACHABLE_GATEWAY_MS, Watch};

/// So many members are most of them.
pub(super) fn majority(watch: &Watch) -> usize {
    staying(watch).count() / 2 + 1
}

/// The member with the most bad links; of several the one with the most reports against it, of these the greatest.
///
/// When many are lost, whoever notices first is for a moment the only one that reports anybody. So a member's own word counts
/// against itself later than against others; until it does, nobody leaves if that would make another the one.
pub(super) fn unreachable(watch: &Watch, live: &BTreeSet<GatewayId>, now: ClockReading) -> Option<GatewayId> {
    let most = most_bad_links(watch, live, UNREACHABLE_GATEWAY_MS, now);
    most.filter(|_| most == most_bad_links(watch, live, ONE_SIDED_GATEWAY_MS, now))
}

/// As far as members' own reports have lasted so long.
fn most_bad_links(watch: &Watch, live: &BTreeSet<GatewayId>, own_ms: u64, now: ClockReading) -> Option<GatewayId> {
    let says = |by: GatewayId, of: GatewayId, least_ms: u64| {
        let node = watch.facts.cell.members[&by].node;
        watch.heard.gateway_reported_ms(node, of, now).is_some_and(|reported_ms| reported_ms >= least_ms)
    };
    let rank = |gateway: GatewayId| {
        let is_reported_by = |other: GatewayId| says(other, gateway, UNREACHABLE_GATEWAY_MS);
        let others = || live.iter().copied().filter(|other| *other != gateway);
        let links = others().filter(|other| is_reported_by(*other) || says(gateway, *other, own_ms)).count();
        (links, others().filter(|other| is_reported_by(*other)).count(), gateway)
    };
    let (links, _, gateway) = live.iter().copied().map(rank).max()?;
    (links > 0).then_some(gateway)
}

/// The member that leaves because of devices that it can't reach and most others can: of several the one that reports most of
/// them, of these the greatest. What else it reports of them does not count any more.
pub(super) fn one_sided(watch: &Watch, live: &BTreeSet<GatewayId>, now: ClockReading) -> Option<GatewayId> {
    let spared = spared(watch, live, now);
    if spared.is_empty() {
        return None;
    }
    let count = |gateway: &GatewayId| reported_for_long(watch, *gateway, now).intersection(&spared).count();
    live.iter().map(|gateway| (count(gateway), *gateway)).max().map(|(_, gateway)| gateway)
}

/// Devices that a minority has reported for long, if there would be fewer copies without them, or nearer ones: they stay, and who
/// reports them leaves.
pub(super) fn spared(watch: &Watch, live: &BTreeSet<GatewayId>, now: ClockReading) -> BTreeSet<DeviceId> {
    let reported = live.iter().flat_map(|gateway| reported_for_long(watch, *gateway, now));
    let spared: BTreeSet<DeviceId> = reported.filter(|device| is_wanted(watch, *device, now)).collect();
    if is_enough_without(watch, &spared, now) { BTreeSet::new() } else { spared }
}

/// Whether a gateway that would join would have to leave at once.
pub(super) fn would_be_one_sided(watch: &Watch, gateway: GatewayId, now: ClockReading) -> bool {
    let reported = last_of(watch, gateway, now).into_iter().flat_map(|heartbeat| heartbeat.unreachable_devices.iter().copied());
    let reported = reported.filter(|device| is_wanted(watch, *device, now)).collect();
    !is_enough_without(watch, &reported, now)
}

fn reported_for_long(watch: &Watch, gateway: GatewayId, now: ClockReading) -> BTreeSet<DeviceId> {
    watch.heard.devices_reported_for(watch.facts.cell.members[&gateway].node, UNREACHABLE_DEVICE_MS, now)
}

/// Whether a device should be written to as far as all but a minority can say: it is there, and in the table, or could come into
/// it.
///
/// Where it is not in the table, half of the members are no minority. A majority that had it taken out may have lost one since:
/// then those that are left of it would leave too, one after the other. And who reported it a moment ago counts as if it did still: when a device is
/// back one of them is the last to notice, and would leave for that.
fn is_wanted(watch: &Watch, device: DeviceId, now: ClockReading) -> bool {
    let Some(node) = watch.facts.node_of(device) else { return false };
    let serves = watch.heard.last(node, now).is_some_and(|heartbeat| heartbeat.serves(device));
    if !serves || (is_reported(watch, device, now) && is_beside_an_outsider(watch, node)) {
        return false;
    }
    if watch.facts.table_devices().contains(&device) {
        return reports(watch, device, now).len() < majority(watch);
    }
    let live = live_members(watch, now);
    let has_reported = |gateway: &&GatewayId| {
        let node = watch.facts.cell.members[*gateway].node;
        watch.heard.has_reported_lately(node, device, now)
    };
    is_ready(watch, device, now) && 2 * live.iter().filter(has_reported).count() < live.len()
}

/// Whether a node's gateway is out of the view although there is room: that a link to it does not carry was judged with the
/// gateway, and one of the link's two ends has left for it.
fn is_beside_an_outsider(watch: &Watch, node: NodeId) -> bool {
    let cell = &watch.facts.cell;
    let mut gateways = cell.members.iter().chain(&cell.undecided).filter(|(_, member)| member.node == node).peekable();
    !cell.is_full() && gateways.peek().is_some() && gateways.all(|(gateway, _)| !staying(watch).any(|stays| stays == *gateway))
}

/// Whether there would be as many copies, as far apart, without these of the wanted devices.
fn is_enough_without(watch: &Watch, without: &BTreeSet<DeviceId>, now: ClockReading) -> bool {
    if without.is_empty() {
        return true;
    }
    let active = watch.facts.devices.keys().copied();
    let wanted: BTreeSet<DeviceId> = active.filter(|device| is_wanted(watch, *device, now)).collect();
    let left: BTreeSet<DeviceId> = wanted.difference(without).copied().collect();
    has_as_many_hosts(watch, &left, &wanted, MAX_REPLICAS)
}

/// Whether those that are left are on as many hosts as all of them, or on so many. On one host copies are on different nodes, as
/// tables have it.
pub(super) fn has_as_many_hosts(watch: &Watch, left: &BTreeSet<DeviceId>, all: &BTreeSet<DeviceId>, enough: usize) -> bool {
    let all_hosts = hosts(watch, all).len();
    if all_hosts > 1 {
        hosts(watch, left).len() >= all_hosts.min(enough)
    } else {
        nodes(watch, left).len() >= nodes(watch, all).len().min(enough)
    }
}

fn nodes(watch: &Watch, devices: &BTreeSet<DeviceId>) -> BTreeSet<NodeId> {
    devices.iter().filter_map(|device| watch.facts.node_of(*device)).collect()
}

/// Hosts by all their names: equal ones in two racks are two.
fn hosts<'a>(watch: &'a Watch, devices: &BTreeSet<DeviceId>) -> BTreeSet<[&'a str; 3]> {
    let records = nodes(watch, devices).into_iter().filter_map(|node| watch.facts.nodes.get(&node));
    records.map(|node| [node.zone.as_str(), node.rack.as_str(), node.host.as_str()]).collect()
}
