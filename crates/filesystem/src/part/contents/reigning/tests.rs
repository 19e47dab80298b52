use std::collections::{BTreeMap, BTreeSet};

use types::{DeviceId, FileVolumeId, NodeId};

use super::*;

/// Nodes 1 to 3; node 1 has devices 0 and 1, node 2 device 2, node 3 none that takes writes.
#[test]
fn a_copy_stays_where_it_is_and_others_are_spread() {
    let takers = BTreeMap::from([(NodeId(1), vec![DeviceId(0), DeviceId(1)]), (NodeId(2), vec![DeviceId(2)])]);
    let members = [1, 2, 3].map(NodeId);
    let of = |volume: u32, present: &[(u32, u32)]| {
        let copies = present.iter().map(|(node, device)| (NodeId(*node), DeviceId(*device))).collect();
        let record = Record { copies, in_sync: BTreeSet::new(), ..Record::default() };
        let wanted = copies_on(&members, &takers, FileVolumeId(volume), &record);
        wanted.into_iter().map(|(node, device)| (node.0, device.0)).collect::<Vec<_>>()
    };
    assert_eq!(of(4, &[]), [(1, 0), (2, 2)]);
    assert_eq!(of(5, &[]), [(1, 1), (2, 2)], "volumes spread over the devices of a node");
    assert_eq!(of(5, &[(1, 0)]), [(1, 0), (2, 2)], "a copy stays");
    assert_eq!(of(5, &[(1, 7)]), [(1, 1), (2, 2)], "but not on a device that takes no writes");
}
