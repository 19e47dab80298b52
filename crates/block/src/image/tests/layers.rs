//! Snapshots, rollback, sizes, clones.

use types::{BLOB_BYTES, DeviceId, ImageId, PIECE_BYTES, Pieces};

use super::behaviour::filled;
use crate::image::twin::world::{FIRST, Loss, World, read};
use crate::image::{Image, ImageErrorKind, MAX_CLONE_DEPTH, OpenError};

const BLOB: u64 = BLOB_BYTES as u64;
const PIECE: u64 = PIECE_BYTES as u64;

#[tokio::test(start_paused = true)]
async fn a_snapshot_makes_no_store_calls() {
    let world = World::new(1, 50 * BLOB, 100);
    let image = world.open(FIRST).await.unwrap();
    for index in 0..50 {
        image.write(index * BLOB, filled(1, 512)).await.unwrap();
    }
    world.stores.forget_calls();
    image.snapshot("a").await.unwrap();
    assert_eq!(world.stores.calls(), Default::default());
    assert_eq!(image.snapshot("a").await.unwrap_err().kind, ImageErrorKind::Invalid);
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_keeps_what_was() {
    let world = World::new(1, 2 * BLOB, 100);
    let image = world.open(FIRST).await.unwrap();
    image.write(0, filled(1, 2 * PIECE)).await.unwrap();
    image.snapshot("a").await.unwrap();
    image.write(512, filled(2, 512)).await.unwrap();
    image.write_zeros(PIECE, PIECE, false).await.unwrap();
    let mut now = vec![1; 2 * PIECE as usize];
    now[512..1024].fill(2);
    now[PIECE as usize..].fill(0);
    assert_eq!(read(&image, 0, 2 * PIECE_BYTES).await, now);
    let then = world.read_layer(world.layer(FIRST, "a"), 2 * PIECE).await;
    assert_eq!(then, vec![1; 2 * PIECE as usize]);
    assert_eq!(image.usage().blocks, 2);
    // Without the snapshot, its blob is merged into the newer one.
    image.write(3 * PIECE, filled(3, 512)).await.unwrap();
    image.remove_snapshot("a").await.unwrap();
    assert_eq!(image.usage().blocks, 1);
    assert_eq!(read(&image, 0, 2 * PIECE_BYTES).await, now);
    image.rollback("a").await.unwrap_err();
}

#[tokio::test(start_paused = true)]
async fn removal_copies_only_what_is_relied_on() {
    let world = World::new(1, BLOB, 100);
    let image = world.open(FIRST).await.unwrap();
    image.write(0, filled(1, 20 * PIECE)).await.unwrap();
    image.write_zeros(30 * PIECE, PIECE, true).await.unwrap();
    image.snapshot("a").await.unwrap();
    image.write(PIECE, filled(2, 17 * PIECE)).await.unwrap();
    world.stores.forget_calls();
    image.remove_snapshot("a").await.unwrap();
    let calls = world.stores.calls();
    let mut changes = calls.change;
    changes.sort_unstable();
    assert_eq!(changes, [0, PIECE as usize, 2 * PIECE as usize]);
    assert_eq!((calls.read, calls.free), (2, 1));
    let rows = world.stores.rows(FIRST);
    assert_eq!(rows[0].1[0].data, Pieces::within(0..20 * PIECE_BYTES));
    assert_eq!(rows[0].1[0].owned & !rows[0].1[0].data, Pieces(1 << 30));
}

#[tokio::test(start_paused = true)]
async fn a_removal_that_was_broken_off_is_finished_by_the_next_holder() {
    let world = World::new(1, 8 * BLOB, 100);
    let image = world.open(FIRST).await.unwrap();
    for index in 0..8 {
        image.write(index * BLOB, filled(index as u8 + 1, 2 * PIECE)).await.unwrap();
    }
    image.snapshot("a").await.unwrap();
    for index in 0..8 {
        image.write(index * BLOB, filled(100, 512)).await.unwrap();
    }
    world.stores.set_delay_ms(5);
    let removal = tokio::time::timeout(std::time::Duration::from_millis(12), image.remove_snapshot("a")).await;
    assert!(removal.is_err(), "it is broken off");
    let before = image.usage().blocks;
    assert!((9..=16).contains(&before), "{before} blocks");
    let image = world.open(FIRST).await.unwrap();
    image.tidy().await.unwrap();
    assert_eq!(image.usage().blocks, 8);
    for index in 0..8 {
        let mut expected = vec![index as u8 + 1; 2 * PIECE as usize];
        expected[..512].fill(100);
        assert_eq!(read(&image, index * BLOB, 2 * PIECE_BYTES).await, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_rollback_frees_what_was_written_since_and_takes_the_size_back() {
    let world = World::new(1, BLOB, 100);
    let image = world.open(FIRST).await.unwrap();
    image.write(0, filled(1, PIECE)).await.unwrap();
    image.snapshot("a").await.unwrap();
    image.resize(3 * BLOB, false).await.unwrap();
    image.write(0, filled(2, PIECE)).await.unwrap();
    image.write(2 * BLOB, filled(2, PIECE)).await.unwrap();
    assert_eq!(image.usage().blocks, 3);
    image.rollback("a").await.unwrap();
    assert_eq!((image.size(), image.usage().blocks), (BLOB, 1));
    assert_eq!(read(&image, 0, PIECE_BYTES).await, vec![1; PIECE as usize]);
    image.resize(3 * BLOB, false).await.unwrap();
    assert_eq!(read(&image, 2 * BLOB, PIECE_BYTES).await, vec![0; PIECE as usize]);
    // The branch is merged into what was written above it.
    image.write(PIECE, filled(3, PIECE)).await.unwrap();
    image.remove_snapshot("a").await.unwrap();
    assert_eq!(image.usage().blocks, 1);
    let image = world.open(FIRST).await.unwrap();
    assert_eq!(read(&image, 0, PIECE_BYTES).await, vec![1; PIECE as usize]);
    assert_eq!(read(&image, PIECE, PIECE_BYTES).await, vec![3; PIECE as usize]);
}

#[tokio::test(start_paused = true)]
async fn what_was_cut_off_does_not_come_back() {
    let world = World::new(1, 2 * BLOB, 100);
    let image = world.open(FIRST).await.unwrap();
    image.write(0, filled(1, 2 * BLOB)).await.unwrap();
    image.snapshot("a").await.unwrap();
    image.write(BLOB, filled(2, PIECE)).await.unwrap();
    image.resize(PIECE + 512, true).await.unwrap();
    assert_eq!(image.read(PIECE, 1024).await.unwrap_err().kind, ImageErrorKind::Invalid);
    image.resize(2 * BLOB, false).await.unwrap();
    let mut expected = vec![0; 2 * BLOB as usize];
    expected[..PIECE as usize + 512].fill(1);
    assert_eq!(read(&image, 0, 2 * BLOB_BYTES).await, expected);
    let then = world.read_layer(world.layer(FIRST, "a"), 2 * BLOB).await;
    assert_eq!(then, vec![1; 2 * BLOB as usize]);
}

#[tokio::test(start_paused = true)]
async fn a_command_whose_answer_is_lost_is_sent_again() {
    let world = World::new(1, BLOB, 100);
    let image = world.open(FIRST).await.unwrap();
    world.records.lose([Loss::Answer, Loss::Question, Loss::Answer]);
    image.snapshot("a").await.unwrap();
    world.records.lose([Loss::Answer]);
    image.rollback("a").await.unwrap();
    world.records.lose([Loss::Answer]);
    image.resize(2 * BLOB, false).await.unwrap();
    world.records.lose([Loss::Answer]);
    image.remove_snapshot("a").await.unwrap();
    assert_eq!(image.view(), world.records.view(FIRST));
    assert_eq!(image.view().layer.0, 3);
    // Without an answer for long, the holder does not know its layer.
    world.records.lose(std::iter::repeat_n(Loss::Answer, 1000));
    assert_eq!(image.snapshot("b").await.unwrap_err().kind, ImageErrorKind::Io);
    assert_eq!(image.write(0, filled(1, 512)).await.unwrap_err().kind, ImageErrorKind::Closed);
}

#[tokio::test(start_paused = true)]
async fn a_clone_reads_its_parent_and_writes_its_own() {
    let world = World::new(1, 2 * BLOB, 100);
    let parent = world.open(FIRST).await.unwrap();
    parent.write(0, filled(1, 2 * PIECE)).await.unwrap();
    parent.snapshot("a").await.unwrap();
    parent.write(0, filled(2, PIECE)).await.unwrap();
    world.add(ImageId(2), 2 * BLOB, Some(world.layer(FIRST, "a")));
    let child = world.open(ImageId(2)).await.unwrap();
    assert_eq!((child.usage().blocks, child.usage().data_bytes), (0, 0));
    assert_eq!(read(&child, 0, 2 * PIECE_BYTES).await, vec![1; 2 * PIECE as usize]);
    child.write(512, filled(3, 512)).await.unwrap();
    child.write_zeros(PIECE, PIECE, false).await.unwrap();
    let mut expected = vec![1; 2 * PIECE as usize];
    expected[512..1024].fill(3);
    expected[PIECE as usize..].fill(0);
    assert_eq!(read(&child, 0, 2 * PIECE_BYTES).await, expected);
    let row = world.stores.rows(ImageId(2))[0].1[0];
    assert_eq!((row.owned, row.data, row.parent), (Pieces(3), Pieces(1), Some(world.layer(FIRST, "a"))));
    // A trim of all leaves zeros, since the parent has content.
    child.trim(0, 2 * BLOB).await.unwrap();
    assert_eq!(read(&child, 0, 2 * PIECE_BYTES).await, vec![0; 2 * PIECE as usize]);
    assert_eq!(read(&parent, 0, PIECE_BYTES).await, vec![2; PIECE as usize]);
}

/// A parent with a piece in each of two layers, and its clone.
async fn parent_with_two_layers(world: &World) -> (Image, Image) {
    let parent = world.open(FIRST).await.unwrap();
    parent.write(0, filled(1, PIECE)).await.unwrap();
    parent.snapshot("a").await.unwrap();
    parent.write(PIECE, filled(2, PIECE)).await.unwrap();
    parent.snapshot("b").await.unwrap();
    world.add(ImageId(2), BLOB, Some(world.layer(FIRST, "b")));
    let child = world.open(ImageId(2)).await.unwrap();
    (parent, child)
}

#[tokio::test(start_paused = true)]
async fn a_clone_follows_its_parents_blobs_when_they_are_merged() {
    let world = World::new(1, BLOB, 100);
    let (parent, child) = parent_with_two_layers(&world).await;
    assert_eq!(read(&child, 0, PIECE_BYTES).await, vec![1; PIECE as usize]);
    parent.remove_snapshot("a").await.unwrap();
    assert_eq!(parent.usage().blocks, 1);
    assert_eq!(read(&child, 0, PIECE_BYTES).await, vec![1; PIECE as usize]);
    assert_eq!(read(&child, PIECE, PIECE_BYTES).await, vec![2; PIECE as usize]);
}

/// The copy that is out was not freed and does not answer; the others are gone.
#[tokio::test(start_paused = true)]
async fn a_clone_follows_blobs_that_were_merged_while_a_copy_is_out() {
    let world = World::with_copies(1, BLOB, 100, 3);
    let (parent, child) = parent_with_two_layers(&world).await;
    let has_blobs = |(device, rows): &(DeviceId, Vec<_>)| (!rows.is_empty()).then_some(*device);
    let device = world.stores.rows(FIRST).iter().find_map(has_blobs).unwrap();
    world.stores.set_dead(device, true);
    parent.remove_snapshot("a").await.unwrap();
    assert_eq!(read(&child, 0, PIECE_BYTES).await, vec![1; PIECE as usize]);
    assert_eq!(read(&child, PIECE, PIECE_BYTES).await, vec![2; PIECE as usize]);
}

#[tokio::test(start_paused = true)]
async fn clones_of_clones_have_a_limit() {
    let world = World::new(1, BLOB, 100);
    for depth in 0..=MAX_CLONE_DEPTH as u64 + 1 {
        if depth > 0 {
            world.add(ImageId(depth + 1), BLOB, Some(world.layer(ImageId(depth), "a")));
        }
        let opened = world.open(ImageId(depth + 1)).await;
        if depth > MAX_CLONE_DEPTH as u64 {
            assert!(matches!(opened.err(), Some(OpenError::Parent(_))));
            continue;
        }
        let image = opened.unwrap();
        image.write(depth * PIECE, filled(depth as u8 + 1, 512)).await.unwrap();
        for below in 0..=depth {
            assert_eq!(read(&image, below * PIECE, 512).await, [below as u8 + 1; 512]);
        }
        image.snapshot("a").await.unwrap();
    }
}

/// Caught: zeros at the image's end, which go on to the end of the last part, took what was written there after the image had grown meanwhile.
#[tokio::test(start_paused = true)]
async fn an_image_that_grows_beside_zeros_at_its_end_keeps_what_is_written_there() {
    for seed in 0..20 {
        let size = 16 * PIECE;
        let world = World::new(seed, size, 100);
        let image = world.open(FIRST).await.unwrap();
        image.write(0, filled(1, size)).await.unwrap();
        world.stores.set_delay_ms(5);
        let edge = 13 * PIECE + PIECE / 2;
        let writes = futures_util::future::join_all((0..4).map(|_| image.write(edge, filled(2, 4096))));
        let zeros = image.write_zeros(edge, size - edge, false);
        let grown = async {
            image.resize(BLOB, false).await.unwrap();
            image.write(2 * size, filled(3, PIECE)).await.unwrap();
        };
        let (written, zeroed, ()) = tokio::join!(writes, zeros, grown);
        zeroed.unwrap();
        written.into_iter().for_each(|written| written.unwrap());
        assert_eq!(read(&image, 2 * size, PIECE_BYTES).await, vec![3; PIECE as usize], "seed {seed}");
    }
}
