//! Single requests, and the calls that they make.

use bytes::Bytes;
use types::{BLOB_BYTES, PIECE_BYTES, Pieces};

use crate::image::twin::world::{DEVICE, FIRST, OTHER, World, read};
use crate::image::{Extent, Image, ImageErrorKind, Part};

const BLOB: u64 = BLOB_BYTES as u64;
const PIECE: u64 = PIECE_BYTES as u64;

pub(super) fn filled(byte: u8, length: u64) -> Bytes {
    Bytes::from(vec![byte; length as usize])
}

async fn fresh(size_bytes: u64) -> (World, Image) {
    let world = World::new(1, size_bytes, 100);
    let image = world.open(FIRST).await.unwrap();
    world.stores.forget_calls();
    (world, image)
}

/// The pieces of the image's only blob.
fn only_row(world: &World) -> (Pieces, Pieces) {
    let rows = world.stores.rows(FIRST);
    assert_eq!(rows.iter().map(|(_, rows)| rows.len()).sum::<usize>(), 1);
    let row = rows.iter().find_map(|(_, rows)| rows.first()).unwrap();
    (row.owned, row.data)
}

#[tokio::test(start_paused = true)]
async fn an_operation_can_be_boxed_and_sent() {
    let (_world, image) = fresh(BLOB).await;
    let image = std::sync::Arc::new(image);
    let all = async move {
        image.write(0, filled(1, 512)).await?;
        image.write_zeros(0, 512, true).await?;
        image.trim(0, 512).await?;
        image.status(0, 512, 1).await?;
        image.flush().await?;
        image.snapshot("a").await?;
        image.rollback("a").await?;
        image.remove_snapshot("a").await?;
        image.resize(512, true).await?;
        image.read(0, 512).await?;
        image.close().await
    };
    tokio::spawn(all).await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_fresh_image_reads_as_zeros_and_asks_no_store() {
    let (world, image) = fresh(3 * BLOB).await;
    let content = image.read(512, 2 * BLOB_BYTES).await.unwrap();
    assert_eq!(content.as_slice(), [Part::Zeros(2 * BLOB_BYTES)]);
    image.write_zeros(0, 3 * BLOB, false).await.unwrap();
    image.trim(0, 3 * BLOB).await.unwrap();
    assert_eq!(world.stores.calls(), Default::default());
    assert_eq!(image.usage().blocks, 0);
}

#[tokio::test(start_paused = true)]
async fn a_steady_overwrite_is_one_change_of_its_own_size() {
    let (world, image) = fresh(BLOB).await;
    image.write(3 * PIECE, filled(1, 4096)).await.unwrap();
    world.stores.forget_calls();
    for round in 0..20 {
        image.write(3 * PIECE + 8192, filled(round, 4096)).await.unwrap();
    }
    let calls = world.stores.calls();
    assert_eq!(calls.change, [4096; 20]);
    assert_eq!((calls.enter, calls.create, calls.read, calls.free), (0, 0, 0, 0));
    assert_eq!(read(&image, 3 * PIECE + 8192, 4096).await, [19; 4096]);
    assert_eq!(image.locks.entries(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_first_write_makes_a_blob_with_whole_pieces() {
    let (world, image) = fresh(BLOB).await;
    image.write(PIECE - 512, filled(7, 1024)).await.unwrap();
    let calls = world.stores.calls();
    assert_eq!((calls.create, calls.change.len(), calls.read), (1, 0, 0));
    assert_eq!(only_row(&world), (Pieces(3), Pieces(3)));
    let mut expected = vec![0; 2 * PIECE as usize];
    expected[PIECE as usize - 512..PIECE as usize + 512].fill(7);
    assert_eq!(read(&image, 0, 2 * PIECE_BYTES).await, expected);
    assert_eq!(image.usage().data_bytes, 2 * PIECE);
}

#[tokio::test(start_paused = true)]
async fn many_first_writes_at_once_make_one_blob() {
    let (world, image) = fresh(BLOB).await;
    world.stores.set_delay_ms(5);
    let writes = (0..32).map(|at| image.write(at * 8192, filled(at as u8 + 1, 4096)));
    for done in futures_util::future::join_all(writes).await {
        done.unwrap();
    }
    assert_eq!(world.stores.calls().create, 1);
    for at in 0..32 {
        assert_eq!(read(&image, at * 8192, 4096).await, [at as u8 + 1; 4096]);
    }
}

#[tokio::test(start_paused = true)]
async fn an_unaligned_overwrite_reads_its_edges_and_writes_blocks() {
    let (world, image) = fresh(BLOB).await;
    image.write(0, filled(1, PIECE)).await.unwrap();
    world.stores.forget_calls();
    image.write(512, filled(2, 512)).await.unwrap();
    let calls = world.stores.calls();
    assert_eq!((calls.change.as_slice(), calls.read), ([4096].as_slice(), 1));
    image.write(3584, filled(3, 8192 + 512)).await.unwrap();
    let mut expected = vec![1; PIECE as usize];
    expected[512..1024].fill(2);
    expected[3584..3584 + 8192 + 512].fill(3);
    assert_eq!(read(&image, 0, PIECE_BYTES).await, expected);
    assert_eq!(read(&image, 3072, 1024).await, expected[3072..4096]);
}

#[tokio::test(start_paused = true)]
async fn a_request_may_touch_several_parts() {
    let (world, image) = fresh(3 * BLOB).await;
    image.write(BLOB - 1024, filled(9, BLOB + 2048)).await.unwrap();
    assert_eq!(world.stores.calls().create, 3);
    let mut expected = vec![0; 3 * BLOB as usize];
    expected[BLOB as usize - 1024..2 * BLOB as usize + 1024].fill(9);
    assert_eq!(read(&image, 0, 3 * BLOB_BYTES).await, expected);
    assert_eq!(image.usage().blocks, 3);
}

#[tokio::test(start_paused = true)]
async fn zeros_are_bits_and_edges() {
    let (world, image) = fresh(BLOB).await;
    image.write(0, filled(5, 6 * PIECE)).await.unwrap();
    world.stores.forget_calls();
    image.write_zeros(PIECE, PIECE, true).await.unwrap();
    assert_eq!(world.stores.calls().change, [0]);
    assert_eq!(only_row(&world), (Pieces(0b111111), Pieces(0b111101)));
    image.write_zeros(2 * PIECE, PIECE, false).await.unwrap();
    assert_eq!(only_row(&world), (Pieces(0b111011), Pieces(0b111001)));
    image.write_zeros(4 * PIECE - 512, 1024 + PIECE, false).await.unwrap();
    assert_eq!(only_row(&world), (Pieces(0b101011), Pieces(0b101001)));
    let mut expected = vec![5; 6 * PIECE as usize];
    expected[PIECE as usize..3 * PIECE as usize].fill(0);
    expected[4 * PIECE as usize - 512..5 * PIECE as usize + 512].fill(0);
    assert_eq!(read(&image, 0, 6 * PIECE_BYTES).await, expected);
    // What is zeros already costs nothing.
    world.stores.forget_calls();
    image.write_zeros(PIECE + 512, PIECE, false).await.unwrap();
    assert_eq!(world.stores.calls(), Default::default());
}

#[tokio::test(start_paused = true)]
async fn zeros_that_stay_allocated_make_a_blob() {
    let (world, image) = fresh(2 * BLOB).await;
    image.write_zeros(512, BLOB, true).await.unwrap();
    let calls = world.stores.calls();
    assert_eq!((calls.create, image.usage().blocks), (2, 2));
    assert_eq!(read(&image, 0, 2 * BLOB_BYTES).await, vec![0; 2 * BLOB as usize]);
    world.stores.set_capacity(DEVICE, 0);
    world.stores.set_capacity(OTHER, 0);
    image.write(BLOB, filled(1, 512)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_trim_drops_whole_pieces_and_frees_what_owns_nothing() {
    let (world, image) = fresh(BLOB + 3 * 512).await;
    image.write(0, filled(5, 2 * PIECE)).await.unwrap();
    image.write(BLOB, filled(6, 3 * 512)).await.unwrap();
    image.trim(512, PIECE).await.unwrap();
    assert_eq!(image.usage().blocks, 2);
    assert_eq!(read(&image, 0, 2 * PIECE_BYTES).await, vec![5; 2 * PIECE as usize], "no piece lay within");
    image.trim(512, 2 * PIECE - 512).await.unwrap();
    assert_eq!(read(&image, 0, PIECE_BYTES).await, vec![5; PIECE as usize]);
    assert_eq!(read(&image, PIECE, PIECE_BYTES).await, vec![0; PIECE as usize]);
    image.trim(0, PIECE).await.unwrap();
    assert_eq!(image.usage().blocks, 1);
    // The image's end is the end of its last piece.
    image.trim(BLOB, 3 * 512).await.unwrap();
    assert_eq!(image.usage().blocks, 0);
    assert_eq!(world.stores.calls().free, 2);
    assert!(world.stores.rows(FIRST).iter().all(|(_, rows)| rows.is_empty()));
}

#[tokio::test(start_paused = true)]
async fn status_tells_holes_zeros_and_data() {
    let (_world, image) = fresh(4 * BLOB).await;
    image.write(BLOB, filled(5, 2 * PIECE)).await.unwrap();
    image.write_zeros(BLOB + 2 * PIECE, PIECE, true).await.unwrap();
    let hole = |length| Extent { length, is_hole: true, is_zero: true };
    let data = |length| Extent { length, is_hole: false, is_zero: false };
    let zeros = |length| Extent { length, is_hole: false, is_zero: true };
    let all = image.status(0, 4 * BLOB, 10).await.unwrap();
    assert_eq!(all, [hole(BLOB), data(2 * PIECE), zeros(PIECE), hole(3 * BLOB - 3 * PIECE)]);
    assert_eq!(image.status(512, 4 * BLOB - 512, 2).await.unwrap(), [hole(BLOB - 512), data(2 * PIECE)]);
    assert_eq!(image.status(BLOB + PIECE + 512, 512, 10).await.unwrap(), [data(512)]);
}

#[tokio::test(start_paused = true)]
async fn what_makes_no_sense_is_refused() {
    let (world, image) = fresh(BLOB).await;
    let kind = |result: Result<_, crate::image::ImageError>| result.unwrap_err().kind;
    assert_eq!(kind(image.write(1, filled(0, 512)).await), ImageErrorKind::Invalid);
    assert_eq!(kind(image.write(0, filled(0, 100)).await), ImageErrorKind::Invalid);
    assert_eq!(kind(image.write(BLOB, filled(0, 512)).await), ImageErrorKind::Invalid);
    assert_eq!(kind(image.read(BLOB - 512, 1024).await.map(drop)), ImageErrorKind::Invalid);
    assert_eq!(kind(image.trim(u64::MAX - 511, 1024).await), ImageErrorKind::Invalid);
    assert_eq!(kind(image.resize(512, false).await), ImageErrorKind::Invalid);
    assert_eq!(kind(image.resize(513, true).await), ImageErrorKind::Invalid);
    assert_eq!(kind(image.rollback("none").await), ImageErrorKind::Invalid);
    assert_eq!(kind(image.remove_snapshot("none").await), ImageErrorKind::Invalid);
    assert_eq!(world.stores.calls(), Default::default());
    image.write(0, Bytes::new()).await.unwrap();
    image.close().await.unwrap();
    assert_eq!(kind(image.write(0, filled(0, 512)).await), ImageErrorKind::Closed);
    assert_eq!(kind(image.snapshot("a").await), ImageErrorKind::Closed);
}

#[tokio::test(start_paused = true)]
async fn blobs_are_found_again() {
    let (world, image) = fresh(2 * BLOB).await;
    image.write(BLOB - 512, filled(1, 1024)).await.unwrap();
    image.close().await.unwrap();
    let image = world.open(FIRST).await.unwrap();
    assert_eq!(read(&image, BLOB - 512, 1024).await, [1; 1024]);
    assert_eq!(image.usage().blocks, 2);
}
