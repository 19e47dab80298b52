//! Commands and questions on their way to the meta partition.
//!
//! | what | limit | beyond it |
//! |---|---|---|
//! | commands under way | [`MAX_COMMANDS`] | they wait |
//! | sendings of one command | [`MAX_SENDINGS`] | the error of the last |

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use env::Env;
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use super::ClientError;
use crate::ids::Ino;
use crate::meta::{Attributes, Command, Done, Envelope, Found, MetaError, MetaPartition, MetaSession, Query, Time};

/// Commands of one session that are under way at once. Far below the replies that a meta partition remembers: an old command may be waited for meanwhile.
pub const MAX_COMMANDS: usize = 1024;

/// How often a command is sent, with the same sequence, when nothing answers. The way to the partition looks for its leader by itself.
pub const MAX_SENDINGS: u32 = 2;

/// A session at one meta partition.
pub struct Commands {
    meta: Arc<dyn MetaPartition>,
    env: Env,
    session: MetaSession,
    permits: Semaphore,
    sequences: Mutex<Sequences>,
    locks_lost: AtomicU64,
}

#[derive(Debug, Default)]
struct Sequences {
    last: u64,
    under_way: BTreeSet<u64>,
}

/// A sequence that is under way until it is dropped.
struct Sequence<'a> {
    number: u64,
    of: &'a Mutex<Sequences>,
}

impl Drop for Sequence<'_> {
    fn drop(&mut self) {
        self.of.lock().under_way.remove(&self.number);
    }
}

impl Commands {
    pub async fn open(meta: Arc<dyn MetaPartition>, env: Env) -> Result<Self, ClientError> {
        let session = MetaSession(env.random_u64());
        let sequences = Mutex::new(Sequences::default());
        let commands =
            Commands { meta, env, session, permits: Semaphore::new(MAX_COMMANDS), sequences, locks_lost: AtomicU64::new(0) };
        commands.send(Command::OpenSession).await?;
        Ok(commands)
    }

    /// Closing again has no effect.
    pub async fn close(&self) -> Result<(), ClientError> {
        match self.send(Command::CloseSession).await {
            Ok(_) | Err(ClientError::Meta(MetaError::NoSession)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    pub fn env(&self) -> &Env {
        &self.env
    }

    pub fn session(&self) -> MetaSession {
        self.session
    }

    /// How often the tree has taken the session's locks, as far as is known.
    pub fn locks_lost(&self) -> u64 {
        self.locks_lost.load(Ordering::Acquire)
    }

    /// Whether the tree has taken them once more.
    pub fn hear_of_locks(&self, locks_lost: u64) -> bool {
        self.locks_lost.fetch_max(locks_lost, Ordering::AcqRel) < locks_lost
    }

    /// Has a command carried out once, however often it is sent.
    pub async fn send(&self, command: Command) -> Result<Done, ClientError> {
        let _permit = self.permits.acquire().await.map_err(|_| MetaError::NoSession)?;
        let sequence = self.begin();
        let envelope = Envelope {
            session: self.session,
            sequence: sequence.number,
            answered_below: self.answered_below(),
            now: self.now(),
            locks_lost: self.locks_lost(),
            command,
        };
        let mut sendings = 1;
        loop {
            match self.meta.command(envelope.clone()).await {
                Ok(reply) => return Ok(reply?),
                Err(error) if sendings >= MAX_SENDINGS => return Err(error.into()),
                Err(error) => tracing::debug!(%error, sequence = sequence.number, "a command is sent again"),
            }
            sendings += 1;
        }
    }

    /// As [`Commands::send`], for a command that answers with the inode.
    pub async fn send_for_inode(&self, command: Command) -> Result<Attributes, ClientError> {
        match self.send(command).await? {
            Done::Inode(attributes) => Ok(attributes),
            other => Err(ClientError::unexpected(&other)),
        }
    }

    pub async fn ask(&self, query: Query) -> Result<Found, ClientError> {
        Ok(self.meta.query(query).await??)
    }

    /// As [`Commands::ask`], for a question that an inode answers.
    pub async fn ask_for_inode(&self, query: Query) -> Result<Attributes, ClientError> {
        match self.ask(query).await? {
            Found::Inode(attributes) => Ok(attributes),
            other => Err(ClientError::unexpected(&other)),
        }
    }

    pub async fn inode(&self, ino: Ino) -> Result<Attributes, ClientError> {
        self.ask_for_inode(Query::Inode { ino }).await
    }

    fn begin(&self) -> Sequence<'_> {
        let mut sequences = self.sequences.lock();
        sequences.last += 1;
        let number = sequences.last;
        sequences.under_way.insert(number);
        Sequence { number, of: &self.sequences }
    }

    fn answered_below(&self) -> u64 {
        let sequences = self.sequences.lock();
        sequences.under_way.first().copied().unwrap_or(sequences.last + 1)
    }

    fn now(&self) -> Time {
        let micros = self.env.wall_clock_us();
        Time { seconds: (micros / 1_000_000) as i64, nanos: (micros % 1_000_000 * 1_000) as u32 }
    }
}
