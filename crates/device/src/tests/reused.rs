//! Disks that held something else before.

use disk::{Disk, Fault, FaultRule, Operation, SimDisk};
use env::Env;

use super::support::{FIRST_ZONE, ZONE_BYTES, check_read, disk_with, format, landed, now, open, options, payload, quiet};
use crate::{AppendClass, Appended, Device, FormatOptions};

const ZONES: u64 = 64;

/// Fills the zones with what a file system, or anything else, may have left there.
fn fill_zones(disk: &SimDisk) {
    for zone in 0..ZONES {
        let buf = disk::AlignedBuf::copy_of(&payload(zone, ZONE_BYTES as usize));
        let write = disk::DiskExt::write(disk, FIRST_ZONE + zone * ZONE_BYTES, buf, disk::Durability::Durable);
        now(write).expect("the disk answers").expect("writes");
    }
}

/// Bytes that opening reads.
fn read_to_open(disk: &SimDisk, env: &Env) -> u64 {
    let before = disk.stats().read_bytes;
    let device = open(disk, env, quiet());
    assert_eq!(u64::from(device.usage().free_zones), ZONES);
    disk.stats().read_bytes - before
}

/// The header areas, the first blocks behind them, and the superblocks.
const QUICK_BYTES: u64 = ZONES * ZONE_BYTES / 2;

#[tokio::test(start_paused = true)]
async fn a_disk_that_held_something_is_not_read_whole_at_a_start() {
    let env = Env::simulated(1);
    let disk = disk_with(&env, 1, ZONES);
    fill_zones(&disk);
    let again = FormatOptions { overwrite: true, ..options() };
    now(Device::format(&disk, &env, &again)).expect("the disk answers").expect("formats");
    for _ in 0..2 {
        let read = read_to_open(&disk, &env);
        assert!(read < QUICK_BYTES, "{read} bytes were read");
    }
    // One in use that loses its header is found again all the same.
    let device = open(&disk, &env, quiet());
    let appended: Vec<Appended> = (0..5).map(|number| landed(&device, AppendClass::Data, number, 3000)).collect();
    drop(device);
    disk.corrupt_at_rest(FIRST_ZONE + u64::from(appended[0].place.zone.0) * ZONE_BYTES, 8192);
    let device = open(&disk.crash(), &env, quiet());
    for (number, appended) in appended.iter().enumerate() {
        check_read(&device, number as u64, appended);
    }
}

/// Such as were formatted before there was the mark.
#[tokio::test(start_paused = true)]
async fn a_zone_that_was_searched_in_vain_is_not_searched_again() {
    let env = Env::simulated(2);
    let disk = disk_with(&env, 2, ZONES);
    format(&disk, &env);
    fill_zones(&disk);
    // Of this one nobody can say what it holds.
    let unreadable = FIRST_ZONE + 5 * ZONE_BYTES;
    let bad = unreadable + 32 * 1024..unreadable + 36 * 1024;
    disk.add_rule(FaultRule::always_in(bad, Operation::Read, Fault::Fail));
    let first = read_to_open(&disk, &env);
    assert!(first > ZONES * ZONE_BYTES - ZONE_BYTES, "{first} bytes were read");
    assert_eq!(disk.peek(unreadable, 8192), payload(5, 8192), "its start is left as it was");
    disk.clear_faults();
    for _ in 0..2 {
        let again = read_to_open(&disk, &env);
        assert!(again < QUICK_BYTES, "{again} bytes were read again");
    }
}
