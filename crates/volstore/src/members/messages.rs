//! Messages between members. They may be lost, doubled and late: the machines say them again.
//!
//! A batch: the sender u32, then of each message its length u32 and its bytes. Little endian.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use allack::{Input, Message};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use net::{BoxFuture, Refusal, Request, Service, ServiceTag};
use parking_lot::Mutex;
use tokio::sync::Notify;
use types::NodeId;

use super::Members;
use crate::limits::{MAX_WAITING_MESSAGES, MESSAGE_BATCH_BYTES, MESSAGE_PATIENCE};
use crate::place::Place;

/// Messages that wait, by node.
#[derive(Default)]
pub struct Outbox {
    boxes: Mutex<BTreeMap<NodeId, Arc<Waiting>>>,
}

#[derive(Default)]
struct Waiting {
    messages: Mutex<VecDeque<Vec<u8>>>,
    filled: Notify,
}

impl Waiting {
    fn push(&self, message: Vec<u8>) {
        let mut messages = self.messages.lock();
        if messages.len() == MAX_WAITING_MESSAGES {
            messages.pop_front();
        }
        messages.push_back(message);
        self.filled.notify_one();
    }

    async fn take(&self, me: NodeId) -> Bytes {
        loop {
            if let Some(batch) = batch_of(me, &mut self.messages.lock()) {
                return batch;
            }
            self.filled.notified().await;
        }
    }
}

fn batch_of(me: NodeId, messages: &mut VecDeque<Vec<u8>>) -> Option<Bytes> {
    messages.front()?;
    let mut out = BytesMut::new();
    out.put_u32_le(me.0);
    while let Some(message) =
        messages.pop_front_if(|message| out.len() + message.len() <= MESSAGE_BATCH_BYTES || out.len() == 4)
    {
        out.put_u32_le(message.len() as u32);
        out.put_slice(&message);
    }
    Some(out.freeze())
}

impl Members {
    /// Sends a message, some time.
    pub(super) fn send(self: &Arc<Self>, to: NodeId, message: &Message) {
        let mut boxes = self.outbox.boxes.lock();
        let waiting = boxes.entry(to).or_insert_with(|| {
            let waiting = Arc::<Waiting>::default();
            let (members, kept) = (Arc::downgrade(self), waiting.clone());
            let work = async move {
                loop {
                    let Some((me, env, ways)) = members.upgrade().map(|all| (all.me, all.env.clone(), all.ways.clone())) else {
                        return;
                    };
                    let batch = kept.take(me).await;
                    let Some(caller) = ways(to, ServiceTag::OBJECT_MESSAGES) else { continue };
                    if let Err(error) = caller.call(batch, env.now() + MESSAGE_PATIENCE).await {
                        tracing::debug!(%error, "messages of placement groups were lost");
                    }
                }
            };
            drop(self.env.spawn(work));
            waiting
        });
        waiting.push(message.encode());
    }

    fn receive(self: &Arc<Self>, mut batch: Bytes) -> Option<()> {
        let from = NodeId(batch.try_get_u32_le().ok()?);
        while !batch.is_empty() {
            let length = batch.try_get_u32_le().ok()? as usize;
            if batch.len() < length {
                return None;
            }
            let message = Message::decode(&batch.split_to(length)).ok()?;
            if let Some(group) = self.group(message.group.0) {
                self.step(&group, Input::Message { from, message });
            }
        }
        Some(())
    }
}

/// Takes messages of other members.
pub struct MessageService(pub Place);

impl Service for MessageService {
    fn handle(&self, request: Request) -> BoxFuture<'_, Result<Bytes, Refusal>> {
        Box::pin(async move {
            let members = self.0.members().ok_or_else(|| Refusal::early("this node is no member of a placement group yet"))?;
            members
                .receive(request.payload)
                .map(|()| Bytes::new())
                .ok_or_else(|| Refusal::new("no messages of placement groups"))
        })
    }
}
