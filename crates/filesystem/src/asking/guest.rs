//! A volume for a machine that is no node: all questions go to some node, which finds the leaders (docs/rfd/0029).
//!
//! A guest knows addresses and its key. A node that does not answer is left for the next one; which nodes there are it is told now and then.

use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use env::{Env, Instant};
use net::{BoxFuture, Caller, Identity, Network, RemoteCaller};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::content::{self, Carried, ContentAsk, ContentDoor, ContentPartition};
use super::contents::{Partition, Partitions, VolumeContents};
use super::tree::{self, TreeAnswer, TreeAsk, TreePartition};
use super::trees::{TreeList, VolumeTrees};
use super::{AskLimits, Way};
use crate::client::{Client, ClientError, Opening};
use crate::meta::MetaPartition;

/// Between two tries, when all nodes were tried.
const REST: Duration = Duration::from_millis(100);
/// How often it is asked which nodes, trees and data partitions there are.
const NODES_AGE: Duration = Duration::from_secs(20);
/// How long the first answer may take.
const FIRST_LIMITS: AskLimits = AskLimits { each: Duration::from_secs(4), all: Duration::from_secs(12) };

/// What a guest asks a node.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum GuestAsk {
    /// Of a tree of the volume.
    Tree(u32, TreeAsk),
    /// Of a data partition of the volume.
    Content(u32, ContentAsk),
    Volume,
}

/// What a guest is told of its volume.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GuestVolume {
    pub name: String,
    /// Of all nodes.
    pub addresses: Vec<String>,
    /// Numbers of its data partitions.
    pub partitions: Vec<u32>,
    /// Numbers of its trees, in the order of adding.
    pub trees: Vec<u32>,
}

/// A guest's ways to the nodes.
pub struct Line {
    env: Env,
    network: Arc<dyn Network>,
    identity: Identity,
    nodes: Mutex<Nodes>,
    known: Mutex<Known>,
}

/// What the volume has, as was told last.
#[derive(Default)]
struct Known {
    partitions: Vec<u32>,
    trees: Vec<u32>,
}

#[derive(Default)]
struct Nodes {
    callers: Vec<(String, Arc<RemoteCaller>)>,
    /// The one that answered last.
    current: usize,
}

impl Line {
    /// To the nodes at these addresses, of the volume whose key the identity is made of.
    pub fn new(env: &Env, network: Arc<dyn Network>, identity: Identity, addresses: &[String]) -> Arc<Line> {
        let line = Line { env: env.clone(), network, identity, nodes: Mutex::default(), known: Mutex::default() };
        line.learn(addresses);
        Arc::new(line)
    }

    /// The volume, as the first node that answers says. From then on the nodes are asked for again, for as long as the line is used.
    pub async fn volume(self: &Arc<Line>) -> Result<GuestVolume, String> {
        let told = self.ask_volume().await?;
        self.env.spawn(keep_nodes(self.env.clone(), Arc::downgrade(self)));
        Ok(told)
    }

    async fn ask_volume(&self) -> Result<GuestVolume, String> {
        let told: GuestVolume = self.ask(&GuestAsk::Volume, FIRST_LIMITS, None).await?;
        self.learn(&told.addresses);
        *self.known.lock() = Known { partitions: told.partitions.clone(), trees: told.trees.clone() };
        Ok(told)
    }

    /// Uses these nodes, and of the former ones that which answered last.
    fn learn(&self, addresses: &[String]) {
        let mut nodes = self.nodes.lock();
        let last = nodes.callers.get(nodes.current).cloned();
        let mut callers: Vec<(String, Arc<RemoteCaller>)> = last.into_iter().collect();
        for address in addresses {
            if callers.iter().all(|(known, _)| known != address) {
                let known = nodes.callers.iter().find(|(known, _)| known == address).map(|(_, caller)| caller.clone());
                let caller = known.unwrap_or_else(|| Arc::new(self.caller(address)));
                callers.push((address.clone(), caller));
            }
        }
        *nodes = Nodes { callers, current: 0 };
    }

    fn caller(&self, address: &str) -> RemoteCaller {
        RemoteCaller::new(&self.env, self.network.clone(), address, self.identity)
    }

    fn current(&self) -> Option<(String, Arc<RemoteCaller>)> {
        let nodes = self.nodes.lock();
        nodes.callers.get(nodes.current).cloned()
    }

    /// Another node is asked next, unless another call has seen to that; whether all were tried.
    fn leave(&self, address: &str) -> bool {
        let mut nodes = self.nodes.lock();
        if nodes.callers.get(nodes.current).is_some_and(|(current, _)| current == address) {
            nodes.current = (nodes.current + 1) % nodes.callers.len();
        }
        nodes.current == 0
    }

    /// Asks nodes until one has an answer. What may have been done is asked again.
    async fn ask<T: DeserializeOwned>(&self, asked: &GuestAsk, limits: AskLimits, until: Option<Instant>) -> Result<T, String> {
        let request = Bytes::from(postcard::to_stdvec(asked).map_err(|error| error.to_string())?);
        let longest = self.env.now() + limits.all;
        let until = until.map_or(longest, |until| until.min(longest));
        loop {
            let (address, caller) = self.current().ok_or("no address of a node is known")?;
            let answer = caller.call(request.clone(), until.min(self.env.now() + limits.each)).await;
            let (reason, is_gone) = match answer.map(|answer| postcard::from_bytes::<Result<T, String>>(&answer)) {
                Ok(Ok(Ok(told))) => return Ok(told),
                Ok(Ok(Err(reason))) => (reason, false),
                Ok(Err(error)) => (format!("{address} speaks another version: {error}"), false),
                Err(error) => (error.to_string(), true),
            };
            if self.env.now() >= until {
                return Err(reason);
            }
            if !is_gone || self.leave(&address) {
                self.env.sleep(REST).await;
            }
        }
    }
}

/// Learns which nodes, trees and data partitions there are, for as long as the line is used.
async fn keep_nodes(env: Env, line: Weak<Line>) {
    loop {
        env.sleep(NODES_AGE).await;
        let Some(line) = line.upgrade() else { return };
        if let Err(reason) = line.ask_volume().await {
            tracing::warn!(reason, "no node answers this mount");
        }
    }
}

/// Begins a session at the volume, which ends with this process. An exclusive one keeps others out.
pub async fn client(line: &Arc<Line>, is_exclusive: bool) -> Result<Arc<Client>, ClientError> {
    let content = VolumeContents::new(&line.env, GuestPartitions(line.clone()));
    content.learn_room().await;
    let (trees, opening) = (VolumeTrees::new(GuestTrees(line.clone())), Opening { record: None, is_exclusive });
    Client::connect_as(Arc::new(trees), Arc::new(content), line.env.clone(), opening).await
}

struct GuestTrees(Arc<Line>);

impl TreeList for GuestTrees {
    fn numbers(&self) -> Vec<u32> {
        self.0.known.lock().trees.clone()
    }

    fn learn(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            if let Err(reason) = self.0.ask_volume().await {
                tracing::debug!(reason, "which trees the volume has is not known");
            }
        })
    }

    fn open(&self, number: u32) -> Arc<dyn MetaPartition> {
        Arc::new(TreePartition(GuestTree { line: self.0.clone(), number }))
    }
}

struct GuestTree {
    line: Arc<Line>,
    number: u32,
}

impl Way<TreeAsk, TreeAnswer> for GuestTree {
    async fn ask(&self, asked: TreeAsk, until: Option<Instant>) -> Result<TreeAnswer, String> {
        self.line.ask(&GuestAsk::Tree(self.number, asked), tree::LIMITS, until).await
    }

    fn number(&self) -> u32 {
        self.number
    }

    fn env(&self) -> &Env {
        &self.line.env
    }
}

struct GuestPartitions(Arc<Line>);

impl Partitions for GuestPartitions {
    fn numbers(&self) -> Vec<u32> {
        self.0.known.lock().partitions.clone()
    }

    fn open(&self, number: u32) -> Arc<dyn Partition> {
        Arc::new(ContentPartition::new(GuestContent { line: self.0.clone(), number }))
    }
}

struct GuestContent {
    line: Arc<Line>,
    number: u32,
}

impl Way<ContentAsk, Carried> for GuestContent {
    async fn ask(&self, asked: ContentAsk, until: Option<Instant>) -> Result<Carried, String> {
        self.line.ask(&GuestAsk::Content(self.number, asked), content::LIMITS, until).await
    }

    fn number(&self) -> u32 {
        self.number
    }

    fn env(&self) -> &Env {
        &self.line.env
    }
}

impl ContentDoor for GuestContent {}
