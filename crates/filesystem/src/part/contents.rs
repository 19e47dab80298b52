//! Contents of volumes: the placed groups that this node is a member of, its copies, and the way to the primary of each (docs/rfd/0028).
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

use futures_util::future::join_all;
use groups::limits::{HAND_OVER_LOOK, HAND_OVER_PATIENCE};
use groups::{Host, Named};
use manager::{GroupKey, GroupKind};
use net::{BoxFuture, ServiceTag};
use subsystem::Surroundings;
use types::FileVolumeId;

pub use collector::Collector;
pub use copying::CopyService;
pub use member::ContentMember;
pub use stores::Stores;
pub use way::{ContentService, ContentWay};

use super::leader::Search;
use crate::asking::content;
use member::ContentKind;

/// This node's part in the contents of all volumes.
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

    pub fn member(&self, volume: FileVolumeId) -> Option<Arc<ContentMember>> {
        self.host.get(volume.0)
    }

    /// How many volumes this node is the primary of.
    pub fn led(&self) -> usize {
        self.host.all().iter().filter(|member| member.reign().is_some()).count()
    }

    /// Copies of those volumes that are not in sync.
    pub fn copies_out(&self) -> usize {
        let out = |member: &Arc<ContentMember>| {
            let record = member.reign()?.record();
            Some(record.copies.len() - record.in_sync.len())
        };
        self.host.all().iter().filter_map(out).sum()
    }

    /// The contents of a volume, wherever the primary is.
    pub fn way(&self, volume: FileVolumeId) -> ContentWay {
        let key = GroupKey { kind: GroupKind::FILE_CONTENTS, number: volume.0 };
        let search = Search::new(&self.around, key, ServiceTag::FILE_CONTENTS, content::LIMITS);
        ContentWay::new(search, self.host.clone())
    }
}
