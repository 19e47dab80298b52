//! What a store does as one of several copies: extents with given ids, cuts, sums and lists.

use bytes::Bytes;

use super::support::{BLOCK, Rig, bytes};
use crate::data::copies::{BlockSum, CopyStore};
use crate::data::{DataError, Extents};
use crate::ids::ExtentId;

const EXTENT: ExtentId = ExtentId { partition: 3, term: 2, number: 300 };

fn sums(rig: &Rig) -> Vec<BlockSum> {
    rig.store.sums(EXTENT, 0, 100).expect("the extent exists").blocks
}

#[tokio::test]
async fn an_extent_has_the_id_that_it_is_given() {
    let rig = Rig::new(1).await;
    for _ in 0..2 {
        rig.store.create_as(EXTENT, Bytes::new()).await.unwrap();
    }
    rig.append(EXTENT, 0, b"hello").await;
    // Made again it stays what it is.
    for begins in ["", "hel", "hello"] {
        rig.store.create_as(EXTENT, begins.into()).await.unwrap();
    }
    let other = rig.store.create_as(EXTENT, "help".into()).await;
    assert_eq!(other, Err(DataError::NotAtEnd { extent: EXTENT, offset: 0, len: 5 }));
    rig.expect(EXTENT, 0, b"hello").await;
    for (partition, number) in [(2, 1), (3, 7), (3, 301), (4, 1)] {
        rig.store.create_as(ExtentId { partition, number, ..EXTENT }, Bytes::new()).await.unwrap();
    }
    let listed = |after, most| rig.store.list(3, after, most).iter().map(|extent| extent.number).collect::<Vec<_>>();
    assert_eq!(listed(None, 10), [7, 300, 301]);
    assert_eq!(listed(Some(ExtentId { number: 7, ..EXTENT }), 1), [300]);
    let rig = rig.restart().await;
    rig.expect(EXTENT, 0, b"hello").await;
}

#[tokio::test]
async fn a_cut_extent_is_shorter_also_after_a_start() {
    let data = bytes(1, 0, 3 * BLOCK);
    for (len, restarts) in [(BLOCK + 10, false), (BLOCK + 10, true), (2 * BLOCK, true), (0, true)] {
        let mut rig = Rig::new(2).await;
        rig.store.create_as(EXTENT, Bytes::new()).await.unwrap();
        rig.append(EXTENT, 0, &data).await;
        // What is not shorter stays.
        rig.store.cut(EXTENT, 4 * BLOCK as u64).await.unwrap();
        rig.store.cut(EXTENT, len as u64).await.unwrap();
        if restarts {
            rig = rig.crash().await;
        }
        assert_eq!(rig.store.sums(EXTENT, 0, 100).unwrap().len, len as u64);
        let beyond = DataError::Beyond { extent: EXTENT, end: len as u64 + 1, len: len as u64 };
        assert_eq!(rig.read(EXTENT, 0, len + 1).await, Err(beyond));
        rig.expect(EXTENT, 0, &data[..len]).await;
        // It goes on where it ends now.
        rig.append(EXTENT, len, b"more").await;
        rig.expect(EXTENT, 0, &[&data[..len], b"more"].concat()).await;
    }
}

#[tokio::test]
async fn copies_of_equal_content_have_equal_sums() {
    let rigs = [Rig::new(3).await, Rig::new(4).await];
    for (rig, step) in rigs.iter().zip([BLOCK, 3 * BLOCK]) {
        rig.store.create_as(EXTENT, Bytes::new()).await.unwrap();
        let data = bytes(1, 0, 3 * BLOCK);
        for (at, part) in data.chunks(step).enumerate() {
            rig.append(EXTENT, at * step, part).await;
        }
        rig.append(EXTENT, 3 * BLOCK, b"tail").await;
    }
    let [one, other] = &rigs;
    assert_eq!(sums(one), sums(other));
    assert_eq!(sums(one).len(), 4);
    one.store.overwrite(EXTENT, 5, Bytes::from_static(b"x")).await.unwrap();
    assert_ne!(sums(one)[0], sums(other)[0]);
    assert_eq!(sums(one)[1..], sums(other)[1..]);
    one.store.punch(EXTENT, 0, BLOCK as u64).await.unwrap();
    assert_eq!(sums(one)[0], BlockSum::Absent);
    assert_eq!(one.store.sums(EXTENT, 1, 2).unwrap().blocks, sums(one)[1..3]);
    assert_eq!(one.store.sums(ExtentId { number: 1, ..EXTENT }, 0, 1), None);
}
