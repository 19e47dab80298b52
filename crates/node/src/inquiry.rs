//! Whether a node would be taken, asked before it becomes a member of the manager: a member that is refused afterwards and ends would count
//! for quorums.
//!
//! ```text
//!   question   identity 16 | bytes of the name u16 | name | address
//!   answer     empty: it would be taken; else the reason why not
//! ```

use crate::PINGS;
use crate::error::NodeError;
use bytes::{BufMut, Bytes, BytesMut};
use env::Env;
use manager::{Manager, RegisterNode};
use net::{BoxFuture, CallError, Caller, Refusal, Request, Service};
use std::sync::Arc;
use std::time::Duration;
use types::NodeIdentity;

/// How long a member may take to answer.
const INQUIRY_PATIENCE: Duration = Duration::from_secs(12);
/// How long a node may take to say who it is.
const WHO_PATIENCE: Duration = Duration::from_secs(1);
const IDENTITY_BYTES: usize = 16;

/// Says who this node is to whoever asks nothing, and answers inquiries.
pub(crate) struct Here {
    pub manager: Arc<Manager>,
    pub identity: NodeIdentity,
}

impl Service for Here {
    fn handle(&self, request: Request) -> BoxFuture<'_, Result<Bytes, Refusal>> {
        Box::pin(async move {
            if request.payload.is_empty() {
                return Ok(Bytes::copy_from_slice(&self.identity.0));
            }
            let (identity, name, address) = decode(&request.payload).ok_or_else(|| Refusal::new("not an inquiry"))?;
            self.manager.fresh().await.map_err(Refusal::new)?;
            let state = self.manager.snapshot();
            let others = || state.nodes().filter(|node| node.identity != identity);
            let reason = if let Some(node) = others().find(|node| node.name == name) {
                format!("node {} has the name {name} already; give this one another with --name", node.id)
            } else if let Some(node) = others().find(|node| node.address == address) {
                format!("node {} has the cluster address {address} already; give this one another with --cluster-addr", node.id)
            } else {
                String::new()
            };
            Ok(Bytes::from(reason))
        })
    }
}

fn decode(mut question: &[u8]) -> Option<(NodeIdentity, String, String)> {
    let identity = NodeIdentity(*question.split_off(..IDENTITY_BYTES)?.first_chunk()?);
    let name_bytes = usize::from(u16::from_le_bytes(*question.split_off(..2)?.first_chunk()?));
    let name = question.split_off(..name_bytes)?;
    Some((identity, str::from_utf8(name).ok()?.to_owned(), str::from_utf8(question).ok()?.to_owned()))
}

/// The question about a node, for any member of its cluster.
pub fn inquiry(identity: NodeIdentity, name: &str, address: &str) -> Bytes {
    let mut question = BytesMut::new();
    question.put_slice(&identity.0);
    question.put_u16_le(u16::try_from(name.len()).unwrap_or(u16::MAX));
    question.put_slice(name.as_bytes());
    question.put_slice(address.as_bytes());
    PINGS.mark(&question)
}

/// Asks a member. An outer error: it can't tell.
pub async fn inquire(env: &Env, member: &dyn Caller, question: Bytes) -> Result<Result<(), String>, CallError> {
    let answer = member.call(question, env.now() + INQUIRY_PATIENCE).await?;
    Ok(verdict(&answer))
}

/// What an answer says that is empty if all is well, and else the reason why not.
pub(crate) fn verdict(answer: &[u8]) -> Result<(), String> {
    match answer.is_empty() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(answer).into_owned()),
    }
}

/// Whether a node with this identity answers there. `caller` leads to the node, not to one of its services.
pub async fn answers_as(env: &Env, caller: &dyn Caller, identity: NodeIdentity) -> bool {
    let answer = caller.call(crate::ping(), env.now() + WHO_PATIENCE).await;
    answer.is_ok_and(|answer| answer == identity.0[..])
}

/// Refuses to go on if another process answers with this node's identity where the manager says that the node is.
pub(crate) async fn refuse_twin(
    env: &Env,
    manager: &Manager,
    register: &RegisterNode,
    to: impl Fn(&str) -> Arc<dyn Caller>,
) -> Result<(), NodeError> {
    let known = manager.snapshot().nodes().find(|node| node.identity == register.identity).cloned();
    match known.filter(|known| known.address != register.address) {
        Some(known) if answers_as(env, &*to(&known.address), register.identity).await => {
            Err(NodeError::Twin { address: known.address.clone() })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_come_back_and_short_ones_are_refused() {
        let identity = NodeIdentity([7; 16]);
        let marked = inquiry(identity, "a", "127.0.0.1:9002");
        let question = &marked[marked.len() - (16 + 2 + 1 + 14)..];
        assert_eq!(decode(question), Some((identity, "a".to_owned(), "127.0.0.1:9002".to_owned())));
        for bytes in 0..16 + 2 + 1 {
            assert_eq!(decode(&question[..bytes]), None, "{bytes}");
        }
    }
}
