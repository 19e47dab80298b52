//! Transactions that this node drives for a tree, while it leads the tree: their numbers, and what became of them.
//!
//! Numbers begin with a reign, which the tree counts in its log: a node that is restarted may lead in the same term again, and must not use a number twice. A reign
//! ends when the tree has given another one.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{Outcome, TreeMember};
use crate::meta::{Command, Done, Machine, TransactionId, TransactionNumber};

/// Transactions of one tree that are driven at once. Further ones wait.
const MAX_DRIVEN: usize = 256;

pub struct Driven {
    permits: Arc<Semaphore>,
    /// Held while the tree is asked for a reign.
    beginning: tokio::sync::Mutex<()>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    reign: Option<Reign>,
    /// Transactions that may be decided yet, or whose other trees are being told.
    under_way: BTreeSet<TransactionId>,
    /// All trees know that these are done: they are to be forgotten.
    concluded: BTreeSet<TransactionId>,
}

struct Reign {
    number: u64,
    /// The first number of a transaction that was not used.
    next: u64,
}

impl Default for Driven {
    fn default() -> Driven {
        Driven {
            permits: Arc::new(Semaphore::new(MAX_DRIVEN)),
            beginning: tokio::sync::Mutex::default(),
            state: Mutex::default(),
        }
    }
}

/// What the leader knows of its transactions.
pub struct Known {
    /// The others of these are being told, or know.
    pub are_cared_for: BTreeSet<TransactionId>,
    pub concluded: Vec<TransactionId>,
    /// None below is under way; none if there is no reign yet.
    pub floor: Option<TransactionNumber>,
}

/// A transaction that is under way until this is dropped.
pub struct Driving {
    pub id: TransactionId,
    member: Arc<TreeMember>,
    _permit: OwnedSemaphorePermit,
}

impl Driving {
    /// All trees know that it is done.
    pub fn concluded(self) {
        self.member.driven.state.lock().concluded.insert(self.id);
    }
}

impl Drop for Driving {
    fn drop(&mut self) {
        self.member.driven.state.lock().under_way.remove(&self.id);
    }
}

impl Driven {
    fn next(&self, member: &TreeMember) -> Option<TransactionId> {
        let (current, _) = member.look(Machine::least_transaction);
        let mut state = self.state.lock();
        let reign = state.reign.as_mut().filter(|reign| reign.number == current)?;
        let id = TransactionId { tree: member.tree(), reign: reign.number, number: reign.next };
        reign.next += 1;
        state.under_way.insert(id);
        Some(id)
    }

    /// Takes what has been concluded: it is to be forgotten.
    pub fn take(&self) -> Known {
        let mut state = self.state.lock();
        let concluded = std::mem::take(&mut state.concluded);
        let floor = match (state.under_way.first(), &state.reign) {
            (Some(first), _) => Some(first.number()),
            (None, reign) => reign.as_ref().map(|reign| (reign.number, reign.next)),
        };
        let are_cared_for = state.under_way.union(&concluded).copied().collect();
        Known { are_cared_for, concluded: concluded.into_iter().collect(), floor }
    }
}

/// Begins a transaction of a tree that this node leads.
pub async fn begin(member: &Arc<TreeMember>) -> Result<Driving, Outcome> {
    let driven = &member.driven;
    let permit = driven.permits.clone().acquire_owned().await.expect("the semaphore is never closed");
    let driving = |id| Driving { id, member: member.clone(), _permit: permit };
    if let Some(id) = driven.next(member) {
        return Ok(driving(id));
    }
    let _beginning = driven.beginning.lock().await;
    if let Some(id) = driven.next(member) {
        return Ok(driving(id));
    }
    let Ok(Done::Reign(number)) = member.lead(member.now(), Command::Reign).await? else {
        return Err(Outcome::Again("the tree has given no reign".to_owned()));
    };
    driven.state.lock().reign = Some(Reign { number, next: 0 });
    driven.next(member).map(driving).ok_or_else(|| Outcome::Again("the leader has changed".to_owned()))
}
