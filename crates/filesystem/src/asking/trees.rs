//! The trees of a volume, as its clients ask them (docs/rfd/0031).

use std::sync::Arc;

use net::BoxFuture;
use parking_lot::Mutex;

use crate::ids::TreeIndex;
use crate::meta::{Answer, Envelope, MetaCallError, MetaPartition, MetaTrees, Query, Reply};

/// Where a volume's trees are found.
pub trait TreeList: Send + Sync + 'static {
    /// The numbers of their groups in the order of adding, as far as is known here. None where the volume is not known.
    fn numbers(&self) -> Vec<u32>;

    /// Asks which there are. Where that fails, what is known stays.
    fn learn(&self) -> BoxFuture<'_, ()>;

    /// As [`MetaTrees::settle`].
    fn settle(&self) -> BoxFuture<'_, Result<(), MetaCallError>> {
        Box::pin(async { Ok(()) })
    }

    /// The way to one.
    fn open(&self, number: u32) -> Arc<dyn MetaPartition>;
}

/// All trees of a volume.
pub struct VolumeTrees<L> {
    list: L,
    /// The ways to those that are known. A volume loses no tree, so what is known stays.
    ways: Mutex<Vec<Arc<dyn MetaPartition>>>,
}

impl<L: TreeList> VolumeTrees<L> {
    pub fn new(list: L) -> VolumeTrees<L> {
        VolumeTrees { list, ways: Mutex::default() }
    }

    fn known(&self, tree: TreeIndex) -> Option<Arc<dyn MetaPartition>> {
        self.ways.lock().get(usize::from(tree.0)).cloned()
    }

    /// Opens the ways to all trees that are known here.
    fn look(&self) -> usize {
        let numbers = self.list.numbers();
        let mut ways = self.ways.lock();
        while let Some(number) = numbers.get(ways.len()) {
            ways.push(self.list.open(*number));
        }
        ways.len()
    }

    /// A client hears of a tree by an inode's number, maybe before the list here has it.
    async fn way(&self, tree: TreeIndex) -> Result<Arc<dyn MetaPartition>, MetaCallError> {
        if let Some(known) = self.known(tree) {
            return Ok(known);
        }
        if self.look() <= usize::from(tree.0) {
            self.list.learn().await;
            self.look();
        }
        let unknown = || MetaCallError::Unavailable(format!("tree {} of the volume is not known here yet", tree.0));
        self.known(tree).ok_or_else(unknown)
    }
}

impl<L: TreeList> MetaTrees for VolumeTrees<L> {
    fn count(&self) -> u16 {
        // A volume has its first tree, whatever is known here.
        self.look().max(1) as u16
    }

    fn command_at(&self, tree: TreeIndex, envelope: Envelope) -> BoxFuture<'_, Result<Reply, MetaCallError>> {
        Box::pin(async move { self.way(tree).await?.command(envelope).await })
    }

    fn query_at(&self, tree: TreeIndex, query: Query) -> BoxFuture<'_, Result<Answer, MetaCallError>> {
        Box::pin(async move { self.way(tree).await?.query(query).await })
    }

    fn settle(&self) -> BoxFuture<'_, Result<(), MetaCallError>> {
        self.list.settle()
    }
}
