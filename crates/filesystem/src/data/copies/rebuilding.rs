//! What a primary does besides serving: it rebuilds copies that are out, settles extents, and keeps the copies as the group's members are.

use std::collections::BTreeMap;
use std::future::pending;
use std::sync::Arc;

use types::{DeviceId, NodeId};

use super::aligning::AlignError;
use super::ask::{Answer, Change, ChangeWhat, CopyError, What};
use super::limits::{ALIGN_PATIENCE, LISTED, LOOK, REBUILD_REST};
use super::members::Seat;
use super::record::{Record, RecordChange};
use super::reign::{Over, Reign};
use crate::ids::ExtentId;

impl Reign {
    /// For as long as the reign lasts. `wanted` says which copies there are to be.
    pub async fn keep(self: &Arc<Self>, wanted: impl Fn(&Record) -> BTreeMap<NodeId, DeviceId>) -> Result<(), Over> {
        loop {
            self.check()?;
            self.settle_if_due().await?;
            self.set_copies(wanted(&self.record())).await?;
            let mut has_failed = false;
            for node in self.out() {
                has_failed |= !self.rebuild(node, pending()).await?;
            }
            self.env().sleep(if has_failed { REBUILD_REST } else { LOOK }).await;
        }
    }

    async fn settle_if_due(&self) -> Result<(), Over> {
        let settled = self
            .commit_with(|standing| {
                if !standing.is_settling_due() {
                    return None;
                }
                let (below, open) = standing.settle();
                Some(RecordChange::Settle { below, open })
            })
            .await?;
        assert_eq!(settled, Ok(()), "places of later extents are greater");
        Ok(())
    }

    /// Copies that are not wanted leave, if enough stay; those that are come in as out.
    async fn set_copies(&self, wanted: BTreeMap<NodeId, DeviceId>) -> Result<(), Over> {
        let record = self.record();
        if wanted.is_empty() || wanted == record.copies || !wanted.contains_key(&self.realm.me) {
            return Ok(());
        }
        let mut copies = wanted.clone();
        for node in &record.in_sync {
            let Some(device) = record.copies.get(node) else { continue };
            let is_kept = wanted.get(node) == Some(device);
            let leaves = !is_kept && *node != self.realm.me;
            let may_leave = leaves && self.record().may_leave(*node);
            if !(may_leave && self.commit(RecordChange::Leave(*node)).await?.is_ok()) {
                copies.insert(*node, *device);
            }
        }
        if copies != self.record().copies {
            let set = self.commit(RecordChange::SetCopies(copies)).await?;
            set.unwrap_or_else(|error| tracing::warn!(%error, "the copies of a volume are not as they are to be"));
        }
        Ok(())
    }

    /// Copies that are not in sync.
    fn out(&self) -> Vec<NodeId> {
        let record = self.record();
        record.copies.keys().copied().filter(|node| !record.in_sync.contains(node)).collect()
    }

    /// Rebuilds a copy that is out, if there is one that can be. It is given up when it is not needed any more.
    pub(super) async fn rebuild_one(self: &Arc<Self>, not_needed: impl Future<Output = ()>) -> Result<(), Over> {
        let out = self.out();
        if out.is_empty() {
            return Ok(());
        }
        // Another one is tried the next time.
        let at = self.env().random_below(out.len() as u64) as usize;
        self.rebuild(out[at], not_needed).await.map(drop)
    }

    /// Rebuilds a copy and has it join; whether it did.
    async fn rebuild(self: &Arc<Self>, node: NodeId, given_up: impl Future<Output = ()>) -> Result<bool, Over> {
        let Some(seat) = self.seat(node) else { return Ok(false) };
        if !self.enter(&seat, seat.session()).await {
            return Ok(false);
        }
        if !self.standing.lock().begin_rebuild(node) {
            return Ok(false);
        }
        let copied = tokio::select! {
            copied = self.copy_all(&seat) => copied,
            () = given_up => Err(AlignError::GivenUp),
        };
        let joined = match copied {
            Ok(()) => self.commit_with(|standing| standing.begin_join().map(RecordChange::Join)).await.map(drop),
            Err(error) => {
                tracing::info!(partition = self.realm.partition, %node, %error, "a copy of files was not rebuilt");
                Ok(())
            }
        };
        self.standing.lock().end_rebuild();
        self.changed.notify_waiters();
        joined?;
        let is_in_sync = self.record().in_sync.contains(&node);
        if is_in_sync {
            env::mark("files: a copy rebuilt");
            tracing::info!(partition = self.realm.partition, %node, "a copy of files is in sync");
        }
        Ok(is_in_sync)
    }

    async fn copy_all(&self, seat: &Seat) -> Result<(), AlignError> {
        let mut after: Option<ExtentId> = Some(ExtentId { partition: self.realm.partition, term: 0, number: 0 });
        loop {
            let next = self.next_extents(seat, after).await?;
            if next.is_empty() {
                // None may be made while this is looked at for the last time.
                self.hold(None).await?;
                let next = self.next_extents(seat, after).await;
                if matches!(&next, Ok(next) if next.is_empty()) {
                    self.standing.lock().advance(None);
                }
                self.release();
                if next?.is_empty() {
                    return Ok(());
                }
                continue;
            }
            for extent in next {
                self.copy_extent(seat, extent).await?;
                after = Some(extent);
            }
        }
    }

    /// The next extents that one of the two has.
    async fn next_extents(&self, seat: &Seat, after: Option<ExtentId>) -> Result<Vec<ExtentId>, AlignError> {
        self.check()?;
        let partition = self.realm.partition;
        let what = What::List { partition, after, most: LISTED as u64 };
        let Answer::Extents(there) = self.ask(seat, what, ALIGN_PATIENCE).await? else {
            return Err(CopyError::Silent("an answer to another question".to_owned()).into());
        };
        let own = self.own().list(partition, after, LISTED);
        // As far as both lists reach.
        let end = [&own, &there].into_iter().filter(|list| list.len() == LISTED).filter_map(|list| list.last()).min().copied();
        let mut both: Vec<ExtentId> = own.into_iter().chain(there).collect();
        both.sort_unstable();
        both.dedup();
        both.retain(|extent| end.is_none_or(|end| *extent <= end));
        Ok(both)
    }

    async fn copy_extent(&self, seat: &Seat, extent: ExtentId) -> Result<(), AlignError> {
        // Most of it, while changes go on.
        if let Err(error) = self.align(seat, extent, 0..u64::MAX).await {
            tracing::debug!(?extent, %error, "a first copy of an extent was not made");
        }
        self.hold(Some(extent)).await?;
        let mut copied = self.align(seat, extent, 0..u64::MAX).await;
        if matches!(copied, Err(AlignError::There(CopyError::Data(_)))) {
            // What it has can't be made what it is to be.
            let remove = What::Change(Change { extent, what: ChangeWhat::Remove });
            copied = match self.ask(seat, remove, ALIGN_PATIENCE).await {
                Ok(_) => self.align(seat, extent, 0..u64::MAX).await,
                Err(error) => Err(error.into()),
            };
        }
        if copied.is_ok() {
            self.standing.lock().advance(Some(extent));
        }
        self.release();
        copied
    }

    /// No change of an extent, or of any, is under way here from now on.
    async fn hold(&self, extent: Option<ExtentId>) -> Result<(), Over> {
        self.standing.lock().hold(extent);
        while !self.standing.lock().is_still() {
            if let Err(over) = self.rest().await {
                self.release();
                return Err(over);
            }
        }
        Ok(())
    }

    fn release(&self) {
        self.standing.lock().release();
        self.changed.notify_waiters();
    }
}
