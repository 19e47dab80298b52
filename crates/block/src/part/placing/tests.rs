use super::*;
use types::{ImageId, Layer};

/// Devices 10, 11, … of host 1, 20, 21, … of host 2, and so on.
fn sites(devices_of_hosts: &[u32]) -> Vec<Site> {
    let site = |host: u32, number: u32| Site { device: DeviceId(host * 10 + number), host: NodeId(host), weight: 1 << 40 };
    let hosts = devices_of_hosts.iter().zip(1_u32..);
    hosts.flat_map(|(count, host)| (0..*count).map(move |number| site(host, number))).collect()
}

fn blob(index: u32) -> BlobId {
    BlobId { image: ImageId(5), index, layer: Layer(0) }
}

fn hosts(devices: &[DeviceId]) -> BTreeSet<u32> {
    devices.iter().map(|device| device.0 / 10).collect()
}

fn place(index: u32, count: usize, sites: &[Site]) -> SmallVec<[DeviceId; 3]> {
    spread(blob(index), count, sites.to_vec(), BTreeSet::new())
}

#[test]
fn copies_are_on_distinct_hosts_where_there_are_enough() {
    let sites = sites(&[1, 4, 2, 1]);
    for index in 0..200 {
        let places = place(index, 3, &sites);
        assert_eq!((places.len(), hosts(&places).len()), (3, 3), "{places:?}");
    }
}

#[test]
fn with_too_few_hosts_they_are_on_distinct_devices() {
    let two = sites(&[2, 2]);
    let (one, lone) = (sites(&[3]), sites(&[1]));
    for index in 0..50 {
        let places = place(index, 3, &two);
        let distinct: BTreeSet<_> = places.iter().collect();
        assert_eq!((distinct.len(), hosts(&places).len()), (3, 2), "{places:?}");
        assert_eq!(hosts(&places[..2]).len(), 2, "both hosts first");
        let places = place(index, 3, &one);
        assert_eq!(places.iter().collect::<BTreeSet<_>>().len(), 3, "{places:?}");
        assert_eq!(place(index, 3, &lone).as_slice(), [DeviceId(10)], "fewer than asked for");
    }
    assert!(place(0, 3, &[]).is_empty());
}

#[test]
fn a_further_copy_avoids_the_hosts_of_those_that_are_there() {
    for index in 0..100 {
        let places = spread(blob(index), 1, sites(&[2, 2, 2]), [NodeId(1), NodeId(3)].into());
        assert_eq!(hosts(&places), [2].into());
        let places = spread(blob(index), 2, sites(&[2, 2, 2]), [NodeId(1), NodeId(3)].into());
        assert_eq!((places.len(), hosts(&places[..1])), (2, [2].into()), "then any host");
    }
}

#[test]
fn devices_get_blobs_by_their_size_and_keep_them_when_others_come() {
    let mut four = sites(&[2, 1, 1]);
    four[1].weight *= 2;
    let count = |sites: &[Site]| {
        let mut counts: BTreeMap<u32, u32> = BTreeMap::new();
        for index in 0..10_000 {
            *counts.entry(place(index, 1, sites)[0].0).or_default() += 1;
        }
        counts
    };
    // Weights 1, 2, 1, 1.
    let counts = count(&four);
    for (device, share) in [(10, 2_000), (11, 4_000), (20, 2_000), (30, 2_000)] {
        assert!(counts[&device].abs_diff(share) < share / 10, "{counts:?}");
    }
    let mut more = four.clone();
    more.push(Site { device: DeviceId(40), host: NodeId(4), weight: 1 << 40 });
    let moved = (0..10_000).filter(|index| place(*index, 1, &four) != place(*index, 1, &more));
    assert!(moved.clone().all(|index| place(index, 1, &more)[0] == DeviceId(40)), "only to the new one");
    assert!(moved.count().abs_diff(10_000 / 6) < 200);
}
