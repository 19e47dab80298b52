use std::future::pending;

use bytes::Bytes;
use net::BoxFuture;

use super::*;
use crate::data::memory::MemoryPartition;
use crate::data::{DataRoom, Extents};
use crate::ids::ExtentId;

/// A partition in which one extent does not answer.
struct Stuck {
    inner: MemoryPartition,
    stuck: Option<ExtentId>,
}

impl Extents for Stuck {
    fn append(&self, extent: ExtentId, offset: u64, data: Bytes) -> BoxFuture<'_, Result<(), DataError>> {
        self.inner.append(extent, offset, data)
    }

    fn overwrite(&self, extent: ExtentId, offset: u64, data: Bytes) -> BoxFuture<'_, Result<(), DataError>> {
        self.inner.overwrite(extent, offset, data)
    }

    fn read(&self, extent: ExtentId, offset: u64, len: usize) -> BoxFuture<'_, Result<Bytes, DataError>> {
        self.inner.read(extent, offset, len)
    }

    fn punch(&self, extent: ExtentId, offset: u64, len: u64) -> BoxFuture<'_, Result<(), DataError>> {
        self.inner.punch(extent, offset, len)
    }

    fn remove(&self, extent: ExtentId) -> BoxFuture<'_, Result<(), DataError>> {
        if self.stuck == Some(extent) { Box::pin(pending()) } else { self.inner.remove(extent) }
    }

    fn room(&self) -> DataRoom {
        self.inner.room()
    }
}

impl DataPartition for Stuck {
    fn create(&self, data: Bytes) -> BoxFuture<'_, Result<ExtentId, DataError>> {
        self.inner.create(data)
    }
}

/// Caught: the first piece of the list waited for a change that could not end. Nothing of the volume was given back any more.
#[tokio::test(start_paused = true)]
async fn a_piece_that_fails_holds_up_no_other_and_is_tried_again() {
    let env = Env::simulated(1);
    let mut partition = Stuck { inner: MemoryPartition::new(1 << 20), stuck: None };
    let mut list = Vec::new();
    for number in 1..=4 {
        list.push(Freed { number, what: FreedPiece::Extent(partition.create(Bytes::new()).await.expect("an extent")) });
    }
    let FreedPiece::Extent(second) = list[1].what else { unreachable!("extents were made") };
    partition.stuck = Some(second);
    let mut tried = Tried::default();
    assert!(tried.give_back(&env, &partition, list.clone()).await);
    assert_eq!((tried.up_to(), tried.to_confirm()), (2, Some(1)));
    tried.confirmed(1);
    assert!(tried.give_back(&env, &partition, list[2..].to_vec()).await);
    assert_eq!(partition.inner.extents(), [second], "those behind it are given back");
    assert_eq!(
        (tried.up_to(), tried.to_confirm(), tried.is_done()),
        (4, None, false),
        "what was not given back is not confirmed"
    );
    partition.stuck = None;
    assert!(tried.give_back(&env, &partition, Vec::new()).await);
    assert_eq!(tried.to_confirm(), Some(4));
    tried.confirmed(4);
    assert!(tried.is_done() && partition.inner.extents().is_empty());
}
