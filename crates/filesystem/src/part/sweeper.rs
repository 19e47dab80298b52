//! Work that the leader of a tree does: gives back what was freed, keeps the quota as the manager says, and removes volumes.
//!
//! ```text
//!   tree ─┬─ list of one data partition ─► given back ─► confirmed
//!         └─ list of another ────────────► given back ─► confirmed        each at its own pace: one that is away holds up nothing else
//! ```
//!
//! A range is given back, then confirmed. What was given back and not confirmed is given back again by the next leader, which has no effect.

mod tried;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use env::Instant;
use futures_util::StreamExt;
use futures_util::future::{join, join_all};
use futures_util::stream::FuturesUnordered;
use manager::{FileClass, FilePartitionId, FileTreeId, FileVolumeRecord, Snapshot};
use subsystem::Surroundings;
use tried::Tried;

use super::contents::Contents;
use super::trees::{TreeMember, Trees};
use crate::asking::content::ContentPartition;
use crate::meta::{Command, Found, MetaSession, Query};

/// Between two rounds where there was nothing to do.
const REST: Duration = Duration::from_millis(200);
/// Ranges that are given back before they are confirmed together.
const BATCH: u32 = 256;

/// The work, on one node.
pub struct Sweeper {
    pub around: Surroundings,
    pub trees: Arc<Trees>,
    pub contents: Arc<Contents>,
}

/// How far the list of one partition is, while this node leads the tree.
struct List {
    tried: Tried,
    /// It is tried again then. None: it is being given back.
    again_at: Option<Instant>,
}

/// What became of a list.
struct Swept {
    at: (FileTreeId, u32),
    tried: Tried,
    has_worked: bool,
}

impl Sweeper {
    /// For as long as the node lives.
    pub async fn run(self) {
        join(self.keep_trees(), self.give_back_all()).await;
    }

    async fn keep_trees(&self) {
        loop {
            let state = self.around.manager.snapshot();
            join_all(self.led(&state).map(|(member, volume)| async move {
                if let Err(reason) = self.keep_tree(&member, volume).await {
                    tracing::debug!(volume = volume.name, reason, "the tree of a volume is not as it is to be");
                }
            }))
            .await;
            self.around.env.sleep(REST).await;
        }
    }

    /// The trees that this node leads, with their volumes.
    fn led<'a>(&self, state: &'a Snapshot) -> impl Iterator<Item = (Arc<TreeMember>, &'a Arc<FileVolumeRecord>)> + use<'a> {
        let led = self.trees.all().into_iter().filter(|member| member.leads());
        led.filter_map(|member| state.file_tree(member.id()).map(|(volume, _)| (member, volume)))
    }

    async fn keep_tree(&self, member: &TreeMember, volume: &FileVolumeRecord) -> Result<(), String> {
        let usage = member.look(|machine| machine.usage());
        if (usage.quota_bytes, usage.quota_inodes) != (volume.quota.bytes, volume.quota.inodes) {
            let command = Command::SetQuota { bytes: volume.quota.bytes, inodes: volume.quota.inodes };
            member.order(MetaSession::LEADER, command).await?;
        }
        if volume.class == FileClass::Ordered {
            member.keep_order(&volume.trees, &self.around.manager.snapshot());
        }
        if volume.is_removing && volume.trees.first() == Some(&member.id()) {
            self.remove(member, volume).await
        } else {
            Ok(())
        }
    }

    async fn give_back_all(&self) {
        let env = &self.around.env;
        let mut lists: BTreeMap<(FileTreeId, u32), List> = BTreeMap::new();
        let mut sweeps = FuturesUnordered::new();
        loop {
            let mut present = BTreeMap::new();
            for (member, _) in self.led(&self.around.manager.snapshot()).filter(|(_, volume)| !volume.is_removing) {
                for partition in member.look(|machine| machine.freed_partitions()) {
                    present.insert((member.id(), partition), member.clone());
                }
            }
            // Lists of trees that another node leads by now are forgotten: that one goes on with them.
            lists.retain(|at, list| present.contains_key(at) || list.again_at.is_none());
            for (at, member) in present {
                let list = lists.entry(at).or_insert_with(|| List { tried: Tried::default(), again_at: Some(env.now()) });
                if list.again_at.is_some_and(|at| at <= env.now()) {
                    list.again_at = None;
                    sweeps.push(self.sweep(member, at, std::mem::take(&mut list.tried)));
                }
            }
            tokio::select! {
                biased;
                Some(Swept { at, tried, has_worked }) = sweeps.next() => {
                    let again_at = if has_worked { env.now() } else { env.now() + REST };
                    lists.insert(at, List { tried, again_at: Some(again_at) });
                }
                () = env.sleep(REST) => {}
            }
        }
    }

    async fn sweep(&self, member: Arc<TreeMember>, at: (FileTreeId, u32), mut tried: Tried) -> Swept {
        let given_back = self.give_back(&member, at.1, &mut tried).await;
        let has_worked = given_back.unwrap_or_else(|reason| {
            tracing::debug!(tree = at.0.0, partition = at.1, reason, "what was freed is not given back now");
            false
        });
        Swept { at, tried, has_worked }
    }

    /// Whether something was given back.
    async fn give_back(&self, member: &TreeMember, number: u32, tried: &mut Tried) -> Result<bool, String> {
        let found =
            member.look(|machine| machine.query(&Query::Freed { partition: number, after: tried.up_to(), most: BATCH }));
        let Ok(Found::Freed(freed)) = found else { return Ok(false) };
        if freed.is_empty() && tried.is_done() {
            return Ok(false);
        }
        // Only what the leader is sure of: a member that was overtaken may have freed what the others have not.
        member.read(|_| ()).await.map_err(|_| "this node does not lead it any more".to_owned())?;
        // What a power cut brings back must have its content.
        self.trees.settle().await?;
        let partition = ContentPartition::new(self.contents.way(FilePartitionId(number)));
        let has_worked = tried.give_back(&self.around.env, &partition, freed).await;
        if let Some(up_to) = tried.to_confirm() {
            member.order(MetaSession::LEADER, Command::ConfirmFreed { partition: number, up_to }).await?;
            tried.confirmed(up_to);
        }
        Ok(has_worked)
    }

    /// By the leader of the first tree. The record of the volume goes, and with that its groups. Each node frees what it has of a volume that is no more.
    async fn remove(&self, member: &TreeMember, volume: &FileVolumeRecord) -> Result<(), String> {
        member.read(|_| ()).await.map_err(|_| "this node does not lead it any more".to_owned())?;
        self.around.manager.forget_file_volume(volume.id).await.map_err(|error| error.to_string())?;
        tracing::info!(volume = volume.name, "a volume is removed");
        Ok(())
    }
}
