use super::{MAX_SHARE_BYTES, of_devices, share_of};
use device::{ZoneInfo, ZoneState};
use format::manifest::{FULL_SHARE, Manifest};
use types::{Activation, DeviceId, ZoneIndex};

const ZONE_BYTES: u64 = 64 << 20;
/// The manager takes no longer manifest.
const MAX_MANIFEST_BYTES: usize = 4 << 20;

fn zone(zone: u32, state: ZoneState, live_bytes: u64) -> (ZoneInfo, u64) {
    let activation = Activation(u64::from(zone) + 1);
    let info = ZoneInfo { zone: ZoneIndex(zone), state: Some(state), stream: None, activation, written_bytes: 0 };
    (info, live_bytes)
}

#[test]
fn a_share_is_of_zones_in_use() {
    use ZoneState::{Finished, Free, Open};
    for (live_bytes, share) in [(0, 0), (1, 1), (ZONE_BYTES / 2, 128), (ZONE_BYTES, FULL_SHARE), (2 * ZONE_BYTES, FULL_SHARE)] {
        assert_eq!(share_of(&[zone(0, Finished, live_bytes)], ZONE_BYTES), share, "{live_bytes} bytes");
    }
    let neighbours = [zone(0, Open, ZONE_BYTES), zone(1, Finished, 0), zone(2, Free, ZONE_BYTES)];
    assert_eq!(share_of(&neighbours, ZONE_BYTES), 128);
    assert_eq!(share_of(&neighbours[2..], ZONE_BYTES), 0);
}

/// With a row for each zone, four disks of 4 TB that were three quarters full of large objects had a manifest that the manager refused: there were no more
/// checkpoints, and nothing was collected.
#[test]
fn the_hints_of_many_large_devices_fit_a_manifest() {
    for devices in [1, 6, 100] {
        let zones = || (0..64 << 10).map(|number| zone(number, ZoneState::Finished, ZONE_BYTES / 3)).collect();
        let devices: Vec<_> = (0..devices).map(|device| (DeviceId(device), ZONE_BYTES, zones())).collect();
        let live = of_devices(&devices);
        assert_eq!(live.len(), devices.len());
        assert!(live.iter().map(|live| live.shares.len()).sum::<usize>() <= MAX_SHARE_BYTES + devices.len());
        let all_alike = |number| live.iter().all(|live| live.share(ZoneIndex(number)) == FULL_SHARE / 3);
        assert!([0, 4_711, (64 << 10) - 1].into_iter().all(all_alike));
        let bytes = Manifest { live, ..Manifest::default() }.encode().len();
        assert!(bytes < MAX_MANIFEST_BYTES, "{bytes} bytes");
    }
}

#[test]
fn free_zones_at_the_end_take_nothing() {
    let zones = |live: u64| vec![zone(0, ZoneState::Finished, live), zone(1, ZoneState::Free, 0)];
    let live = of_devices(&[(DeviceId(1), ZONE_BYTES, zones(0)), (DeviceId(2), ZONE_BYTES, zones(9))]);
    assert_eq!((live.len(), live[0].device, live[0].newest, &live[0].shares[..]), (1, DeviceId(2), Activation(2), &[1][..]));
    assert_eq!(live[0].share(ZoneIndex(1)), 0);
}
