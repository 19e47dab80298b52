//! Room of data partitions: what one has and has room for, and what several have room for together. No I/O.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use types::DeviceId;

/// A device is low where so much of its capacity, one part of these, is not free for files.
const LOW_SHARE: u64 = 16;
/// But never where more than this is free: the time that a growing volume takes to fill it is enough to add a partition.
const MOST_LOW_BYTES: u64 = 16 << 30;
/// A partition with so many extents takes no new ones from clients that have another: a rebuild looks at each.
pub const MAX_OPEN_EXTENTS: u64 = 1 << 20;

/// Space, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataRoom {
    pub total_bytes: u64,
    pub free_bytes: u64,
}

/// What a store has of one partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionUse {
    pub extents: u64,
    /// In whole blocks.
    pub bytes: u64,
}

/// What a partition has, and has room for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionRoom {
    /// It is below its thresholds: clients make new extents in it.
    pub is_open: bool,
    pub used: PartitionUse,
    /// Of the devices of its copies in sync.
    pub devices: Vec<(DeviceId, DataRoom)>,
}

impl DataRoom {
    /// What both have.
    #[must_use]
    pub fn least(self, other: DataRoom) -> DataRoom {
        DataRoom { total_bytes: self.total_bytes.min(other.total_bytes), free_bytes: self.free_bytes.min(other.free_bytes) }
    }
}

impl PartitionRoom {
    /// Room for new contents: what the device with the least has.
    pub fn least(&self) -> DataRoom {
        self.devices.iter().map(|(_, room)| *room).reduce(DataRoom::least).unwrap_or_default()
    }
}

/// So many free bytes are low on a device.
pub fn low_bytes(capacity_bytes: u64) -> u64 {
    (capacity_bytes / LOW_SHARE).min(MOST_LOW_BYTES)
}

/// What partitions have room for together. Those that share a device share its room: each is taken to fill what the ones before it leave.
pub fn together<'a>(rooms: impl Iterator<Item = &'a PartitionRoom>) -> DataRoom {
    let mut left: BTreeMap<DeviceId, DataRoom> = BTreeMap::new();
    let mut sum = DataRoom::default();
    for room in rooms {
        let rest_of = |(device, room): &(DeviceId, DataRoom)| left.get(device).map_or(*room, |left| left.least(*room));
        let devices: Vec<(DeviceId, DataRoom)> = room.devices.iter().map(|known| (known.0, rest_of(known))).collect();
        let taken = devices.iter().map(|(_, room)| *room).reduce(DataRoom::least).unwrap_or_default();
        sum.total_bytes += taken.total_bytes;
        sum.free_bytes += taken.free_bytes;
        left.extend(devices.into_iter().map(|(device, room)| {
            let rest =
                DataRoom { total_bytes: room.total_bytes - taken.total_bytes, free_bytes: room.free_bytes - taken.free_bytes };
            (device, rest)
        }));
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    fn room(devices: &[(u32, u64, u64)]) -> PartitionRoom {
        let of =
            |&(device, total_bytes, free_bytes): &(u32, u64, u64)| (DeviceId(device), DataRoom { total_bytes, free_bytes });
        PartitionRoom { devices: devices.iter().map(of).collect(), ..PartitionRoom::default() }
    }

    fn sum(rooms: &[PartitionRoom]) -> (u64, u64) {
        let DataRoom { total_bytes, free_bytes } = together(rooms.iter());
        (total_bytes, free_bytes)
    }

    #[test]
    fn partitions_on_devices_of_their_own_have_room_for_the_sum() {
        assert_eq!(sum(&[]), (0, 0));
        assert_eq!(sum(&[room(&[(1, 10, 7), (2, 9, 8)])]), (9, 7), "a copy on each");
        assert_eq!(sum(&[room(&[(1, 10, 7)]), room(&[(2, 10, 4)])]), (20, 11));
    }

    #[test]
    fn a_device_is_not_counted_twice() {
        let (first, second) = (room(&[(1, 10, 6), (2, 10, 6)]), room(&[(2, 10, 6), (3, 10, 9)]));
        assert_eq!(sum(&[first.clone(), second]), (10, 6), "the second has what the first leaves of device 2");
        let third = room(&[(2, 30, 26), (3, 30, 29)]);
        assert_eq!(sum(&[first.clone(), third]), (10, 6), "each knows the device as of another moment: the least counts");
        assert_eq!(sum(&[first.clone(), first]), (10, 6), "two partitions on the same devices have no more room than one");
    }
}
