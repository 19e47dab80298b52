//! A Haystack-style store: the paper's figure 1.
//!
//! ```text
//!   put      proxy's log ─► directory: name → volume, key ─► needle with its offset ─► answer
//!   get      directory ─► index in memory ─► one read
//!   delete   directory is asked ─► tombstone ─► directory forgets the name ─► answer
//! ```
//!
//! What favours it: the offset metadata goes with the needle in one write, as the index is in memory; needles are packed; several puts share a write; the proxy's log is
//! trimmed without a write; deletes are not in it.

use super::Layout;
use super::log::Log;
use super::table::Table;
use super::volumes::Volumes;
use crate::cheetah::subject::{Asked, Subject, name};
use anyhow::Context;
use bytes::Bytes;
use disk::{Disk, DiskStats};
use env::Env;
use kv::Kv;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of the directory's log, and of the proxy's.
const DIRECTORY_LOG: u64 = 0;
const PROXY_LOG: u64 = 1;

/// A store.
pub struct Haystack {
    /// Of the proxy: puts that may not be finished.
    intents: Arc<Log>,
    directory: Arc<Table>,
    volumes: Arc<Volumes>,
    next_key: AtomicU64,
}

impl Haystack {
    /// Opens what is on a disk. Puts that were cut short leave no names.
    pub async fn open(env: &Env, disk: Arc<dyn Disk>, layout: Layout, kv: Arc<dyn Kv>) -> anyhow::Result<Haystack> {
        let volumes = Volumes::open(env, disk.clone(), layout).await?;
        let directory = Table::open(env, disk.clone(), layout.log(DIRECTORY_LOG), kv).await?;
        let mut begun = Vec::new();
        let intents = directory.open_companion(disk, layout.log(PROXY_LOG), |record| begun.push(record.to_vec())).await?;
        for name in begun.iter().filter_map(|record| record.split_first_chunk::<4>()).map(|(_, name)| name) {
            let Some((volume, key)) = directory.get(name)?.map(|entry| decode(&entry)).transpose()? else { continue };
            if !volumes.has(volume, key) {
                directory.commit(&[(name.to_vec(), None)]).await?;
            }
        }
        let next_key = AtomicU64::new(volumes.last_key() + 1);
        Ok(Haystack { intents, directory, volumes, next_key })
    }

    fn look_up(&self, name: &[u8]) -> anyhow::Result<(u32, u64)> {
        decode(&self.directory.get(name)?.context("the directory has no such name")?)
    }
}

/// An entry of a directory: volume and key.
pub fn encode(volume: u32, key: u64) -> Vec<u8> {
    [&volume.to_le_bytes()[..], &key.to_le_bytes()].concat()
}

pub fn decode(entry: &[u8]) -> anyhow::Result<(u32, u64)> {
    let entry: &[u8; 12] = entry.try_into().context("an entry of a directory")?;
    let (volume, key) = entry.split_first_chunk::<4>().expect("it has 12 bytes");
    Ok((u32::from_le_bytes(*volume), u64::from_le_bytes(key.try_into()?)))
}

impl Subject for Haystack {
    fn put(&self, number: u64, bytes: Bytes) -> Asked<'_, ()> {
        Box::pin(async move {
            let name = name(number);
            // The checksum of the data, and the name.
            let sum = super::needle::crc(&bytes).to_le_bytes();
            let intent = self.intents.append([&sum[..], &name].concat()).await?;
            let volume = self.volumes.choose(bytes.len()).await?;
            let key = self.next_key.fetch_add(1, Ordering::Relaxed);
            self.directory.commit(&[(name, Some(encode(volume, key)))]).await?;
            self.volumes.append(volume, key, bytes).await?;
            self.intents.close(intent);
            Ok(())
        })
    }

    fn get(&self, number: u64) -> Asked<'_, Bytes> {
        Box::pin(async move {
            let (volume, key) = self.look_up(&name(number))?;
            self.volumes.read(volume, key).await?.context("the needle is not there")
        })
    }

    fn delete(&self, number: u64) -> Asked<'_, ()> {
        Box::pin(async move {
            let name = name(number);
            let (volume, key) = self.look_up(&name)?;
            self.volumes.delete(volume, key).await?;
            self.directory.commit(&[(name, None)]).await
        })
    }

    fn occupied_bytes(&self) -> u64 {
        self.volumes.occupied_bytes()
    }

    fn is_compacting(&self) -> bool {
        self.volumes.is_compacting()
    }

    fn moved_bytes(&self) -> u64 {
        self.volumes.moved_bytes()
    }

    fn device(&self) -> DiskStats {
        self.volumes.device()
    }
}
