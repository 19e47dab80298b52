//! Which nodes are members of groups, as one node tells another that does not hear the manager any more.
//!
//! ```text
//!   question   kind
//!   answer     postcard(list of: number, list of: consensus's name of the node, address)
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use consensus::NodeId;
use manager::{GroupKind, Manager};
use net::{BoxFuture, Refusal, Request, Service, ServiceTag};
use subsystem::Surroundings;

use crate::limits::MAP_PATIENCE;
use crate::placed::{Addresses, member_ids};

/// The members of groups of one kind, by number.
pub type Named = BTreeMap<u32, Addresses>;

/// As they are sent.
type Sent = Vec<(u32, Vec<(u64, String)>)>;

/// Tells what is so now.
pub struct MapService(pub Arc<Manager>);

impl Service for MapService {
    fn handle(&self, request: Request) -> BoxFuture<'_, Result<Bytes, Refusal>> {
        Box::pin(async move {
            let [kind] = request.payload[..] else { return Err(Refusal::new("not a question for groups")) };
            self.0.fresh().await.map_err(Refusal::early)?;
            let state = self.0.snapshot();
            let of_group = |record: &Arc<manager::GroupRecord>| {
                let members = member_ids(&state, &record.members).into_iter().map(|(node, address)| (node.0, address));
                (record.key.number, members.collect())
            };
            let sent: Sent = state.groups_of(GroupKind(kind)).map(of_group).collect();
            Ok(postcard::to_allocvec(&sent).expect("encoding into memory cannot fail").into())
        })
    }
}

/// Asks the other members of the manager until one says; none if none does.
pub async fn named_by_others(around: Surroundings, kind: GroupKind) -> Option<Named> {
    for other in around.manager.other_members(&around.address) {
        let caller = around.callers.to(&other, ServiceTag::GROUPS);
        let asked = caller.call(Bytes::copy_from_slice(&[kind.0]), around.env.now() + MAP_PATIENCE).await;
        let Ok(answer) = asked else { continue };
        if let Ok(sent) = postcard::from_bytes::<Sent>(&answer) {
            let of_group = |members: Vec<(u64, String)>| members.into_iter().map(|(node, address)| (NodeId(node), address));
            return Some(sent.into_iter().map(|(number, members)| (number, of_group(members).collect())).collect());
        }
    }
    None
}
