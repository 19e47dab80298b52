//! Clients that put and get as long as an experiment lasts, beside whatever happens.

use super::chunks::{self, COPIES, Stored, content};
use crate::EnterCluster;
use crate::clock;
use crate::random::Random;
use crate::timeline::Timeline;
use anyhow::{Context, ensure};
use chunkstore::chunk_client::ChunkClient;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use types::DeviceId;

/// Of timelines.
pub const SLICE: Duration = Duration::from_millis(100);
/// Pause after a failure.
const RETRY: Duration = Duration::from_millis(20);
/// Tags of chunks that are put here; each client has its own range.
const FIRST_TAG: u64 = 1 << 40;

/// How much of which.
#[derive(Clone, Copy, Debug)]
pub struct Mix {
    pub putters: u64,
    pub getters: u64,
    pub bytes: usize,
    /// Ask after each put where its copies are.
    pub looks: bool,
}

/// What the clients did.
pub struct Done {
    pub puts: Timeline,
    pub gets: Timeline,
    pub failed: Timeline,
    /// All chunks: those that were there, and what was acknowledged since.
    pub stored: Mutex<Vec<Stored>>,
    slowest_put_us: AtomicU64,
    slowest_get_us: AtomicU64,
    /// When the first put ended that has a copy on a device.
    first_on: Mutex<BTreeMap<DeviceId, Instant>>,
}

/// Clients on a thread of their own.
pub struct Load {
    pub done: Arc<Done>,
    thread: JoinHandle<anyhow::Result<()>>,
}

impl Load {
    /// Begins, through the node of this folder.
    pub fn begin(data: PathBuf, enter: EnterCluster, mix: Mix, stored: Vec<Stored>) -> Load {
        let timeline = || Timeline::begin(SLICE);
        let done = Arc::new(Done {
            puts: timeline(),
            gets: timeline(),
            failed: timeline(),
            stored: Mutex::new(stored),
            slowest_put_us: AtomicU64::new(0),
            slowest_get_us: AtomicU64::new(0),
            first_on: Mutex::default(),
        });
        let clients = done.clone();
        let thread = std::thread::spawn(move || chunks::runtime()?.block_on(work(data, enter, mix, clients)));
        Load { done, thread }
    }

    /// Ends it, and says what it did.
    pub fn end(self) -> anyhow::Result<Arc<Done>> {
        self.done.puts.stop();
        self.thread.join().expect("clients do not panic")?;
        Ok(self.done)
    }
}

impl Done {
    pub fn elapsed(&self) -> Duration {
        self.puts.elapsed()
    }

    /// The slowest put and get, in milliseconds.
    pub fn slowest_ms(&self) -> (f64, f64) {
        let ms = |us: &AtomicU64| us.load(Ordering::Relaxed) as f64 / 1e3;
        (ms(&self.slowest_put_us), ms(&self.slowest_get_us))
    }

    pub fn first_on(&self, device: DeviceId) -> Option<Instant> {
        self.first_on.lock().get(&device).copied()
    }

    fn is_over(&self) -> bool {
        self.puts.is_over()
    }

    async fn put(&self, client: &ChunkClient, tag: u64, mix: &Mix) -> anyhow::Result<()> {
        let content = content(tag, mix.bytes);
        let began = clock::now();
        let put = client.put(content, COPIES).await;
        let ended = clock::now();
        self.slowest_put_us.fetch_max((ended - began).as_micros() as u64, Ordering::Relaxed);
        let id = put?;
        self.puts.note(1);
        self.stored.lock().push(Stored { id, tag });
        if mix.looks {
            let places = client.places(id).await.context("the places of a new chunk")?;
            let mut first_on = self.first_on.lock();
            places.iter().for_each(|place| _ = first_on.entry(place.device()).or_insert(ended));
        }
        Ok(())
    }

    async fn get(&self, client: &ChunkClient, random: &mut Random, mix: &Mix) -> anyhow::Result<()> {
        let Stored { id, tag } = {
            let stored = self.stored.lock();
            stored[random.below(stored.len() as u64) as usize]
        };
        let began = clock::now();
        let got = client.get(id).await;
        self.slowest_get_us.fetch_max((clock::now() - began).as_micros() as u64, Ordering::Relaxed);
        ensure!(got? == content(tag, mix.bytes), WrongContent);
        self.gets.note(1);
        Ok(())
    }
}

/// An answer that is worse than none.
#[derive(Debug, thiserror::Error)]
#[error("a chunk has another content than was put")]
struct WrongContent;

async fn work(data: PathBuf, enter: EnterCluster, mix: Mix, done: Arc<Done>) -> anyhow::Result<()> {
    let client = Arc::new(enter(data).await?);
    let putters = (0..mix.putters).map(|number| (number, true));
    let workers: Vec<_> = putters
        .chain((0..mix.getters).map(|number| (number, false)))
        .map(|(number, is_putter)| {
            let (client, done) = (client.clone(), done.clone());
            tokio::spawn(async move {
                let mut random = Random::new(number, u64::from(is_putter));
                let mut tag = (number + 1) * FIRST_TAG;
                while !done.is_over() {
                    let result = match is_putter {
                        true => done.put(&client, tag, &mix).await,
                        false => done.get(&client, &mut random, &mix).await,
                    };
                    tag += 1;
                    if let Err(error) = result {
                        // What does not answer is counted; what answers wrongly ends the experiment.
                        ensure!(!error.is::<WrongContent>(), error);
                        done.failed.note(1);
                        tokio::time::sleep(RETRY).await;
                    }
                }
                Ok(())
            })
        })
        .collect();
    for worker in workers {
        worker.await.context("a client")??;
    }
    client.finish().await;
    Ok(())
}
