//! What requests answer.

use bytes::Bytes;

use super::support::{BLOCK, Rig, bytes};
use crate::data::{DataError, Extents};
use crate::ids::ExtentId;

#[tokio::test(start_paused = true)]
async fn what_is_appended_and_overwritten_is_read_also_after_a_restart_and_a_crash() {
    let rig = Rig::new(1).await;
    let (one, two) = (rig.create().await, rig.create().await);
    assert_ne!(one, two);
    let mut content = Vec::new();
    for (round, len) in [1, 4095, 4096, 100, 8192, 3 << 20, 7].into_iter().enumerate() {
        let data = bytes(round as u64, content.len(), len);
        rig.append(one, content.len(), &data).await;
        content.extend(data);
    }
    for (offset, len) in [(0, 1), (4000, 200), (4096, 4096), (5, 3 << 20), (content.len() - 1, 1)] {
        let data = bytes(77, offset, len);
        rig.overwrite(one, offset, &data).await;
        content[offset..offset + len].copy_from_slice(&data);
    }
    rig.append(two, 0, b"other").await;
    rig.expect(one, 0, &content).await;
    let rig = rig.restart().await;
    rig.expect(one, 0, &content).await;
    let rig = rig.crash().await;
    rig.expect(one, 0, &content).await;
    rig.expect(one, 4090, &content[4090..4100]).await;
    rig.expect(two, 0, b"other").await;
    assert_eq!(rig.store.stats().blocks_fallen_back, 0);
    assert!(rig.create().await > two, "ids are never used again");
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_sent_again_has_no_further_effect() {
    let rig = Rig::new(2).await;
    let extent = rig.create().await;
    let content = bytes(1, 0, 3 * BLOCK);
    rig.append(extent, 0, &content[..5000]).await;
    rig.append(extent, 0, &content[..5000]).await;
    rig.append(extent, 4000, &content[4000..]).await;
    rig.append(extent, 0, &content).await;
    rig.expect(extent, 0, &content).await;
    let not_at_end = |offset| DataError::NotAtEnd { extent, offset, len: content.len() as u64 };
    let append = |offset, data: &[u8]| rig.store.append(extent, offset, Bytes::copy_from_slice(data));
    assert_eq!(append(0, &bytes(2, 0, 10)).await, Err(not_at_end(0)));
    assert_eq!(append(20_000, b"x").await, Err(not_at_end(20_000)));
    for _again in 0..2 {
        rig.punch(extent, 0, BLOCK).await;
    }
    assert_eq!(append(0, &content).await, Err(not_at_end(0)), "what was given back is not compared");
    for _again in 0..2 {
        rig.store.remove(extent).await.expect("removes");
    }
    assert_eq!(append(0, &content).await, Err(DataError::NoExtent(extent)));
    rig.store.punch(extent, 0, 10).await.expect("nothing is there to be given back");
}

#[tokio::test(start_paused = true)]
async fn what_is_not_there_is_refused() {
    let rig = Rig::new(3).await;
    let none = ExtentId { partition: 1, term: 1, number: 1 };
    assert_eq!(rig.read(none, 0, 1).await, Err(DataError::NoExtent(none)));
    assert_eq!(rig.store.overwrite(none, 0, Bytes::from_static(b"x")).await, Err(DataError::NoExtent(none)));
    let extent = rig.create().await;
    rig.append(extent, 0, &bytes(1, 0, 10_000)).await;
    let beyond = |end| DataError::Beyond { extent, end, len: 10_000 };
    assert_eq!(rig.read(extent, 9_999, 2).await, Err(beyond(10_001)));
    assert_eq!(rig.store.overwrite(extent, 9_999, Bytes::from_static(b"xy")).await, Err(beyond(10_001)));
    assert_eq!(rig.read(extent, 10_000, 0).await, Ok(Bytes::new()));
}

#[tokio::test(start_paused = true)]
async fn whole_blocks_of_a_range_are_given_back_and_never_read_as_zeros() {
    let rig = Rig::new(4).await;
    let extent = rig.create().await;
    let content = bytes(1, 0, 5 * BLOCK - 1000);
    rig.append(extent, 0, &content).await;
    rig.punch(extent, 100, 2 * BLOCK).await;
    expect_punched(&rig, extent, &content).await;
    expect_punched(&rig.crash().await, extent, &content).await;
}

async fn expect_punched(rig: &Rig, extent: ExtentId, content: &[u8]) {
    rig.expect(extent, 0, &content[..BLOCK]).await;
    rig.expect(extent, 2 * BLOCK, &content[2 * BLOCK..]).await;
    let offset = BLOCK as u64;
    assert_eq!(rig.read(extent, 0, 3 * BLOCK).await, Err(DataError::Punched { extent, offset }));
    assert_eq!(rig.read(extent, BLOCK + 7, 1).await, Err(DataError::Punched { extent, offset: offset + 7 }));
    let overwrite = rig.store.overwrite(extent, 10, Bytes::from(vec![1; BLOCK])).await;
    assert_eq!(overwrite, Err(DataError::Punched { extent, offset }));
}

/// The same at the end, where a block in part is all of it.
#[tokio::test(start_paused = true)]
async fn the_last_block_is_given_back_with_its_end() {
    let rig = Rig::new(5).await;
    let extent = rig.create().await;
    rig.append(extent, 0, &bytes(1, 0, BLOCK + 100)).await;
    rig.punch(extent, BLOCK, 100).await;
    let offset = BLOCK as u64;
    assert_eq!(rig.read(extent, BLOCK, 100).await, Err(DataError::Punched { extent, offset }));
    let append = rig.store.append(extent, offset + 100, Bytes::from_static(b"more")).await;
    assert_eq!(append, Err(DataError::Punched { extent, offset }));
    let rig = rig.crash().await;
    assert_eq!(rig.store.usage().content_bytes, BLOCK as u64);
    assert_eq!(rig.store.extents(None, 10)[0].len, BLOCK as u64 + 100);
}

#[tokio::test(start_paused = true)]
async fn extents_are_listed_in_pages() {
    let rig = Rig::new(6).await;
    let mut made = Vec::new();
    for len in [0, 1, 5000] {
        let extent = rig.create().await;
        rig.append(extent, 0, &bytes(1, 0, len)).await;
        made.push((extent, len as u64, len.div_ceil(BLOCK) as u64 * 4096));
    }
    let list =
        |after, most| rig.store.extents(after, most).iter().map(|one| (one.extent, one.len, one.bytes)).collect::<Vec<_>>();
    assert_eq!(list(None, 2), made[..2]);
    assert_eq!(list(Some(made[1].0), 2), made[2..]);
}
