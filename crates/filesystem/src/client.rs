//! The client: what a mount asks, made into commands of meta partitions (the trees of the volume) and requests of data partitions.
//!
//! ```text
//!   names, attributes ──► command (session, sequence) ──► meta partition
//!   content ──► in place, appends ──► data partition, then a command that gives the file its keys
//! ```
//!
//! Invariants
//! - A command keeps its sequence when it is sent again, so it has one effect and one answer.
//! - A change of a file's content, its size included, holds the inode's lock; so each sees the keys that the one before left.
//! - Nothing is answered before its content and its command are durable, but for times of files ([`times`]), and for names and attributes of class `ordered`.
//! - An inode without names is told as not open only when the kernel does not refer to it and no file of it is open. A client that was resumed asks the kernel.
//! - The commands of a mount's call have one effect, in however many processes the call is carried out (`calls`, `record`).
//! - Reading does not change the time of the last access.
//! - The kernel of an exclusive client buffers writes: sizes and times of files are the kernel's, and come here later.

pub mod acl;
mod attributes;
mod buffered;
mod calls;
mod commands;
mod content;
mod directories;
mod elsewhere;
mod error;
mod extended;
mod files;
mod locks;
mod names;
mod orphans;
mod pieces;
mod plan;
mod record;
mod routes;
mod sessions;
mod space;
mod times;
mod tries;

use std::fs::File;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use env::Env;

pub use attributes::VolumeState;
pub use calls::{CallId, in_call};
pub use content::{WriteAt, Written};
pub use directories::ListedEntry;
pub use error::ClientError;
pub use extended::SetXattr;
pub use files::{FileHandle, MAX_OPEN_FILES, Old};
pub use names::{Entry, New, OpenFlags, Owner};
pub use plan::MAX_EXTENT_BYTES;
pub use record::RecordError;
pub use space::{Allocation, Place};

use crate::data::DataPartition;
use crate::ids::Ino;
use crate::meta::{MetaSession, MetaTrees};
use commands::Commands;
use files::Files;
use locks::Locks;
use orphans::Dropped;
use times::UntoldTimes;

/// For how long a mount may use a name without asking, while it is the only one of its volume.
pub const NAMES_VALID: Duration = Duration::from_secs(1);

/// A client that is not the only one waits for so long before it changes anything: until then no other uses names that it was told as the only one. The answers
/// to it may have come late.
const OTHERS_LEARN: Duration = Duration::from_secs(2);

/// How a session begins.
#[derive(Debug, Default)]
pub struct Opening {
    /// An empty file for the record of the session, from which another process can go on.
    pub record: Option<File>,
    /// It is refused while another session uses the volume, and keeps others out as long as it lives.
    pub is_exclusive: bool,
}

/// Whether the kernel of a mount has an inode.
pub type Refers = Box<dyn Fn(Ino) -> bool + Send + Sync>;

/// One user of a volume: a mount.
pub struct Client {
    commands: Commands,
    data: Arc<dyn DataPartition>,
    files: Files,
    locks: Locks,
    refers: OnceLock<Refers>,
    dropped: Dropped,
    untold: UntoldTimes,
}

impl Client {
    /// Begins a session at a volume's partitions, which ends with this process.
    pub async fn connect(meta: Arc<dyn MetaTrees>, data: Arc<dyn DataPartition>, env: Env) -> Result<Arc<Client>, ClientError> {
        Client::connect_as(meta, data, env, Opening::default()).await
    }

    /// As [`Client::connect`], with more to say of the session.
    pub async fn connect_as(
        meta: Arc<dyn MetaTrees>,
        data: Arc<dyn DataPartition>,
        env: Env,
        opening: Opening,
    ) -> Result<Arc<Client>, ClientError> {
        Ok(Client::with(Commands::open(meta, env, opening).await?, data, Files::default(), Locks::default()))
    }

    /// Goes on with the session of a process that has ended. [`Client::ask_kernel`] comes before the first call.
    pub fn resume(
        meta: Arc<dyn MetaTrees>,
        data: Arc<dyn DataPartition>,
        env: Env,
        record: File,
    ) -> Result<Arc<Client>, RecordError> {
        let (commands, generation) = Commands::resume(meta, env, record)?;
        // The kernel has the locks of an exclusive client.
        let locks = if commands.is_exclusive() { Locks::default() } else { Locks::taken_over(commands.trees()) };
        Ok(Client::with(commands, data, Files::taken_over(generation), locks))
    }

    fn with(commands: Commands, data: Arc<dyn DataPartition>, files: Files, locks: Locks) -> Arc<Client> {
        let (refers, dropped, untold) = (OnceLock::new(), Dropped::default(), UntoldTimes::default());
        Arc::new(Client { commands, data, files, locks, refers, dropped, untold })
    }

    pub fn env(&self) -> &Env {
        self.commands.env()
    }

    /// How a client that was resumed learns whether the kernel has an inode. Until it is told, and where the answer is true, an inode counts as open.
    pub fn ask_kernel(&self, refers: Refers) {
        if self.refers.set(refers).is_err() {
            tracing::debug!("a mount has one kernel: it was named before");
        }
    }

    fn kernel_refers(&self, ino: Ino) -> bool {
        self.refers.get().is_none_or(|refers| refers(ino))
    }

    /// Waits until all that was answered is durable: with class `ordered` changes of names and attributes may not be.
    pub async fn settle(&self) -> Result<(), ClientError> {
        self.commands.settle().await
    }

    /// The record of the session, if it has one: for a process that keeps it.
    pub fn record(&self) -> Option<&File> {
        self.commands.record()
    }

    /// The kernel has the answer to a call: it does not make it again.
    pub fn answered(&self, call: CallId) {
        self.commands.answered(call);
    }

    /// Whether a tree has ended the session: every change fails from then on.
    pub fn has_ended(&self) -> bool {
        self.commands.has_ended()
    }

    pub fn session(&self) -> MetaSession {
        self.commands.session()
    }

    /// Whether no other session uses the volume as long as this one lives.
    pub fn is_exclusive(&self) -> bool {
        self.commands.is_exclusive()
    }

    /// Ends a session whose process is gone and has left no record. Ending again has no effect.
    pub async fn end_session(meta: Arc<dyn MetaTrees>, env: Env, session: MetaSession) -> Result<(), ClientError> {
        Commands::of_session(meta, env, session).close_known().await
    }

    /// Ends the session: files without names that it had open are freed. Later calls fail.
    pub async fn close(&self) -> Result<(), ClientError> {
        let told = self.tell_all_times().await;
        self.commands.close().await?;
        told
    }
}

#[cfg(test)]
mod tests;
