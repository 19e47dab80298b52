//! The lease: a client relies on what it has at the trees, its locks or all of the volume, for a while after the last question that they answered.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use env::Instant;
use futures_util::future::join_all;

use super::super::{Client, ClientError};
use crate::ids::{Ino, TreeIndex};
use crate::meta::limits::LOCK_LEASE;
use crate::meta::{Found, MetaError, Query};

/// How long a client relies on its lease. The rest is for what it has sent and what is still on its way.
pub(super) const RELIANCE: Duration = LOCK_LEASE.saturating_sub(Duration::from_secs(10));
/// Between two signs of life of a client that has something to lose.
pub(super) const KEEPALIVE: Duration = Duration::from_secs(5);

impl Client {
    /// Before content is changed or a lock is taken: a client that has locks, and that their trees may not have heard of, does neither. A lock of one file may
    /// keep others from another file, in whichever trees both are.
    pub(in crate::client) async fn check_lease(&self) -> Result<(), ClientError> {
        if !self.needs_lease() {
            return Ok(());
        }
        let over = self.leases_over();
        if over.is_empty() {
            return Ok(());
        }
        self.renew_leases(over).await.into_values().collect::<Result<Vec<()>, ClientError>>()?;
        if self.leases_over().is_empty() { Ok(()) } else { Err(ClientError::LeaseOver) }
    }

    /// Before the content of a file is read or changed: what was locked and lost is another client's.
    pub(in crate::client) async fn check_locks(&self, ino: Ino, is_change: bool) -> Result<(), ClientError> {
        if self.commands.has_ended() {
            return Err(MetaError::NoSession.into());
        }
        if !self.needs_lease() {
            return Ok(());
        }
        if is_change || self.locks.is_locked(ino) {
            self.check_lease().await?;
        }
        if self.locks.is_lost(ino) { Err(MetaError::LocksLost.into()) } else { Ok(()) }
    }

    /// A client that has nothing that others could get by its silence needs none.
    fn needs_lease(&self) -> bool {
        self.locks.has_some() || self.is_exclusive()
    }

    /// The trees where it has something: locks, or all of the volume.
    fn leased_trees(&self) -> BTreeSet<TreeIndex> {
        if self.is_exclusive() { self.commands.trees().collect() } else { self.locks.trees() }
    }

    /// The trees with locks that have not been heard of for too long.
    pub(super) fn leases_over(&self) -> BTreeSet<TreeIndex> {
        let (trees, now, heard_at) = (self.leased_trees(), self.commands.env().now(), self.locks.heard_at.lock());
        let is_relied_on = |at: &Instant| now.saturating_duration_since(*at) < RELIANCE;
        trees.into_iter().filter(|tree| !heard_at.get(tree).is_some_and(is_relied_on)).collect()
    }

    async fn renew_leases(&self, trees: BTreeSet<TreeIndex>) -> BTreeMap<TreeIndex, Result<(), ClientError>> {
        let renewed = trees.into_iter().map(async |tree| (tree, self.renew_lease(tree).await));
        join_all(renewed).await.into_iter().collect()
    }

    async fn renew_lease(&self, tree: TreeIndex) -> Result<(), ClientError> {
        let asked_at = self.commands.env().now();
        match self.commands.ask_at(tree, Query::Lease { session: self.session() }).await? {
            Found::Lease { locks_lost, has_locks } => {
                self.hear_of_locks(tree, locks_lost);
                if !has_locks {
                    self.locks.no_older_at(tree);
                }
                let mut heard_at = self.locks.heard_at.lock();
                let heard_at = heard_at.entry(tree).or_insert(asked_at);
                *heard_at = asked_at.max(*heard_at);
                Ok(())
            }
            other => Err(ClientError::unexpected(&other)),
        }
    }

    /// The tree of a file has refused a change because of it.
    pub(in crate::client) async fn learn_of_loss(&self, ino: Ino) {
        if let Err(error) = self.renew_lease(ino.tree()).await {
            tracing::warn!(%error, "how often the locks of this mount were taken away is not known yet");
        }
    }

    /// How often a tree has taken the session's locks. False where the answer is of another time than what is known here.
    pub(super) fn hear_of_locks(&self, tree: TreeIndex, locks_lost: u64) -> bool {
        if self.locks.has_older_at(tree) && locks_lost > self.commands.locks_lost(tree) {
            // Which files they were of is not known here. The count of before stays, so the tree takes no change of content from this session.
            self.commands.end();
            return false;
        }
        match self.commands.hear_of_locks(tree, locks_lost, self.locks.has_some_at(tree)) {
            true => {
                let lost = self.locks.lose(tree);
                tracing::warn!(
                    lost,
                    "the locks of this mount were taken away: the tree had not heard of it for {LOCK_LEASE:?}"
                );
                false
            }
            false => locks_lost == self.commands.locks_lost(tree),
        }
    }

    /// As long as the session lives: says that it lives while it has locks, and gives up what could not be given up.
    pub(in crate::client) async fn keep_lease(&self) {
        let mut rest = if self.locks.has_older() { Duration::ZERO } else { KEEPALIVE };
        loop {
            self.commands.env().sleep(std::mem::replace(&mut rest, KEEPALIVE)).await;
            if !self.needs_lease() {
                continue;
            }
            let renewed = self.renew_leases(self.leased_trees()).await;
            for error in renewed.values().filter_map(|renewed| renewed.as_ref().err()) {
                tracing::warn!(%error, "a tree has not heard that this mount lives");
            }
            let hears = |ino: Ino| renewed.get(&ino.tree()).is_some_and(Result::is_ok);
            for (ino, owner) in self.locks.owed().into_iter().filter(|(ino, _)| hears(*ino)) {
                self.unlock_all(ino, owner).await;
            }
        }
    }
}
