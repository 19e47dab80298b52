//! The blocks of a node's devices as a service.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use env::Env;
use format::chunk_command::CopyOf;
use format::chunk_id::{ChunkId, ShardId};
use format::chunk_place::BlockPlace;
use net::{BoxFuture, Refusal, Request, Service};
use parking_lot::Mutex;
use types::DeviceId;

use crate::blocks::BlockStore;
use crate::contact::Contact;
use crate::limits::DELIVERY_PATIENCE;
use crate::message::{NodeAnswer, ToNode};
use crate::protocol::{BlockRequest, DELIVERIES, DamagedBlock, Delivery, DeviceRoom, Gaps};
use crate::reach::Reach;
use crate::wire;

/// A node's blocks.
pub struct BlockService {
    env: Env,
    reach: Arc<dyn Reach>,
    stores: BTreeMap<DeviceId, Arc<BlockStore>>,
    contact: Arc<Contact>,
    /// Of shards with more rotten copies than were told: the last of these.
    told: Mutex<BTreeMap<ShardId, (DeviceId, ChunkId, u32)>>,
    /// Of shards that were not told of all damaged blocks: where the next ones begin.
    told_damaged: Mutex<BTreeMap<ShardId, (DeviceId, u32)>>,
}

impl BlockService {
    pub fn new(
        env: &Env,
        reach: Arc<dyn Reach>,
        stores: BTreeMap<DeviceId, Arc<BlockStore>>,
        contact: Arc<Contact>,
    ) -> BlockService {
        BlockService { env: env.clone(), reach, stores, contact, told: Mutex::default(), told_damaged: Mutex::default() }
    }

    /// Chunks of a shard with dead copies here.
    pub fn freed(&self, shard: ShardId, limit: usize) -> Vec<ChunkId> {
        let mut freed: Vec<ChunkId> = self.stores.values().flat_map(|store| store.freed(shard, limit)).collect();
        freed.truncate(limit);
        freed
    }

    /// Copies of a shard here without content that can be returned. Where there are more, the next ones are told next time: what can't be made again must not
    /// hide what can.
    pub fn rotten(&self, shard: ShardId, limit: usize) -> Vec<CopyOf> {
        let mut told = self.told.lock();
        let (mut found, last) = (Vec::new(), told.remove(&shard));
        let copies = |device: DeviceId, store: &BlockStore, behind, limit| -> Vec<(DeviceId, ChunkId, u32)> {
            store.rotten_behind(shard, behind, limit).into_iter().map(|(id, block)| (device, id, block)).collect()
        };
        let first = last.map_or(DeviceId(0), |(device, ..)| device);
        for (device, store) in self.stores.range(first..) {
            let behind = last.filter(|(first, ..)| first == device).map(|(_, id, block)| (id, block));
            found.extend(copies(*device, store, behind, limit - found.len()));
        }
        if let Some(last) = last {
            // And from the first one up to there.
            for (device, store) in self.stores.range(..=first) {
                let up_to = copies(*device, store, None, limit - found.len());
                found.extend(up_to.into_iter().filter(|copy| *copy <= last));
            }
        }
        if found.len() == limit {
            told.extend(found.last().map(|last| (shard, *last)));
        }
        let copy = |(device, id, block)| Some(CopyOf { id, place: BlockPlace::new(device, block)? });
        found.into_iter().filter_map(copy).collect()
    }

    /// Blocks here whose header was lost. Where there are more, a shard is told of the next ones next time: those that are condemned, or are no shard's, stay for as long as
    /// the device does, and must not hide others, whose copies would count as sound.
    pub fn damaged(&self, shard: ShardId, limit: usize) -> Vec<DamagedBlock> {
        let mut told = self.told_damaged.lock();
        let first = told.remove(&shard).unwrap_or((DeviceId(0), 0));
        let mut found: Vec<(DeviceId, u32, bool)> = Vec::new();
        for (device, store) in self.stores.range(first.0..) {
            let from = if *device == first.0 { first.1 } else { 0 };
            let blocks = store.damaged_from(from, limit - found.len());
            found.extend(blocks.into_iter().map(|(block, is_condemned)| (*device, block, is_condemned)));
        }
        // And from the beginning up to there.
        for (device, store) in self.stores.range(..=first.0) {
            let blocks = store.damaged_from(0, limit - found.len());
            let before = blocks.into_iter().filter(|(block, _)| (*device, *block) < first);
            found.extend(before.map(|(block, is_condemned)| (*device, block, is_condemned)));
        }
        if found.len() == limit {
            told.extend(found.last().map(|(device, block, _)| (shard, (*device, block + 1))));
        }
        let damaged =
            |(device, block, is_condemned)| Some(DamagedBlock { place: BlockPlace::new(device, block)?, is_condemned });
        found.into_iter().filter_map(damaged).collect()
    }

    /// Devices here that take no writes now.
    pub fn stuck(&self) -> BTreeSet<DeviceId> {
        self.stores().filter(|(_, store)| store.is_stuck()).map(|(device, _)| device).collect()
    }

    /// The space that each device here has.
    pub fn rooms(&self) -> Vec<DeviceRoom> {
        self.stores().map(|(_, store)| store.room()).collect()
    }

    pub fn stores(&self) -> impl Iterator<Item = (DeviceId, &Arc<BlockStore>)> {
        self.stores.iter().map(|(device, store)| (*device, store))
    }

    async fn answer(store: &BlockStore, to: ToNode) -> NodeAnswer {
        store.handle(to.place.block(), to.id, to.request).await
    }

    fn store(&self, device: DeviceId) -> Result<Arc<BlockStore>, Refusal> {
        // The copies of a device that was given up may be behind those that were made in their stead.
        if !self.contact.is_held(self.env.now()) {
            return Err(Refusal::early("this node does not hear the manager"));
        }
        if self.reach.map().node_of(device).is_none() {
            return Err(Refusal::new(format!("device {device} is no part of the cluster any more")));
        }
        let store = self.stores.get(&device);
        store.cloned().ok_or_else(|| Refusal::new(format!("device {device} has no blocks here")))
    }

    /// Answers the client itself, not the host that has forwarded its request.
    fn deliver(
        &self,
        store: Arc<BlockStore>,
        to: ToNode,
        delivery: impl FnOnce(NodeAnswer) -> (String, Delivery) + Send + 'static,
    ) {
        let (env, reach) = (self.env.clone(), self.reach.clone());
        self.env.spawn(async move {
            let (address, delivery) = delivery(BlockService::answer(&store, to).await);
            let caller = reach.to_address(&address, DELIVERIES);
            let delivered = caller.call(wire::encode(&delivery), env.now() + DELIVERY_PATIENCE).await;
            if let Err(error) = delivered {
                tracing::debug!(%error, "a client is not there for its answer");
            }
        });
    }

    async fn carry_out(&self, request: BlockRequest) -> Result<Bytes, Refusal> {
        match request {
            BlockRequest::Direct(to) => {
                let store = self.store(to.place.device())?;
                Ok(wire::encode(&BlockService::answer(&store, to).await))
            }
            BlockRequest::Forwarded { to, places, reply } => {
                let (store, place) = (self.store(to.place.device())?, to.place);
                self.deliver(store, to, move |answer| (reply.address, Delivery { token: reply.token, places, place, answer }));
                Ok(Bytes::new())
            }
            BlockRequest::Condemn(place) => Ok(wire::encode(&self.store(place.device())?.condemn(place.block()).await)),
            BlockRequest::Gaps { device, blocks } => Ok(wire::encode(&Gaps(self.store(device)?.gaps(&blocks)))),
        }
    }
}

impl Service for BlockService {
    fn handle(&self, request: Request) -> BoxFuture<'_, Result<Bytes, Refusal>> {
        Box::pin(async move {
            let request = wire::decode(&request.payload).map_err(Refusal::new)?;
            self.carry_out(request).await
        })
    }
}
