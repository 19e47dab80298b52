//! A copy on this node: its store behind its gate.

use std::sync::Arc;
use std::time::Duration;

use env::Env;
use net::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::CopyStore;
use super::ask::{Answer, Ask, Change, ChangeWhat, Copy, CopyError, What};
use super::gate::{Gate, NotAdmitted, Pass};
use super::limits::SUMS;
use crate::data::DataError;

/// How often an enter looks whether the node's member of the group knows the term by now.
const TERM_LOOK: Duration = Duration::from_millis(20);
/// How long it does.
const TERM_PATIENCE: Duration = Duration::from_millis(500);

/// The term that this node's member of the group knows, durably.
pub type KnownTerm = Arc<dyn Fn() -> u64 + Send + Sync>;

/// One partition's copy on a device of this node.
pub struct Keeper {
    env: Env,
    store: Arc<dyn CopyStore>,
    known_term: KnownTerm,
    /// Tells starts of this node apart.
    boot: u64,
    gate: Arc<Mutex<Gate>>,
    /// A request has ended.
    ended: Arc<Notify>,
}

impl Keeper {
    pub fn new(env: &Env, store: Arc<dyn CopyStore>, known_term: KnownTerm) -> Keeper {
        let (gate, ended) = (Arc::default(), Arc::default());
        Keeper { env: env.clone(), store, known_term, boot: env.random_u64(), gate, ended }
    }

    pub fn store(&self) -> &Arc<dyn CopyStore> {
        &self.store
    }

    pub fn boot(&self) -> u64 {
        self.boot
    }

    async fn enter(&self, pass: Pass) -> Result<Answer, CopyError> {
        let until = self.env.now() + TERM_PATIENCE;
        while (self.known_term)() < pass.term && self.env.now() < until {
            self.env.sleep(TERM_LOOK).await;
        }
        self.gate.lock().enter(pass, (self.known_term)()).map_err(CopyError::NotAdmitted)?;
        loop {
            let ended = self.ended.notified();
            if self.gate.lock().is_drained(pass) {
                return Ok(Answer::Entered { boot: self.boot, room: self.store.room() });
            }
            ended.await;
        }
    }

    /// Carries a request out, to its end whether or not it is waited for.
    async fn admitted(&self, pass: Pass, what: What) -> Result<Answer, CopyError> {
        self.gate.lock().admit(pass).map_err(CopyError::NotAdmitted)?;
        let (store, gate, ended) = (self.store.clone(), self.gate.clone(), self.ended.clone());
        let work = self.env.spawn(async move {
            let answer = carry_out(&*store, what).await;
            gate.lock().leave(pass);
            ended.notify_waiters();
            answer
        });
        match work.await {
            Ok(answer) => answer.map_err(CopyError::Data),
            Err(error) => Err(CopyError::Silent(error.to_string())),
        }
    }
}

impl Copy for Keeper {
    fn ask(&self, ask: Ask) -> BoxFuture<'_, Result<Answer, CopyError>> {
        Box::pin(async move {
            match ask.what {
                What::Enter => self.enter(ask.pass).await,
                _ if ask.boot != self.boot => Err(CopyError::NotAdmitted(NotAdmitted::NotEntered)),
                what => self.admitted(ask.pass, what).await,
            }
        })
    }
}

async fn carry_out(store: &dyn CopyStore, what: What) -> Result<Answer, DataError> {
    match what {
        What::Enter => unreachable!("an enter is no request of a session"),
        What::Change(change) => {
            change_store(store, change).await?;
            Ok(Answer::Done { room: store.room() })
        }
        What::Read { extent, offset, len } => store.read(extent, offset, len as usize).await.map(Answer::Content),
        What::Sums { extent, first_block, most } => {
            Ok(Answer::Sums(store.sums(extent, first_block, (most as usize).min(SUMS))))
        }
        What::List { partition, after, most } => Ok(Answer::Extents(store.list(partition, after, most as usize))),
    }
}

/// Makes a change at a store.
async fn change_store(store: &dyn CopyStore, Change { extent, what }: Change) -> Result<(), DataError> {
    match what {
        ChangeWhat::Create { data } => store.create_as(extent, data).await,
        ChangeWhat::Append { offset, data } => store.append(extent, offset, data).await,
        ChangeWhat::Overwrite { offset, data } => store.overwrite(extent, offset, data).await,
        ChangeWhat::Punch { offset, len } => store.punch(extent, offset, len).await,
        ChangeWhat::Remove => store.remove(extent).await,
        ChangeWhat::Cut { len } => store.cut(extent, len).await,
    }
}
