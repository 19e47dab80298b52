//! A client of a cluster in this process that knows the map: it asks the primary of an object's group, on that node's thread.

use super::node::Node;
use crate::cheetah::subject::{Asked, Subject};
use crate::cheetah::tap::Tap;
use crate::cheetah::volume_engine::{attributes, key, list_nothing, read_whole};
use anyhow::Context;
use bytes::Bytes;
use disk::{Disk, DiskStats};
use engine::{Condition, ObjectEngine};
use env::Env;
use manager::{Manager, PLACEMENT_GROUPS};
use smallvec::smallvec;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::runtime::Handle;
use types::NodeId;
use volstore::Objects;

/// The client.
pub struct ClusterStore {
    env: Env,
    manager: Arc<Manager>,
    doors: BTreeMap<NodeId, (Handle, Arc<dyn ObjectEngine>)>,
    taps: Vec<Arc<Tap>>,
}

impl ClusterStore {
    pub(super) fn new(manager: Arc<Manager>, nodes: &[Node]) -> ClusterStore {
        let doors = nodes.iter().map(|node| (node.id, (node.runtime.clone(), node.engine.clone()))).collect();
        ClusterStore { env: Env::real_with_cores(1), manager, doors, taps: nodes.iter().map(|node| node.tap.clone()).collect() }
    }

    /// The node that leads the group of an object now.
    pub fn primary_of(&self, number: u64) -> Option<NodeId> {
        Some(self.manager.snapshot().placement(Objects::group_of(&key(number)))?.primary)
    }

    /// The first numbers from `from` on that are in each of the groups.
    pub fn one_of_each_group(from: u64) -> Vec<u64> {
        let mut found = BTreeMap::new();
        for number in from.. {
            found.entry(Objects::group_of(&key(number))).or_insert(number);
            if found.len() == PLACEMENT_GROUPS as usize {
                break;
            }
        }
        found.into_values().collect()
    }

    /// Whether every group answers.
    pub async fn is_served(&self) -> bool {
        let first = self.manager.snapshot().placement(0).map(|record| record.primary);
        let Some((thread, engine)) = first.and_then(|node| self.doors.get(&node).cloned()) else { return false };
        thread.spawn(async move { list_nothing(&*engine).await.is_ok() }).await.unwrap_or(false)
    }

    /// Has a request carried out at the primary of an object's group.
    async fn at_primary<T, W>(&self, number: u64, work: impl FnOnce(Arc<dyn ObjectEngine>) -> W) -> anyhow::Result<T>
    where
        T: Send + 'static,
        W: Future<Output = anyhow::Result<T>> + Send + 'static,
    {
        let primary = self.primary_of(number).context("the group has no primary")?;
        let (thread, engine) = self.doors.get(&primary).cloned().context("a primary that is no node")?;
        thread.spawn(work(engine)).await.context("the primary has ended")?
    }
}

impl Subject for ClusterStore {
    fn put(&self, number: u64, bytes: Bytes) -> Asked<'_, ()> {
        let attributes = attributes(&self.env, 0);
        Box::pin(self.at_primary(number, move |engine| async move {
            engine.put(&key(number), attributes, smallvec![bytes], Condition::None).await?;
            Ok(())
        }))
    }

    fn get(&self, number: u64) -> Asked<'_, Bytes> {
        Box::pin(self.at_primary(number, move |engine| async move { read_whole(&*engine, &key(number)).await }))
    }

    fn delete(&self, number: u64) -> Asked<'_, ()> {
        Box::pin(self.at_primary(number, move |engine| async move { Ok(engine.delete(&key(number), Condition::None).await?) }))
    }

    /// It has no device of its own.
    fn occupied_bytes(&self) -> u64 {
        0
    }

    /// Of all devices together.
    fn device(&self) -> DiskStats {
        let all = self.taps.iter().map(|tap| tap.stats());
        all.fold(DiskStats::default(), |sum, one| DiskStats {
            writes: sum.writes + one.writes,
            write_bytes: sum.write_bytes + one.write_bytes,
            flushes: sum.flushes + one.flushes,
            ..sum
        })
    }
}
