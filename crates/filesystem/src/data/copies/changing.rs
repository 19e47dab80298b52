//! Changes: to all copies that take them, at once.

use std::sync::Arc;

use env::Instant;
use futures_util::future::{join, join_all};
use types::NodeId;

use super::aligning::AlignError;
use super::ask::{Answer, Ask, Change, ChangeWhat, Copy, CopyError, What};
use super::limits::SILENCE;
use super::record::RecordChange;
use super::reign::{Over, Reign};
use super::standing::{Begun, Role};
use crate::data::DataError;

/// How often a copy may be entered anew for one change, before it leaves.
const TRIES: u32 = 3;

/// What a copy made of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Outcome {
    Done,
    /// It has made less of the change, or nothing.
    Failed(DataError),
    /// It is out.
    Out,
}

impl Reign {
    /// Changes that overlap have their latches in the order of asking, whatever they wait for then.
    pub(super) async fn change_all(self: &Arc<Self>, change: Change, begins_by: Instant) -> Result<(), DataError> {
        self.check()?;
        let _latch = self.by(begins_by, self.latches.take(change.extent, change.blocks())).await?;
        let _work = self.by(begins_by, self.works.enter(&change)).await?;
        let others = self.begin(&change, begins_by).await?;
        let outcome = self.fan_out(&change, others).await;
        self.standing.lock().ended(change.extent);
        self.changed.notify_waiters();
        let is_overwrite = matches!(change.what, ChangeWhat::Overwrite { .. });
        if outcome.is_ok() && is_overwrite && u64::from(change.extent.term) < self.term() {
            env::mark("files: an overwrite answered after a change of primary");
        }
        outcome
    }

    async fn by<T>(&self, begins_by: Instant, waits: impl Future<Output = T>) -> Result<T, DataError> {
        tokio::select! {
            biased;
            come = waits => Ok(come),
            () = self.env().sleep_until(begins_by) => Err(too_late()),
        }
    }

    /// Begins a change as soon as this primary serves, and the record says that the extent is unsettled.
    async fn begin(&self, change: &Change, begins_by: Instant) -> Result<Vec<NodeId>, DataError> {
        let extent = change.extent;
        loop {
            self.check()?;
            if self.env().now() >= begins_by {
                return Err(too_late());
            }
            if !self.standing.lock().is_serving() {
                self.rest().await?;
                continue;
            }
            self.check_room(change)?;
            let begun = self.standing.lock().begin(extent, change.what.gives_back());
            match begun {
                Begun::To(others) => return Ok(others),
                Begun::Held => self.rest().await?,
                Begun::Settled => {
                    let opened = self
                        .commit_with(|standing| {
                            let is_needed = !standing.record().is_unsettled(extent);
                            is_needed.then_some(RecordChange::Open(extent))
                        })
                        .await?;
                    if opened.is_err() {
                        self.rest().await?;
                    }
                }
            }
        }
    }

    async fn fan_out(self: &Arc<Self>, change: &Change, others: Vec<NodeId>) -> Result<(), DataError> {
        let own = async {
            let ask = Ask { pass: self.own_pass(), boot: self.realm.own.boot(), what: What::Change(change.clone()) };
            let outcome = self.realm.own.ask(ask).await;
            self.standing.lock().applied(change.extent);
            self.changed.notify_waiters();
            outcome
        };
        let told = others.iter().map(|node| self.tell(*node, change));
        let (own, told) = join(own, join_all(told)).await;
        let told: Vec<Outcome> = told.into_iter().collect::<Result<_, _>>()?;
        match own {
            Ok(_) => {
                for (node, _) in others.iter().zip(&told).filter(|(_, outcome)| matches!(outcome, Outcome::Failed(_))) {
                    self.mend(*node, change).await?;
                }
                Ok(())
            }
            Err(CopyError::Data(error)) => {
                self.check_own(&error)?;
                let is_same = |outcome: &Outcome| match outcome {
                    Outcome::Failed(other) => changes_nothing(&error) && changes_nothing(other),
                    Outcome::Out => true,
                    Outcome::Done => false,
                };
                if !told.iter().all(is_same) {
                    for node in &others {
                        self.mend(*node, change).await?;
                    }
                }
                Err(error)
            }
            Err(_) => {
                // A newer primary has entered it.
                self.end();
                Err(Over.into())
            }
        }
    }

    /// A primary whose own device fails is none any more.
    pub(super) fn check_own(&self, error: &DataError) -> Result<(), DataError> {
        if matches!(error, DataError::Unavailable(_)) && !self.standing.lock().is_alone() {
            tracing::error!(partition = self.realm.partition, %error, "the primary's own copy fails: another node is to serve");
            self.end();
            return Err(error.clone());
        }
        Ok(())
    }

    /// Tells a copy a change, until it has answered or is out.
    async fn tell(&self, node: NodeId, change: &Change) -> Result<Outcome, Over> {
        let mut tries = 0;
        loop {
            self.check()?;
            match self.role(node) {
                Role::Out => return Ok(Outcome::Out),
                Role::InSync | Role::Rebuilt => {}
            }
            let Some(seat) = self.seat(node) else {
                self.put_out(node).await?;
                continue;
            };
            let session = seat.session();
            match self.ask_in(&seat, session, What::Change(change.clone()), SILENCE).await {
                Ok(Answer::Done { .. }) => return Ok(Outcome::Done),
                Ok(_) => return Ok(Outcome::Failed(DataError::Unavailable("an answer to another question".to_owned()))),
                Err(CopyError::Data(error)) => return Ok(Outcome::Failed(error)),
                Err(error) => {
                    tries += 1;
                    tracing::debug!(%node, %error, "a copy did not answer a change");
                    let is_entered = tries < TRIES && self.role(node) == Role::InSync && self.enter(&seat, session).await;
                    if !is_entered {
                        self.put_out(node).await?;
                    }
                }
            }
        }
    }

    /// Makes an extent of a copy as the primary's own one, after a change that it made otherwise. A copy that can't be mended is out.
    async fn mend(&self, node: NodeId, change: &Change) -> Result<(), DataError> {
        loop {
            self.check()?;
            let aligned = match (self.role(node), self.seat(node)) {
                (Role::Out, _) => return Ok(()),
                (Role::InSync, Some(seat)) => self.align(&seat, change.extent, change.blocks()).await,
                (Role::InSync, None) | (Role::Rebuilt, _) => Err(AlignError::GivenUp),
            };
            match aligned {
                Ok(()) => return Ok(()),
                // It is not the other copy that fails.
                Err(AlignError::Own(error)) => {
                    self.check_own(&error)?;
                    self.rest().await?;
                }
                Err(AlignError::Unknown(..)) => self.rest().await?,
                Err(AlignError::There(_) | AlignError::Over | AlignError::GivenUp) => _ = self.put_out(node).await?,
            }
        }
    }
}

fn too_late() -> DataError {
    DataError::Unavailable("the change could not begin in time".to_owned())
}

/// Whether a store that answers so has changed nothing.
fn changes_nothing(error: &DataError) -> bool {
    match error {
        DataError::NoExtent(_) | DataError::NotAtEnd { .. } | DataError::Beyond { .. } | DataError::Punched { .. } => true,
        DataError::Full | DataError::Damaged { .. } | DataError::Unavailable(_) => false,
    }
}

impl ChangeWhat {
    /// Whether it is there to give something back.
    pub fn gives_back(&self) -> bool {
        matches!(self, ChangeWhat::Punch { .. } | ChangeWhat::Remove)
    }
}
