//! The receiving ends of the streams from other gateways: each takes its batches in order, one at a time.

use arc_swap::ArcSwap;
use net::{Arrival, Incoming, StreamNumber};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::OwnedMutexGuard;
use topology::View;
use types::GatewayId;

/// Streams that a gateway remembers; those of gateways that left are forgotten with the view that leaves them out.
const MAX_HEARINGS: usize = 64;

/// The streams from other gateways.
pub(crate) struct Hearings {
    by_gateway: Mutex<BTreeMap<GatewayId, Arc<Hearing>>>,
    /// Changes under the lock of the streams.
    senders: ArcSwap<Senders>,
}

/// Who may send.
struct Senders {
    view: View,
    /// Of all views until this one.
    greatest: GatewayId,
}

/// Why there is no stream from a gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unheard {
    HasLeft,
    /// Too many are known: somebody sends what no cell would.
    TooMany,
}

/// One stream. Whoever holds its lock takes in a batch.
#[derive(Default)]
pub(crate) struct Hearing {
    incoming: Arc<tokio::sync::Mutex<Incoming>>,
}

/// The right to take in one batch of a stream, alone.
pub(crate) struct Turn {
    _incoming: OwnedMutexGuard<Incoming>,
}

impl Senders {
    /// Gateways are numbered as they come: one that is in no view yet, and comes after all that were in any, is in a view that comes later. Numbers
    /// begin again when they are used up: who comes then seems to have left until the view is installed that it is in. It sends again.
    fn have_lost(&self, gateway: GatewayId) -> bool {
        !self.view.contains(gateway) && gateway <= self.greatest
    }
}

impl Hearings {
    pub fn new(view: View) -> Hearings {
        let greatest = greatest_of(&view);
        Hearings { by_gateway: Mutex::default(), senders: ArcSwap::from_pointee(Senders { view, greatest }) }
    }

    /// The stream from a gateway.
    pub fn of(&self, gateway: GatewayId) -> Result<Arc<Hearing>, Unheard> {
        let mut by_gateway = self.by_gateway.lock();
        if self.has_left(gateway) {
            return Err(Unheard::HasLeft);
        }
        if by_gateway.len() >= MAX_HEARINGS && !by_gateway.contains_key(&gateway) {
            return Err(Unheard::TooMany);
        }
        Ok(by_gateway.entry(gateway).or_default().clone())
    }

    /// Whether a gateway was in a view before this one and is not in this one. To be asked of every item: a batch may wait, and go on when its sender
    /// has left. What it says then is older than what has been decided about it.
    pub fn has_left(&self, gateway: GatewayId) -> bool {
        self.senders.load().have_lost(gateway)
    }

    /// Forgets the streams of those that this view leaves out. Before anything else has the view.
    pub fn install(&self, view: &View) {
        let mut by_gateway = self.by_gateway.lock();
        let greatest = greatest_of(view).max(self.senders.load().greatest);
        let senders = Senders { view: view.clone(), greatest };
        by_gateway.retain(|gateway, _| !senders.have_lost(*gateway));
        self.senders.store(Arc::new(senders));
    }
}

fn greatest_of(view: &View) -> GatewayId {
    *view.members().last().expect("a view has members")
}

/// What is to be done with a batch.
pub(crate) enum Taken {
    Take(Turn),
    /// It was taken before; say so again.
    Already,
    /// Something before it is missing.
    Gap,
}

impl Hearing {
    /// Waits for the stream's turn and judges the batch.
    pub async fn take(&self, number: u64) -> Taken {
        judge(self.incoming.clone().lock_owned().await, number)
    }

    /// The same, if nobody is taking a batch in.
    pub fn try_take(&self, number: u64) -> Option<Taken> {
        self.incoming.clone().try_lock_owned().ok().map(|incoming| judge(incoming, number))
    }
}

fn judge(mut incoming: OwnedMutexGuard<Incoming>, number: u64) -> Taken {
    match incoming.arrived(StreamNumber(number)) {
        Arrival::Next => Taken::Take(Turn { _incoming: incoming }),
        Arrival::Duplicate => {
            env::mark("gateway: a batch heard twice");
            Taken::Already
        }
        Arrival::Gap => {
            env::mark("gateway: a batch heard before an earlier one");
            Taken::Gap
        }
    }
}
