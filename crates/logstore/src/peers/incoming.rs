//! The receiving ends of the streams from other gateways: each takes its batches in order, one at a time.

use net::{Arrival, Incoming, StreamNumber};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::OwnedMutexGuard;
use types::GatewayId;

/// Streams that a gateway remembers; those of gateways that left are forgotten with the view that leaves them out.
const MAX_HEARINGS: usize = 64;

/// The streams from other gateways.
#[derive(Default)]
pub(crate) struct Hearings {
    by_gateway: Mutex<BTreeMap<GatewayId, Arc<Hearing>>>,
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

impl Hearings {
    /// The stream from a gateway. None if too many are known: then somebody sends what no cell would.
    pub fn of(&self, gateway: GatewayId) -> Option<Arc<Hearing>> {
        let mut by_gateway = self.by_gateway.lock();
        if by_gateway.len() >= MAX_HEARINGS && !by_gateway.contains_key(&gateway) {
            return None;
        }
        Some(by_gateway.entry(gateway).or_default().clone())
    }

    /// Forgets the streams of gateways of which this is not to be kept.
    pub fn retain(&self, keep: impl Fn(GatewayId) -> bool) {
        self.by_gateway.lock().retain(|gateway, _| keep(*gateway));
    }
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
