//! A client of the chunk store beside a node: it speaks with the cluster as that node's folder allows.

use crate::place::Place;
use anyhow::{Context, bail};
use chunkstore::chunk_client::ChunkClient;
use chunkstore::deliveries::Deliveries;
use chunkstore::message::Found;
use chunkstore::outside::Outside;
use chunkstore::protocol::DELIVERIES;
use env::Env;
use format::chunk_id::ChunkId;
use net::{Router, UnixNetwork};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use types::DeviceId;

/// How often is looked whether a copy has moved, and for how long.
const MOVE_LOOK: Duration = Duration::from_millis(50);
const MOVE_PATIENCE: Duration = Duration::from_secs(60);

/// Where a node's answers to this program are awaited.
fn reply_address(env: &Env, place: &Place) -> anyhow::Result<String> {
    if place.is_lone() {
        return Ok(UnixNetwork::address_of(&format!("{:016x}", env.random_u64())));
    }
    let here: SocketAddr = place.address.parse().with_context(|| format!("the node's address {}", place.address))?;
    Ok(SocketAddr::new(here.ip(), 0).to_string())
}

/// An open client.
pub struct Session {
    env: Env,
    client: ChunkClient,
}

impl Session {
    /// Enters the cluster of a node's folder.
    pub async fn open(data: &Path) -> anyhow::Result<Session> {
        let Some(place) = Place::read(data)? else {
            bail!(
                "{} is no node's data folder: start one with `trilith serve`, or name the folder with --data",
                data.display()
            );
        };
        let env = Env::real_with_cores(1);
        let (network, identity) = (place.network(&env, data)?, place.identity()?);
        // Nodes answer gets here: at a port of its own on the address from which the node of this folder is reached.
        let here = reply_address(&env, &place)?;
        let listener = network.listen(&here).await.with_context(|| format!("listening on {here}"))?;
        let deliveries = Deliveries::new(&env);
        let router = Router::new().with(DELIVERIES, deliveries.clone());
        let reply_address = listener.address();
        env.spawn(net::serve(env.clone(), listener, Arc::new(router), identity));
        let entrances: Vec<String> = [&place.address].into_iter().chain(&place.via).cloned().collect();
        let reach = Outside::enter(&env, network, identity, entrances).await?;
        let client = ChunkClient::new(&env, reach, deliveries, reply_address);
        Ok(Session { env, client })
    }

    pub fn client(&self) -> &ChunkClient {
        &self.client
    }

    /// What the client does, and what that leaves behind, also where it failed: a put then takes back what it may have committed.
    pub async fn finish<T>(&self, work: impl AsyncFnOnce(&ChunkClient) -> T) -> T {
        let done = work(&self.client).await;
        self.client.finish().await;
        done
    }

    /// For whoever needs nothing else. It goes on as long as the runtime does.
    pub fn into_client(self) -> ChunkClient {
        self.client
    }

    /// Waits until a chunk has no copy on a device any more.
    pub async fn wait_until_moved(&self, id: ChunkId, from: DeviceId) -> anyhow::Result<()> {
        let until = self.env.now() + MOVE_PATIENCE;
        loop {
            let whereabouts = self.client.locate(id).await?;
            let is_there = match whereabouts.unit {
                Found::Known { places, .. } | Found::Pending(places) => places.iter().any(|place| place.device() == from),
                Found::Unknown => bail!("the chunk has ended meanwhile"),
            };
            if !is_there {
                return Ok(());
            }
            if self.env.now() >= until {
                bail!("the copy is being moved, and takes its time: `trilith chunk locate {id}` shows where it is");
            }
            self.env.sleep(MOVE_LOOK).await;
        }
    }
}
