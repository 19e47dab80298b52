//! A primary's place in the log of its placement group, under one view.

use std::sync::Arc;

use allack::limits::ENTRY_OVERHEAD_BYTES;
use allack::{AppendError, OpSeq};
use bytes::Bytes;
use tokio::sync::oneshot;
use types::ViewNumber;

use crate::limits::{GROUP_LOG, LOG_SEGMENTS, START_BYTES, START_ENTRIES};
use crate::log::{LogError, Pending};
use crate::members::{Group, Members};
use crate::mirror::Mirror;
use crate::name::Opseq;

/// The seat.
pub struct Seat {
    pub members: Arc<Members>,
    pub group: Arc<Group>,
    pub view: ViewNumber,
    pub mirror: Mirror,
}

impl Seat {
    /// Takes a record. Its number is fixed now; what is returned is ready when all members have it.
    pub fn append(&self, record: Vec<u8>) -> Result<(Opseq, Pending), LogError> {
        let (tell, told) = oneshot::channel();
        let appended = self.members.append(&self.group, self.view, Bytes::from(record), tell);
        match appended {
            Ok(opseq) => Ok((Opseq(opseq.0), Pending::Replicated(told))),
            Err(AppendError::Full { .. }) => Err(LogError::Full),
            Err(error) => Err(LogError::NotServing { reason: error.to_string() }),
        }
    }

    /// How full the log is, in parts of [`LOG_SEGMENTS`].
    pub fn live_segments(&self) -> usize {
        let (entries, bytes) = self.group.log_size();
        let parts = |used: usize, most: usize| (used * LOG_SEGMENTS).div_ceil(most);
        parts(entries, GROUP_LOG.entries).max(parts(bytes, GROUP_LOG.bytes))
    }

    /// Entries before this one are needed no more: the names are written without them, in all copies.
    pub async fn release_before(&self, opseq: Opseq) {
        self.note_released_before(opseq).await;
        self.members.wait_until_trimmed(&self.group, OpSeq(opseq.0 - 1)).await;
    }

    /// The same, without waiting: all copies have a superblock that needs no entries before this one.
    pub async fn note_released_before(&self, opseq: Opseq) {
        let through = OpSeq(opseq.0 - 1);
        self.mirror.tell_released(through.0).await;
        self.members.release(&self.group, through);
    }

    /// Whether a record fits, so that there still is room for what a start revokes.
    pub fn has_room(&self, bytes: usize) -> bool {
        let (entries, used) = self.group.log_size();
        let (most_entries, most_bytes) = (GROUP_LOG.entries - START_ENTRIES, GROUP_LOG.bytes - START_BYTES);
        entries < most_entries && used + bytes + ENTRY_OVERHEAD_BYTES <= most_bytes
    }

    pub fn may_read(&self) -> bool {
        self.members.may_read(&self.group, self.view)
    }
}
