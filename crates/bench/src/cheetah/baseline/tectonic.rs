//! A Tectonic-style store: metadata in three layers, each a table of its own.
//!
//! ```text
//!   put      name → file ─► file → block ─► block → volume, key ─► needle ─► answer
//!   get      name ─► file ─► block ─► index in memory ─► one read
//!   delete   the layers are asked ─► tombstone ─► block ─► file ─► name ─► answer
//! ```
//!
//! A layer is written when the one before it is durable. Data is in the volumes of the other baseline: the paper's Tectonic writes log-structured files, too.

use super::Layout;
use super::haystack::{decode, encode};
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

/// Name, file, block.
const LAYERS: usize = 3;

/// What an object is called in each layer.
type Keys = [Vec<u8>; LAYERS];

/// A store.
pub struct Tectonic {
    layers: [Arc<Table>; LAYERS],
    volumes: Arc<Volumes>,
    next: AtomicU64,
}

impl Tectonic {
    /// Opens what is on a disk. Each layer has a store of its own.
    pub async fn open(env: &Env, disk: Arc<dyn Disk>, layout: Layout, kvs: [Arc<dyn Kv>; LAYERS]) -> anyhow::Result<Tectonic> {
        let volumes = Volumes::open(env, disk.clone(), layout).await?;
        let [names, files, blocks] = kvs;
        let layers = [
            Table::open(env, disk.clone(), layout.log(0), names).await?,
            Table::open(env, disk.clone(), layout.log(1), files).await?,
            Table::open(env, disk, layout.log(2), blocks).await?,
        ];
        let next = AtomicU64::new(volumes.last_key() + 1);
        Ok(Tectonic { layers, volumes, next })
    }

    /// The file of a name, its block, and where that is.
    fn resolve(&self, number: u64) -> anyhow::Result<(Keys, (u32, u64))> {
        let [names, files, blocks] = &self.layers;
        let name = name(number);
        let file = names.get(&name)?.context("the name layer has no such name")?;
        let block = files.get(&file)?.context("the file layer has no such file")?;
        let place = decode(&blocks.get(&block)?.context("the block layer has no such block")?)?;
        Ok(([name, file, block], place))
    }
}

impl Subject for Tectonic {
    fn put(&self, number: u64, bytes: Bytes) -> Asked<'_, ()> {
        Box::pin(async move {
            let key = self.next.fetch_add(1, Ordering::Relaxed);
            let (file, block) = (key.to_be_bytes().to_vec(), key.to_le_bytes().to_vec());
            let [names, files, blocks] = &self.layers;
            names.commit(&[(name(number), Some(file.clone()))]).await?;
            files.commit(&[(file, Some(block.clone()))]).await?;
            let volume = self.volumes.choose(bytes.len()).await?;
            blocks.commit(&[(block, Some(encode(volume, key)))]).await?;
            self.volumes.append(volume, key, bytes).await
        })
    }

    fn get(&self, number: u64) -> Asked<'_, Bytes> {
        Box::pin(async move {
            let (_, (volume, key)) = self.resolve(number)?;
            self.volumes.read(volume, key).await?.context("the needle is not there")
        })
    }

    fn delete(&self, number: u64) -> Asked<'_, ()> {
        Box::pin(async move {
            let (keys, (volume, key)) = self.resolve(number)?;
            self.volumes.delete(volume, key).await?;
            for (layer, key) in self.layers.iter().zip(keys).rev() {
                layer.commit(&[(key, None)]).await?;
            }
            Ok(())
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
