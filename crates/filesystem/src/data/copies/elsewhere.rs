//! What is damaged in the primary's own copy, in other copies in sync.

use bytes::Bytes;
use types::NodeId;

use super::ask::{Answer, CopyError, What};
use super::gate::NotAdmitted;
use super::limits::{ALIGN_PATIENCE, LOST_PATIENCE};
use super::reign::Reign;
use crate::data::DataError;
use crate::ids::ExtentId;

/// Which content of a block counts.
#[derive(Debug)]
pub(super) enum Counting {
    /// That of this node.
    Of(NodeId, Bytes),
    /// No copy in sync has it any more.
    Nobodys,
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

    /// What counts of a block that is damaged here: of the copies in sync the first that has it, by number. So all copies are made like one, also where they differ.
    pub(super) async fn counting(&self, extent: ExtentId, offset: u64, len: usize) -> Counting {
        let backups = self.standing.lock().backups();
        for node in backups {
            match self.read_at(node, extent, offset, len).await {
                Ok(content) => return Counting::Of(node, content),
                Err(CopyError::Data(error)) if has_it_not(&error) => {}
                Err(error) => {
                    let since = self.seat(node).and_then(|seat| seat.silent_since());
                    let is_lost = since.is_some_and(|since| self.env().now().saturating_duration_since(since) >= LOST_PATIENCE);
                    if !is_lost {
                        return Counting::Unknown(node, error);
                    }
                }
            }
        }
        Counting::Nobodys
    }

    async fn read_at(&self, node: NodeId, extent: ExtentId, offset: u64, len: usize) -> Result<Bytes, CopyError> {
        let not_entered = CopyError::NotAdmitted(NotAdmitted::NotEntered);
        let Some(seat) = self.seat(node) else { return Err(not_entered) };
        if !seat.is_entered() && !self.enter(&seat, seat.session()).await {
            return Err(not_entered);
        }
        match self.ask(&seat, What::Read { extent, offset, len: len as u64 }, ALIGN_PATIENCE).await? {
            Answer::Content(content) if content.len() == len => Ok(content),
            _ => Err(CopyError::Silent("an answer to another question".to_owned())),
        }
    }
}

fn has_it_not(error: &DataError) -> bool {
    match error {
        DataError::NoExtent(_) | DataError::Beyond { .. } | DataError::Punched { .. } | DataError::Damaged { .. } => true,
        DataError::NotAtEnd { .. } | DataError::Full | DataError::Unavailable(_) => false,
    }
}
