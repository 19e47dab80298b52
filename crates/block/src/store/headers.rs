//! Changes of headers. Those of one blob are written one after the other, and a write covers all that wait when it begins.

use format::blob_header::BlobState;
use parking_lot::Mutex;
use tokio::sync::oneshot;
use types::{ImageEpoch, Pieces, Token};

use super::Inner;
use super::layout::{padded, slot_start};
use super::table::Head;
use crate::stores::{Admission, Change, StoreError};

/// What a request wants of a blob's header.
#[derive(Clone, Copy, Debug)]
pub struct Wish {
    token: Token,
    epoch: ImageEpoch,
    filled: Pieces,
    zeroed: Pieces,
    dropped: Pieces,
    is_whole: bool,
}

impl Wish {
    /// The header has the holder's token, and an epoch that is no older than the holder's.
    pub fn announce(admission: &Admission) -> Wish {
        let (token, epoch, none) = (admission.token, admission.epoch, Pieces::NONE);
        Wish { token, epoch, filled: none, zeroed: none, dropped: none, is_whole: false }
    }

    /// The pieces of a change, and what [`Wish::announce`] says.
    pub fn change(admission: &Admission, change: &Change) -> Wish {
        let Change { filled, zeroed, dropped, .. } = *change;
        Wish { filled, zeroed, dropped, ..Wish::announce(admission) }
    }

    /// The copy is whole, and what [`Wish::announce`] says.
    pub fn complete(admission: &Admission) -> Wish {
        Wish { is_whole: true, ..Wish::announce(admission) }
    }

    /// Only what [`Wish::announce`] says.
    pub fn without_pieces(self) -> Wish {
        let none = Pieces::NONE;
        Wish { filled: none, zeroed: none, dropped: none, is_whole: false, ..self }
    }

    pub fn is_granted(&self, head: &Head) -> bool {
        self.granted(*head) == *head
    }

    /// An epoch never goes back: a device that was out compares the blobs whose epoch on another is its own or later.
    fn granted(&self, mut head: Head) -> Head {
        head.token = self.token;
        head.epoch = head.epoch.max(self.epoch);
        head.owned = (head.owned | self.filled | self.zeroed) & !self.dropped;
        head.data = (head.data | self.filled) & !self.zeroed & !self.dropped;
        if self.is_whole {
            head.state = BlobState::Whole;
        }
        head
    }
}

/// The way to the header of one block.
#[derive(Default)]
pub struct Lane {
    /// Held during a write of the header.
    turn: tokio::sync::Mutex<()>,
    waiting: Mutex<Vec<Waiting>>,
}

struct Waiting {
    wish: Wish,
    tell: oneshot::Sender<Result<(), StoreError>>,
}

impl Inner {
    /// Has the header of a block that the caller has pinned say what is wished.
    pub(super) async fn grant(&self, block: u32, wish: Wish) -> Result<(), StoreError> {
        let lane = self.state.lock().table.lane(block);
        let (tell, mut told) = oneshot::channel();
        lane.waiting.lock().push(Waiting { wish, tell });
        let _turn = lane.turn.lock().await;
        // The write before covered it.
        if let Ok(outcome) = told.try_recv() {
            return outcome;
        }
        let waiting = std::mem::take(&mut *lane.waiting.lock());
        let before = self.state.lock().table.head(block);
        let after = waiting.iter().fold(before, |head, waiting| waiting.wish.granted(head));
        let outcome = if after == before { Ok(()) } else { self.put_changed(block, after).await };
        for Waiting { tell, .. } in waiting {
            // The caller's own is among them.
            drop(tell.send(outcome.clone()));
        }
        outcome
    }

    async fn put_changed(&self, block: u32, head: Head) -> Result<(), StoreError> {
        let head = Head { serial: head.serial + 1, ..head };
        self.put_header(block, &head).await?;
        self.state.lock().table.set_head(block, head);
        Ok(())
    }

    /// Writes a header. One that fails is repeated under the same number, into the same slot: never into the good one.
    pub(super) async fn put_header(&self, block: u32, head: &Head) -> Result<(), StoreError> {
        let header = head.header(self.volume.device_uuid(), block);
        let written = self.volume.write(slot_start(block, header.slot()), padded(&header.encode())).await;
        written.map_err(|error| self.refusal(&error))?;
        self.counters.header_writes.add(1);
        Ok(())
    }
}
