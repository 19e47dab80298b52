//! Rows in pages.

use types::{BlobId, ImageId, Layer};

use super::support::{Rig, fill, holder, id};
use crate::stores::{BlobRow, StoreError};

#[tokio::test(start_paused = true)]
async fn pages_together_are_all_rows_of_the_image() {
    let rig = Rig::new(1).await;
    let (one, other) = (holder(3, 10), holder(4, 11));
    rig.enter(one).await;
    rig.enter(other).await;
    for index in [5, 1, u32::MAX, 3] {
        rig.create(one, id(3, index), fill(id(3, index), 0..1, 1)).await;
    }
    rig.create(other, id(4, 0), fill(id(4, 0), 0..1, 1)).await;
    let all = rig.rows(3);
    assert_eq!(all.iter().map(|row| row.at.id.index).collect::<Vec<_>>(), [1, 3, 5, u32::MAX]);
    for most in 1..=5 {
        let (mut entered, mut looked): (Vec<BlobRow>, Vec<BlobRow>) = Default::default();
        loop {
            let after = entered.last().map(|row| row.at.id);
            let page = rig.store.enter_page(one, after, most).await.expect("enters");
            assert!(page.len() <= most);
            assert_eq!(page, rig.store.rows_page(ImageId(3), after, most));
            let is_last = page.len() < most;
            entered.extend(page.iter().copied());
            looked.extend(page);
            if is_last {
                break;
            }
        }
        assert_eq!((&entered, &looked), (&all, &all));
    }
    // Behind the last one that there can be is nothing of the next image.
    let last = BlobId { image: ImageId(3), index: u32::MAX, layer: Layer(u32::MAX) };
    assert_eq!(rig.store.rows_page(ImageId(3), Some(last), 5), []);
}

#[tokio::test(start_paused = true)]
async fn a_further_page_is_refused_when_another_holder_has_entered() {
    let rig = Rig::new(2).await;
    let (one, next) = (holder(3, 10), holder(3, 11));
    rig.enter(one).await;
    rig.enter(next).await;
    assert_eq!(rig.store.enter_page(one, Some(id(3, 0)), 1).await, Err(StoreError::Superseded));
}
