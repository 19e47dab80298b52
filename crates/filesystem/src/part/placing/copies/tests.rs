use super::*;

/// Nodes 1 to 3; node 1 has devices 0 and 1, node 2 device 2, node 3 none that takes writes.
#[test]
fn a_copy_stays_where_it_is_and_others_are_where_they_are_to_be() {
    let takers = BTreeMap::from([(NodeId(1), vec![DeviceId(0), DeviceId(1)]), (NodeId(2), vec![DeviceId(2)])]);
    let members = [1, 2, 3].map(NodeId);
    let of = |partition: u32, said: &[u32], present: &[(u32, u32)]| {
        let present = present.iter().map(|(node, device)| (NodeId(*node), DeviceId(*device))).collect();
        let said: Vec<DeviceId> = said.iter().copied().map(DeviceId).collect();
        let wanted = copies_on(&members, &takers, FilePartitionId(partition), &said, &present);
        wanted.into_iter().map(|(node, device)| (node.0, device.0)).collect::<Vec<_>>()
    };
    assert_eq!(of(4, &[], &[]), [(1, 0), (2, 2)]);
    assert_eq!(of(5, &[], &[]), [(1, 1), (2, 2)], "partitions spread over the devices of a node");
    assert_eq!(of(5, &[2, 0], &[]), [(1, 0), (2, 2)], "the manager's record says where");
    assert_eq!(of(5, &[], &[(1, 0)]), [(1, 0), (2, 2)], "a copy stays");
    assert_eq!(of(5, &[1], &[(1, 0)]), [(1, 0), (2, 2)], "whatever the record says");
    assert_eq!(of(5, &[0, 7], &[(1, 7)]), [(1, 0), (2, 2)], "but not on a device that takes no writes");
}
