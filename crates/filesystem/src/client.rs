//! The client: what a mount asks, made into commands of meta partitions and requests of data partitions.
//!
//! ```text
//!   names, attributes ──► command (session, sequence) ──► meta partition
//!   content ──► in place, appends ──► data partition, then a command that gives the file its keys
//! ```
//!
//! Invariants
//! - A command keeps its sequence when it is sent again, so it has one effect and one answer.
//! - A change of a file's content, its size included, holds the inode's lock; so each sees the keys that the one before left.
//! - Nothing is answered before its content and its command are durable.
//! - An inode without names is told as not open only when the kernel does not refer to it and no file of it is open.
//! - Reading does not change the time of the last access.

pub mod acl;
mod attributes;
mod commands;
mod content;
mod directories;
mod error;
mod extended;
mod files;
mod locks;
mod names;
mod orphans;
mod pieces;
mod plan;
mod space;
mod tries;

use std::sync::Arc;
use std::time::Duration;

use env::Env;

pub use attributes::VolumeState;
pub use content::{WriteAt, Written};
pub use directories::ListedEntry;
pub use error::ClientError;
pub use extended::SetXattr;
pub use files::{FileHandle, MAX_OPEN_FILES, Old};
pub use names::{Entry, New, OpenFlags, Owner};
pub use plan::MAX_EXTENT_BYTES;
pub use space::{Allocation, Place};

use crate::data::DataPartition;
use crate::ids::Ino;
use crate::meta::{MetaPartition, MetaSession};
use commands::Commands;
use files::Files;
use locks::Locks;

/// For how long a mount may use a name without asking, while it is the only one of its volume.
pub const NAMES_VALID: Duration = Duration::from_secs(1);

/// A client that is not the only one waits for so long before it changes anything: until then no other uses names that it was told as the only one. The answers
/// to it may have come late.
const OTHERS_LEARN: Duration = Duration::from_secs(2);

/// One user of a volume: a mount.
pub struct Client {
    commands: Commands,
    data: Arc<dyn DataPartition>,
    files: Files,
    locks: Locks,
}

impl Client {
    /// Begins a session at a volume's partitions.
    pub async fn connect(
        meta: Arc<dyn MetaPartition>,
        data: Arc<dyn DataPartition>,
        env: Env,
    ) -> Result<Arc<Client>, ClientError> {
        let commands = Commands::open(meta, env).await?;
        if commands.inode(Ino::ROOT).await?.is_shared {
            commands.env().sleep(OTHERS_LEARN).await;
        }
        Ok(Arc::new(Client { commands, data, files: Files::default(), locks: Locks::default() }))
    }

    pub fn env(&self) -> &Env {
        self.commands.env()
    }

    pub fn session(&self) -> MetaSession {
        self.commands.session()
    }

    /// Ends the session: files without names that it had open are freed. Later calls fail.
    pub async fn close(&self) -> Result<(), ClientError> {
        self.commands.close().await
    }
}

#[cfg(test)]
mod tests;
