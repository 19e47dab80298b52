//! Commands and questions on their way to the trees of the volume.
//!
//! | what | limit | beyond it |
//! |---|---|---|
//! | commands under way | [`MAX_COMMANDS`] | they wait |
//! | sendings of one command | [`MAX_SENDINGS`] | the error of the last |

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};

use env::Env;
use tokio::sync::{Mutex, Semaphore};

use super::calls::{CallId, Calls, kind_of, step_of};
use super::record::RecordError;
use super::routes::{tree_asked, tree_of};
use super::{ClientError, Opening};
use crate::ids::{Ino, TreeIndex};
use crate::meta::{Attributes, Command, Done, Envelope, Found, MetaError, MetaSession, MetaTrees, Query, Time};

/// Commands of one session that are under way at once. Far below the replies that a meta partition remembers: an old command may be waited for meanwhile.
pub const MAX_COMMANDS: usize = 1024;

/// How often a command is sent, with the same sequence, when nothing answers. The way to the partition looks for its leader by itself.
pub const MAX_SENDINGS: u32 = 2;

/// A session at the trees of a volume.
pub struct Commands {
    meta: Arc<dyn MetaTrees>,
    env: Env,
    session: MetaSession,
    is_exclusive: bool,
    permits: Semaphore,
    calls: Calls,
    has_ended: AtomicBool,
    /// At how many trees the session was begun.
    opened: AtomicU16,
    /// Held while it is begun at further ones.
    pub(super) opening: Mutex<()>,
}

impl Commands {
    /// Begins a session; with a record, one that can go on in another process.
    pub async fn open(meta: Arc<dyn MetaTrees>, env: Env, opening: Opening) -> Result<Self, ClientError> {
        let (session, is_exclusive) = (MetaSession(env.random_u64()), opening.is_exclusive);
        let calls = match opening.record {
            Some(record) => Calls::begin(record, session.0, is_exclusive)?,
            None => Calls::unrecorded(),
        };
        let commands = Commands::with(meta, env, (session, is_exclusive), calls);
        commands.begin().await?;
        Ok(commands)
    }

    /// Of a session that others have begun, to end it.
    pub fn of_session(meta: Arc<dyn MetaTrees>, env: Env, session: MetaSession) -> Self {
        Commands::with(meta, env, (session, false), Calls::unrecorded())
    }

    /// Goes on with the session of an earlier process, and says how many processes had it. Nothing is asked of the trees: they may not answer yet.
    pub fn resume(meta: Arc<dyn MetaTrees>, env: Env, record: File) -> Result<(Self, u64), RecordError> {
        let (calls, header) = Calls::resume(record)?;
        Ok((Commands::with(meta, env, (MetaSession(header.session), header.is_exclusive), calls), header.generation))
    }

    fn with(meta: Arc<dyn MetaTrees>, env: Env, (session, is_exclusive): (MetaSession, bool), calls: Calls) -> Self {
        let (permits, opened) = (Semaphore::new(MAX_COMMANDS), AtomicU16::new(calls.trees()));
        let (has_ended, opening) = (AtomicBool::new(false), Mutex::default());
        Commands { meta, env, session, is_exclusive, permits, calls, has_ended, opened, opening }
    }

    /// How many trees the volume has, as far as is known here.
    pub fn count(&self) -> u16 {
        self.meta.count()
    }

    /// At how many trees the session was begun.
    pub fn opened(&self) -> u16 {
        self.opened.load(Ordering::Acquire)
    }

    /// The trees at which it was begun.
    pub fn trees(&self) -> impl Iterator<Item = TreeIndex> + use<> {
        (0..self.opened()).map(TreeIndex)
    }

    /// The session was begun at so many trees.
    pub(super) fn note_opened(&self, count: u16) -> Result<(), ClientError> {
        self.calls.note_trees(count)?;
        self.opened.store(count, Ordering::Release);
        Ok(())
    }

    pub fn env(&self) -> &Env {
        &self.env
    }

    pub fn session(&self) -> MetaSession {
        self.session
    }

    /// Whether the session keeps others out.
    pub fn is_exclusive(&self) -> bool {
        self.is_exclusive
    }

    /// How often a tree has taken the session's locks, as far as is known.
    pub fn locks_lost(&self, tree: TreeIndex) -> u64 {
        self.calls.locks_lost(tree)
    }

    /// Whether the tree has taken them once more.
    pub fn hear_of_locks(&self, tree: TreeIndex, locks_lost: u64, some_were_held: bool) -> bool {
        self.calls.hear_of_locks(tree, locks_lost, some_were_held)
    }

    /// The record of the session, for the process that keeps it.
    pub fn record(&self) -> Option<&File> {
        self.calls.file()
    }

    /// The kernel has the answer to a call.
    pub fn answered(&self, call: CallId) {
        self.calls.answered(call);
    }

    /// Whether the session can't go on: a tree has said that it is not open, or has taken locks of which this process knows too little.
    pub fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Relaxed)
    }

    pub fn end(&self) {
        self.has_ended.store(true, Ordering::Relaxed);
    }

    /// Has a command carried out once, however often it is sent, and in however many processes the call at hand is carried out.
    pub async fn send(&self, command: Command) -> Result<Done, ClientError> {
        let _permit = self.permits.acquire().await.map_err(|_| MetaError::NoSession)?;
        let tree = tree_of(&command);
        self.reach(tree).await?;
        let sequence = self.calls.sequence(step_of(&command))?;
        self.send_as(tree, sequence.number, command).await
    }

    /// Waits until all that the trees have answered is durable.
    pub async fn settle(&self) -> Result<(), ClientError> {
        Ok(self.meta.settle().await?)
    }

    /// Whether an earlier process has sent commands of the call at hand.
    pub fn is_again(&self) -> bool {
        self.calls.is_again()
    }

    /// What an earlier process got for the last command of the call at hand that is of the kind of `like` and about the same inode, if that was carried out. Where it was not, it never
    /// will be, and the next one of its kind is a new command.
    pub async fn earlier_reply(&self, like: &Command) -> Result<Option<Done>, ClientError> {
        let kind = kind_of(like);
        let Some(sequence) = self.calls.earlier(kind) else { return Ok(None) };
        let tree = tree_of(like);
        // Where that tree has no reply to this sequence, this command has it from now on.
        match self.send_as(tree, sequence.number, Command::NotOpen { inos: vec![tree.no_ino()] }).await {
            Ok(Done::Done) | Err(ClientError::Meta(MetaError::Changed | MetaError::Locked)) => {
                self.calls.forget_steps(kind).map(|()| None)
            }
            other => other.map(Some),
        }
    }

    /// Calls that are recorded.
    #[cfg(test)]
    pub fn calls_kept(&self) -> usize {
        self.calls.kept()
    }

    pub(super) async fn send_as(&self, tree: TreeIndex, sequence: u64, command: Command) -> Result<Done, ClientError> {
        let envelope = Envelope {
            session: self.session,
            sequence,
            answered_below: self.calls.answered_below(),
            now: self.now(),
            locks_lost: self.locks_lost(tree),
            command,
        };
        let mut sendings = 1;
        loop {
            match self.meta.command_at(tree, envelope.clone()).await {
                Ok(reply) => {
                    return self.heard(reply);
                }
                Err(error) if sendings >= MAX_SENDINGS => return Err(error.into()),
                Err(error) => {
                    env::mark("files: a command sent again");
                    tracing::debug!(%error, sequence, "a command is sent again");
                }
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

    /// Asks the tree that has what the question is about.
    pub async fn ask(&self, query: Query) -> Result<Found, ClientError> {
        self.ask_at(tree_asked(&query), query).await
    }

    pub async fn ask_at(&self, tree: TreeIndex, query: Query) -> Result<Found, ClientError> {
        self.reach(tree).await?;
        self.heard(self.meta.query_at(tree, query).await?)
    }

    fn heard<T>(&self, answer: Result<T, MetaError>) -> Result<T, ClientError> {
        if matches!(answer, Err(MetaError::NoSession)) {
            self.end();
        }
        Ok(answer?)
    }

    pub async fn inode(&self, ino: Ino) -> Result<Attributes, ClientError> {
        match self.ask(Query::Inode { ino }).await? {
            Found::Inode(attributes) => Ok(attributes),
            other => Err(ClientError::unexpected(&other)),
        }
    }

    fn now(&self) -> Time {
        let micros = self.env.wall_clock_us();
        Time { seconds: (micros / 1_000_000) as i64, nanos: (micros % 1_000_000 * 1_000) as u32 }
    }
}
