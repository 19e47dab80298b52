//! What is damaged in the primary's own copy, in other copies in sync.

use bytes::Bytes;
use types::NodeId;

use super::BlockSum;
use super::ask::{Answer, CopyError, What};
use super::gate::NotAdmitted;
use super::limits::{ALIGN_PATIENCE, LOST_PATIENCE};
use super::members::Seat;
use super::reign::Reign;
use super::standing::Role;
use crate::data::DataError;
use crate::ids::{BLOCK_BYTES as BLOCK, ExtentId};

/// Which content of a block counts.
#[derive(Debug)]
pub(super) enum Counting {
    /// That of this node.
    Of(NodeId, Bytes),
    /// No copy in sync has it any more.
    Lost,
    /// This node may have it, and does not say.
    Unknown(NodeId, CopyError),
}

impl Reign {
    /// Reads another copy in sync, for a range in which they are equal.
    pub(super) async fn read_elsewhere(&self, extent: ExtentId, offset: u64, len: usize) -> Option<Bytes> {
        let backups = self.standing.lock().backups();
        for node in backups {
            if let Ok(content) = self.read_at(node, extent, offset, len).await {
                return Some(content);
            }
        }
        None
    }

    /// What counts of a block that is damaged here: a copy in sync that has what this one had, else the first that can read the block, by number. So all copies are made
    /// like one, also where they differ.
    /// For a copy that is rebuilt, what others have is believed only where no change of the extent is under way: it may have ended here, and not there.
    pub(super) async fn counting(&self, seat: &Seat, extent: ExtentId, offset: u64, len: usize) -> Counting {
        let (backups, is_moving) = {
            let standing = self.standing.lock();
            (standing.backups(), standing.role(seat.node) == Role::Rebuilt && standing.is_changing(extent))
        };
        let own = self.own().sums(extent, offset / BLOCK, 1).and_then(|sums| sums.blocks.first().copied());
        let (mut first, mut unknown) = (None, None);
        for node in backups {
            let found = match self.read_and_sum(node, extent, offset, len).await {
                Ok(_) | Err(CopyError::Data(_)) if is_moving => Err(CopyError::Silent("a change is under way".to_owned())),
                found => found,
            };
            match found {
                Ok((content, sum)) if sum == own => return Counting::Of(node, content),
                Ok((content, _)) => first = first.or(Some((node, content))),
                Err(CopyError::Data(error)) if has_it_not(&error) => {}
                Err(error) => {
                    let since = self.seat(node).and_then(|seat| seat.silent_since());
                    let is_lost = since.is_some_and(|since| self.env().now().saturating_duration_since(since) >= LOST_PATIENCE);
                    if !is_lost {
                        unknown = unknown.or(Some((node, error)));
                    }
                }
            }
        }
        match (unknown, first) {
            (Some((node, error)), _) => Counting::Unknown(node, error),
            (None, Some((node, content))) => Counting::Of(node, content),
            (None, None) => Counting::Lost,
        }
    }

    async fn read_and_sum(
        &self,
        node: NodeId,
        extent: ExtentId,
        offset: u64,
        len: usize,
    ) -> Result<(Bytes, Option<BlockSum>), CopyError> {
        let content = self.read_at(node, extent, offset, len).await?;
        let what = What::Sums { extent, first_block: offset / BLOCK, most: 1 };
        match self.ask_node(node, what).await? {
            Answer::Sums(sums) => Ok((content, sums.and_then(|sums| sums.blocks.first().copied()))),
            _ => Err(another_question()),
        }
    }

    async fn read_at(&self, node: NodeId, extent: ExtentId, offset: u64, len: usize) -> Result<Bytes, CopyError> {
        match self.ask_node(node, What::Read { extent, offset, len: len as u64 }).await? {
            Answer::Content(content) if content.len() == len => Ok(content),
            _ => Err(another_question()),
        }
    }

    async fn ask_node(&self, node: NodeId, what: What) -> Result<Answer, CopyError> {
        let not_entered = CopyError::NotAdmitted(NotAdmitted::NotEntered);
        let Some(seat) = self.seat(node) else { return Err(not_entered) };
        if !seat.is_entered() && !self.enter(&seat, seat.session()).await {
            return Err(not_entered);
        }
        self.ask(&seat, what, ALIGN_PATIENCE).await
    }
}

fn another_question() -> CopyError {
    CopyError::Silent("an answer to another question".to_owned())
}

fn has_it_not(error: &DataError) -> bool {
    match error {
        DataError::NoExtent(_) | DataError::Beyond { .. } | DataError::Punched { .. } | DataError::Damaged { .. } => true,
        DataError::NotAtEnd { .. } | DataError::Full | DataError::Unavailable(_) => false,
    }
}
