//! One question to a block's node, or to a lookup host, and its answer; none if there is none in time.

use std::time::Duration;

use env::Env;
use types::NodeId;

use crate::message::{NodeAnswer, ToNode};
use crate::protocol::{BLOCKS, BlockRequest, HOSTS, HostAnswer, HostRequest};
use crate::reach::Reach;
use crate::wire;

/// Asks the node that has a block.
pub async fn ask_block(env: &Env, reach: &dyn Reach, to: ToNode, patience: Duration) -> Option<NodeAnswer> {
    let map = reach.map();
    let caller = reach.to_node(map.node_of(to.place.device())?, BLOCKS);
    let answer = caller.call(wire::encode(&BlockRequest::Direct(to)), env.now() + patience).await;
    wire::decode(&answer.ok()?).ok()
}

/// Asks a lookup host.
pub async fn ask_host(
    env: &Env,
    reach: &dyn Reach,
    host: NodeId,
    request: &HostRequest,
    patience: Duration,
) -> Option<HostAnswer> {
    let map = reach.map();
    let caller = reach.to_node(map.node(host)?, HOSTS);
    let answer = caller.call(wire::encode(request), env.now() + patience).await;
    wire::decode(&answer.ok()?).ok()
}
