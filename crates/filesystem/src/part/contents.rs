//! Data partitions: the placed groups that this node is a member of, its copies, and the way to the primary of each (docs/rfd/0028, docs/rfd/0030).
//!
//! ```text
//!   a client ─► ContentWay ─► the group's leader ─► Reign: the primary ─┬─► Keeper: its own copy ─┐
//!                                                                       └─► CopyService: others ──┴─► Stores: this node's devices
//! ```
//!
//! Reading order: `stores`, `door`, `member`, `reigning`, `copying`, `way`, `collector`.

mod collector;
mod copying;
mod door;
mod member;
mod reigning;
mod stores;
mod way;

use std::sync::Arc;

pub use collector::Collector;
pub use copying::{CopyService, NodeContents};
use futures_util::future::join_all;
use groups::limits::{HAND_OVER_LOOK, HAND_OVER_PATIENCE};
use groups::{Host, Named};
use manager::FilePartitionId;
pub use member::ContentMember;
use net::{BoxFuture, ServiceTag};
pub use stores::Stores;
use subsystem::Surroundings;
pub use way::{ContentService, ContentWay};

use super::leader::Search;
use crate::asking::content;
use crate::data::PartitionRoom;
use crate::data::copies::record::Record;
use member::ContentKind;

/// This node's part in all data partitions.
pub struct Contents {
    around: Surroundings,
    stores: Arc<Stores>,
    host: Arc<Host<ContentKind>>,
}

impl Contents {
    /// Opens the stores of this node's devices.
    pub async fn open(around: &Surroundings) -> Result<Contents, String> {
        let stores = Arc::new(Stores::open(around).await?);
        let kind = ContentKind { around: around.clone(), stores: stores.clone() };
        let host = Host::new(&around.env, around.me, around.member.clone(), around.manager.clone(), kind);
        Ok(Contents { around: around.clone(), stores, host: Arc::new(host) })
    }

    pub fn around(&self) -> &Surroundings {
        &self.around
    }

    pub fn stores(&self) -> &Stores {
        &self.stores
    }

    /// Takes part in the groups that the manager says, for as long as the node lives.
    pub async fn run(&self) {
        self.host.clone().run().await;
    }

    /// Other copies in sync take over, where there are some. Returns when they lead, or after a while.
    pub async fn stop_leading(&self) {
        let members = self.host.all();
        let handed = join_all(members.iter().map(|member| async {
            let is_asked = member.hand_over().await;
            while is_asked && member.group().status().is_leader {
                self.around.env.sleep(HAND_OVER_LOOK).await;
            }
        }));
        tokio::select! {
            biased;
            _ = handed => {}
            () = self.around.env.sleep(HAND_OVER_PATIENCE) => {}
        }
    }

    pub async fn leave(&self, look: impl Fn() -> BoxFuture<'static, Option<Named>>) {
        self.host.leave(look).await;
    }

    pub fn all(&self) -> Vec<Arc<ContentMember>> {
        self.host.all()
    }

    pub fn member(&self, partition: FilePartitionId) -> Option<Arc<ContentMember>> {
        self.host.get(partition.0)
    }

    /// What each partition has and has room for that this node is the primary of.
    pub fn led(&self) -> Vec<(FilePartitionId, Record, PartitionRoom)> {
        let led = |member: &Arc<ContentMember>| {
            let reign = member.reign()?;
            Some((member.partition(), reign.record(), member.room(&reign)))
        };
        self.host.all().iter().filter_map(led).collect()
    }

    /// Those of them that are beyond their thresholds.
    pub fn closed(&self) -> usize {
        self.led().iter().filter(|(_, _, room)| !room.is_open).count()
    }

    /// Copies of those that are not in sync.
    pub fn copies_out(&self) -> usize {
        self.led().iter().map(|(_, record, _)| record.copies.len() - record.in_sync.len()).sum()
    }

    /// A partition, wherever its primary is.
    pub fn way(&self, partition: FilePartitionId) -> ContentWay {
        let search = Search::new(&self.around, partition.group(), ServiceTag::FILE_CONTENTS, content::LIMITS);
        ContentWay::new(search, self.host.clone())
    }
}
