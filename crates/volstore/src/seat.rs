//! A primary's place in the log of its placement group, under one view.
//!
//! A record's way, where this node is the only voter: the request queues it, waits for the medium itself, and takes its commit from the machine.
//! No task of another thread has a part in it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use allack::limits::ENTRY_OVERHEAD_BYTES;
use allack::{AppendError, OpSeq};
use bytes::Bytes;
use tokio::sync::oneshot;
use types::ViewNumber;

use crate::limits::{LOG_PARTS, START_BYTES, START_ENTRIES};
use crate::members::{Group, Members, Queued};
use crate::mirror::Mirror;
use crate::name::Opseq;

/// The seat.
pub struct Seat {
    pub members: Arc<Members>,
    pub group: Arc<Group>,
    pub view: ViewNumber,
    pub mirror: Mirror,
}

/// Why a record was not taken, or whether it was is not known.
#[derive(Clone, Debug, thiserror::Error)]
pub enum LogError {
    #[error("the log of the placement group is full until its names are written")]
    Full,
    #[error("{reason}")]
    NotServing { reason: String },
}

/// A record on its way. Ready when it is durable at all voters.
pub struct Pending {
    members: Arc<Members>,
    group: Arc<Group>,
    /// This node's own write, which no other task waits for.
    queued: Option<Queued>,
    told: oneshot::Receiver<()>,
}

impl Future for Pending {
    type Output = Result<(), LogError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let Some(queued) = &mut self.queued
            && let Poll::Ready(outcome) = Pin::new(&mut queued.durable).poll(context)
        {
            let count = queued.count;
            self.queued = None;
            self.members.note_durable(&self.group, count, outcome);
        }
        let reason = "the placement group changes its primary: whether the write has taken effect is not known";
        let not_serving = |_| LogError::NotServing { reason: reason.to_owned() };
        Pin::new(&mut self.told).poll(context).map(|told| told.map_err(not_serving))
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if let Some(queued) = self.queued.take() {
            self.group.log.watch(&self.group, queued);
        }
    }
}

impl Seat {
    /// Takes a record. Its number is fixed now; what is returned is ready when all voters have it.
    pub fn append(&self, record: Vec<u8>) -> Result<(Opseq, Pending), LogError> {
        let (tell, told) = oneshot::channel();
        match self.members.append(&self.group, self.view, Bytes::from(record), tell) {
            Ok((opseq, queued)) => {
                let (members, group) = (self.members.clone(), self.group.clone());
                Ok((Opseq(opseq.0), Pending { members, group, queued, told }))
            }
            Err(AppendError::Full { .. }) => Err(LogError::Full),
            Err(error) => Err(LogError::NotServing { reason: error.to_string() }),
        }
    }

    /// How full the log is, in parts of [`LOG_PARTS`].
    pub fn full_parts(&self) -> usize {
        let ((entries, bytes), limits) = (self.group.log_size(), self.members.shape.log);
        let parts = |used: usize, most: usize| (used * LOG_PARTS).div_ceil(most);
        parts(entries, limits.entries).max(parts(bytes, limits.bytes))
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

    /// Has the other groups that are served here give the device back what they need no more. The caller holds nothing that they may wait for.
    pub async fn ask_space_back(&self) {
        self.members.ask_space_back(&self.group).await;
    }

    /// Whether a record fits, so that there still is room for what a start revokes.
    pub fn has_room(&self, bytes: usize) -> bool {
        let (entries, used) = self.group.log_size();
        let limits = self.members.shape.log;
        let (most_entries, most_bytes) = (limits.entries - START_ENTRIES, limits.bytes - START_BYTES);
        entries < most_entries && used + bytes + ENTRY_OVERHEAD_BYTES <= most_bytes
    }

    /// Whether what this node holds is the newest, so that it may be read here.
    pub fn may_read(&self) -> bool {
        self.members.may_read(&self.group, self.view)
    }
}
