//! The transport's twin in memory: a switchboard between nodes whose links lose, delay, double and block requests and answers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use env::{Env, Instant};
use net::{BoxFuture, CallError, Request, Service};
use parking_lot::Mutex;

use super::{Peer, Transport};
use crate::id::NodeId;

/// What happens to messages on one link, in one direction.
#[derive(Clone, Copy, Debug, Default)]
pub struct LinkWeather {
    /// Nothing passes.
    pub is_cut: bool,
    /// Messages lost, in 1,000.
    pub lost_per_mille: u32,
    /// Requests carried out twice, in 1,000.
    pub doubled_per_mille: u32,
    /// The longest delay; each message gets its own, so that later ones overtake.
    pub longest_delay: Duration,
}

/// A network in memory. Clones are the same network.
#[derive(Clone)]
pub struct SimulatedTransport {
    env: Env,
    board: Arc<Mutex<Board>>,
}

#[derive(Default)]
struct Board {
    services: BTreeMap<NodeId, Arc<dyn Service>>,
    weather: LinkWeather,
    links: BTreeMap<(NodeId, NodeId), LinkWeather>,
    carried: BTreeMap<(NodeId, NodeId), u64>,
}

impl SimulatedTransport {
    pub fn new(env: &Env) -> Self {
        SimulatedTransport { env: env.clone(), board: Arc::default() }
    }

    /// The transport of one node.
    pub fn port(&self, node: NodeId) -> Arc<dyn Transport> {
        Arc::new(Port { network: self.clone(), node })
    }

    /// Makes a node reachable.
    pub fn plug_in(&self, node: NodeId, service: Arc<dyn Service>) {
        self.board.lock().services.insert(node, service);
    }

    /// Makes a node unreachable: it is down.
    pub fn unplug(&self, node: NodeId) {
        self.board.lock().services.remove(&node);
    }

    /// The weather of all links that have none of their own.
    pub fn set_weather(&self, weather: LinkWeather) {
        self.board.lock().weather = weather;
    }

    /// The weather of one direction.
    pub fn set_link(&self, from: NodeId, to: NodeId, weather: LinkWeather) {
        self.board.lock().links.insert((from, to), weather);
    }

    /// Cuts a node off, in both directions.
    pub fn isolate(&self, node: NodeId) {
        let mut board = self.board.lock();
        let others: Vec<NodeId> = board.services.keys().copied().filter(|other| *other != node).collect();
        for other in others {
            let cut = LinkWeather { is_cut: true, ..LinkWeather::default() };
            board.links.insert((node, other), cut);
            board.links.insert((other, node), cut);
        }
    }

    /// All links have the common weather again.
    pub fn heal(&self) {
        self.board.lock().links.clear();
    }

    /// Requests that were carried from one node to another.
    pub fn carried(&self, from: NodeId, to: NodeId) -> u64 {
        self.board.lock().carried.get(&(from, to)).copied().unwrap_or(0)
    }

    /// Whether a message passes, and when.
    fn passage(&self, from: NodeId, to: NodeId) -> Option<(LinkWeather, Duration)> {
        let board = self.board.lock();
        let weather = board.links.get(&(from, to)).copied().unwrap_or(board.weather);
        if weather.is_cut || self.env.random_below(1000) < u64::from(weather.lost_per_mille) {
            return None;
        }
        let longest = weather.longest_delay.as_nanos() as u64;
        Some((weather, Duration::from_nanos(self.env.random_below(longest + 1))))
    }

    async fn carry(&self, from: NodeId, to: NodeId, request: Request) -> Option<Result<Bytes, net::Refusal>> {
        let (weather, delay) = self.passage(from, to)?;
        self.env.sleep(delay).await;
        let service = self.board.lock().services.get(&to).cloned()?;
        *self.board.lock().carried.entry((from, to)).or_default() += 1;
        if self.env.random_below(1000) < u64::from(weather.doubled_per_mille) {
            let (again, twin, env) = (Arc::clone(&service), request.clone(), self.env.clone());
            let later = Duration::from_nanos(self.env.random_below(weather.longest_delay.as_nanos() as u64 + 1));
            self.env.spawn(async move {
                env.sleep(later).await;
                // Nobody waits for the second answer.
                drop(again.handle(twin).await);
            });
        }
        let answer = service.handle(request).await;
        let (_, delay) = self.passage(to, from)?;
        self.env.sleep(delay).await;
        Some(answer)
    }
}

struct Port {
    network: SimulatedTransport,
    node: NodeId,
}

impl Transport for Port {
    fn call<'a>(&'a self, to: &'a Peer, payload: Bytes, deadline: Instant) -> BoxFuture<'a, Result<Bytes, CallError>> {
        Box::pin(async move {
            let address = || to.address.clone();
            let unanswered = || CallError::Unanswered { address: address(), reason: "its deadline has passed".to_owned() };
            let env = &self.network.env;
            let carried = async {
                match self.network.carry(self.node, to.node, Request { payload, deadline }).await {
                    Some(Ok(answer)) => Ok(answer),
                    Some(Err(refusal)) => Err(CallError::Refused { address: address(), refusal }),
                    None => {
                        env.sleep_until(deadline).await;
                        Err(unanswered())
                    }
                }
            };
            tokio::select! {
                biased;
                outcome = carried => outcome,
                () = env.sleep_until(deadline) => Err(unanswered()),
            }
        })
    }
}
