//! The manager of a lone node whose server is stopped, opened on its consensus log.

use crate::place::Place;
use anyhow::Context;
use consensus::{FramedTransport, LogPlace, Node, TaggedTransport};
use env::Env;
use manager::{MANAGER_GROUP, Manager, ReplicatedOptions, member_id};
use net::{LONE_ADDRESS, ServiceTag, UnixNetwork};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How often it is looked whether the manager leads.
const LEAD_LOOK: Duration = Duration::from_millis(10);
/// How long it may take: a node whose log may hold a promise waits for a leader's lease first.
const LEAD_PATIENCE: Duration = Duration::from_secs(10);

/// A manager that this process alone uses.
pub struct Kept {
    pub manager: Arc<Manager>,
    node: Node,
}

impl Kept {
    /// Opens what `folder` holds of the node with this place.
    pub async fn open(env: &Env, folder: &Path, place: &Place) -> anyhow::Result<Kept> {
        let (node, options) = node_in(env, folder, place).await?;
        let manager = Arc::new(Manager::open_replicated(env, &node, options).await?);
        let leads = async {
            while manager.fresh().await.is_err() {
                env.sleep(LEAD_LOOK).await;
            }
        };
        tokio::select! {
            biased;
            () = leads => Ok(Kept { manager, node }),
            () = env.sleep(LEAD_PATIENCE) => anyhow::bail!("the manager in {} does not lead itself: is the node a part of a larger cluster?", folder.display()),
        }
    }

    /// Makes the log in `folder`, which is empty, from a copy of a state.
    pub async fn import(env: &Env, folder: &Path, place: &Place, copy: &[u8]) -> anyhow::Result<Kept> {
        let (node, options) = node_in(env, folder, place).await?;
        let manager = Manager::import_replicated(env, &node, options, LONE_ADDRESS, copy).await?;
        Ok(Kept { manager: Arc::new(manager), node })
    }

    /// Ends it in order.
    pub async fn close(self) {
        self.node.shut_down().await;
    }
}

async fn node_in(env: &Env, folder: &Path, place: &Place) -> anyhow::Result<(Node, ReplicatedOptions)> {
    let log = LogPlace::in_folder(env, folder).await.context("opening the consensus log")?;
    let me = member_id(place.node_identity()?);
    // No other process is called: a lone node is the only voter.
    let network = Arc::new(UnixNetwork::new(folder));
    let framed = Arc::new(FramedTransport::new(env, network, place.identity()?));
    let node = Node::open(env, me, &log, Arc::new(TaggedTransport::new(framed.clone(), ServiceTag::CONSENSUS))).await?;
    let transport = Arc::new(TaggedTransport::new(framed, ServiceTag::MANAGER));
    Ok((node, ReplicatedOptions { group: MANAGER_GROUP, transport }))
}
