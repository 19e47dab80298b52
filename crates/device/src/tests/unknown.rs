//! Zones of which the start can't read enough to tell their last activation.

use disk::{Fault, FaultRule, Operation, SimDisk};
use env::Env;
use types::ZoneIndex;
use types::limits::BLOCK_BYTES;

use super::support::{FIRST_ZONE, ZONE_BYTES, check_read, fresh, landed, now, open, quiet, walked};
use crate::{AppendClass, Appended, Device, LogVector, ReadError, ZoneState};

const BAD_BYTES: u64 = 16 * 1024;

/// The disk after a restart that can't read the beginning of a zone.
fn restarted(disk: &SimDisk, zone: ZoneIndex) -> SimDisk {
    let (disk, start) = (disk.restart(), FIRST_ZONE + u64::from(zone.0) * ZONE_BYTES);
    disk.add_rule(FaultRule::always_in(start..start + BAD_BYTES, Operation::Read, Fault::Fail));
    disk
}

/// A zone that was filled, and reset, and has a frame of its next activation, which is the newest one of the device.
fn reused(device: &Device) -> Appended {
    let old: Vec<Appended> = (0..8).map(|number| landed(device, AppendClass::Data, number, 9000)).collect();
    let zone = old[0].place.zone;
    now(device.finish_open_zones()).expect("the disk answers").expect("finishes");
    now(device.reset(zone)).expect("the disk answers").expect("resets");
    let mut next = landed(device, AppendClass::Data, 100, 500);
    for number in 101.. {
        if next.place.zone == zone {
            break;
        }
        now(device.finish_open_zones()).expect("the disk answers").expect("finishes");
        next = landed(device, AppendClass::Data, number, 500);
    }
    next
}

/// The activation of the frames that could be read was taken for the zone's, durably; the newer one was forgotten, and its number given out again.
#[tokio::test(start_paused = true)]
async fn a_bad_stretch_at_a_zones_start_does_not_make_its_newest_activation_forgotten() {
    let env = Env::simulated(1);
    let (disk, device) = fresh(&env, 16);
    let lost = reused(&device);
    let (zone, number) = (lost.place.zone, 100 + device.stats().activations.get());
    let newest = device.zones().iter().map(|zone| zone.activation).max().expect("zones");
    assert_eq!(newest, lost.position.activation);
    drop(device);

    let disk = restarted(&disk, zone);
    let device = open(&disk, &env, quiet());
    let (found, damaged) = walked(&device, &LogVector::uniform(lost.position));
    assert!(found.is_empty(), "nothing of an earlier activation is believed: {found:?}");
    assert!(damaged.len() == 1 && damaged[0].contains("Unreadable"), "{damaged:?}");
    let error = now(device.read(lost.place, 200)).expect("the disk answers").expect_err("it can't be read");
    assert!(matches!(error, ReadError::Disk(_)), "{error}");
    let report = now(device.scrub(zone, 0)).expect("the disk answers").expect("a zone");
    assert!(report.is_suspicious() && report.whole.is_empty(), "{report:?}");
    let next = landed(&device, AppendClass::Data, number, 500);
    assert!(next.position > lost.position && next.place.zone != zone, "{next:?}");
    // Whatever the floor is, the next start comes by it again.
    let floor = device.log_floor();
    drop(device);
    let disk = restarted(&disk, zone);
    let device = open(&disk, &env, quiet());
    assert_eq!(walked(&device, &floor).1.len(), 1);
    // An error that has passed since the start changes nothing: what was not looked at is not taken for nothing.
    disk.clear_faults();
    assert_eq!(walked(&device, &floor).1.len(), 1);
    drop(device);

    let device = open(&disk.restart(), &env, quiet());
    let (found, damaged) = walked(&device, &LogVector::uniform(lost.position));
    assert_eq!((found.len(), damaged.len()), (2, 0), "nothing was changed");
    assert_eq!(found[&number], next);
    assert!(found.values().any(|found| *found == lost), "{found:?}");
}

/// It was taken for one that was never used, and could be written over.
#[tokio::test(start_paused = true)]
async fn a_zone_of_which_nothing_can_be_read_is_not_free() {
    let env = Env::simulated(2);
    let (disk, device) = fresh(&env, 16);
    let lost = landed(&device, AppendClass::Data, 0, 500);
    now(device.seal()).expect("the disk answers").expect("seals");
    assert_eq!(device.usage().free_zones, 15);
    drop(device);
    let zone = lost.place.zone;
    let disk = restarted(&disk, zone);
    let device = open(&disk, &env, quiet());
    assert_eq!(device.usage().free_zones, 15);
    assert_eq!(device.zones()[zone.0 as usize].state, Some(ZoneState::Finished));
    assert_eq!(walked(&device, &LogVector::START).1.len(), 1);
    // Who knows that nothing in it is wanted brings it back.
    now(device.reset(zone)).expect("the disk answers").expect("resets");
    assert_eq!((device.usage().free_zones, walked(&device, &LogVector::START).1.len()), (16, 0));
    drop(device);
    let device = open(&disk.restart(), &env, quiet());
    assert_eq!(device.usage().free_zones, 16);
    assert!(landed(&device, AppendClass::Data, 1, 500).position > lost.position);
}

/// A bad block behind the first frame hides no newer activation: the others are served.
#[tokio::test(start_paused = true)]
async fn a_lost_zone_header_and_a_bad_block_lose_the_frames_in_that_block() {
    let env = Env::simulated(3);
    let (disk, device) = fresh(&env, 16);
    let frames: Vec<Appended> = (0..3).map(|number| landed(&device, AppendClass::Data, number, 9000)).collect();
    now(device.seal()).expect("the disk answers").expect("seals");
    drop(device);
    let zone = frames[0].place.zone;
    let at = FIRST_ZONE + u64::from(zone.0) * ZONE_BYTES;
    let disk = disk.restart();
    (0..2).for_each(|copy| disk.corrupt_at_rest(at + copy * BLOCK_BYTES as u64, 512));
    let bad = at + frames[1].place.offset.bytes() + BLOCK_BYTES as u64;
    disk.add_rule(FaultRule::always_in(bad..bad + 1, Operation::Read, Fault::Fail));
    let device = open(&disk, &env, quiet());
    let (found, damaged) = walked(&device, &LogVector::START);
    assert_eq!(found.keys().copied().collect::<Vec<_>>(), [0, 2]);
    assert_eq!(damaged.len(), 1, "{damaged:?}");
    check_read(&device, 2, &frames[2]);
}
