//! What the manager keeps for gateways (buckets, policies, users) changes for all of them: whoever changes it asks the other nodes whether
//! they have applied the change, and waits until each has, or has left the cell's view. A view without a member begins when its lease is
//! over; who joins a view has applied everything that was committed before it.
//!
//! ```text
//!   question   version 1 | command u64 | bucket u64 (0: none)
//!   answer     empty, once the node has applied the command, and no write of the bucket is under way there that began before
//! ```

use crate::CELL;
use crate::node::{Inner, Node};
use bytes::{BufMut, Bytes, BytesMut};
use env::Env;
use futures_util::future::join_all;
use manager::{CommandIndex, Manager};
use net::{BoxFuture, Refusal, Request, Service, ServiceTag};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;
use types::{BucketId, GatewayId, NodeId};

/// The version that is written; 1: the first.
const SETTLING_VERSION: u8 = 1;

/// How long others are waited for in all. A node that is silent leaves the view in less than five seconds, one that does not follow in some ten.
const SETTLE_PATIENCE: Duration = Duration::from_secs(15);
/// How long one question may take. Writes that are drained end meanwhile, or the question is put again.
const QUESTION_PATIENCE: Duration = Duration::from_secs(4);
/// How long a node waits for a command before it lets the question go.
const APPLY_PATIENCE: Duration = Duration::from_secs(3);
/// Pause before a question is put again.
const RETRY_PAUSE: Duration = Duration::from_millis(50);

/// Ends the writes of a bucket that are under way at this node.
pub trait Drain: Send + Sync + 'static {
    /// Returns when none is left of those that began before.
    fn drain(&self, bucket: BucketId) -> BoxFuture<'_, ()>;
}

/// Another node may still answer by what it knew before.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("node {node} has not said for {SETTLE_PATIENCE:?} that it knows of the change, which stands all the same")]
pub struct Unsettled {
    pub node: NodeId,
}

/// Answers the question here.
pub(crate) struct SettleService(pub Weak<Inner>);

impl Service for SettleService {
    fn handle(&self, request: Request) -> BoxFuture<'_, Result<Bytes, Refusal>> {
        Box::pin(async move {
            let node = self.0.upgrade().ok_or_else(|| Refusal::new("this node ends"))?;
            let (applied, bucket) = decode(&request.payload).ok_or_else(|| Refusal::new("not a question of settling"))?;
            if !has_applied(&node.env, &node.manager, applied).await {
                return Err(Refusal::new(format!("command {} has not come here yet", applied.0)));
            }
            if let (Some(bucket), Some(drain)) = (bucket, node.drain.get()) {
                drain.drain(bucket).await;
            }
            Ok(Bytes::new())
        })
    }
}

/// Waits for a command, for a while.
async fn has_applied(env: &Env, manager: &Manager, index: CommandIndex) -> bool {
    let mut changes = manager.changes();
    tokio::select! {
        biased;
        applied = changes.wait_for(|applied| *applied >= index) => applied.is_ok(),
        () = env.sleep(APPLY_PATIENCE) => false,
    }
}

fn encode(applied: CommandIndex, bucket: Option<BucketId>) -> Bytes {
    let mut question = BytesMut::new();
    question.put_u8(SETTLING_VERSION);
    question.put_u64_le(applied.0);
    question.put_u64_le(bucket.map_or(0, |bucket| bucket.0));
    question.freeze()
}

fn decode(mut question: &[u8]) -> Option<(CommandIndex, Option<BucketId>)> {
    if question.split_off_first() != Some(&SETTLING_VERSION) {
        return None;
    }
    let applied = u64::from_le_bytes(*question.split_off(..8)?.first_chunk()?);
    let bucket = u64::from_le_bytes(*question.split_off(..8)?.first_chunk()?);
    question.is_empty().then_some((CommandIndex(applied), (bucket != 0).then_some(BucketId(bucket))))
}

impl Node {
    /// What drains buckets here when other nodes ask for it. Given once; before, this node writes nothing.
    pub fn set_drain(&self, drain: Arc<dyn Drain>) {
        assert!(self.inner.drain.set(drain).is_ok(), "what drains buckets is given once");
    }

    /// Returns when every other gateway that may answer clients has applied the manager's commands up to this one, which this node has;
    /// with `drained`, also when no write of that bucket is under way there that began before.
    pub async fn settle(&self, applied: CommandIndex, drained: Option<BucketId>) -> Result<(), Unsettled> {
        let inner = &self.inner;
        let state = inner.manager.snapshot();
        debug_assert!(state.applied() >= applied, "asked about what is not known here");
        let Some(cell) = state.cell(CELL) else { return Ok(()) };
        let members = cell.view_members().iter().filter_map(|gateway| Some((*gateway, cell.members.get(gateway)?.node)));
        let others = members.filter(|(_, node)| *node != inner.id);
        let settled = join_all(others.map(|(gateway, node)| inner.settle_one(gateway, node, applied, drained))).await;
        settled.into_iter().collect()
    }
}

impl Inner {
    /// Asks one node until it has settled, or its gateway is in the view no more.
    async fn settle_one(
        &self,
        gateway: GatewayId,
        node: NodeId,
        applied: CommandIndex,
        drained: Option<BucketId>,
    ) -> Result<(), Unsettled> {
        let until = self.env.now() + SETTLE_PATIENCE;
        loop {
            let state = self.manager.snapshot();
            if state.cell(CELL).is_none_or(|cell| !cell.is_in_view(gateway)) {
                return Ok(());
            }
            if let Some(record) = state.node(node) {
                let deadline = until.min(self.env.now() + QUESTION_PATIENCE);
                let question = encode(applied, drained);
                if self.callers.to_node(record, ServiceTag::SETTLINGS).call(question, deadline).await.is_ok() {
                    return Ok(());
                }
            }
            if self.env.now() >= until {
                return Err(Unsettled { node });
            }
            self.env.sleep(RETRY_PAUSE).await;
        }
    }
}

/// Where what drains is kept until it is known.
pub(crate) type DrainSlot = OnceLock<Arc<dyn Drain>>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_come_back_and_others_are_refused() {
        for bucket in [None, Some(BucketId(7))] {
            let question = encode(CommandIndex(300), bucket);
            assert_eq!(decode(&question), Some((CommandIndex(300), bucket)));
            assert_eq!(decode(&question[..question.len() - 1]), None);
            assert_eq!(decode(&[&question[..], &[0]].concat()), None);
            assert_eq!(decode(&[&[2], &question[1..]].concat()), None);
        }
    }
}
