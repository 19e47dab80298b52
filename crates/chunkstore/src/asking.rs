//! One question to a block's node, or to a lookup host, and its answer; none if there is none in time.

use std::time::Duration;

use env::Env;
use format::chunk_place::BlockPlace;
use types::{DeviceId, NodeId};

use crate::message::{NodeAnswer, ToNode};
use crate::protocol::{BLOCKS, BlockRequest, Gaps, HOSTS, HostAnswer, HostRequest};
use crate::reach::Reach;
use crate::wire::{self, Message};

/// Asks the node that has a block about a chunk there.
pub async fn ask_block(env: &Env, reach: &dyn Reach, to: ToNode, patience: Duration) -> Option<NodeAnswer> {
    ask_at(env, reach, to.place.device(), &BlockRequest::Direct(to), patience).await
}

/// Asks the node that has a block to condemn it.
pub async fn ask_to_condemn(env: &Env, reach: &dyn Reach, place: BlockPlace, patience: Duration) -> Option<NodeAnswer> {
    ask_at(env, reach, place.device(), &BlockRequest::Condemn(place), patience).await
}

/// Asks the node of a device how much these of its blocks take.
pub async fn ask_for_gaps(
    env: &Env,
    reach: &dyn Reach,
    device: DeviceId,
    blocks: Vec<u32>,
    patience: Duration,
) -> Option<Gaps> {
    ask_at(env, reach, device, &BlockRequest::Gaps { device, blocks }, patience).await
}

async fn ask_at<A: Message>(
    env: &Env,
    reach: &dyn Reach,
    device: DeviceId,
    request: &BlockRequest,
    patience: Duration,
) -> Option<A> {
    let map = reach.map();
    let caller = reach.to_node(map.node_of(device)?, BLOCKS);
    let answer = caller.call(wire::encode(request), env.now() + patience).await;
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
