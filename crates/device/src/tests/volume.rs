//! The volume region behind the zones.

use std::sync::Arc;
use std::time::Duration;

use disk::{
    AlignedBuf, CompletionOrder, DiskErrorKind, Fault, FaultRule, FileDisk, OpenOptions, Operation, SimDisk, SimOptions,
};
use env::Env;
use format::superblock::Region;
use types::ErrorKind;
use types::limits::BLOCK_BYTES;

use super::support::{CLUSTER, FIRST_ZONE, Seeded, ZONE_BYTES, check_read, landed, now, open, options, quiet};
use crate::{AppendClass, Device, DeviceConfig, FormatError, FormatOptions, OpenError, SyncMode, Volume, VolumeError};

const ZONES: u64 = 10;
const BLOCK: u64 = BLOCK_BYTES as u64;
const VOLUME_BYTES: u64 = 64 * BLOCK;

fn with_volume(volume_bytes: u64) -> FormatOptions {
    FormatOptions { volume_bytes, ..options() }
}

fn disk_for(env: &Env, seed: u64, volume_bytes: u64) -> SimDisk {
    let capacity_bytes = Some(FIRST_ZONE + ZONES * ZONE_BYTES + volume_bytes);
    SimDisk::new(env, SimOptions { seed, capacity_bytes, ..SimOptions::default() })
}

fn format(disk: &SimDisk, env: &Env, options: &FormatOptions) -> Result<(), FormatError> {
    now(Device::format(disk, env, options)).expect("the disk answers").map(drop)
}

fn fresh(env: &Env) -> (SimDisk, Device, Volume) {
    let disk = disk_for(env, 1, VOLUME_BYTES);
    format(&disk, env, &with_volume(VOLUME_BYTES)).expect("formats");
    let device = open(&disk, env, quiet());
    let volume = device.volume().expect("it was formatted with one");
    (disk, device, volume)
}

fn blocks(byte: u8, count: usize) -> AlignedBuf {
    AlignedBuf::copy_of(&vec![byte; count * BLOCK_BYTES])
}

fn write(volume: &Volume, offset: u64, buf: AlignedBuf) -> Result<(), VolumeError> {
    now(volume.write(offset, buf)).expect("the disk answers")
}

fn read(volume: &Volume, offset: u64, len: usize) -> Vec<u8> {
    let cached = now(volume.read(offset, len)).expect("the disk answers").expect("reads").to_vec();
    let medium = now(volume.read_medium(offset, len)).expect("the disk answers").expect("reads").to_vec();
    assert_eq!(cached, medium);
    cached
}

#[test]
fn the_volume_takes_its_bytes_from_the_zones_and_lies_behind_them() {
    let env = Env::simulated(1);
    let disk = disk_for(&env, 1, VOLUME_BYTES + 3 * BLOCK);
    format(&disk, &env, &with_volume(VOLUME_BYTES)).expect("formats");
    let superblock = now(Device::identify(&disk)).expect("the disk answers").expect("is a device");
    let (zones, volume) = (superblock.zone_region().expect("zones"), superblock.volume_region().expect("a volume"));
    assert_eq!(u64::from(zones.zone_count), ZONES);
    assert_eq!((volume.first_byte, volume.byte_count), (FIRST_ZONE + ZONES * ZONE_BYTES, VOLUME_BYTES));

    let without = disk_for(&env, 1, VOLUME_BYTES);
    format(&without, &env, &options()).expect("formats");
    assert!(open(&without, &env, quiet()).volume().is_none());
    let superblock = now(Device::identify(&without)).expect("the disk answers").expect("is a device");
    assert!(
        matches!(superblock.regions[..], [Region::Zone(zones)] if u64::from(zones.zone_count) == ZONES + VOLUME_BYTES / ZONE_BYTES)
    );
}

#[test]
fn sizes_that_cannot_be_are_refused() {
    let env = Env::simulated(1);
    let disk = disk_for(&env, 1, VOLUME_BYTES);
    let uneven = format(&disk, &env, &with_volume(VOLUME_BYTES + 1)).expect_err("no whole blocks");
    assert!(matches!(uneven, FormatError::VolumeBytes { volume_bytes, .. } if volume_bytes == VOLUME_BYTES + 1), "{uneven}");
    for volume_bytes in [VOLUME_BYTES + 3 * ZONE_BYTES, 1 << 40, u64::MAX - u64::MAX % BLOCK] {
        let error = format(&disk, &env, &with_volume(volume_bytes)).expect_err("nothing is left for zones");
        assert!(matches!(error, FormatError::NoRoomForZones { zones, .. } if zones < 8), "{error}");
        assert!(error.to_string().contains(&volume_bytes.to_string()), "{error}");
    }
    assert_eq!(disk.mutations(), 0, "nothing was written");
}

#[test]
fn a_superblock_whose_volume_overlaps_the_zones_is_refused() {
    let env = Env::simulated(1);
    let (disk, device, _) = fresh(&env);
    let superblock = now(Device::identify(&disk)).expect("the disk answers").expect("is a device");
    drop(device);
    let first_byte = FIRST_ZONE + ZONES * ZONE_BYTES;
    for wrong_byte in [first_byte - BLOCK, first_byte + 1, u64::MAX - u64::MAX % BLOCK] {
        let mut wrong = superblock.clone();
        let Some(Region::Volume(volume)) = wrong.regions.last_mut() else { panic!("the volume is last") };
        volume.first_byte = wrong_byte;
        let other = disk_for(&env, 1, VOLUME_BYTES);
        for offset in wrong.write_offsets() {
            let written = disk::DiskExt::write(&other, offset, AlignedBuf::copy_of(&wrong.encode()), disk::Durability::Durable);
            now(written).expect("the disk answers").expect("writes");
        }
        let opened = now(Device::open(Arc::new(other), &env, quiet())).expect("the disk answers");
        assert!(matches!(opened.err(), Some(OpenError::Geometry { .. })), "volume from byte {wrong_byte}");
    }
}

#[test]
fn what_was_written_is_read_and_the_rest_is_zeros() {
    let env = Env::simulated(1);
    let (disk, device, volume) = fresh(&env);
    assert_eq!(volume.byte_count(), VOLUME_BYTES);
    assert_eq!((volume.device(), volume.device_uuid()), (device.id(), device.uuid()));
    assert_eq!(read(&volume, 0, VOLUME_BYTES as usize), vec![0; VOLUME_BYTES as usize], "the file is not that long yet");
    write(&volume, 8 * BLOCK, blocks(7, 2)).expect("writes");
    let mut expected = vec![0; 16 * BLOCK_BYTES];
    expected[8 * BLOCK_BYTES..10 * BLOCK_BYTES].fill(7);
    assert_eq!(read(&volume, 0, 16 * BLOCK_BYTES), expected);
    write(&volume, VOLUME_BYTES - BLOCK, blocks(8, 1)).expect("the last block");
    assert_eq!(read(&volume, VOLUME_BYTES - BLOCK, BLOCK_BYTES), [8; BLOCK_BYTES]);

    // Zones in front of what was written first, in the hole.
    let appended = landed(&device, AppendClass::Data, 1, 5000);
    check_read(&device, 1, &appended);
    drop((device, volume));
    let disk = disk.crash();
    let device = open(&disk, &env, quiet());
    check_read(&device, 1, &appended);
    assert_eq!(read(&device.volume().expect("it stays"), 0, 16 * BLOCK_BYTES), expected, "it was durable");
}

#[test]
fn ranges_outside_and_parts_of_blocks_are_refused() {
    let env = Env::simulated(1);
    let (disk, _device, volume) = fresh(&env);
    let before = disk.mutations();
    let ranges = [
        (0, 0),
        (1, BLOCK),
        (BLOCK, 100),
        (VOLUME_BYTES, BLOCK),
        (VOLUME_BYTES - BLOCK, 2 * BLOCK),
        (u64::MAX - BLOCK + 1, BLOCK),
    ];
    for (offset, len) in ranges {
        let error = now(volume.read(offset, len as usize)).expect("at once").expect_err("refused");
        assert!(matches!(error, VolumeError::Range { byte_count: VOLUME_BYTES, .. }), "{error}");
        let error = write(&volume, offset, AlignedBuf::zeroed(len as usize)).expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert!(error.to_string().contains(&offset.to_string()), "{error}");
    }
    assert_eq!(disk.mutations(), before);
}

#[test]
fn in_a_weaker_mode_a_flush_makes_writes_durable() {
    let env = Env::simulated(1);
    let (disk, device, _) = fresh(&env);
    drop(device);
    let device = open(&disk.restart(), &env, DeviceConfig { sync: SyncMode::Off, ..quiet() });
    let volume = device.volume().expect("a volume");
    let before = device.disk().stats();
    write(&volume, 0, blocks(7, 1)).expect("writes");
    assert_eq!(device.disk().stats().durable_writes, before.durable_writes);
    now(volume.flush()).expect("the disk answers").expect("flushes");
    assert_eq!(device.disk().stats().flushes, before.flushes + 1);
}

/// What was promised about appends stays so.
#[tokio::test(start_paused = true)]
async fn a_full_file_system_refuses_the_volume_and_harms_no_zone() {
    let env = Env::simulated(1);
    let (disk, device, volume) = fresh(&env);
    disk.set_space_limit(Some(FIRST_ZONE + ZONES * ZONE_BYTES + BLOCK));
    write(&volume, 0, blocks(7, 1)).expect("there is space for one block");
    for error in [
        write(&volume, BLOCK, blocks(7, 1)).expect_err("no space"),
        now(volume.reserve(0, VOLUME_BYTES)).expect("the disk answers").expect_err("no space"),
    ] {
        assert!(matches!(&error, VolumeError::Disk { cause, .. } if cause.kind == DiskErrorKind::NoSpace), "{error}");
        assert_eq!(error.kind(), ErrorKind::Full);
    }
    assert!(device.poisoned_by().is_none());
    let appended = landed(&device, AppendClass::Data, 1, 5000);
    check_read(&device, 1, &appended);
    disk.set_space_limit(None);
    now(volume.reserve(0, VOLUME_BYTES)).expect("the disk answers").expect("there is space again");
    write(&volume, BLOCK, blocks(8, 1)).expect("there is space again");
    assert_eq!(read(&volume, 0, BLOCK_BYTES), [7; BLOCK_BYTES]);
}

#[test]
fn a_failed_write_ends_all_writing_and_reads_go_on() {
    for sync in [SyncMode::Always, SyncMode::Off] {
        let env = Env::simulated(1);
        let (disk, device, volume) = fresh(&env);
        write(&volume, 0, blocks(7, 1)).expect("writes");
        drop((device, volume));
        let disk = disk.restart();
        let device = open(&disk, &env, DeviceConfig { sync, ..quiet() });
        let volume = device.volume().expect("a volume");
        disk.add_rule(FaultRule::next(Operation::Write, Fault::Fail));
        let error = write(&volume, BLOCK, blocks(8, 1)).expect_err("it failed");
        assert!(
            matches!(&error, VolumeError::Disk { offset: BLOCK, cause, .. } if cause.kind == DiskErrorKind::Failed),
            "{error}"
        );
        assert!(device.poisoned_by().is_some());
        let error = write(&volume, BLOCK, blocks(8, 1)).expect_err("nothing is written any more");
        assert!(matches!(error, VolumeError::Poisoned { .. }), "{error}");
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        now(device.append_wait(AppendClass::Data, 64, |_| ())).expect("at once").expect_err("nor appended");
        assert_eq!(read(&volume, 0, BLOCK_BYTES), [7; BLOCK_BYTES]);
    }
}

#[test]
fn a_failed_append_ends_writing_of_the_volume_too() {
    let env = Env::simulated(1);
    let (disk, device, volume) = fresh(&env);
    disk.add_rule(FaultRule::next(Operation::Write, Fault::Fail));
    now(device.append_wait(AppendClass::Data, 64, |frame| format::frame::compose(frame, 5, types::CellId(2), &[], &[])))
        .expect("the disk answers")
        .expect_err("its zone's header failed");
    let error = write(&volume, 0, blocks(7, 1)).expect_err("nothing is written any more");
    assert!(matches!(error, VolumeError::Poisoned { .. }), "{error}");
}

#[test]
fn a_sealed_device_takes_no_write_of_its_volume() {
    let env = Env::simulated(1);
    let (_disk, device, volume) = fresh(&env);
    write(&volume, 0, blocks(7, 1)).expect("writes");
    now(device.seal()).expect("the disk answers").expect("seals");
    let error = write(&volume, 0, blocks(8, 1)).expect_err("sealed");
    assert!(matches!(error, VolumeError::Sealed { .. }), "{error}");
    assert_eq!(read(&volume, 0, BLOCK_BYTES), [7; BLOCK_BYTES]);
}

/// Nobody waits for the failed write any more, and still no other is answered as if all were well.
#[test]
fn a_write_that_nobody_waits_for_goes_on_and_its_failure_counts() {
    let env = Env::simulated(1);
    let (disk, device, volume) = fresh(&env);
    disk.set_order(CompletionOrder::Stepped);
    assert!(now(volume.write(0, blocks(7, 1))).is_none(), "under way, and dropped");
    disk.run_until_idle();
    assert_eq!(disk.peek(FIRST_ZONE + ZONES * ZONE_BYTES, BLOCK_BYTES), [7; BLOCK_BYTES]);
    disk.add_rule(FaultRule::next(Operation::Write, Fault::Fail));
    assert!(now(volume.write(0, blocks(8, 1))).is_none());
    disk.run_until_idle();
    assert!(device.poisoned_by().is_some());
}

#[test]
fn a_cut_leaves_each_write_that_was_answered() {
    for cut in 0..12 {
        let env = Env::simulated(cut);
        let disk = disk_for(&env, cut, VOLUME_BYTES);
        format(&disk, &env, &with_volume(VOLUME_BYTES)).expect("formats");
        let device = open(&disk, &env, quiet());
        let volume = device.volume().expect("a volume");
        disk.power_cut_after(cut);
        let mut seeded = Seeded(cut);
        let mut answered = vec![0_u8; VOLUME_BYTES as usize];
        for number in 1..=20_u8 {
            let (at, count) = (seeded.below(60), 1 + seeded.below(4) as usize);
            match now(volume.write(at * BLOCK, blocks(number, count))) {
                Some(result) => result.expect("writes"),
                None => {
                    // In flight at the cut: that range may be anything.
                    let unknown = at as usize * BLOCK_BYTES..(at as usize + count) * BLOCK_BYTES;
                    let disk = disk.restart();
                    let device = open(&disk, &env, quiet());
                    let mut found = read(&device.volume().expect("a volume"), 0, VOLUME_BYTES as usize);
                    found[unknown.clone()].copy_from_slice(&answered[unknown]);
                    assert!(found == answered, "cut {cut}");
                    break;
                }
            }
            let range = at as usize * BLOCK_BYTES..(at as usize + count) * BLOCK_BYTES;
            answered[range].fill(number);
        }
        assert!(disk.power_is_cut(), "cut {cut} never came");
    }
}

/// A file that stands in for a device grows behind its zones first; the hole is zeros.
#[tokio::test]
async fn a_sparse_file_has_a_volume_behind_its_zones() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("device");
    let env = Env::real_with_cores(1);
    let volume_bytes = 4 << 20;
    let capacity_bytes = Some(FIRST_ZONE + ZONES * ZONE_BYTES + volume_bytes);
    let open_file = async || {
        let options = OpenOptions { create: true, capacity_bytes, direct: true };
        // Until the last operation of the one before has ended.
        FileDisk::open_waiting(&env, &path, &options, Duration::from_secs(10)).await.expect("opens")
    };
    Device::format(&open_file().await, &env, &with_volume(volume_bytes)).await.expect("formats");
    let config = DeviceConfig { cluster: Some(CLUSTER), ..DeviceConfig::default() };
    let device = Device::open(Arc::new(open_file().await), &env, config.clone()).await.expect("opens");
    let volume = device.volume().expect("a volume");
    assert!(volume.read(0, volume_bytes as usize).await.expect("reads").iter().all(|byte| *byte == 0), "beyond the end");
    volume.write(1 << 20, blocks(7, 3)).await.expect("writes");
    assert!(device.disk().size_bytes() > FIRST_ZONE + ZONES * ZONE_BYTES);
    assert!(volume.read_medium(0, 1 << 20).await.expect("reads").iter().all(|byte| *byte == 0), "a hole");
    let header = 5_u64.to_le_bytes();
    let compose = |slot: &mut [u8]| format::frame::compose(slot, 5, types::CellId(2), &header, &[b"payload"]);
    let appended = device.append_wait(AppendClass::Data, format::frame::frame_bytes(8, 7), compose).await.expect("appends");
    volume.reserve(0, volume_bytes).await.expect("there is space");
    device.seal().await.expect("seals");
    drop((device, volume));

    let device = Device::open(Arc::new(open_file().await), &env, config).await.expect("opens again");
    assert_eq!(device.read(appended.place, 100).await.expect("reads").payload(), b"payload");
    let read = device.volume().expect("a volume").read((1 << 20) - BLOCK, 5 * BLOCK_BYTES).await.expect("reads");
    assert!(read[..BLOCK_BYTES].iter().chain(&read[4 * BLOCK_BYTES..]).all(|byte| *byte == 0));
    assert!(read[BLOCK_BYTES..4 * BLOCK_BYTES].iter().all(|byte| *byte == 7));
    let error = device.volume().expect("a volume").write(volume_bytes, blocks(1, 1)).await.expect_err("outside");
    assert_eq!(error.kind(), ErrorKind::Invalid);
}
