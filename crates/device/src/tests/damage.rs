//! Damaged, misdirected and lost bytes: found, told, and never taken for something else.

use std::sync::Arc;

use disk::{AlignedBuf, DiskExt, Durability, Fault, FaultRule, Operation};
use env::Env;
use format::frame::{FIXED_HEADER_BYTES, frame_bytes, header_bytes};
use types::limits::BLOCK_BYTES;
use types::{Activation, CellId, ClusterId};

use super::support::{
    Answers, FIRST_ZONE, Seeded, ZONE_BYTES, append, check_read, disk_offset, disk_with, format, fresh, landed, now, open,
    options, quiet, walked,
};
use crate::{
    AppendClass, Appended, Damage, Device, DeviceConfig, FormatError, LogVector, NotesIoError, NotesKind, OpenError, ReadError,
    Tried, ZoneState,
};

fn three_frames(device: &Device) -> Vec<Appended> {
    (0..3).map(|number| landed(device, AppendClass::Data, number, 9000)).collect()
}

#[tokio::test(start_paused = true)]
async fn a_damaged_payload_block_is_named_and_costs_nothing_else() {
    let env = Env::simulated(1);
    let (disk, device) = fresh(&env, 16);
    let frames = three_frames(&device);
    let payload_at = disk_offset(&frames[1]) + header_bytes(8, 9000) as u64;
    // Within the second payload block.
    disk.corrupt_at_rest(payload_at + 4096 + 700, 1);

    let mut buf = vec![0; frames[1].frame_bytes];
    assert_eq!(device.try_read(frames[1].place, &mut buf).expect("reads"), Tried::MustWait);
    let error = now(device.read(frames[1].place, 200)).expect("the disk answers").expect_err("damaged");
    match error {
        ReadError::Corrupt { place, damage: Damage::Payload(payload) } => {
            assert_eq!((place, payload.block), (frames[1].place, 1));
            assert_ne!(payload.expected, payload.found);
        }
        other => panic!("{other}"),
    }
    assert_eq!(device.stats().corrupt_reads.get(), 1);
    check_read(&device, 0, &frames[0]);
    check_read(&device, 2, &frames[2]);
    let (found, damaged) = walked(&device, &LogVector::START);
    assert_eq!(found.keys().copied().collect::<Vec<_>>(), [0, 2]);
    assert_eq!(damaged.len(), 1, "{damaged:?}");

    now(device.finish_open_zones()).expect("the disk answers").expect("finishes");
    let report = now(device.scrub(frames[1].place.zone, 0)).expect("the disk answers").expect("a zone");
    assert_eq!((report.frames, report.damage, report.findings.len()), (2, 1, 1));
    assert!(report.is_suspicious());
    assert_eq!(report.whole, [frames[0].place.offset, frames[2].place.offset]);
}

/// A header that lost what ties it to its zone is passed over in silence: the gap that it leaves tells.
#[tokio::test(start_paused = true)]
async fn a_frame_of_which_nothing_is_left_leaves_a_hole() {
    let env = Env::simulated(11);
    for lost in [None, Some(0), Some(1), Some(2)] {
        let (disk, device) = fresh(&env, 16);
        let frames = three_frames(&device);
        if let Some(lost) = lost {
            let frame: &Appended = &frames[lost];
            now(disk.write(disk_offset(frame), AlignedBuf::zeroed(BLOCK_BYTES), Durability::Durable))
                .expect("answers")
                .expect("writes");
        }
        now(device.finish_open_zones()).expect("the disk answers").expect("finishes");
        let report = now(device.scrub(frames[0].place.zone, 0)).expect("the disk answers").expect("a zone");
        assert_eq!((report.damage, report.holes), (0, u64::from(lost.is_some())), "{lost:?}");
        assert_eq!(report.is_suspicious(), lost.is_some());
        assert_eq!(report.whole.len(), 3 - usize::from(lost.is_some()));
    }
}

#[tokio::test(start_paused = true)]
async fn a_damaged_header_hides_one_frame() {
    let env = Env::simulated(2);
    for at in [0, 20, 45, FIXED_HEADER_BYTES as u64 + 3] {
        let (disk, device) = fresh(&env, 16);
        // All three in one batch, so that nothing but the unit steps leads to the third.
        disk.set_order(disk::CompletionOrder::Stepped);
        let answers = Arc::new(Answers::default());
        for number in 0..4 {
            append(&device, AppendClass::Data, number, 300, &answers).expect("starts");
        }
        disk.run_until_idle();
        disk.set_order(disk::CompletionOrder::Inline);
        let landed = answers.landed();
        assert_eq!(landed[&3].place.offset.bytes() - landed[&2].place.offset.bytes(), frame_bytes(8, 300) as u64);
        let sector = disk_offset(&landed[&2]) + at;
        flip(&disk, sector);
        let (found, damaged) = walked(&device, &LogVector::START);
        assert_eq!(found.keys().copied().collect::<Vec<_>>(), [0, 1, 3], "byte {at}");
        // With its seed damaged a header can't be told from one of an earlier use of the zone.
        assert_eq!(damaged.len(), usize::from(at != 45), "byte {at}: {damaged:?}");
        let error = now(device.read(landed[&2].place, 100)).expect("the disk answers").expect_err("damaged");
        assert!(matches!(error, ReadError::Corrupt { .. }), "byte {at}: {error}");
    }
}

/// Changes one byte on the disk.
pub fn flip(disk: &disk::SimDisk, at: u64) {
    let block = at / BLOCK_BYTES as u64 * BLOCK_BYTES as u64;
    let mut bytes = disk.peek(block, BLOCK_BYTES);
    bytes[(at - block) as usize] ^= 0x40;
    write(disk, block, &bytes);
}

fn write(disk: &disk::SimDisk, at: u64, bytes: &[u8]) {
    let buf = disk::AlignedBuf::copy_of(bytes);
    let write = disk::DiskExt::write(disk, at, buf, disk::Durability::Durable);
    now(write).expect("the disk answers").expect("writes");
}

#[tokio::test(start_paused = true)]
async fn what_is_wrong_only_in_the_page_cache_is_read_again_from_the_medium() {
    let env = Env::simulated(3);
    let (disk, device) = fresh(&env, 16);
    let frames = three_frames(&device);
    disk.add_rule(FaultRule::next(Operation::Read, Fault::Corrupt));
    check_read(&device, 1, &frames[1]);
    assert_eq!((device.stats().repeated_reads.get(), device.stats().corrupt_reads.get()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn misdirected_writes_never_pass_for_what_should_stand_there() {
    let mut missing = 0;
    for seed in 0..40 {
        let env = Env::simulated(seed);
        let disk = disk_with(&env, seed, 16);
        format(&disk, &env);
        let device = open(&disk, &env, quiet());
        let answers = Arc::new(Answers::default());
        let mut seeded = Seeded(seed);
        let zones = FIRST_ZONE..FIRST_ZONE + 16 * ZONE_BYTES;
        let skip = 5 + seeded.below(20);
        let rule = FaultRule { operation: Operation::Write, range: Some(zones), skip, times: 1, fault: Fault::Misdirect };
        disk.add_rule(rule);
        for number in 0..40 {
            append(&device, AppendClass::Data, number, seeded.below(6000) as usize, &answers).expect("starts");
        }
        let acknowledged = answers.landed();
        let (found, _) = walked(&device, &LogVector::START);
        for (number, appended) in &found {
            assert_eq!(acknowledged.get(number), Some(appended), "seed {seed}");
        }
        missing += acknowledged.len() - found.len();
        for (number, appended) in acknowledged {
            match now(device.read(appended.place, 100)).expect("the disk answers") {
                Ok(frame) => assert_eq!(frame.engine_header(), number.to_le_bytes(), "seed {seed}"),
                Err(error) => assert!(!found.contains_key(&number), "seed {seed}, append {number}: {error}"),
            }
        }
    }
    assert!(missing >= 20, "misdirected writes are missed: {missing}");
}

#[tokio::test(start_paused = true)]
async fn a_payload_that_imitates_a_frame_is_not_one() {
    let env = Env::simulated(5);
    let (disk, device) = fresh(&env, 16);
    let frames = three_frames(&device);
    // The best imitation there can be: the raw bytes of a true frame of this zone, seed and all, at unit boundaries.
    let stolen = disk.peek(disk_offset(&frames[0]), frames[0].frame_bytes);
    let pad = FIXED_HEADER_BYTES - (FIXED_HEADER_BYTES + 8 + 4 * stolen.len().div_ceil(BLOCK_BYTES)) % FIXED_HEADER_BYTES;
    let payload = [vec![0; pad], stolen].concat();
    let header = 9u64.to_le_bytes();
    let compose = |slot: &mut [u8]| format::frame::compose(slot, 5, CellId(2), &header, &[&payload]);
    let imitation = now(device.append_wait(AppendClass::Data, frame_bytes(8, payload.len()), compose))
        .expect("the disk answers")
        .expect("appends");
    // Its own header is lost, so the walk goes through its payload unit by unit.
    flip(&disk, disk_offset(&imitation) + 20);
    let mut walk = device.walk(&LogVector::START, true);
    let mut found = 0;
    let mut damaged = 0;
    while let Some(event) = now(walk.next()).expect("the disk answers") {
        match event {
            crate::WalkEvent::Frame(_) => found += 1,
            _ => damaged += 1,
        }
    }
    assert_eq!((found, damaged), (3, 2), "the lost header and the imitation are both reported as damage");
}

#[tokio::test(start_paused = true)]
async fn a_lost_zone_header_loses_no_data() {
    for copies in [1, 2] {
        let env = Env::simulated(6);
        let (disk, device) = fresh(&env, 16);
        let appended: Vec<Appended> = (0..40).map(|number| landed(&device, AppendClass::Data, number, 3000)).collect();
        now(device.seal()).expect("the disk answers").expect("seals");
        drop(device);
        let zone = appended[0].place.zone;
        for copy in 0..copies {
            disk.corrupt_at_rest(FIRST_ZONE + u64::from(zone.0) * ZONE_BYTES + copy * BLOCK_BYTES as u64, 512);
        }
        let disk = disk.restart();
        let device = open(&disk, &env, quiet());
        for (number, appended) in appended.iter().enumerate() {
            check_read(&device, number as u64, appended);
        }
        let (found, _) = walked(&device, &LogVector::START);
        assert_eq!(found.len(), 40);
        let info = device.zones()[zone.0 as usize];
        assert_eq!(info.state, Some(ZoneState::Finished));
        assert_eq!(info.stream.is_none(), copies == 2);
        // Whatever the floors are, a zone of unknown stream is walked from the least of them.
        let high = types::Position { activation: Activation(1000), offset: types::ZoneOffset(0) };
        let from = LogVector { ordered: high, relocated: types::Position::default(), meta: high };
        assert_eq!(walked(&device, &from).0.is_empty(), copies == 1);
        let next = landed(&device, AppendClass::Data, 100, 100);
        assert!(next.position > appended[39].position);
        now(device.reset(zone)).expect("the disk answers").expect("resets");
    }
}

#[tokio::test(start_paused = true)]
async fn a_zone_header_written_over_another_zones_loses_no_data() {
    let env = Env::simulated(6);
    let (disk, device) = fresh(&env, 16);
    let appended: Vec<Appended> = (0..40).map(|number| landed(&device, AppendClass::Data, number, 3000)).collect();
    drop(device);
    let (victim, other) = (appended[0].place.zone, appended[39].place.zone);
    assert_ne!(victim, other, "the frames fill more than one zone");
    let start = |zone: types::ZoneIndex| FIRST_ZONE + u64::from(zone.0) * ZONE_BYTES;
    let header = disk.peek(start(other), 2 * BLOCK_BYTES);
    now(disk.write(start(victim), AlignedBuf::copy_of(&header), Durability::Durable))
        .expect("the disk answers")
        .expect("writes");
    let device = open(&disk.restart(), &env, quiet());
    assert_eq!(walked(&device, &LogVector::START).0.len(), 40);
    check_read(&device, 0, &appended[0]);
}

#[tokio::test(start_paused = true)]
async fn one_copy_of_the_superblock_is_enough_and_the_others_come_back() {
    let env = Env::simulated(7);
    let offsets: Vec<u64> = format::superblock::Superblock::read_offsets().collect();
    for survivor in 0..offsets.len() {
        let (disk, device) = fresh(&env, 16);
        let frames = three_frames(&device);
        drop(device);
        for (copy, offset) in offsets.iter().enumerate() {
            if copy != survivor {
                disk.corrupt_at_rest(*offset, 4096);
            }
        }
        let disk = disk.restart();
        let device = open(&disk, &env, quiet());
        check_read(&device, 1, &frames[1]);
        drop(device);
        // The slot of the survivor is whole again, so that it may go too.
        disk.corrupt_at_rest(offsets[survivor], 4096);
        let disk = disk.restart();
        check_read(&open(&disk, &env, quiet()), 1, &frames[1]);
        for offset in &offsets {
            disk.corrupt_at_rest(*offset, 4096);
        }
        let none = Device::open(Arc::new(disk.restart()), &env, quiet());
        let error = now(none).expect("the disk answers").err().expect("no superblock");
        assert!(matches!(error, OpenError::Superblock { .. }), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn notes_survive_torn_writes_and_a_damaged_slot() {
    for cut_after in 0..3 {
        let env = Env::simulated(cut_after);
        let (disk, device) = fresh(&env, 16);
        assert_eq!(now(device.notes(NotesKind::Manager)).expect("the disk answers").expect("reads"), None);
        for version in 0..5u8 {
            let bytes = vec![version; 50_000];
            now(device.write_notes(NotesKind::Manager, &bytes)).expect("the disk answers").expect("writes");
        }
        disk.power_cut_after(cut_after);
        let finished = now(device.write_notes(NotesKind::Manager, &vec![5; 60_000]));
        drop(device);
        let disk = disk.crash();
        let device = open(&disk, &env, quiet());
        let found = now(device.notes(NotesKind::Manager)).expect("the disk answers").expect("reads").expect("notes");
        let (version, len) = (found[0], found.len());
        assert!((version, len) == (5, 60_000) || (finished.is_none() && (version, len) == (4, 50_000)), "{version}");
        assert!(found.iter().all(|byte| *byte == version));
        assert_eq!(now(device.notes(NotesKind::Fences)).expect("the disk answers").expect("reads"), None);
        if version == 5 {
            // The sixth write: its slot damaged, the fifth counts.
            disk.corrupt_at_rest(NotesKind::Manager.slot_offset(6) + 10_000, 1);
            let older = now(device.notes(NotesKind::Manager)).expect("the disk answers").expect("reads");
            assert_eq!(older.expect("the slot before")[0], 4);
        }
        let error = now(device.write_notes(NotesKind::Fences, &vec![0; 61 * 1024])).expect("no disk in it");
        assert!(error.is_err());
    }
}

#[tokio::test(start_paused = true)]
async fn notes_survive_a_bad_sector_in_one_slot() {
    for kind in [NotesKind::Fences, NotesKind::Manager] {
        // In the slot's header or behind it; the slot of the newest notes, the second, or of those before.
        for (at, bad_sequence) in [(0, 1), (0, 2), (5000, 1), (5000, 2)] {
            let env = Env::simulated(1);
            let (disk, device) = fresh(&env, 16);
            for version in [1, 2] {
                now(device.write_notes(kind, &[version; 9000])).expect("the disk answers").expect("writes");
            }
            drop(device);
            let (bad, good) = (kind.slot_offset(bad_sequence), kind.slot_offset(bad_sequence + 1));
            let disk = disk.restart();
            disk.add_rule(FaultRule::always_in(bad + at..bad + at + 1, Operation::Read, Fault::Fail));
            let device = open(&disk, &env, quiet());
            let intact = disk.peek(good, 16 * 1024);
            // Before anything was read: the number of the last ones is not known.
            now(device.write_notes(kind, &[3; 9000])).expect("the disk answers").expect("writes");
            assert_eq!(disk.peek(good, 16 * 1024), intact, "the bad slot is written, not the good one");
            let other = 3 - bad_sequence as u8;
            let found = now(device.notes(kind)).expect("the disk answers").expect("reads").expect("notes");
            assert_eq!(found, [other; 9000], "{kind:?}: the sector stays bad");
            disk.clear_faults();
            let found = now(device.notes(kind)).expect("the disk answers").expect("reads").expect("notes");
            assert_eq!(found, [3; 9000], "{kind:?}: the disk has put another sector in its place");
        }
    }
}

/// They are not taken for notes that never were.
#[tokio::test(start_paused = true)]
async fn notes_of_which_nothing_can_be_read_are_an_error() {
    let env = Env::simulated(1);
    let (disk, device) = fresh(&env, 16);
    now(device.write_notes(NotesKind::Fences, b"the only ones")).expect("the disk answers").expect("writes");
    let bad = NotesKind::Fences.slot_offset(1);
    disk.add_rule(FaultRule::always_in(bad..bad + 1, Operation::Read, Fault::Fail));
    let error = now(device.notes(NotesKind::Fences)).expect("the disk answers").expect_err("they can't be read");
    assert!(matches!(error, NotesIoError::Disk(_)), "{error}");
}

/// Both go to one slot: the first must not land over the second.
#[tokio::test(start_paused = true)]
async fn notes_that_nobody_waits_for_are_written_before_the_next() {
    let env = Env::simulated(5);
    let (disk, device) = fresh(&env, 16);
    now(device.write_notes(NotesKind::Manager, b"known")).expect("the disk answers").expect("writes");
    disk.add_rule(FaultRule::next(Operation::Write, Fault::Hold));
    assert!(now(device.write_notes(NotesKind::Manager, b"given up")).is_none(), "the disk holds it");
    let mut second = Box::pin(device.write_notes(NotesKind::Manager, b"second"));
    for _ in 0..10 {
        assert!(futures_util::poll!(&mut second).is_pending(), "the first is under way");
        tokio::task::yield_now().await;
    }
    disk.release();
    second.await.expect("writes");
    drop(device);
    let device = open(&disk.restart(), &env, quiet());
    let found = now(device.notes(NotesKind::Manager)).expect("the disk answers").expect("reads");
    assert_eq!(found.as_deref(), Some(&b"second"[..]));
}

#[tokio::test(start_paused = true)]
async fn a_disk_that_holds_a_device_is_not_formatted_by_mistake_and_strangers_are_not_opened() {
    let env = Env::simulated(8);
    let (disk, device) = fresh(&env, 16);
    let frames = three_frames(&device);
    drop(device);
    let again = now(Device::format(&disk, &env, &options())).expect("the disk answers").expect_err("occupied");
    assert!(matches!(again, FormatError::Occupied { .. }), "{again}");
    let other = DeviceConfig { cluster: Some(ClusterId([3; 16])), ..quiet() };
    let stranger = now(Device::open(Arc::new(disk.clone()), &env, other)).expect("the disk answers");
    assert!(matches!(stranger.err(), Some(OpenError::Identity { .. })));
    // Formatted on purpose: nothing of the old device can be read, walked or found again.
    let options = crate::FormatOptions { overwrite: true, ..options() };
    now(Device::format(&disk, &env, &options)).expect("the disk answers").expect("formats");
    let device = open(&disk, &env, quiet());
    assert_eq!(walked(&device, &LogVector::START), Default::default());
    assert_eq!(device.usage().free_zones, 16);
    assert!(now(device.read(frames[0].place, 100)).expect("the disk answers").is_err());
    let first = landed(&device, AppendClass::Data, 50, 9000);
    assert_eq!(walked(&device, &LogVector::START).0.len(), 1, "{first:?}");
}

#[tokio::test(start_paused = true)]
async fn a_place_in_the_unfilled_part_of_a_zone_in_use_again_is_stale() {
    let env = Env::simulated(9);
    let (_, device) = fresh(&env, 8);
    let old: Vec<Appended> = (0..4).map(|number| landed(&device, AppendClass::Data, number, 9000)).collect();
    now(device.finish_open_zones()).expect("the disk answers").expect("finishes");
    now(device.reset(old[0].place.zone)).expect("the disk answers").expect("resets");
    // Zones that were never used come first no longer: reset ones do.
    let reused = (10..40).map(|number| landed(&device, AppendClass::Meta, number, 4000));
    let in_old_zone = reused.filter(|appended| appended.place.zone == old[0].place.zone).take(1).count();
    assert_eq!(in_old_zone, 1, "the zone is in use again");
    let error = now(device.read(old[3].place, 9200)).expect("the disk answers").expect_err("stale");
    assert!(matches!(error, ReadError::Stale { .. }), "{error}");
}
