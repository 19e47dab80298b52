//! Which devices a slot gets when they stand on several nodes.
//!
//! Copies are chosen one after another. For each, only devices that share as little as possible with those chosen before are candidates:
//! another zone if there is one, else another rack, else another host, else another node. Among the candidates straw2 picks a zone by the
//! weight of its candidates, then a rack in it, a host, a node, a device ([`crate::crush`]).
//!
//! A slot's question is the same for every copy: the second copy is whoever would be first if the first were gone. So when a device
//! leaves, the slots that it was primary of are led by their second, which has all of their records, and other slots change only as far as the
//! weights of the lost device's domains do.

use super::site::{HOST, LEVELS, NODE, Site};
use super::{REPLICA_SLOTS, ReplicaSet};
use crate::crush;
use std::collections::BTreeMap;
use types::DeviceId;
use types::limits::MAX_REPLICAS;

/// Copies of each slot, and the level of domains of which each may have one copy; none if all devices are on one node, where each device is a domain
/// of its own.
pub(super) fn copies(sites: &[Site]) -> Option<(u8, usize)> {
    let count = |level: usize| {
        let mut domains: Vec<u64> = sites.iter().map(|site| site.domain(level)).collect();
        domains.sort_unstable();
        domains.dedup();
        domains.len()
    };
    let (domains, level) = [HOST, NODE].into_iter().map(|level| (count(level), level)).find(|(count, _)| *count >= 2)?;
    Some((domains.min(MAX_REPLICAS) as u8, level))
}

/// The sets of all slots.
pub(super) fn all_sets(sites: &[Site], copies: u8) -> Box<[ReplicaSet]> {
    (0..REPLICA_SLOTS).map(|slot| set(sites, copies, slot)).collect()
}

fn set(sites: &[Site], copies: u8, slot: usize) -> ReplicaSet {
    let mut chosen: Vec<&Site> = Vec::with_capacity(copies as usize);
    let mut devices = [DeviceId::default(); MAX_REPLICAS];
    for device in devices.iter_mut().take(copies as usize) {
        let shared = |site: &Site| chosen.iter().map(|other| shared_levels(site, other)).max().unwrap_or(0);
        let least = sites.iter().map(shared).min().expect("a table has a device");
        assert!(least <= LEVELS, "a set has fewer copies than there are devices");
        let candidates = sites.iter().filter(|site| shared(site) == least).collect();
        let site = pick(candidates, slot);
        *device = site.device();
        chosen.push(site);
    }
    ReplicaSet { devices, copies }
}

/// How many levels of domains two devices have in common, from the zone down; one more if they are one.
pub(super) fn shared_levels(one: &Site, other: &Site) -> usize {
    let domains = (0..LEVELS).take_while(|level| one.domain(*level) == other.domain(*level)).count();
    domains + usize::from(one.device() == other.device())
}

/// One of the candidates, by way of its zone, rack, host and node.
fn pick(mut candidates: Vec<&Site>, slot: usize) -> &Site {
    for level in 0..LEVELS {
        let mut weights: BTreeMap<u64, u64> = BTreeMap::new();
        for site in &candidates {
            let weight = weights.entry(site.domain(level)).or_default();
            *weight = weight.saturating_add(site.weight().max(1));
        }
        let domain = crush::choose(question(slot, level), weights.into_iter()).expect("there is a candidate");
        candidates.retain(|site| site.domain(level) == domain);
    }
    let devices = candidates.iter().map(|site| (u64::from(site.device().0), site.weight()));
    let device = crush::choose(question(slot, LEVELS), devices).expect("there is a candidate");
    candidates.into_iter().find(|site| u64::from(site.device().0) == device).expect("it was chosen among them")
}

fn question(slot: usize, level: usize) -> u64 {
    ((slot as u64) << 8) | level as u64
}
