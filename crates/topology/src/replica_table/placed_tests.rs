//! Tables over several nodes.

use super::*;
use proptest::prelude::{ProptestConfig, Strategy, any, prop};
use proptest::{prop_assert, prop_assert_eq, proptest};
use std::collections::{BTreeMap, BTreeSet};
use types::NodeId;

/// A device by its zone, rack, host and node.
type Address = [u32; 4];

fn site(device: u32, [zone, rack, host, node]: Address, weight: u64) -> Site {
    let [host, rack, zone] = [format!("h{host}"), format!("r{rack}"), format!("z{zone}")];
    Site::new(DeviceId(device), weight, Some(NodeId(node)), [&host, &rack, &zone])
}

fn table(addresses: &[Address]) -> ReplicaTable {
    let sites = (0..).zip(addresses).map(|(device, address)| site(device, *address, 1 << 40)).collect();
    ReplicaTable::placed(Generation(1), sites).unwrap()
}

/// `nodes` hosts with a node each, and `devices` on each.
fn nodes(nodes: u32, devices: u32) -> Vec<Address> {
    (0..nodes).flat_map(|node| (0..devices).map(move |_| [0, 0, node, node])).collect()
}

/// A key of this slot.
fn key_of(slot: usize) -> KeyHash {
    KeyHash::from_bytes(std::array::from_fn(|at| (slot as u32).to_le_bytes()[at % 4]))
}

fn distinct(addresses: impl Iterator<Item = Address>, levels: usize) -> usize {
    addresses.map(|address| address[..levels].to_vec()).collect::<BTreeSet<_>>().len()
}

fn addresses() -> impl Strategy<Value = Vec<Address>> {
    prop::collection::vec(
        (0u32..4, 0u32..3, 0u32..3, 0u32..2).prop_map(|(zone, rack, host, node)| [zone, rack, host, node]),
        1..16,
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn a_set_is_spread_as_far_as_it_can_be(addresses in addresses()) {
        let table = table(&addresses);
        let count = |levels| distinct(addresses.iter().copied(), levels);
        let domains = if count(3) > 1 { count(3) } else if count(4) > 1 { count(4) } else { addresses.len() };
        prop_assert_eq!(table.copies(), domains.min(MAX_REPLICAS));
        for set in table.sets() {
            let devices = set.devices();
            prop_assert_eq!(devices.iter().collect::<BTreeSet<_>>().len(), table.copies());
            for levels in 1..=4 {
                let found = distinct(devices.iter().map(|device| addresses[device.0 as usize]), levels);
                prop_assert_eq!(found, count(levels).min(table.copies()), "{} levels: {:?}", levels, devices);
            }
        }
    }

    /// Whatever is lost of a set, the copies that replace it make it as spread as the table has them.
    #[test]
    fn another_copy_goes_apart_from_the_others(addresses in addresses(), slot in 0..REPLICA_SLOTS, lost in any::<u8>()) {
        let table = table(&addresses);
        let hash = key_of(slot);
        let set = table.set_of(&hash);
        prop_assert_eq!(set, table.set(slot));
        let is_kept = |index: usize| lost & (1 << index) == 0;
        let mut has: Vec<DeviceId> = (0..set.devices().len()).filter(|index| is_kept(*index)).map(|index| set.devices()[index]).collect();
        prop_assert_eq!(table.another(&hash, &has, |_| false), None);
        let gone: Vec<DeviceId> = set.devices().iter().filter(|device| !has.contains(device)).copied().collect();
        let others = |device: DeviceId| !gone.contains(&device);
        while has.len() < table.copies() {
            let may = || (0..addresses.len() as u32).map(DeviceId).filter(|device| others(*device) && !has.contains(device));
            let Some(next) = table.another(&hash, &has, others) else {
                prop_assert_eq!(may().count(), 0);
                break;
            };
            prop_assert!(may().any(|device| device == next));
            let shared = |device: DeviceId| {
                let common = |other: &DeviceId| {
                    let [one, other] = [device, *other].map(|device| addresses[device.0 as usize]);
                    (0..4).take_while(|level| one[*level] == other[*level]).count()
                };
                has.iter().map(common).max().unwrap_or(0)
            };
            let is_placed = table.sites.is_some();
            prop_assert!(!is_placed || may().all(|device| shared(device) >= shared(next)), "{:?} beside {:?}", next, has);
            has.push(next);
        }
    }

    /// Whose own place does not change keeps its slots: a slot's primary changes only if it was on the lost device, or moves because the lost
    /// device's node, host, rack or zone weighs less.
    #[test]
    fn a_lost_device_is_followed_by_its_second(count in 3u32..8, lost in any::<u32>()) {
        let before = table(&nodes(count, 1));
        let lost = DeviceId(lost % count);
        let rest = before.sites.clone().unwrap().into_iter().filter(|site| site.device() != lost).collect();
        let after = ReplicaTable::placed(Generation(2), rest).unwrap();
        for (before, after) in before.sets().zip(after.sets()) {
            let stays: Vec<DeviceId> = before.devices().iter().copied().filter(|device| *device != lost).collect();
            prop_assert_eq!(&after.devices()[..stays.len().min(after.devices().len())], &stays[..]);
        }
    }
}

/// Equal devices: within five standard deviations of an even share, as primaries; copies within a quarter.
#[test]
fn load_is_even() {
    for (count, devices) in [(2, 1), (3, 1), (3, 4), (5, 2), (8, 8)] {
        let table = table(&nodes(count, devices));
        let total = (count * devices) as usize;
        let mut primaries = vec![0usize; total];
        let mut copies = vec![0usize; total];
        for set in table.sets() {
            primaries[set.primary().0 as usize] += 1;
            set.devices().iter().for_each(|device| copies[device.0 as usize] += 1);
        }
        let mean = REPLICA_SLOTS as f64 / total as f64;
        let is_near = |found: &usize, mean: f64| (*found as f64 - mean).abs() <= 5.0 * mean.sqrt();
        assert!(primaries.iter().all(|found| is_near(found, mean)), "{count} nodes of {devices}: {primaries:?}");
        let mean = mean * table.copies() as f64;
        assert!(copies.iter().all(|found| is_near(found, mean)), "{count} nodes of {devices}: {copies:?}");
    }
}

#[test]
fn a_device_of_twice_the_capacity_leads_twice_the_slots() {
    let sites =
        (0..4).map(|device| site(device, [0, 0, device, device], if device == 0 { 2 << 40 } else { 1 << 40 })).collect();
    let table = ReplicaTable::placed(Generation(1), sites).unwrap();
    let mut primaries: BTreeMap<DeviceId, usize> = BTreeMap::new();
    table.sets().for_each(|set| *primaries.entry(set.primary()).or_default() += 1);
    let expected = REPLICA_SLOTS as f64 * 0.4;
    assert!((primaries[&DeviceId(0)] as f64 - expected).abs() < 5.0 * expected.sqrt(), "{primaries:?}");
}

/// Of twelve devices on three nodes one leaves: the slots that it led change their primary, and at most half as many others, because its
/// node weighs a quarter less.
#[test]
fn few_sets_change_their_primary_when_a_device_leaves() {
    let before = table(&nodes(3, 4));
    let rest = before.sites.clone().unwrap().into_iter().filter(|site| site.device() != DeviceId(5)).collect();
    let after = ReplicaTable::placed(Generation(2), rest).unwrap();
    let led = before.sets().filter(|set| set.primary() == DeviceId(5)).count();
    let changed = before.sets().zip(after.sets()).filter(|(one, other)| one.primary() != other.primary()).count();
    assert!(changed >= led && 2 * changed <= 3 * led, "{led} slots were led, {changed} changed");
    assert!(2 * led * 12 > REPLICA_SLOTS, "{led}");
}

#[test]
fn one_node_is_dealt_out_as_ever() {
    let placed = table(&nodes(1, 5));
    let dealt = ReplicaTable::new(Generation(1), (0..5).map(DeviceId).collect()).unwrap();
    assert_eq!(placed, dealt);
    assert!(placed.sets().eq(dealt.sets()));
}

#[test]
fn two_nodes_of_one_host_hold_two_copies() {
    let table = table(&[[0, 0, 0, 1], [0, 0, 0, 1], [0, 0, 0, 2]]);
    assert_eq!(table.copies(), 2);
    assert!(table.sets().all(|set| set.devices().contains(&DeviceId(2))));
}

#[test]
fn fields_that_contradict_each_other_are_refused() {
    let fields = |devices: &[u32], copies, sites: Option<Vec<Site>>| TableFields {
        generation: Generation(1),
        devices: devices.iter().copied().map(DeviceId).collect(),
        copies,
        sites,
    };
    let sites: Vec<Site> = (0..3).map(|device| site(device, [0, 0, device, device], 1)).collect();
    let read = |fields: TableFields| ReplicaTable::try_from(fields);
    assert_eq!(read(fields(&[0, 1, 2], 3, Some(sites.clone()))).unwrap().copies(), 3);
    assert_eq!(read(fields(&[0, 1], 2, None)).unwrap().copies(), 2);
    assert_eq!(read(fields(&[], 0, None)), Err(TableError::NoDevice));
    for wrong in [
        fields(&[0, 1], 3, None),
        fields(&[1, 0], 2, None),
        fields(&[0, 0], 1, None),
        fields(&[0, 1, 2], 2, Some(sites.clone())),
        fields(&[0, 1], 3, Some(sites.clone())),
        fields(&[0], 1, Some(sites[..1].to_vec())),
    ] {
        assert_eq!(read(wrong), Err(TableError::Inconsistent));
    }
}

/// All processes of a cluster have to come to the same sets, also those of another version.
#[test]
fn golden_sets() {
    let table = table(&nodes(4, 2));
    let found: Vec<Vec<u32>> = table.sets().take(6).map(|set| set.devices().iter().map(|device| device.0).collect()).collect();
    assert_eq!(found, GOLDEN);
}

const GOLDEN: [[u32; 3]; 6] = [[1, 6, 5], [6, 0, 2], [3, 5, 7], [1, 3, 7], [4, 7, 2], [1, 4, 2]];

#[test]
fn copies_on_one_host_count_as_one_once_there_are_others() {
    let devices = |numbers: &[u32]| -> Vec<DeviceId> { numbers.iter().copied().map(DeviceId).collect() };
    let alone = table(&nodes(1, 3));
    assert_eq!((alone.apart(&devices(&[0, 1, 2])), alone.surplus(&devices(&[0, 1, 2]))), (3, None));
    // Devices 0 to 2 on the first host, 3 to 5 on the second.
    let two = table(&nodes(2, 3));
    assert_eq!((two.apart(&devices(&[0, 1, 2])), two.surplus(&devices(&[0, 1, 2]))), (1, Some(2)));
    assert_eq!((two.apart(&devices(&[0, 4, 1])), two.surplus(&devices(&[0, 4, 1]))), (2, Some(2)));
    assert_eq!((two.apart(&devices(&[0, 4])), two.surplus(&devices(&[0, 4]))), (2, None));
    // Nothing is known of a device that is not in the table.
    assert_eq!(two.apart(&devices(&[0, 9])), 2);
}
