//! Volumes: blocks in zones that the log lends.

use std::sync::Arc;
use std::time::Duration;

use disk::{AlignedBuf, CompletionOrder, DiskErrorKind, Fault, FaultRule, FileDisk, OpenOptions, Operation, SimDisk};
use env::Env;
use format::zone_header::{ZONE_DATA_START, ZoneState};
use types::limits::BLOCK_BYTES;
use types::{ErrorKind, ZoneIndex};

use super::support::{
    CLUSTER, FIRST_ZONE, Seeded, ZONE_BYTES, check_read, disk_with, format, fresh, landed, now, open, options, quiet,
};
use crate::limits::{LENDING_LEAVES_ZONES, LENDING_WISH_TIME};
use crate::{AppendClass, Device, DeviceConfig, OpenError, SyncMode, Volume, VolumeError, VolumeOwner};

const ZONES: u64 = 12;
const BLOCK: u64 = BLOCK_BYTES as u64;
const UNIT: u64 = ZONE_BYTES - ZONE_DATA_START;
const UNIT_BLOCKS: usize = (UNIT / BLOCK) as usize;
/// What a fresh device may lend.
const LENDABLE: u64 = ZONES - 4 - LENDING_LEAVES_ZONES as u64;

pub fn volume_of(device: &Device) -> Volume {
    device.volume(VolumeOwner::Chunks)
}

fn fresh_volume(env: &Env) -> (SimDisk, Device, Volume) {
    let (disk, device) = fresh(env, ZONES);
    let volume = volume_of(&device);
    (disk, device, volume)
}

fn blocks(byte: u8, count: usize) -> AlignedBuf {
    AlignedBuf::copy_of(&vec![byte; count * BLOCK_BYTES])
}

fn reserve(volume: &Volume, offset: u64, len: u64) -> Result<(), VolumeError> {
    now(volume.reserve(offset, len)).expect("the disk answers")
}

fn write(volume: &Volume, offset: u64, buf: AlignedBuf) -> Result<(), VolumeError> {
    now(volume.write(offset, buf)).expect("the disk answers")
}

fn give_back(volume: &Volume, unit: u32) {
    now(volume.give_back(unit)).expect("the disk answers").expect("gives back");
}

fn read(volume: &Volume, offset: u64, len: usize) -> Vec<u8> {
    let cached = now(volume.read(offset, len)).expect("the disk answers").expect("reads").to_vec();
    let medium = now(volume.read_medium(offset, len)).expect("the disk answers").expect("reads").to_vec();
    assert_eq!(cached, medium);
    cached
}

/// Changes most bytes of each sector.
fn ruin(disk: &SimDisk, offset: u64, len: u64) {
    (0..1000).for_each(|_| disk.corrupt_at_rest(offset, len));
}

fn lent(device: &Device) -> Vec<ZoneIndex> {
    device.zones().iter().filter(|zone| zone.state == Some(ZoneState::Lent)).map(|zone| zone.zone).collect()
}

#[test]
fn parts_of_a_volume_have_addresses_of_their_own() {
    let env = Env::simulated(1);
    let (_disk, device, first) = fresh_volume(&env);
    let third = first.part(2);
    reserve(&first, 0, UNIT).expect("gets space");
    reserve(&third, UNIT, UNIT).expect("gets space");
    write(&first, 0, blocks(1, 1)).expect("writes");
    write(&third, UNIT, blocks(3, 1)).expect("writes");
    assert_eq!((first.units(), third.units(), first.parts()), (vec![0], vec![1], vec![0, 2]));
    assert_eq!(read(&first, 0, BLOCK_BYTES), vec![1; BLOCK_BYTES]);
    assert_eq!(read(&third, 0, BLOCK_BYTES), vec![0; BLOCK_BYTES]);
    assert_eq!(read(&third, UNIT, BLOCK_BYTES), vec![3; BLOCK_BYTES]);
    give_back(&third, 1);
    assert_eq!((first.units(), third.units(), device.usage().lent_zones), (vec![0], vec![], 1));
}

#[test]
fn a_volume_takes_space_where_it_is_written_to_and_reads_as_zeros_elsewhere() {
    let env = Env::simulated(1);
    let (disk, device, volume) = fresh_volume(&env);
    assert_eq!(volume.byte_count(), ZONES * UNIT);
    assert_eq!((volume.device(), volume.device_uuid()), (device.id(), device.uuid()));
    assert_eq!((volume.units(), device.usage().lent_zones), (vec![], 0));
    assert_eq!(read(&volume, 0, 3 * UNIT as usize), vec![0; 3 * UNIT as usize]);
    // Across the border of two units.
    let at = UNIT - 2 * BLOCK;
    assert!(!volume.is_reserved(at, 4 * BLOCK));
    reserve(&volume, at, 4 * BLOCK).expect("there is space");
    assert!(volume.is_reserved(at, 4 * BLOCK));
    write(&volume, at, blocks(7, 4)).expect("writes");
    assert_eq!((volume.units(), device.usage().lent_zones), (vec![0, 1], 2));
    assert_eq!(device.owners()[0].bytes, 2 * ZONE_BYTES);
    let mut expected = vec![0; 3 * UNIT as usize];
    expected[at as usize..at as usize + 4 * BLOCK_BYTES].fill(7);
    assert_eq!(read(&volume, 0, 3 * UNIT as usize), expected);

    let appended = landed(&device, AppendClass::Data, 1, 5000);
    drop((device, volume));
    let device = open(&disk.crash(), &env, quiet());
    check_read(&device, 1, &appended);
    assert_eq!(read(&volume_of(&device), 0, 3 * UNIT as usize), expected, "it was durable");
}

#[test]
fn ranges_outside_and_parts_of_blocks_and_what_was_not_reserved_are_refused() {
    let env = Env::simulated(1);
    let (disk, _device, volume) = fresh_volume(&env);
    let before = disk.mutations();
    let end = volume.byte_count();
    let ranges = [(0, 0), (1, BLOCK), (BLOCK, 100), (end, BLOCK), (end - BLOCK, 2 * BLOCK), (u64::MAX - BLOCK + 1, BLOCK)];
    for (offset, len) in ranges {
        let error = now(volume.read(offset, len as usize)).expect("at once").expect_err("refused");
        assert!(matches!(error, VolumeError::Range { byte_count, .. } if byte_count == end), "{error}");
        let error = write(&volume, offset, AlignedBuf::zeroed(len as usize)).expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert!(error.to_string().contains(&offset.to_string()), "{error}");
    }
    assert_eq!(disk.mutations(), before);
    reserve(&volume, 0, UNIT).expect("there is space");
    let error = write(&volume, UNIT - BLOCK, blocks(1, 2)).expect_err("the second block is not reserved");
    assert!(matches!(error, VolumeError::NotReserved { .. }), "{error}");
    assert_eq!(read(&volume, UNIT - BLOCK, BLOCK_BYTES), [0; BLOCK_BYTES], "nothing was written");
}

/// A zone that held frames, or another unit's bytes, is lent as zeros.
#[test]
fn a_unit_that_is_lent_again_holds_zeros() {
    let env = Env::simulated(1);
    let (disk, device, volume) = fresh_volume(&env);
    for unit in 0..LENDABLE {
        reserve(&volume, unit * UNIT, UNIT).expect("there is space");
        write(&volume, unit * UNIT, blocks(0xee, UNIT_BLOCKS)).expect("writes");
    }
    let former = lent(&device);
    (0..LENDABLE as u32).for_each(|unit| give_back(&volume, unit));
    assert_eq!((lent(&device), volume.units()), (vec![], vec![]));
    assert_eq!(read(&volume, 0, UNIT as usize), vec![0; UNIT as usize]);
    for unit in 0..LENDABLE {
        reserve(&volume, unit * UNIT, UNIT).expect("there is space");
    }
    assert_eq!(lent(&device), former);
    assert_eq!(read(&volume, 0, (LENDABLE * UNIT) as usize), vec![0; (LENDABLE * UNIT) as usize]);
    drop((device, volume));
    let device = open(&disk.crash(), &env, quiet());
    assert_eq!(read(&volume_of(&device), 0, (LENDABLE * UNIT) as usize), vec![0; (LENDABLE * UNIT) as usize]);
}

#[tokio::test(start_paused = true)]
async fn the_log_keeps_its_reserve_and_gets_what_a_volume_gives_back() {
    let env = Env::simulated(1);
    let (_disk, device, volume) = fresh_volume(&env);
    assert_eq!(volume.room_bytes(), LENDABLE * UNIT);
    reserve(&volume, 0, LENDABLE * UNIT).expect("there is space");
    let error = reserve(&volume, LENDABLE * UNIT, BLOCK).expect_err("the log keeps the rest");
    assert!(matches!(error, VolumeError::Full { .. }), "{error}");
    assert_eq!((error.kind(), volume.room_bytes()), (ErrorKind::Full, 0));
    let usage = device.usage();
    assert_eq!((u64::from(usage.lent_zones), usage.lendable_zones, usage.is_lending_refused), (LENDABLE, 0, true));
    assert_eq!(u64::from(usage.log_zones()), ZONES - LENDABLE);

    let fill = |class: AppendClass, from: u64| {
        let header = 5_u64.to_le_bytes();
        let compose = |slot: &mut [u8]| format::frame::compose(slot, 5, types::CellId(2), &header, &[&[1; 20_000]]);
        let append =
            || now(device.append_wait(class, format::frame::frame_bytes(8, 20_000), compose)).expect("the disk answers");
        (from..).take_while(|_| append().is_ok()).count()
    };
    // Two zones beyond the reserve, each of which holds two such frames.
    assert!(fill(AppendClass::Data, 0) >= LENDING_LEAVES_ZONES);
    assert!(fill(AppendClass::Tombstone, 100) > 0, "deletes go on");
    assert_eq!(fill(AppendClass::Data, 200), 0);
    // Two make the reserve whole again, from which deletes have taken.
    (0..3).for_each(|unit| give_back(&volume, unit));
    assert!(fill(AppendClass::Data, 300) > 0, "the log has the volume's zone");
    env.sleep(LENDING_WISH_TIME).await;
    assert!(!device.usage().is_lending_refused, "a wish is forgotten");
}

#[test]
fn a_full_log_leaves_nothing_to_lend_until_zones_are_reset() {
    let env = Env::simulated(1);
    let (_disk, device, volume) = fresh_volume(&env);
    let header = 5_u64.to_le_bytes();
    let compose = |slot: &mut [u8]| format::frame::compose(slot, 5, types::CellId(2), &header, &[&[1; 20_000]]);
    while now(device.append_wait(AppendClass::Data, format::frame::frame_bytes(8, 20_000), compose)).expect("answers").is_ok() {
    }
    assert!(matches!(reserve(&volume, 0, BLOCK), Err(VolumeError::Full { .. })));
    let finished: Vec<ZoneIndex> =
        device.zones().iter().filter(|zone| zone.state == Some(ZoneState::Finished)).map(|zone| zone.zone).collect();
    finished.iter().for_each(|zone| now(device.reset(*zone)).expect("answers").expect("resets"));
    reserve(&volume, 0, UNIT).expect("a zone of the log is lent");
    assert_eq!(read(&volume, 0, UNIT as usize), vec![0; UNIT as usize], "no frame is seen through it");
}

#[test]
fn in_a_weaker_mode_a_flush_makes_writes_durable() {
    let env = Env::simulated(1);
    let (disk, device, volume) = fresh_volume(&env);
    reserve(&volume, 0, BLOCK).expect("there is space");
    drop((device, volume));
    let device = open(&disk.restart(), &env, DeviceConfig { sync: SyncMode::Off, ..quiet() });
    let volume = volume_of(&device);
    let before = device.disk().stats();
    write(&volume, 0, blocks(7, 1)).expect("writes");
    assert_eq!(device.disk().stats().durable_writes, before.durable_writes);
    now(volume.flush()).expect("the disk answers").expect("flushes");
    assert_eq!(device.disk().stats().flushes, before.flushes + 1);
}

/// What was promised about appends stays so.
#[tokio::test(start_paused = true)]
async fn a_full_file_system_refuses_a_loan_and_harms_no_zone() {
    let env = Env::simulated(1);
    let (disk, device, volume) = fresh_volume(&env);
    disk.set_space_limit(Some(FIRST_ZONE + (ZONES - 1) * ZONE_BYTES));
    let error = reserve(&volume, 0, BLOCK).expect_err("the last zone is beyond the limit");
    assert_eq!(error.kind(), ErrorKind::Full, "{error}");
    assert!(device.poisoned_by().is_none() && device.usage().is_lending_refused);
    let appended = landed(&device, AppendClass::Tombstone, 1, 5000);
    check_read(&device, 1, &appended);
    disk.set_space_limit(None);
    env.sleep(crate::limits::ALLOCATION_RETRY).await;
    reserve(&volume, 0, BLOCK).expect("there is space again");
    write(&volume, 0, blocks(8, 1)).expect("writes");
}

#[test]
fn a_failed_write_ends_all_writing_and_reads_go_on() {
    for sync in [SyncMode::Always, SyncMode::Off] {
        let env = Env::simulated(1);
        let (disk, device, volume) = fresh_volume(&env);
        reserve(&volume, 0, 2 * BLOCK).expect("there is space");
        write(&volume, 0, blocks(7, 1)).expect("writes");
        drop((device, volume));
        let disk = disk.restart();
        let device = open(&disk, &env, DeviceConfig { sync, ..quiet() });
        let volume = volume_of(&device);
        disk.add_rule(FaultRule::next(Operation::Write, Fault::Fail));
        let error = write(&volume, BLOCK, blocks(8, 1)).expect_err("it failed");
        assert!(matches!(&error, VolumeError::Disk { cause, .. } if cause.kind == DiskErrorKind::Failed), "{error}");
        assert!(device.poisoned_by().is_some());
        let error = write(&volume, BLOCK, blocks(8, 1)).expect_err("nothing is written any more");
        assert!(matches!(error, VolumeError::Poisoned { .. }), "{error}");
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert!(matches!(reserve(&volume, 4 * UNIT, BLOCK), Err(VolumeError::Poisoned { .. })));
        now(device.append_wait(AppendClass::Data, 64, |_| ())).expect("at once").expect_err("nor appended");
        assert_eq!(read(&volume, 0, BLOCK_BYTES), [7; BLOCK_BYTES]);
    }
}

#[test]
fn a_failure_on_the_way_to_a_loan_ends_all_writing() {
    for operation in [Operation::WriteZeros, Operation::Flush, Operation::Write] {
        let env = Env::simulated(1);
        let (disk, device, volume) = fresh_volume(&env);
        disk.add_rule(FaultRule::next(operation, Fault::Fail));
        let error = reserve(&volume, 0, BLOCK).expect_err("it failed");
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{operation}: {error}");
        assert!(device.poisoned_by().is_some() && volume.units().is_empty(), "{operation}");
    }
}

#[test]
fn a_failed_append_ends_writing_of_the_volume_too() {
    let env = Env::simulated(1);
    let (disk, device, volume) = fresh_volume(&env);
    reserve(&volume, 0, BLOCK).expect("there is space");
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
    let (_disk, device, volume) = fresh_volume(&env);
    reserve(&volume, 0, BLOCK).expect("there is space");
    write(&volume, 0, blocks(7, 1)).expect("writes");
    now(device.seal()).expect("the disk answers").expect("seals");
    let error = write(&volume, 0, blocks(8, 1)).expect_err("sealed");
    assert!(matches!(error, VolumeError::Sealed { .. }), "{error}");
    assert!(matches!(reserve(&volume, 4 * UNIT, BLOCK), Err(VolumeError::Sealed { .. })));
    assert_eq!(read(&volume, 0, BLOCK_BYTES), [7; BLOCK_BYTES]);
}

#[tokio::test]
async fn work_that_the_caller_gives_up_goes_on_and_its_failure_counts() {
    let env = Env::simulated(1);
    let (disk, device, volume) = fresh_volume(&env);
    disk.set_order(CompletionOrder::Stepped);
    assert!(now(volume.reserve(0, BLOCK)).is_none(), "under way, and dropped");
    while volume.units().is_empty() {
        disk.run_until_idle();
        tokio::task::yield_now().await;
    }
    assert!(now(volume.write(0, blocks(7, 1))).is_none());
    disk.run_until_idle();
    assert_eq!(now(volume.give_back(1)).expect("there is none").map_err(|error| error.kind()), Ok(()));
    disk.set_order(CompletionOrder::Inline);
    assert_eq!(read(&volume, 0, BLOCK_BYTES), [7; BLOCK_BYTES]);
    disk.set_order(CompletionOrder::Stepped);
    disk.add_rule(FaultRule::next(Operation::Write, Fault::Fail));
    assert!(now(volume.write(0, blocks(8, 1))).is_none());
    disk.run_until_idle();
    assert!(device.poisoned_by().is_some());
}

/// The log must not have the zone while a write of the volume to it is under way.
#[tokio::test]
async fn a_return_waits_for_what_is_under_way() {
    let env = Env::simulated(1);
    let (disk, device, volume) = fresh_volume(&env);
    reserve(&volume, 0, BLOCK).expect("there is space");
    let zone = lent(&device)[0];
    let start = FIRST_ZONE + u64::from(zone.0) * ZONE_BYTES;
    disk.add_rule(FaultRule::always_in(start..start + ZONE_BYTES, Operation::Write, Fault::Hold));
    assert!(now(volume.write(0, blocks(7, 1))).is_none());
    let mut returning = Box::pin(volume.give_back(0));
    assert!(futures_util::poll!(&mut returning).is_pending());
    assert_eq!(device.zones()[zone.0 as usize].state, Some(ZoneState::Lent));
    assert_eq!(read(&volume, 0, BLOCK_BYTES), [0; BLOCK_BYTES], "it is the volume's no more");
    disk.let_go();
    returning.await.expect("gives back");
    assert_eq!(device.zones()[zone.0 as usize].state, None);
}

/// At every cut: what was answered is there, a unit that was given back reads as zeros or as it was, and the log loses nothing.
#[tokio::test]
async fn a_cut_leaves_what_was_answered_while_zones_change_hands() {
    let mut ended = 0;
    for cut in 0..200 {
        let env = Env::simulated(cut);
        let (disk, device, volume) = fresh_volume(&env);
        disk.power_cut_after(cut);
        let mut run = Exchange { device, volume, seeded: Seeded(cut), units: Default::default(), frames: vec![] };
        let doubted = (0..60).find_map(|step| run.step(step).err());
        ended += u64::from(!disk.power_is_cut());
        let Exchange { device, volume, units, frames, .. } = run;
        drop((device, volume));
        let device = open(&disk.crash(), &env, quiet());
        let volume = volume_of(&device);
        for unit in 0..ZONES as u32 {
            let found = read(&volume, u64::from(unit) * UNIT, UNIT as usize);
            let expected = units.get(&unit).copied().unwrap_or_default();
            let may_differ = doubted == Some(Some(unit));
            assert!(may_differ || found.iter().all(|byte| *byte == expected), "cut {cut}: unit {unit} is not {expected}");
        }
        for (number, appended) in &frames {
            check_read(&device, *number, appended);
        }
        // What is there can be used.
        let unit = volume.units().first().copied().unwrap_or(0);
        reserve(&volume, u64::from(unit) * UNIT, UNIT).expect("there is space");
        write(&volume, u64::from(unit) * UNIT, blocks(9, 1)).expect("writes");
        give_back(&volume, unit);
        landed(&device, AppendClass::Data, 1 << 40, 5000);
    }
    assert!(ended < 100, "{ended} of 200 cuts never came");
}

struct Exchange {
    device: Device,
    volume: Volume,
    seeded: Seeded,
    /// What each unit is full of.
    units: std::collections::BTreeMap<u32, u8>,
    frames: Vec<(u64, crate::Appended)>,
}

impl Exchange {
    /// An error when the power was cut: with the unit that may hold anything.
    fn step(&mut self, step: u64) -> Result<(), Option<u32>> {
        let unit = self.seeded.below(4) as u32;
        match (self.seeded.below(3), self.units.contains_key(&unit)) {
            (0, _) => {
                let header = step.to_le_bytes();
                let payload = super::support::payload(step, 3000);
                let compose = |slot: &mut [u8]| format::frame::compose(slot, 5, types::CellId(2), &header, &[&payload]);
                let appended = now(self.device.append_wait(AppendClass::Data, format::frame::frame_bytes(8, 3000), compose));
                self.frames.push((step, appended.ok_or(None)?.expect("appends")));
            }
            (_, true) => {
                now(self.volume.give_back(unit)).ok_or(Some(unit))?.expect("gives back");
                self.units.remove(&unit);
            }
            (_, false) => {
                let at = u64::from(unit) * UNIT;
                now(self.volume.reserve(at, UNIT)).ok_or(Some(unit))?.expect("there is space");
                now(self.volume.write(at, blocks(step as u8 + 1, UNIT_BLOCKS))).ok_or(Some(unit))?.expect("writes");
                self.units.insert(unit, step as u8 + 1);
            }
        }
        Ok(())
    }
}

/// Both copies of a lent zone's header are lost: the table decides, and the log does not take the zone.
#[test]
fn a_lent_zone_whose_header_is_lost_stays_lent() {
    let env = Env::simulated(1);
    let (disk, device, volume) = fresh_volume(&env);
    reserve(&volume, 0, UNIT).expect("there is space");
    write(&volume, 0, blocks(7, UNIT_BLOCKS)).expect("writes");
    let zone = lent(&device)[0];
    drop((device, volume));
    ruin(&disk, FIRST_ZONE + u64::from(zone.0) * ZONE_BYTES, ZONE_DATA_START);
    for _ in 0..2 {
        let device = open(&disk, &env, quiet());
        assert_eq!(lent(&device), [zone]);
        assert_eq!(read(&volume_of(&device), 0, UNIT as usize), vec![7; UNIT as usize]);
    }
    let area = disk.peek(FIRST_ZONE + u64::from(zone.0) * ZONE_BYTES, ZONE_DATA_START as usize);
    let uuid = now(Device::identify(&disk)).expect("answers").expect("is a device").device_uuid;
    let header = format::zone_header::ZoneHeader::decode(&area, uuid, zone).expect("it was written again");
    assert_eq!(header.state, ZoneState::Lent);
}

/// One slot of the table is lost: the other says the same. Both: the device is refused, and nothing is written.
#[test]
fn a_lost_slot_of_the_table_loses_nothing_and_a_lost_table_is_found_out() {
    use format::superblock::notes::NotesKind;
    for slot in 0..2 {
        let env = Env::simulated(1);
        let (disk, device, volume) = fresh_volume(&env);
        reserve(&volume, 0, 2 * UNIT).expect("there is space");
        give_back(&volume, 0);
        write(&volume, UNIT, blocks(7, UNIT_BLOCKS)).expect("writes");
        drop((device, volume));
        ruin(&disk, NotesKind::Units.slot_offset(slot), 8192);
        let device = open(&disk, &env, quiet());
        assert_eq!(volume_of(&device).units(), [1]);
        assert_eq!(read(&volume_of(&device), UNIT, UNIT as usize), vec![7; UNIT as usize]);
        drop(device);
        ruin(&disk, NotesKind::Units.slot_offset(1 - slot), 8192);
        let opened = now(Device::open(Arc::new(disk.clone()), &env, quiet())).expect("answers");
        assert!(matches!(opened.err(), Some(OpenError::UnitTableLost { .. })));
    }
}

/// A power cut right after the format: the superblock is there, the end of its area is not.
#[test]
fn a_file_that_ends_before_the_table_has_none() {
    let env = Env::simulated(1);
    let disk = disk_with(&env, 1, ZONES);
    format(&disk, &env);
    let short =
        SimDisk::new(&env, disk::SimOptions { capacity_bytes: disk::Disk::capacity_bytes(&disk), ..Default::default() });
    let area = disk.peek(0, 6 * 1024 * 1024);
    for (at, block) in area.chunks(BLOCK_BYTES).enumerate().filter(|(_, block)| block.iter().any(|byte| *byte != 0)) {
        let written = disk::DiskExt::write(&short, at as u64 * BLOCK, AlignedBuf::copy_of(block), disk::Durability::Durable);
        now(written).expect("the disk answers").expect("writes");
    }
    assert!(disk::Disk::size_bytes(&short) < FIRST_ZONE);
    let device = open(&short, &env, quiet());
    reserve(&volume_of(&device), 0, UNIT).expect("there is space");
    drop(device);
    assert_eq!(volume_of(&open(&short.crash(), &env, quiet())).units(), [0]);
}

/// A file that stands in for a device: what a volume gives back goes back to the file system.
#[tokio::test]
async fn a_file_shrinks_when_a_volume_gives_its_space_back() {
    use std::os::unix::fs::MetadataExt;
    const ZONE: u64 = 4 << 20;
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("device");
    let env = Env::real_with_cores(1);
    let capacity_bytes = Some(FIRST_ZONE + ZONES * ZONE);
    let open_file = async || {
        let options = OpenOptions { create: true, capacity_bytes, direct: true };
        // Until the last operation of the one before has ended.
        FileDisk::open_waiting(&env, &path, &options, Duration::from_secs(10)).await.expect("opens")
    };
    let used = || std::fs::metadata(&path).expect("a file").blocks() * 512;
    let options = crate::FormatOptions { zone_bytes: Some(ZONE), ..options() };
    Device::format(&open_file().await, &env, &options).await.expect("formats");
    let config = DeviceConfig { cluster: Some(CLUSTER), prewrite_zones: 0, ..DeviceConfig::default() };
    let device = Device::open(Arc::new(open_file().await), &env, config.clone()).await.expect("opens");
    let volume = volume_of(&device);
    let before = used();
    let unit = volume.unit_bytes();
    volume.reserve(0, 3 * unit).await.expect("there is space");
    assert!(used() >= before + 3 * ZONE, "the space is reserved");
    volume.write(unit - BLOCK, blocks(7, 2)).await.expect("writes");
    volume.give_back(0).await.expect("gives back");
    volume.give_back(2).await.expect("gives back");
    assert!(used() < before + ZONE + ZONE / 2, "{} bytes are still used", used() - before);
    let header = 5_u64.to_le_bytes();
    let compose = |slot: &mut [u8]| format::frame::compose(slot, 5, types::CellId(2), &header, &[b"payload"]);
    let appended = device.append_wait(AppendClass::Data, format::frame::frame_bytes(8, 7), compose).await.expect("appends");
    device.seal().await.expect("seals");
    drop((device, volume));

    let device = Device::open(Arc::new(open_file().await), &env, config).await.expect("opens again");
    assert_eq!(device.read(appended.place, 100).await.expect("reads").payload(), b"payload");
    let volume = volume_of(&device);
    let read = volume.read_medium(unit - BLOCK, 3 * BLOCK_BYTES).await.expect("reads");
    assert!(read[..BLOCK_BYTES].iter().chain(&read[2 * BLOCK_BYTES..]).all(|byte| *byte == 0));
    assert_eq!(read[BLOCK_BYTES..2 * BLOCK_BYTES], [7; BLOCK_BYTES]);
}
