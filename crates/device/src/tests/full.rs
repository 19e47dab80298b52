//! Full devices, reserves, files that can't grow.

use std::sync::Arc;

use disk::{CompletionOrder, Disk};
use env::Env;
use format::zone_header::{ZONE_DATA_START, ZoneStream};

use super::support::{
    Answers, FIRST_ZONE, ZONE_BYTES, append, check_read, disk_with, format, fresh, landed, now, open, quiet, walked,
};
use crate::geometry::Geometry;
use crate::inner::zone_header;
use crate::zone_io::put_header;
use crate::{AppendClass, AppendError, Device, DeviceConfig, LogVector, ZoneInfo, ZoneState};

/// Appends of a class until the device refuses it; how many landed.
fn fill(device: &Device, class: AppendClass, first: u64, answers: &Arc<Answers>) -> u64 {
    for number in first.. {
        let refused = match append(device, class, number, 4000, answers) {
            Ok(()) => match answers.get(number).expect("an inline disk answers at once") {
                Ok(_) => continue,
                Err(error) => error,
            },
            Err(error) => error,
        };
        assert!(matches!(refused, AppendError::Full { class: of, .. } if of == class), "{refused}");
        return number - first;
    }
    unreachable!("a device fills up")
}

#[tokio::test(start_paused = true)]
async fn data_is_refused_first_and_the_reserves_hold_in_their_order() {
    let env = Env::simulated(1);
    let (_, device) = fresh(&env, 12);
    let answers = Arc::new(Answers::default());
    let per_zone = 14;
    let data = fill(&device, AppendClass::Data, 0, &answers);
    assert_eq!(data, 8 * per_zone, "all zones but the four of the reserves");
    assert_eq!(device.usage().free_data_zones, 0);
    let tombstones = fill(&device, AppendClass::Tombstone, 1000, &answers);
    assert_eq!(tombstones, 2 * per_zone, "one of the zones kept for relocation too");
    let meta = fill(&device, AppendClass::Meta, 2000, &answers);
    assert_eq!(meta, per_zone);
    let relocations = fill(&device, AppendClass::Relocation, 3000, &answers);
    assert_eq!(relocations, per_zone);
    assert_eq!(device.usage().free_zones, 0);
    let (found, damaged) = walked(&device, &LogVector::START);
    assert_eq!((found.len() as u64, damaged.len()), (12 * per_zone, 0));
}

/// Collection and checkpoints under way have taken zones from the reserve.
#[tokio::test(start_paused = true)]
async fn zones_that_other_streams_have_open_count_for_their_reserves() {
    let env = Env::simulated(5);
    let (_, device) = fresh(&env, 12);
    let answers = Arc::new(Answers::default());
    fill(&device, AppendClass::Data, 0, &answers);
    landed(&device, AppendClass::Relocation, 3000, 4000);
    landed(&device, AppendClass::Meta, 2000, 4000);
    assert_eq!(device.usage().free_zones, 2);
    assert_eq!(fill(&device, AppendClass::Tombstone, 1000, &answers), 14, "one zone; the other is for a checkpoint");
    assert_eq!(device.usage().free_zones, 1);
    assert_eq!(fill(&device, AppendClass::Meta, 2001, &answers), 13 + 14);

    // What tombstones filled is finished, so that its reset makes room for others.
    let before = device.zones();
    now(device.finish_reserved_zone()).expect("the disk answers").expect("finishes");
    let finished =
        |(old, new): &(ZoneInfo, ZoneInfo)| old.state == Some(ZoneState::Open) && new.state == Some(ZoneState::Finished);
    let zones: Vec<_> = before.into_iter().zip(device.zones()).filter(finished).map(|(_, new)| new.zone).collect();
    assert_eq!(zones.len(), 1);
    now(device.reset(zones[0])).expect("the disk answers").expect("resets");
    now(device.finish_reserved_zone()).expect("the disk answers").expect("there is none");
    assert_eq!(device.usage().free_zones, 1);
}

/// Frames of a full device's reserve, each in a zone of its stream, made anew by each of many lives. Caught: each life took zones of its own, until none was left.
#[tokio::test(start_paused = true)]
async fn a_full_device_that_starts_again_and_again_takes_no_zones_for_that() {
    for ends_in_order in [false, true] {
        let env = Env::simulated(6);
        let (mut disk, mut device) = fresh(&env, 12);
        let answers = Arc::new(Answers::default());
        fill(&device, AppendClass::Data, 0, &answers);
        let mut last =
            [AppendClass::Relocation, AppendClass::Meta].map(|class| landed(&device, class, 5000 + class.index() as u64, 100));
        assert_eq!(device.usage().free_zones, 2);
        for life in 1..=10 {
            if ends_in_order {
                now(device.seal()).expect("the disk answers").expect("seals");
            }
            drop(device);
            disk = disk.crash();
            device = open(&disk, &env, quiet());
            assert_eq!(device.usage().free_zones, 2, "life {life}");
            let floor = device.log_floor();
            for (last, (class, floor)) in
                last.iter_mut().zip([(AppendClass::Relocation, floor.relocated), (AppendClass::Meta, floor.meta)])
            {
                let next = landed(&device, class, 5000 + 10 * life + class.index() as u64, 100);
                assert!(next.position > last.position && next.position >= floor, "{next:?} after {last:?}, from {floor:?}");
                assert_eq!(next.place.zone, last.place.zone);
                *last = next;
            }
        }
        let (found, damaged) = walked(&device, &LogVector::START);
        assert_eq!((found.len(), damaged.len()), (8 * 14 + 2 * 11, 0));
    }
}

/// A zone of the relocated stream whose header says again that it is open, and the device after its start. Another zone has followed it in its stream.
async fn with_former_zone_open(seed: u64, reset_follower: bool) -> (Device, ZoneInfo) {
    let env = Env::simulated(seed);
    let (disk, device) = fresh(&env, 12);
    // Four fit in a zone, and a short one.
    for number in 0..6 {
        landed(&device, AppendClass::Relocation, number, 10_000);
    }
    landed(&device, AppendClass::Data, 100, 4000);
    let mut relocated: Vec<ZoneInfo> =
        device.zones().into_iter().filter(|zone| zone.stream == Some(ZoneStream::Relocated)).collect();
    relocated.sort_by_key(|zone| zone.activation);
    let [first, follower] = relocated[..] else { panic!("{relocated:?}") };
    if reset_follower {
        now(device.finish_open_zones()).expect("the disk answers").expect("finishes");
        now(device.reset(follower.zone)).expect("the disk answers").expect("resets");
    }
    let superblock = now(Device::identify(&disk)).expect("the disk answers").expect("is a device");
    let geometry = superblock.zone_region().and_then(Geometry::new).expect("a geometry");
    let header = zone_header(&superblock, &env, (first.zone, first.activation), ZoneState::Open, first.stream, ZONE_DATA_START);
    now(put_header(&disk, geometry, &header)).expect("the disk answers").expect("writes");
    drop(device);
    (open(&disk.crash(), &env, quiet()), first)
}

/// A zone that another one of its stream has followed takes nothing.
#[tokio::test(start_paused = true)]
async fn only_the_last_zone_of_a_stream_stays_open_over_a_start() {
    let (device, first) = with_former_zone_open(7, false).await;
    let open: Vec<_> = device.zones().into_iter().filter(|zone| zone.state == Some(ZoneState::Open)).collect();
    assert_eq!(open.len(), 1, "{open:?}");
    assert!(open[0].stream == Some(ZoneStream::Relocated) && open[0].activation > first.activation);
    let next = landed(&device, AppendClass::Relocation, 101, 4000);
    assert_eq!(next.place.zone, open[0].zone);
    let (found, damaged) = walked(&device, &LogVector::START);
    assert_eq!((found.len(), damaged.len()), (8, 0));
}

/// Nor if the zone that has followed is free again. Caught: appends below points of the log that a checkpoint may name.
#[tokio::test(start_paused = true)]
async fn a_zone_does_not_go_on_though_the_one_that_has_followed_it_is_free_again() {
    let (device, first) = with_former_zone_open(8, true).await;
    let state = |device: &Device| device.zones()[first.zone.0 as usize].state;
    assert_eq!(state(&device), Some(ZoneState::Finished));
    let next = landed(&device, AppendClass::Relocation, 101, 4000);
    assert!(next.place.zone != first.zone && next.position.activation > first.activation);
}

#[tokio::test(start_paused = true)]
async fn a_full_device_can_delete_and_takes_data_again_after_resets_and_order_holds() {
    let env = Env::simulated(2);
    let (_, device) = fresh(&env, 12);
    let answers = Arc::new(Answers::default());
    let data = fill(&device, AppendClass::Data, 0, &answers);
    let last_data = answers.get(data - 1).expect("answered").expect("landed");
    let tombstone = landed(&device, AppendClass::Tombstone, 1000, 100);
    assert!(tombstone.position > last_data.position, "a delete stands after the put that it deletes");
    assert!(append(&device, AppendClass::Data, 1001, 10, &answers).is_err(), "the reserve is not for data");

    let mut finished = device.zones().into_iter().filter(|zone| zone.state == Some(ZoneState::Finished));
    let first = finished.next().expect("a finished zone");
    now(device.reset(first.zone)).expect("the disk answers").expect("resets");
    // The zone freed fills the reserve up again; the one that tombstones opened is an ordinary one now.
    let after = landed(&device, AppendClass::Data, 1002, 4000);
    assert!(after.position > tombstone.position, "a put after the delete stands after it");
    check_read(&device, 1002, &after);
}

#[tokio::test(start_paused = true)]
async fn a_file_system_without_space_is_a_full_device_until_there_is_some() {
    let env = Env::simulated(3);
    let disk = disk_with(&env, 3, 32);
    format(&disk, &env);
    disk.set_space_limit(Some(FIRST_ZONE + 3 * ZONE_BYTES));
    let device = open(&disk, &env, quiet());
    let answers = Arc::new(Answers::default());
    let data = fill(&device, AppendClass::Data, 0, &answers);
    assert_eq!(data, 3 * 14 - 2, "an eighth of the last zone stays for what makes room");
    assert_eq!(fill(&device, AppendClass::Tombstone, 400, &answers), 2);
    assert!(device.poisoned_by().is_none(), "a full file system is no damage");
    assert_eq!(device.usage().free_zones, 0);

    disk.set_space_limit(None);
    let error = append(&device, AppendClass::Data, 500, 4000, &answers)
        .err()
        .or_else(|| answers.get(500).and_then(|answer| answer.err()))
        .expect("not tried again so soon");
    assert!(matches!(error, AppendError::Full { .. }), "{error}");
    tokio::time::advance(crate::limits::ALLOCATION_RETRY).await;
    landed(&device, AppendClass::Data, 501, 4000);
    let (found, damaged) = walked(&device, &LogVector::START);
    assert_eq!((found.len(), damaged.len()), (43, 0));
}

#[tokio::test(start_paused = true)]
async fn zones_are_prewritten_ahead_and_a_restart_remembers_it() {
    let env = Env::simulated(4);
    let disk = disk_with(&env, 4, 32);
    format(&disk, &env);
    let config = DeviceConfig { prewrite_zones: 2, ..quiet() };
    let device = open(&disk, &env, config.clone());
    assert_eq!(device.stats().prewritten_bytes.get(), 2 * (ZONE_BYTES - 8192));
    let before = disk.stats();
    landed(&device, AppendClass::Data, 1, 4000);
    assert_eq!(device.stats().prewritten_bytes.get(), 3 * (ZONE_BYTES - 8192), "one more, for the one in use");
    assert_eq!(disk.stats().allocates - before.allocates, 1, "only the prewriter allocates");
    drop(device);
    let next = disk.restart();
    let device = open(&next, &env, config);
    assert_eq!(device.stats().prewritten_bytes.get(), 0);
    assert_eq!(device.usage().free_zones, 31);
}

#[tokio::test(start_paused = true)]
async fn zeros_never_land_on_frames() {
    // Every zone is wanted while it is being prewritten; the prewriter must let go first.
    for seed in 0..30 {
        let env = Env::simulated(seed);
        let disk = disk_with(&env, seed, 8);
        format(&disk, &env);
        disk.set_order(CompletionOrder::Stepped);
        // Opening reads, step by step.
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        let config = DeviceConfig { prewrite_zones: 8, ..quiet() };
        let opening = tokio::spawn({
            let env = env.clone();
            async move { Device::open(shared, &env, config).await.expect("opens") }
        });
        while !opening.is_finished() {
            disk.step();
            tokio::task::yield_now().await;
        }
        let device = opening.await.expect("opens");
        let answers = Arc::new(Answers::default());
        for number in 0..80 {
            let class = [AppendClass::Data, AppendClass::Relocation, AppendClass::Meta][number as usize % 3];
            drop(append(&device, class, number, 4000, &answers));
            disk.step();
        }
        disk.run_until_idle();
        disk.set_order(CompletionOrder::Inline);
        let acknowledged = answers.landed();
        assert!(acknowledged.len() > 20, "seed {seed}: {} landed", acknowledged.len());
        for (number, appended) in acknowledged {
            check_read(&device, number, &appended);
        }
    }
}
