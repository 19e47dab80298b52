//! What nodes tell the monitor of their load, and of what is asked for most there.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use env::{Env, Instant};
use manager::Manager;
use net::{BoxFuture, Refusal, Request, Service};
use parking_lot::Mutex;
use types::NodeId;

use crate::limits::LOAD_AGE;
use crate::protocol::LoadReport;
use crate::wire;

/// The newest report of each node. Kept where the manager is led; a new leader hears all within [`LOAD_INTERVAL`](crate::limits::LOAD_INTERVAL).
pub struct Loads {
    env: Env,
    manager: Arc<Manager>,
    reports: Mutex<BTreeMap<NodeId, (Instant, LoadReport)>>,
    /// Relocations that this node's monitor has begun to balance heat.
    moves: AtomicU64,
}

impl Loads {
    pub fn new(env: &Env, manager: Arc<Manager>) -> Loads {
        Loads { env: env.clone(), manager, reports: Mutex::default(), moves: AtomicU64::new(0) }
    }

    /// Strangers are not noted: what is kept is bounded by what is registered.
    fn hear(&self, report: LoadReport) {
        if self.manager.snapshot().node(report.node).is_some() {
            self.reports.lock().insert(report.node, (self.env.now(), report));
        }
    }

    /// What nodes have said lately. The rest is forgotten.
    pub fn recent(&self) -> Vec<LoadReport> {
        let now = self.env.now();
        let mut reports = self.reports.lock();
        reports.retain(|_, (at, _)| now.saturating_duration_since(*at) < LOAD_AGE);
        reports.values().map(|(_, report)| report.clone()).collect()
    }

    /// Nodes that have said something within this time, at most [`LOAD_AGE`].
    pub(super) fn heard_within(&self, age: Duration) -> Vec<NodeId> {
        let now = self.env.now();
        let reports = self.reports.lock();
        let recent = reports.iter().filter(|(_, (at, _))| now.saturating_duration_since(*at) < age);
        recent.map(|(node, _)| *node).collect()
    }

    pub(super) fn count_move(&self) {
        self.moves.fetch_add(1, Ordering::Relaxed);
    }

    /// Relocations that were begun here because nodes were hotter than others.
    pub fn moves(&self) -> u64 {
        self.moves.load(Ordering::Relaxed)
    }
}

impl Service for Loads {
    fn handle(&self, request: Request) -> BoxFuture<'_, Result<Bytes, Refusal>> {
        Box::pin(async move {
            self.hear(wire::decode(&request.payload).map_err(Refusal::new)?);
            Ok(Bytes::new())
        })
    }
}
