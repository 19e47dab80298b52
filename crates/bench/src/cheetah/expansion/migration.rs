//! A stand-in for the migration that a store without volume groups makes: so many bytes are read from devices and written to a file.

use crate::cheetah::cluster::Cluster;
use crate::cheetah::ground::Ground;
use crate::cheetah::load::Limit;
use crate::clock;
use anyhow::{Context, ensure};
use disk::{Disk, DiskExt, Durability, ReadMode};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// Bytes of one move, and how many are under way.
const MOVE_BYTES: u64 = 256 << 10;
const MOVERS: usize = 4;
/// What is read begins behind what a device has of itself, and behind its log.
const READ_FROM: u64 = 104 << 20;

/// Moves that are under way.
pub struct Migration {
    began: Instant,
    movers: JoinSet<anyhow::Result<()>>,
    running: Arc<AtomicUsize>,
}

impl Migration {
    /// From the first so many nodes.
    pub async fn begin(ground: &Ground, cluster: &Cluster, nodes: usize, bytes: u64) -> anyhow::Result<Migration> {
        let to = ground.file("migration", bytes.next_multiple_of(MOVE_BYTES)).await?;
        let from: Vec<Arc<dyn Disk>> = cluster.nodes()[..nodes].iter().map(|node| node.tap.clone() as Arc<dyn Disk>).collect();
        let (next, running, mut movers) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicUsize::new(MOVERS)), JoinSet::new());
        for _ in 0..MOVERS {
            let (from, to, next, running) = (from.clone(), to.clone(), next.clone(), running.clone());
            movers.spawn(async move {
                let moved = carry(&from, &to, &next, bytes).await;
                running.fetch_sub(1, Ordering::AcqRel);
                moved
            });
        }
        Ok(Migration { began: clock::now(), movers, running })
    }

    /// As long as something moves.
    pub fn limit(&self) -> Limit {
        let running = self.running.clone();
        Limit::While(Arc::new(move || running.load(Ordering::Acquire) > 0))
    }

    /// Waits for the end: how long it took.
    pub async fn end(mut self) -> anyhow::Result<Duration> {
        while let Some(ended) = self.movers.join_next().await {
            ended.context("a mover")??;
        }
        Ok(clock::now() - self.began)
    }
}

async fn carry(from: &[Arc<dyn Disk>], to: &Arc<dyn Disk>, next: &AtomicU64, bytes: u64) -> anyhow::Result<()> {
    loop {
        let at = next.fetch_add(MOVE_BYTES, Ordering::Relaxed);
        if at >= bytes {
            return Ok(());
        }
        let turn = (at / MOVE_BYTES) as usize;
        let (disk, round) = (&from[turn % from.len()], (turn / from.len()) as u64);
        let moves = disk.size_bytes().saturating_sub(READ_FROM) / MOVE_BYTES;
        ensure!(moves > 0, "{} has nothing to be moved", disk.describe());
        let place = READ_FROM + round % moves * MOVE_BYTES;
        let read = disk.read(place, MOVE_BYTES as usize, ReadMode::Direct).await?;
        to.write(at, read, Durability::Durable).await?;
    }
}
