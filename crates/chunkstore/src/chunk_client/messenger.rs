//! Sends what a client's machine wants sent, and brings the answers.

use std::sync::Arc;

use env::Env;
use format::chunk_id::{ChunkId, ShardId};
use format::chunk_place::ChunkPlaces;
use tokio::sync::{Semaphore, mpsc};

use super::ChunkClient;
use super::ways::Ways;
use crate::client::{Event, NewChunk, Round, Send};
use crate::deliveries::{Deliveries, Expected};
use crate::limits::CLIENT_PAUSE;
use crate::maintenance::Refusal;
use crate::message::ToNode;
use crate::protocol::{HostRequest, ReplyTo, UnitAnswer, UnitRequest};

/// One call's messages.
pub(super) struct Messenger {
    way: Way,
    deliveries: Arc<Deliveries>,
    reply_address: String,
    tells: Arc<Semaphore>,
    expected: Vec<Expected>,
}

/// What the task of a message needs.
#[derive(Clone)]
struct Way {
    env: Env,
    ways: Arc<Ways>,
    events: mpsc::Sender<Event>,
}

impl Messenger {
    pub fn new(client: &ChunkClient, events: mpsc::Sender<Event>) -> Messenger {
        let ChunkClient { env, ways, deliveries, reply_address, tells } = client;
        let way = Way { env: env.clone(), ways: ways.clone(), events };
        let (deliveries, reply_address, tells) = (deliveries.clone(), reply_address.clone(), tells.clone());
        Messenger { way, deliveries, reply_address, tells, expected: Vec::new() }
    }

    /// Sends without waiting.
    pub fn send(&mut self, send: Send) {
        let way = self.way.clone();
        let env = way.env.clone();
        match send {
            Send::Register { round, new } => _ = env.spawn(way.register(round, new)),
            Send::Commit { round, id } => _ = env.spawn(way.commit(round, id)),
            Send::Revoke(id) => _ = env.spawn(way.tell_unit(id.shard, UnitRequest::Revoke(id))),
            Send::Suspect(copy) => _ = env.spawn(way.tell_unit(copy.id.shard, UnitRequest::Suspect(copy))),
            Send::Find { round, id } => _ = env.spawn(way.find(round, id)),
            Send::Node { round, to } => _ = env.spawn(way.ask_node(round, to)),
            Send::Tell(to) => self.tell(to),
            Send::Route { round, host, id, has_content } => {
                let expected = self.deliveries.expect(round, way.events.clone());
                let reply = ReplyTo { address: self.reply_address.clone(), token: expected.token };
                self.expected.push(expected);
                env.spawn(way.route(round, host, HostRequest::Route { id, has_content, reply }, id.shard));
            }
        }
    }
}

impl Messenger {
    fn tell(&self, to: ToNode) {
        let Ok(permit) = self.tells.clone().try_acquire_owned() else { return };
        let way = self.way.clone();
        self.way.env.spawn(async move {
            // Nobody waits for the answer.
            _ = way.ways.ask_node(to).await;
            drop(permit);
        });
    }
}

impl Way {
    async fn tell(&self, event: Event) {
        // The call may be over.
        _ = self.events.send(event).await;
    }

    /// A message that did not arrive, or whose answer says nothing: the machine tries something else, after a moment.
    async fn fail(&self) {
        self.env.sleep(CLIENT_PAUSE).await;
        self.tell(Event::Timeout).await;
    }

    /// Nobody waits for the answer.
    async fn tell_unit(self, shard: ShardId, request: UnitRequest) {
        _ = self.ways.ask_unit(shard, &request).await;
    }

    async fn register(self, round: Round, new: NewChunk) {
        let NewChunk { call, bytes, copies } = new;
        let map = self.ways.map();
        let Some(open) = map.open_shard() else {
            self.ways.reach.refresh().await;
            return self.fail().await;
        };
        let request = UnitRequest::Register { shard: open.shard, call, bytes, copies, avoid: self.ways.silent_nodes() };
        match self.ways.ask_unit(open.shard, &request).await {
            Some(UnitAnswer::Registered { id, places }) => {
                self.know_devices(places).await;
                self.tell(Event::Registered { round, result: Ok((id, places)) }).await;
            }
            // The next shard is being opened.
            Some(UnitAnswer::Refused(Refusal::Sealed)) => {
                self.ways.reach.refresh().await;
                self.fail().await;
            }
            Some(UnitAnswer::Refused(refusal)) => self.tell(Event::Registered { round, result: Err(refusal) }).await,
            _ => self.fail().await,
        }
    }

    async fn commit(self, round: Round, id: ChunkId) {
        match self.ways.ask_unit(id.shard, &UnitRequest::Commit(id)).await {
            Some(UnitAnswer::Done) => self.tell(Event::Committed { round, result: Ok(()) }).await,
            Some(UnitAnswer::Refused(refusal)) => self.tell(Event::Committed { round, result: Err(refusal) }).await,
            _ => self.fail().await,
        }
    }

    async fn find(self, round: Round, id: ChunkId) {
        match self.ways.ask_unit(id.shard, &UnitRequest::Find(id)).await {
            Some(UnitAnswer::Found(found)) => {
                if let Some(places) = found.places() {
                    self.know_devices(places).await;
                }
                self.tell(Event::Found { round, found }).await;
            }
            _ => self.fail().await,
        }
    }

    /// A unit's leader may know of devices that have come a moment ago.
    async fn know_devices(&self, places: ChunkPlaces) {
        if places.iter().any(|place| self.ways.map().node_of(place.device()).is_none()) {
            self.ways.reach.refresh().await;
        }
    }

    async fn ask_node(self, round: Round, to: ToNode) {
        let place = to.place;
        match self.ways.ask_node(to).await {
            Some(answer) => self.tell(Event::Node { round, place, answer }).await,
            None => self.fail().await,
        }
    }

    async fn route(self, round: Round, host: u32, request: HostRequest, shard: ShardId) {
        // Where it is forwarded, the copy's node answers.
        if !self.ways.route(shard, host, &request).await {
            self.tell(Event::NotRouted { round }).await;
            self.ways.look_around().await;
        }
    }
}
