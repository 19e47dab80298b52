//! What a holder does when stores fail.

use std::time::Duration;

use types::{BLOB_BYTES, PIECE_BYTES};

use super::behaviour::filled;
use crate::image::twin::Trouble;
use crate::image::twin::world::{DEVICE, FIRST, OTHER, World, read};
use crate::image::{ImageErrorKind, OpenError, SPACE_PATIENCE};

const BLOB: u64 = BLOB_BYTES as u64;
const PIECE: u64 = PIECE_BYTES as u64;

#[tokio::test(start_paused = true)]
async fn a_write_without_an_answer_is_sent_again_in_a_new_session() {
    let world = World::new(1, BLOB, 100);
    let image = world.open(FIRST).await.unwrap();
    for (byte, trouble) in [Trouble::Lost, Trouble::AnswerLost, Trouble::Late, Trouble::Forgets].into_iter().enumerate() {
        world.stores.forget_calls();
        world.stores.trouble([Some(trouble)]);
        image.write(0, filled(byte as u8, 4096)).await.unwrap();
        assert_eq!(world.stores.calls().enter, 1, "{trouble:?}");
        assert_eq!(read(&image, 0, 4096).await, [byte as u8; 4096]);
    }
    let rows = world.stores.rows(FIRST);
    assert_eq!(rows.iter().map(|(_, rows)| rows.len()).sum::<usize>(), 1);
}

#[tokio::test(start_paused = true)]
async fn requests_that_a_new_session_ended_are_sent_again() {
    let world = World::new(1, BLOB, 100);
    let image = world.open(FIRST).await.unwrap();
    image.write(0, filled(0, BLOB)).await.unwrap();
    world.stores.set_delay_ms(5);
    world.stores.trouble_at_random(3, &[Trouble::Lost, Trouble::AnswerLost, Trouble::Late, Trouble::Forgets]);
    let writes = (0..40).map(|at| image.write(at * 4096, filled(at as u8, 4096)));
    for done in futures_util::future::join_all(writes).await {
        done.unwrap();
    }
    for at in 0..40 {
        assert_eq!(read(&image, at * 4096, 4096).await, [at as u8; 4096]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_newer_holder_ends_an_older_one() {
    let world = World::new(1, BLOB, 100);
    let older = world.open(FIRST).await.unwrap();
    older.write(0, filled(1, 4096)).await.unwrap();
    let newer = world.open(FIRST).await.unwrap();
    newer.write(0, filled(2, 4096)).await.unwrap();
    assert_eq!(older.write(0, filled(3, 4096)).await.unwrap_err().kind, ImageErrorKind::Superseded);
    assert_eq!(older.read(PIECE, 512).await.unwrap_err().kind, ImageErrorKind::Superseded, "even without a store");
    assert_eq!(older.snapshot("a").await.unwrap_err().kind, ImageErrorKind::Superseded);
    assert_eq!(read(&newer, 0, 4096).await, [2; 4096]);
}

/// Zeros, and clears of what is zeros, ask no store that could say that the holder is over.
#[tokio::test(start_paused = true)]
async fn what_asks_no_store_waits_for_the_tenure() {
    for copies in [1, 3] {
        let world = World::with_copies(5, BLOB, 100, copies);
        let image = world.open(FIRST).await.unwrap();
        image.write(0, filled(1, PIECE)).await.unwrap();
        image.write_zeros(PIECE, PIECE, true).await.unwrap();
        image.extend_tenure(world.outside.env.now());
        tokio::time::sleep(Duration::from_secs(1)).await;
        world.stores.forget_calls();
        let refused = [
            image.read(PIECE, 512).await.map(drop),
            image.status(0, BLOB, 10).await.map(drop),
            image.write_zeros(PIECE, PIECE, true).await,
            image.write_zeros(PIECE + 512, 512, false).await,
            image.trim(2 * PIECE, PIECE).await,
        ];
        assert_eq!(refused.map(|refused| refused.unwrap_err().kind), [ImageErrorKind::Io; 5]);
        let (waiting, ()) = tokio::join!(image.write_zeros(PIECE, PIECE, true), async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            image.extend_tenure(world.outside.env.now() + Duration::from_secs(60));
        });
        waiting.unwrap();
        assert_eq!(read(&image, PIECE, 512).await, [0; 512]);
        assert!(world.stores.calls().change.is_empty(), "no store was asked");
    }
}

#[tokio::test(start_paused = true)]
async fn an_older_holder_learns_it_from_the_registry_too() {
    let world = World::new(1, BLOB, 100);
    let older = world.open(FIRST).await.unwrap();
    let _newer = world.open(FIRST).await.unwrap();
    assert_eq!(older.snapshot("a").await.unwrap_err().kind, ImageErrorKind::Superseded);
    assert_eq!(older.write(0, filled(3, 4096)).await.unwrap_err().kind, ImageErrorKind::Superseded);
}

#[tokio::test(start_paused = true)]
async fn a_write_waits_for_space_and_reads_go_on() {
    let world = World::new(1, 3 * BLOB, 1);
    let image = world.open(FIRST).await.unwrap();
    image.write(0, filled(1, 4096)).await.unwrap();
    image.write(BLOB, filled(2, 4096)).await.unwrap();
    assert_eq!(world.stores.rows(FIRST).iter().map(|(_, rows)| rows.len()).collect::<Vec<_>>(), [1, 1], "each device has one");
    let write = image.write(2 * BLOB, filled(3, 4096));
    let others = async {
        world.outside.env.sleep(Duration::from_secs(3)).await;
        assert_eq!(read(&image, 2 * BLOB, 4096).await, [0; 4096], "the range is free meanwhile");
        image.snapshot("a").await.unwrap();
        world.stores.set_capacity(OTHER, 2);
    };
    let (done, ()) = futures_util::future::join(write, others).await;
    done.unwrap();
    assert_eq!(read(&image, 2 * BLOB, 4096).await, [3; 4096]);
}

#[tokio::test(start_paused = true)]
async fn a_write_without_space_fails_at_last() {
    let world = World::new(1, BLOB, 0);
    let image = world.open(FIRST).await.unwrap();
    let began = world.outside.env.now();
    assert_eq!(image.write(0, filled(1, 4096)).await.unwrap_err().kind, ImageErrorKind::NoSpace);
    assert!(world.outside.env.now() >= began + SPACE_PATIENCE);
    assert_eq!(read(&image, 0, 4096).await, [0; 4096]);
    world.stores.set_capacity(DEVICE, 1);
    image.write(0, filled(1, 4096)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_image_is_closed_while_a_write_waits_for_space() {
    let world = World::new(1, BLOB, 0);
    let image = world.open(FIRST).await.unwrap();
    let write = image.write(0, filled(1, 4096));
    let close = async {
        world.outside.env.sleep(Duration::from_millis(1)).await;
        tokio::time::timeout(SPACE_PATIENCE, image.close()).await.expect("the close ends").unwrap();
    };
    let (written, ()) = futures_util::future::join(write, close).await;
    assert_eq!(written.unwrap_err().kind, ImageErrorKind::Closed);
}

#[tokio::test(start_paused = true)]
async fn a_device_that_stays_silent_fails_the_request() {
    let world = World::new(1, BLOB, 100);
    let image = world.open(FIRST).await.unwrap();
    world.stores.trouble(std::iter::repeat_n(Some(Trouble::Lost), 100_000));
    assert_eq!(image.write(0, filled(1, 4096)).await.unwrap_err().kind, ImageErrorKind::Io);
}

#[tokio::test(start_paused = true)]
async fn what_a_failed_write_left_is_decided_before_anybody_reads() {
    for trouble in [Trouble::Failed, Trouble::FailedLate] {
        let world = World::new(1, BLOB, 100);
        let image = world.open(FIRST).await.unwrap();
        world.stores.trouble([Some(trouble)]);
        assert_eq!(image.write(0, filled(1, 4096)).await.unwrap_err().kind, ImageErrorKind::Io);
        let now = read(&image, 0, 4096).await;
        let expected = if trouble == Trouble::Failed { [0; 4096] } else { [1; 4096] };
        assert_eq!(now, expected);
        let reopened = world.open(FIRST).await.unwrap();
        assert_eq!(read(&reopened, 0, 4096).await, now, "it stays so");
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_whose_caller_went_away_does_not_come_after_a_later_one() {
    for seed in 0..50 {
        let world = World::new(seed, BLOB, 100);
        let image = world.open(FIRST).await.unwrap();
        image.write(0, filled(1, 4096)).await.unwrap();
        world.stores.set_delay_ms(50);
        let given_up = tokio::time::timeout(Duration::from_millis(5), image.write(0, filled(2, 4096))).await;
        image.write(0, filled(3, 4096)).await.unwrap();
        world.outside.env.sleep(Duration::from_millis(100)).await;
        assert_eq!(read(&image, 0, 4096).await, [3; 4096], "seed {seed}, given up: {}", given_up.is_err());
    }
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_is_not_changed_by_a_write_that_was_given_up() {
    for seed in 0..50 {
        let world = World::new(seed, BLOB, 100);
        let image = world.open(FIRST).await.unwrap();
        image.write(0, filled(1, 4096)).await.unwrap();
        world.stores.set_delay_ms(50);
        let given_up = tokio::time::timeout(Duration::from_millis(5), image.write(0, filled(2, 4096))).await;
        image.snapshot("a").await.unwrap();
        let then = world.read_layer(world.layer(FIRST, "a"), 4096).await;
        world.outside.env.sleep(Duration::from_millis(100)).await;
        let later = world.read_layer(world.layer(FIRST, "a"), 4096).await;
        assert_eq!(then, later, "seed {seed}, given up: {}", given_up.is_err());
    }
}

#[tokio::test(start_paused = true)]
async fn blobs_newer_than_the_record_are_not_freed_but_refused() {
    let world = World::new(1, BLOB, 100);
    let image = world.open(FIRST).await.unwrap();
    let stale = world.records.view(FIRST);
    image.snapshot("a").await.unwrap();
    image.write(0, filled(1, 512)).await.unwrap();
    let mut view = world.records.view(FIRST);
    view.token.0 += 100;
    view.layer = stale.layer;
    view.snapshots = stale.snapshots;
    let opened = crate::image::Image::open(world.outside.clone(), view).await;
    assert!(matches!(opened.err(), Some(OpenError::Damaged(_))));
}

#[tokio::test(start_paused = true)]
async fn a_change_goes_to_all_copies() {
    let world = World::with_copies(1, 2 * BLOB, 1, 2);
    let image = world.open(FIRST).await.unwrap();
    image.write(0, filled(1, PIECE)).await.unwrap();
    world.stores.forget_calls();
    world.stores.trouble([None, Some(Trouble::AnswerLost)]);
    image.write(0, filled(2, 4096)).await.unwrap();
    assert_eq!(world.stores.calls().change, [4096; 3], "one copy's was sent again");
    assert_eq!(image.usage().blocks, 2);
    // One of them has no space: what the other made is taken back.
    world.stores.set_capacity(DEVICE, 2);
    assert_eq!(image.write(BLOB, filled(3, 512)).await.unwrap_err().kind, ImageErrorKind::NoSpace);
    assert_eq!(image.usage().blocks, 2);
    let rows = world.stores.rows(FIRST);
    assert_eq!(rows.iter().map(|(_, rows)| rows.len()).collect::<Vec<_>>(), [1, 1]);
    // One of them fails: it does not count any more, and the write stands on the other.
    world.stores.trouble([None, Some(Trouble::Failed)]);
    image.write(PIECE, filled(4, 512)).await.unwrap();
    assert_eq!(world.records.view(FIRST).devices.len(), 1);
    let reopened = world.open(FIRST).await.unwrap();
    assert_eq!(read(&reopened, PIECE, 512).await, [4; 512]);
    assert_eq!(read(&reopened, 0, 4096).await, [2; 4096]);
    reopened.keep_once().await.unwrap();
    assert_eq!(world.records.view(FIRST).devices.len(), 2);
    world.stores.check_copies(FIRST, 2);
}

#[tokio::test(start_paused = true)]
async fn a_read_without_an_answer_is_sent_again() {
    let world = World::new(1, BLOB, 100);
    let image = world.open(FIRST).await.unwrap();
    image.write(0, filled(1, PIECE)).await.unwrap();
    image.snapshot("a").await.unwrap();
    world.stores.set_silent_reads(3);
    assert_eq!(read(&image, 0, 4096).await, [1; 4096]);
    world.stores.set_silent_reads(3);
    assert_eq!(world.read_layer(world.layer(FIRST, "a"), 4096).await, [1; 4096]);
    world.stores.set_silent_reads(100_000);
    assert_eq!(image.read(0, 4096).await.unwrap_err().kind, ImageErrorKind::Io);
    world.stores.set_silent_reads(0);
    assert_eq!(read(&image, 0, 4096).await, [1; 4096]);
}
