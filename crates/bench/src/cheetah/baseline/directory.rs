//! The thin directory of the paper's figure 13: a name, and its volume. Its objects have no bytes.

use super::Layout;
use super::table::Table;
use crate::cheetah::subject::{Asked, Subject, name};
use anyhow::Context;
use bytes::Bytes;
use disk::{Disk, DiskStats};
use env::Env;
use kv::Kv;
use std::sync::Arc;

/// Names get volumes in turn.
const VOLUMES: u64 = 64;

/// A directory.
pub struct Directory {
    table: Arc<Table>,
    disk: Arc<dyn Disk>,
}

impl Directory {
    pub async fn open(env: &Env, disk: Arc<dyn Disk>, layout: Layout, kv: Arc<dyn Kv>) -> anyhow::Result<Directory> {
        Ok(Directory { table: Table::open(env, disk.clone(), layout.log(0), kv).await?, disk })
    }
}

impl Subject for Directory {
    fn put(&self, number: u64, _bytes: Bytes) -> Asked<'_, ()> {
        Box::pin(async move {
            let volume = (number % VOLUMES) as u32;
            self.table.commit(&[(name(number), Some(volume.to_le_bytes().to_vec()))]).await
        })
    }

    fn get(&self, number: u64) -> Asked<'_, Bytes> {
        Box::pin(async move { self.table.get(&name(number))?.map(|_| Bytes::new()).context("there is no such name") })
    }

    fn delete(&self, number: u64) -> Asked<'_, ()> {
        Box::pin(async move { self.table.commit(&[(name(number), None)]).await })
    }

    fn occupied_bytes(&self) -> u64 {
        0
    }

    fn device(&self) -> DiskStats {
        self.disk.stats()
    }
}
