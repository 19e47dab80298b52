//! Clusters whose nodes have space for chunks, clients of them, and the chunks that these have stored.

use crate::EnterCluster;
use crate::clock;
use crate::random::Random;
use crate::systems::{Lab, Setup, System};
use anyhow::{Context, ensure};
use bytes::Bytes;
use chunkstore::chunk_client::{ChunkClient, ChunkError};
use format::chunk_id::ChunkId;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};

/// Storage nodes, as in the paper's testbed.
pub const NODES: usize = 6;
/// Copies of each chunk.
pub const COPIES: u8 = 3;
/// Space for chunks on each node: what is not written takes no room.
const DEVICE_SIZE: &str = "9GiB";
/// How long a new cluster may take to take its first chunk.
const START_PATIENCE: Duration = Duration::from_secs(60);
const START_PAUSE: Duration = Duration::from_millis(100);
/// Clients that put at once where nothing is timed.
pub const PREPARERS: u64 = 16;

/// How a cluster places its chunks.
#[derive(Clone, Copy, Debug)]
pub struct Placing {
    /// As the setting has it.
    pub placer: &'static str,
    /// Chunks that a shard takes.
    pub shard_chunks: u64,
}

/// A chunk that was put, and what its content was made of.
#[derive(Clone, Copy, Debug)]
pub struct Stored {
    pub id: ChunkId,
    pub tag: u64,
}

/// Starts six nodes.
pub fn start(lab: &Lab, name: &'static str, placing: Placing) -> anyhow::Result<System> {
    start_nodes(lab, name, placing, NODES)
}

/// Starts nodes. They are not asked for S3, so what they have for objects does not matter. Hot chunks stay where they were placed.
pub fn start_nodes(lab: &Lab, name: &'static str, placing: Placing, nodes: usize) -> anyhow::Result<System> {
    let Placing { placer, shard_chunks } = placing;
    let settings = vec![
        ("TRILITH_CHUNK_PLACER", placer.to_owned()),
        ("TRILITH_CHUNK_BALANCE", "off".to_owned()),
        ("TRILITH_SHARD_CHUNKS", shard_chunks.to_string()),
    ];
    let setup = Setup { name, settings, device_size: DEVICE_SIZE, ..Setup::default() };
    lab.bare_cluster(setup, nodes)
}

/// What clients run on: one thread, beside the nodes' processes.
pub fn runtime() -> anyhow::Result<Runtime> {
    Builder::new_current_thread().enable_all().build().context("making a runtime")
}

/// A client through a system's first node, when it takes chunks.
pub async fn enter(system: &System, enter: EnterCluster) -> anyhow::Result<Arc<ChunkClient>> {
    let client = Arc::new(enter(system.nodes[0].data.clone()).await?);
    let until = clock::now() + START_PATIENCE;
    loop {
        match client.put(content(0, 1), COPIES).await {
            Ok(id) => {
                client.delete(id).await.context("removing the first chunk")?;
                return Ok(client);
            }
            Err(error) => ensure!(clock::now() < until, "{} takes no chunks: {error}", system.name),
        }
        tokio::time::sleep(START_PAUSE).await;
    }
}

/// Content that nothing compresses, and that its tag tells from others.
pub fn content(tag: u64, bytes: usize) -> Bytes {
    let mut random = Random::new(tag, bytes as u64);
    let words = bytes.div_ceil(8);
    let mut content: Vec<u8> = (0..words).flat_map(|_| random.next_u64().to_le_bytes()).collect();
    content.truncate(bytes);
    Bytes::from(content)
}

/// Puts chunks with these tags, several at a time.
pub async fn prepare(client: &Arc<ChunkClient>, tags: std::ops::Range<u64>, bytes: usize) -> anyhow::Result<Vec<Stored>> {
    let put = move |client: Arc<ChunkClient>, tag| async move {
        let id = put_patiently(&client, content(tag, bytes)).await?;
        Ok(Stored { id, tag })
    };
    together(client, tags, put).await
}

/// Puts also while a shard is full and the next one not open yet.
pub async fn put_patiently(client: &ChunkClient, content: Bytes) -> anyhow::Result<ChunkId> {
    put_patiently_as(client, content, COPIES).await
}

/// The same with so many copies.
pub async fn put_patiently_as(client: &ChunkClient, content: Bytes, copies: u8) -> anyhow::Result<ChunkId> {
    let until = clock::now() + START_PATIENCE;
    loop {
        match client.put(content.clone(), copies).await {
            Ok(id) => return Ok(id),
            Err(error @ ChunkError::Size { .. }) => return Err(error.into()),
            Err(error) => ensure!(clock::now() < until, "a chunk can't be put: {error}"),
        }
        tokio::time::sleep(START_PAUSE).await;
    }
}

/// Does something once for each number, several at a time; the results in the order of the numbers.
pub async fn together<T, F>(
    client: &Arc<ChunkClient>,
    numbers: std::ops::Range<u64>,
    work: impl Fn(Arc<ChunkClient>, u64) -> F + Clone + Send + 'static,
) -> anyhow::Result<Vec<T>>
where
    T: Send + 'static,
    F: Future<Output = anyhow::Result<T>> + Send + 'static,
{
    let (next, end) = (Arc::new(AtomicU64::new(numbers.start)), numbers.end);
    let workers: Vec<_> = (0..PREPARERS)
        .map(|_| {
            let (client, next, work) = (client.clone(), next.clone(), work.clone());
            tokio::spawn(async move {
                let mut done = Vec::new();
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= end {
                        return Ok(done);
                    }
                    done.push((number, work(client.clone(), number).await?));
                }
            })
        })
        .collect();
    let mut all = Vec::new();
    for worker in workers {
        let done: anyhow::Result<Vec<(u64, T)>> = worker.await.context("a worker")?;
        all.extend(done?);
    }
    all.sort_by_key(|(number, _)| *number);
    Ok(all.into_iter().map(|(_, result)| result).collect())
}
