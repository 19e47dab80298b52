//! Images with several copies: devices die and come back.

use std::time::Duration;

use bytes::Bytes;
use types::{BLOB_BYTES, DeviceId, PIECE_BYTES};

use super::behaviour::filled;
use crate::image::limits::HEAL_DELAY;
use crate::image::twin::Trouble;
use crate::image::twin::world::{DEVICE, FIRST, FOURTH, OTHER, THIRD, World, read};
use crate::image::{Image, OpenError};

const BLOB: u64 = BLOB_BYTES as u64;
const PIECE: u64 = PIECE_BYTES as u64;
const COPIES: usize = 3;
const PARTS: u64 = 8;

async fn cluster(seed: u64) -> (World, Image) {
    let world = World::with_copies(seed, PARTS * BLOB, 100, COPIES);
    let image = world.open(FIRST).await.unwrap();
    for index in 0..PARTS {
        image.write(index * BLOB, filled(index as u8 + 1, 2 * PIECE)).await.unwrap();
    }
    world.stores.check_copies(FIRST, COPIES);
    (world, image)
}

fn out(world: &World) -> Vec<DeviceId> {
    world.records.view(FIRST).out.iter().map(|(device, _)| *device).collect()
}

#[tokio::test(start_paused = true)]
async fn a_steady_overwrite_is_one_write_of_each_copy() {
    let (world, image) = cluster(1).await;
    world.stores.forget_calls();
    image.write(4096, filled(9, 4096)).await.unwrap();
    let calls = world.stores.calls();
    assert_eq!((calls.change, calls.create, calls.enter, calls.read), (vec![4096; COPIES], 0, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_dead_device_is_taken_out_and_brought_back_with_what_differs() {
    let (world, image) = cluster(2).await;
    world.stores.set_dead(OTHER, true);
    let began = world.outside.env.now();
    for index in 0..PARTS {
        image.write(index * BLOB + 4096, filled(0x40 + index as u8, 4096)).await.unwrap();
    }
    assert!(world.outside.env.now() - began < Duration::from_secs(2), "a write waits for a moment only");
    assert_eq!(out(&world), [OTHER]);
    assert_eq!(world.records.view(FIRST).redundancy.hosts, 2);
    world.stores.set_dead(OTHER, false);
    image.keep_once().await.unwrap();
    assert_eq!(out(&world), []);
    assert_eq!(world.records.view(FIRST).redundancy.hosts, 3);
    world.stores.check_copies(FIRST, COPIES);
    let on_other = world.stores.rows(FIRST).into_iter().find(|(device, _)| *device == OTHER).unwrap().1.len() as u64;
    assert_eq!(image.copied_bytes(), on_other * 4096, "only what differs");
    for index in 0..PARTS {
        assert_eq!(read(&image, index * BLOB + 4096, 4096).await, [0x40 + index as u8; 4096]);
    }
}

#[tokio::test(start_paused = true)]
async fn another_holder_goes_on_without_a_dead_device() {
    let (world, image) = cluster(3).await;
    world.stores.set_dead(DEVICE, true);
    image.write(0, filled(0x77, 4096)).await.unwrap();
    let next = world.open(FIRST).await.unwrap();
    assert_eq!(read(&next, 0, 4096).await, [0x77; 4096]);
    next.write(4096, filled(0x78, 4096)).await.unwrap();
    world.stores.set_dead(DEVICE, false);
    next.keep_once().await.unwrap();
    world.stores.check_copies(FIRST, COPIES);
    assert!(image.write(0, filled(1, 512)).await.is_err(), "the former holder is over");
}

#[tokio::test(start_paused = true)]
async fn an_image_opens_only_if_every_blob_has_a_copy_that_answers() {
    let (world, image) = cluster(4).await;
    world.close(image).await;
    for device in [DEVICE, OTHER, THIRD] {
        world.stores.set_dead(device, true);
    }
    assert!(matches!(world.open(FIRST).await, Err(OpenError::Unreachable { .. })));
    world.stores.set_dead(DEVICE, false);
    let image = world.open(FIRST).await.unwrap();
    for index in 0..PARTS {
        assert_eq!(read(&image, index * BLOB, 4096).await, [index as u8 + 1; 4096]);
    }
}

/// The layer in which the write was under way is below the record's then.
#[tokio::test(start_paused = true)]
async fn a_new_holder_compares_copies_after_an_import() {
    let (world, image) = cluster(6).await;
    world.stores.trouble([None, Some(Trouble::Lost), Some(Trouble::Lost)]);
    let write = image.write(0, filled(0x55, 4096));
    drop(tokio::time::timeout(Duration::from_millis(1), write).await);
    drop(image);
    world.records.import(FIRST);
    let next = world.open(FIRST).await.unwrap();
    assert!(!next.is_settled(), "there is something to compare");
    next.compare_all().await.unwrap();
    world.stores.check_copies(FIRST, COPIES);
    assert!(next.is_settled());
}

/// A write that its holder did not see through stands on some copies: the next holder makes them equal before anything else.
#[tokio::test(start_paused = true)]
async fn a_new_holder_compares_copies() {
    let (world, image) = cluster(5).await;
    // The first copy takes it, the second and the third do not.
    world.stores.trouble([None, Some(Trouble::Lost), Some(Trouble::Lost)]);
    let write = image.write(0, filled(0x55, 4096));
    drop(tokio::time::timeout(Duration::from_millis(1), write).await);
    let next = world.open(FIRST).await.unwrap();
    let seen = read(&next, 0, 4096).await;
    assert!(seen == [0x55; 4096] || seen == [1; 4096]);
    next.compare_all().await.unwrap();
    world.stores.check_copies(FIRST, COPIES);
    assert_eq!(read(&next, 0, 4096).await, seen);
    assert!(next.is_settled());
    world.close(next).await;
    world.stores.forget_calls();
    let last = world.open(FIRST).await.unwrap();
    assert!(last.is_settled(), "nothing to compare after a close");
}

#[tokio::test(start_paused = true)]
async fn a_device_that_stays_away_is_replaced() {
    let (world, image) = cluster(6).await;
    world.stores.set_dead(OTHER, true);
    image.write(0, filled(0x11, PARTS * BLOB)).await.unwrap();
    assert_eq!(out(&world), [OTHER]);
    image.keep_once().await.unwrap();
    assert_eq!(world.records.view(FIRST).redundancy.hosts, 2, "it may come back");
    tokio::time::sleep(HEAL_DELAY).await;
    image.keep_once().await.unwrap();
    assert_eq!(world.records.view(FIRST).redundancy.hosts, 3);
    world.stores.set_dead(OTHER, false);
    image.keep_once().await.unwrap();
    assert_eq!(out(&world), []);
    world.stores.check_copies(FIRST, COPIES);
    assert_eq!(read(&image, BLOB, 4096).await, [0x11; 4096]);
}

/// What was freed while a device was away does not come back with it.
#[tokio::test(start_paused = true)]
async fn a_device_that_comes_back_frees_what_the_image_freed() {
    let (world, image) = cluster(7).await;
    world.stores.set_dead(OTHER, true);
    image.write_zeros(0, PARTS * BLOB / 2, false).await.unwrap();
    image.write(0, Bytes::from(vec![3; 512])).await.unwrap();
    world.stores.set_dead(OTHER, false);
    image.keep_once().await.unwrap();
    world.stores.check_copies(FIRST, COPIES);
    let next = world.open(FIRST).await.unwrap();
    assert_eq!(read(&next, BLOB, PIECE as u32).await, vec![0; PIECE as usize]);
    assert_eq!(read(&next, 0, 512).await, [3; 512]);
}

#[tokio::test(start_paused = true)]
async fn below_two_of_three_writes_wait_and_reads_go_on() {
    let (world, image) = cluster(8).await;
    let places = world.stores.rows(FIRST);
    let with_first: Vec<DeviceId> =
        places.iter().filter(|(_, rows)| rows.iter().any(|row| row.at.id.index == 0)).map(|(device, _)| *device).collect();
    world.stores.set_dead(with_first[0], true);
    image.write(0, filled(0x21, 4096)).await.unwrap();
    world.stores.set_dead(with_first[1], true);
    assert_eq!(read(&image, 4096, 4096).await, [1; 4096]);
    let write = image.write(PIECE, filled(0x22, 4096));
    let others = async {
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(read(&image, 4096, 4096).await, [1; 4096], "reads go on");
        world.stores.set_dead(with_first[0], false);
        world.stores.set_dead(with_first[1], false);
    };
    let (done, ()) = futures_util::future::join(write, others).await;
    done.unwrap();
    image.keep_once().await.unwrap();
    assert_eq!(read(&image, PIECE, 4096).await, [0x22; 4096]);
    world.stores.check_copies(FIRST, COPIES);
}

/// Writes go on while a device is brought up to date.
#[tokio::test(start_paused = true)]
async fn a_device_follows_under_load() {
    let (world, image) = cluster(9).await;
    world.stores.set_dead(THIRD, true);
    image.write(0, filled(0x31, PARTS * BLOB)).await.unwrap();
    world.stores.set_dead(THIRD, false);
    world.stores.set_delay_ms(3);
    let writes = async {
        for number in 0..200u64 {
            let at = world.outside.env.random_below(PARTS * BLOB / 4096) * 4096;
            image.write(at, filled(number as u8, 4096)).await.unwrap();
        }
    };
    let (kept, ()) = futures_util::future::join(image.keep_once(), writes).await;
    kept.unwrap();
    assert_eq!(out(&world), []);
    world.stores.check_copies(FIRST, COPIES);
}

/// A write that began before a device came back, and ends after, is on it too.
#[tokio::test(start_paused = true)]
async fn writes_under_way_reach_a_device_that_comes_back() {
    for seed in 0..30 {
        let (world, image) = cluster(seed).await;
        let dead =
            world.stores.rows(FIRST).into_iter().find(|(_, rows)| rows.iter().any(|row| row.at.id.index == 0)).unwrap().0;
        world.stores.set_dead(dead, true);
        image.write(0, filled(0x61, 4096)).await.unwrap();
        assert_eq!(out(&world), [dead]);
        world.stores.set_dead(dead, false);
        world.stores.set_delay_ms(20);
        let first_touches = (1..PARTS).map(|index| image.write(index * BLOB, filled(0x70 + index as u8, 4096)));
        let (kept, written) =
            futures_util::future::join(image.keep_once(), futures_util::future::join_all(first_touches)).await;
        kept.unwrap();
        written.into_iter().for_each(|done| done.unwrap());
        assert_eq!(out(&world), []);
        world.stores.check_copies(FIRST, COPIES);
    }
}

/// Of two copies one took a write that was never acknowledged, and its device died. What the other has stands, also when the device is back.
#[tokio::test(start_paused = true)]
async fn a_takeover_with_one_copy_left_is_compared_later() {
    let world = World::with_copies(12, BLOB, 100, 2);
    let image = world.open(FIRST).await.unwrap();
    image.write(0, filled(1, 2 * PIECE)).await.unwrap();
    world.stores.trouble([None, Some(Trouble::Lost)]);
    drop(tokio::time::timeout(Duration::from_millis(1), image.write(0, filled(2, 4096))).await);
    world.stores.set_dead(DEVICE, true);
    let next = world.open(FIRST).await.unwrap();
    assert_eq!(read(&next, 0, 4096).await, [1; 4096]);
    next.keep_once().await.unwrap();
    world.stores.set_dead(DEVICE, false);
    next.keep_once().await.unwrap();
    assert_eq!(out(&world), []);
    world.stores.check_copies(FIRST, 2);
    assert_eq!(read(&next, 0, 4096).await, [1; 4096]);
}

/// A device without which the image does not go on is waited for, also if it was spare when the write began.
#[tokio::test(start_paused = true)]
async fn two_devices_that_die_at_once_are_waited_for() {
    let (world, image) = cluster(13).await;
    let holding: Vec<DeviceId> = world
        .stores
        .rows(FIRST)
        .into_iter()
        .filter(|(_, rows)| rows.iter().any(|row| row.at.id.index == 0))
        .map(|(device, _)| device)
        .collect();
    world.stores.set_dead(holding[0], true);
    world.stores.set_dead(holding[1], true);
    let others = async {
        tokio::time::sleep(Duration::from_secs(8)).await;
        assert_eq!(out(&world).len(), 1);
        holding[..2].iter().for_each(|device| world.stores.set_dead(*device, false));
    };
    let (done, ()) = futures_util::future::join(image.write(0, filled(0x44, 4096)), others).await;
    done.unwrap();
    image.keep_once().await.unwrap();
    world.stores.check_copies(FIRST, COPIES);
}

/// Two copies on two hosts with two devices each; one device of the first host was taken out.
async fn pairs_without_the_first(seed: u64) -> (World, Image) {
    let world = World::with_pairs(seed, (PARTS + 1) * BLOB, 100);
    let image = world.open(FIRST).await.unwrap();
    for index in 0..PARTS {
        image.write(index * BLOB, filled(index as u8 + 1, 2 * PIECE)).await.unwrap();
    }
    world.stores.set_dead(DEVICE, true);
    for index in 0..PARTS {
        image.write(index * BLOB, filled(0x20 + index as u8, 4096)).await.unwrap();
    }
    let view = world.records.view(FIRST);
    assert_eq!((out(&world), view.redundancy.hosts, view.short_hosts.len()), (vec![DEVICE], 1, 1));
    (world, image)
}

/// What had a copy on the device that is out has its other one on the other host.
#[tokio::test(start_paused = true)]
async fn the_other_device_of_a_host_may_go_too() {
    let (world, image) = pairs_without_the_first(20).await;
    drop(image);
    world.stores.set_dead(OTHER, true);
    let image = world.open(FIRST).await.expect("all parts are on the other host");
    for index in 0..PARTS {
        assert_eq!(read(&image, index * BLOB, 4096).await, vec![0x20 + index as u8; 4096]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_blob_that_is_only_on_that_host_ends_that() {
    let (world, image) = pairs_without_the_first(21).await;
    world.stores.set_dead(THIRD, true);
    world.stores.set_dead(FOURTH, true);
    image.write(PARTS * BLOB, filled(0x77, 4096)).await.unwrap();
    assert!(world.records.view(FIRST).short_hosts.is_empty());
    drop(image);
    [THIRD, FOURTH].iter().for_each(|device| world.stores.set_dead(*device, false));
    world.stores.set_dead(OTHER, true);
    assert!(matches!(world.open(FIRST).await, Err(OpenError::Unreachable { .. })), "that blob would read as zeros");
    world.stores.set_dead(OTHER, false);
    let image = world.open(FIRST).await.unwrap();
    assert_eq!(read(&image, PARTS * BLOB, 4096).await, [0x77; 4096]);
}

/// Devices that have blobs.
fn users(world: &World) -> Vec<DeviceId> {
    world.stores.rows(FIRST).into_iter().filter(|(_, rows)| !rows.is_empty()).map(|(device, _)| device).collect()
}

#[tokio::test(start_paused = true)]
async fn copies_leave_a_device_that_is_drained() {
    let (world, image) = cluster(15).await;
    assert!(users(&world).contains(&OTHER));
    world.drain(OTHER);
    image.keep_once().await.unwrap();
    image.keep_once().await.unwrap();
    let view = world.records.view(FIRST);
    assert_eq!((view.redundancy.hosts, view.devices.contains(&OTHER)), (3, false), "it can be removed");
    assert!(!users(&world).contains(&OTHER));
    world.stores.check_copies(FIRST, COPIES);
    image.write(0, filled(0x15, PARTS * BLOB)).await.unwrap();
    image.keep_once().await.unwrap();
    assert_eq!(world.records.view(FIRST).epoch, view.epoch, "no command at every look");
}

/// Its copies are made again elsewhere at once, and then there is nothing left to tell the manager.
#[tokio::test(start_paused = true)]
async fn a_device_that_is_given_up_is_replaced_at_once() {
    let (world, image) = cluster(14).await;
    world.give_up(OTHER);
    image.keep_once().await.unwrap();
    let view = world.records.view(FIRST);
    assert_eq!((view.redundancy.hosts, view.devices.contains(&OTHER)), (3, false));
    world.stores.check_copies(FIRST, COPIES);
    image.write(0, filled(0x15, PARTS * BLOB)).await.unwrap();
    image.keep_once().await.unwrap();
    assert_eq!(world.records.view(FIRST).epoch, view.epoch, "no command at every look");
    let next = world.open(FIRST).await.unwrap();
    assert_eq!(read(&next, BLOB, 4096).await, [0x15; 4096]);
}
