//! A new primary: it enters the copies, makes those in sync equal where they may differ, and then serves.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures_util::future::join_all;
use types::NodeId;

use super::aligning::AlignError;
use super::ask::{Answer, Ask, Copy, CopyError, What};
use super::limits::{ALIGN_PATIENCE, LISTED};
use super::members::{Leaving, Seat};
use super::record::{Place, RecordChange};
use super::reign::{Over, Reign};
use super::standing::Role;
use crate::ids::ExtentId;

/// Extents that are compared at once.
const AT_ONCE: usize = 16;

impl Reign {
    /// Takes the partition over. Settled extents can be read before this has ended.
    pub async fn take_over(self: &Arc<Self>) -> Result<(), Over> {
        let enter = Ask { pass: self.own_pass(), boot: self.realm.own.boot(), what: What::Enter };
        if let Err(error) = self.realm.own.ask(enter).await {
            tracing::debug!(%error, "a primary could not enter its own copy");
            self.end();
            return Err(Over);
        }
        loop {
            let backups = self.standing.lock().backups();
            let entered = join_all(backups.iter().map(|node| self.enter_backup(*node))).await;
            entered.into_iter().collect::<Result<Vec<()>, _>>()?;
            if self.align_unsettled(&backups).await? {
                break;
            }
        }
        let is_first = self.record().settled_below == Place::default();
        let settled = self
            .commit_with(|standing| {
                let (below, open) = standing.settle();
                Some(RecordChange::Settle { below, open })
            })
            .await?;
        assert_eq!(settled, Ok(()), "places of a newer term are greater");
        if !is_first {
            env::mark("files: another primary");
        }
        self.standing.lock().serve();
        self.changed.notify_waiters();
        Ok(())
    }

    /// Until a copy in sync is entered, or is out. It can't leave while too few would stay: then a third is rebuilt meanwhile. Nothing changes before this
    /// primary serves, and its own copy has all that was acknowledged.
    async fn enter_backup(self: &Arc<Self>, node: NodeId) -> Result<(), Over> {
        while self.role(node) == Role::InSync {
            self.check()?;
            let is_entered = match self.seat(node) {
                Some(seat) => seat.is_entered() || self.enter(&seat, seat.session()).await,
                None => false,
            };
            if is_entered {
                return Ok(());
            }
            if self.put_out(node).await? == Leaving::Stays {
                self.rebuild_one(self.knock(node)).await?;
            }
        }
        Ok(())
    }

    /// Makes copies in sync equal. False where one was not aligned: it is entered again, or out.
    async fn align_unsettled(&self, backups: &[NodeId]) -> Result<bool, Over> {
        let seats: Vec<Arc<Seat>> =
            backups.iter().filter(|node| self.role(**node) == Role::InSync).filter_map(|node| self.seat(*node)).collect();
        if seats.is_empty() {
            return Ok(true);
        }
        let mut extents = self.own_unsettled();
        let mut are_all = true;
        for seat in &seats {
            match self.unsettled_there(seat).await {
                Ok(more) => extents.extend(more),
                Err(error) => are_all &= self.could_not_align(seat, error.into()).await?,
            }
        }
        let mut jobs: Vec<(ExtentId, Arc<Seat>)> = Vec::new();
        for seat in &seats {
            jobs.extend(extents.iter().map(|extent| (*extent, seat.clone())));
        }
        for some in jobs.chunks(AT_ONCE) {
            let aligned = join_all(some.iter().map(|(extent, seat)| self.align(seat, *extent, 0..u64::MAX))).await;
            for ((_, seat), outcome) in some.iter().zip(aligned) {
                if let Err(error) = outcome {
                    are_all &= self.could_not_align(seat, error).await?;
                }
            }
        }
        Ok(are_all)
    }

    /// A copy that was entered does not do what it is told, or this one can't say what that is. Always false.
    async fn could_not_align(&self, seat: &Seat, error: AlignError) -> Result<bool, Over> {
        self.check()?;
        let partition = self.realm.partition;
        tracing::info!(partition, node = %seat.node, %error, "a copy of files could not be aligned");
        match error {
            AlignError::Own(_) => {
                // Another one has all that was acknowledged too, and may be well.
                self.end();
                return Err(Over);
            }
            AlignError::Unknown(..) => self.rest().await?,
            AlignError::There(_) | AlignError::Over | AlignError::GivenUp => _ = self.put_out(seat.node).await?,
        }
        Ok(false)
    }

    fn own_unsettled(&self) -> BTreeSet<ExtentId> {
        let record = self.record();
        let mut found: BTreeSet<ExtentId> = record.open.clone();
        let mut after = self.before(record.settled_below);
        loop {
            let listed = self.own().list(self.realm.partition, after, LISTED);
            after = listed.last().copied();
            found.extend(&listed);
            if listed.len() < LISTED {
                return found;
            }
        }
    }

    async fn unsettled_there(&self, seat: &Seat) -> Result<BTreeSet<ExtentId>, CopyError> {
        let mut found = BTreeSet::new();
        let mut after = self.before(self.record().settled_below);
        loop {
            let what = What::List { partition: self.realm.partition, after, most: LISTED as u64 };
            let Answer::Extents(listed) = self.ask(seat, what, ALIGN_PATIENCE).await? else {
                return Err(CopyError::Silent("an answer to another question".to_owned()));
            };
            after = listed.last().copied();
            found.extend(&listed);
            if listed.len() < LISTED {
                return Ok(found);
            }
        }
    }

    /// The id before the first one that was made at a place or later.
    fn before(&self, (term, number): (u32, u64)) -> Option<ExtentId> {
        let partition = self.realm.partition;
        match number.checked_sub(1) {
            Some(number) => Some(ExtentId { partition, term, number }),
            None => term.checked_sub(1).map(|term| ExtentId { partition, term, number: u64::MAX }),
        }
    }
}
