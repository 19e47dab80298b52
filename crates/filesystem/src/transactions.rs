//! Carries out commands that concern several trees: the leader of the tree that decides has parts prepared in the others, decides, and tells them
//! (docs/rfd/0031). The trees are behind [`Trees`]: this module knows no network and no log.
//!
//! ```text
//!   carry_out ─► Ended, for the client
//!           └──► Rest ─► conclude: the others are told ─► it can be forgotten
//! ```
//!
//! | lost | what happens |
//! |---|---|
//! | a tree does not answer | nothing is decided; parts that are held ready are dropped |
//! | the leader that decides, before | the others ask its tree ([`settle`]), which refuses |
//! | the leader that decides, after | the next one tells the others ([`tell`]), or they ask |
//! | the leader of another tree | its next one has the parts in its log |

use crate::ids::{Ino, TreeIndex};
use crate::meta::{Answer, Command, Done, Envelope, Found, MetaError, Move, Part, Prepared, Query, Reply, Time, TransactionId};

/// Most trees that a way from a directory to the root changes between: a path is deeper only if it was made step by step.
const MAX_CHANGES_OF_TREE: usize = 1 << 16;

/// The trees of a volume, as the leader of one of them sees them.
pub trait Trees: Sync {
    /// What a command needs in other trees, as this tree is now.
    fn parts(&self, command: &Command, new_directory: TreeIndex, prepared: &[Prepared]) -> Result<Vec<Part>, MetaError>;

    /// Whether this tree has noted a transaction of its own as done, as far as this member knows.
    fn is_decided(&self, id: TransactionId) -> bool;

    /// Puts an envelope into this tree's log. The error says that it may have been carried out.
    fn propose(&self, envelope: Envelope) -> impl Future<Output = Result<Reply, String>> + Send;

    /// Has a leader's command carried out by a tree, which may be this one. The error says that it may have been.
    fn order(&self, tree: TreeIndex, now: Time, command: Command) -> impl Future<Output = Result<Reply, String>> + Send;

    fn query(&self, tree: TreeIndex, query: Query) -> impl Future<Output = Result<Answer, String>> + Send;
}

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    Reply(Reply),
    /// Nothing was done, or it may have been: the same envelope can be sent again.
    Again(String),
    /// This tree does it alone.
    Alone,
}

/// What is left of a transaction whose command has ended: trees that may hold parts ready.
#[derive(Debug)]
pub struct Rest {
    id: TransactionId,
    now: Time,
    touched: Vec<TreeIndex>,
    /// None: it is not known whether it is done. The others ask.
    is_done: Option<bool>,
}

impl Rest {
    /// Tells the others; whether the transaction is done and all know it, so that it can be forgotten.
    pub async fn conclude<T: Trees>(self, trees: &T) -> bool {
        let Some(is_done) = self.is_done else { return false };
        tell(trees, self.id, &self.touched, self.now, is_done).await && is_done
    }
}

/// A transaction on its way.
struct Transaction<'a, T> {
    trees: &'a T,
    envelope: &'a Envelope,
    new_directory: TreeIndex,
    prepared: Vec<Prepared>,
    rest: Rest,
}

/// Carries out a client's command as this transaction. `new_directory`: which tree is to have a directory that is made.
pub async fn carry_out<T: Trees>(trees: &T, id: TransactionId, envelope: &Envelope, new_directory: TreeIndex) -> (Ended, Rest) {
    let rest = Rest { id, now: envelope.now, touched: Vec::new(), is_done: Some(false) };
    let mut transaction = Transaction { trees, envelope, new_directory, prepared: Vec::new(), rest };
    let ended = transaction.run().await;
    (ended, transaction.rest)
}

impl<T: Trees> Transaction<'_, T> {
    async fn run(&mut self) -> Ended {
        loop {
            let parts = match self.trees.parts(&self.envelope.command, self.new_directory, &self.prepared) {
                Ok(parts) => parts,
                Err(error) => return self.refused(error).await,
            };
            if parts.is_empty() && self.prepared.is_empty() {
                return Ended::Alone;
            }
            if self.prepared.iter().any(|prepared| !parts.contains(&prepared.part)) {
                return Ended::Again("what it is about has changed meanwhile".to_owned());
            }
            let is_prepared = |part: &&Part| self.prepared.iter().any(|prepared| prepared.part == **part);
            let Some(part) = parts.iter().find(|part| !is_prepared(part)).cloned() else { return self.decide().await };
            if let Err(ended) = self.prepare(part).await {
                return ended;
            }
        }
    }

    async fn prepare(&mut self, part: Part) -> Result<(), Ended> {
        let tree = part.tree();
        if !self.rest.touched.contains(&tree) {
            self.rest.touched.push(tree);
        }
        let command = Command::Prepare { id: self.rest.id, part: part.clone() };
        let answer = match self.trees.order(tree, self.envelope.now, command).await.map_err(Ended::Again)? {
            Ok(Done::Part(answer)) => answer,
            Ok(other) => return Err(Ended::Again(format!("a tree has answered a part with {other:?}"))),
            Err(error) => return Err(self.refused(error).await),
        };
        if let Part::MoveLock { moves } = &part {
            // From here until it is decided no other directory comes to another parent.
            for by in moves {
                self.check_not_below(by).await?;
            }
        }
        self.prepared.push(Prepared { part, answer });
        Ok(())
    }

    /// A directory is not moved into itself or below.
    async fn check_not_below(&self, Move { directory, to }: &Move) -> Result<(), Ended> {
        let mut at = *to;
        for _ in 0..MAX_CHANGES_OF_TREE {
            if at == *directory {
                return Err(self.refused(MetaError::Below).await);
            }
            if at == Ino::ROOT {
                return Ok(());
            }
            let query = Query::Ancestors { ino: at, by: self.rest.id };
            let chain = match self.trees.query(at.tree(), query).await.map_err(Ended::Again)? {
                Ok(Found::Inos(chain)) => chain,
                Ok(other) => return Err(Ended::Again(format!("directories are {other:?}"))),
                Err(error) => return Err(self.refused(error).await),
            };
            if chain.contains(directory) {
                return Err(self.refused(MetaError::Below).await);
            }
            at = chain.last().copied().unwrap_or(Ino::ROOT);
        }
        Err(Ended::Again("the directory is too deep".to_owned()))
    }

    /// It has no effect. The reply is remembered: a copy of the command that comes late has none either.
    async fn refused(&self, error: MetaError) -> Ended {
        let reply = match error {
            MetaError::Busy | MetaError::Across => return Ended::Again(HELD.to_owned()),
            // Two names of one inode: nothing is done.
            MetaError::SameInode => Ok(Done::Renamed(None)),
            error => Err(error),
        };
        let envelope = Envelope { command: Command::Remember { reply }, ..self.envelope.clone() };
        self.trees.propose(envelope).await.map_or_else(Ended::Again, Ended::Reply)
    }

    async fn decide(&mut self) -> Ended {
        let command = Box::new(self.envelope.command.clone());
        let command = Command::Decide { id: self.rest.id, command, prepared: self.prepared.clone() };
        let proposed = self.trees.propose(Envelope { command, ..self.envelope.clone() }).await;
        self.rest.is_done = proposed.is_ok().then(|| self.trees.is_decided(self.rest.id));
        match proposed {
            Ok(Err(MetaError::Busy | MetaError::Across)) => Ended::Again(HELD.to_owned()),
            Ok(reply) => Ended::Reply(reply),
            Err(reason) => Ended::Again(reason),
        }
    }
}

/// Why a command is sent again that meets a transaction.
pub const HELD: &str = "a transaction holds what it is about";

/// Tells trees how a transaction of this one ended; whether all know it then.
pub async fn tell<T: Trees>(trees: &T, id: TransactionId, others: &[TreeIndex], now: Time, is_done: bool) -> bool {
    let mut is_known = true;
    for tree in others {
        let told = trees.order(*tree, now, Command::Conclude { id, is_done }).await;
        is_known &= matches!(told, Ok(Ok(_)));
    }
    is_known
}

/// What a tree, `here`, has of the transactions of another one.
#[derive(Clone, Debug, Default)]
pub struct Traces {
    /// Parts of these are held ready for long.
    pub held: Vec<TransactionId>,
    /// The first of those that have taken effect.
    pub first_over: Option<TransactionId>,
    /// The last one that is known for long, of both kinds.
    pub last_old: Option<TransactionId>,
}

/// Asks a tree how its transactions ended, and has them end here, too.
pub async fn settle<T: Trees>(trees: &T, here: TreeIndex, tree: TreeIndex, traces: Traces, now: Time) -> Result<(), String> {
    let order = async |tree, command| trees.order(tree, now, command).await?.map_err(|error| error.to_string());
    if let Some(id) = traces.last_old {
        // From here on the answer does not change, but for being forgotten when this tree has said that it knows.
        order(tree, Command::Refuse { id }).await?;
    }
    let (done, over_below) = match trees.query(tree, Query::Decided { ids: traces.held.clone() }).await? {
        Ok(Found::Decided { ids, over_below }) => (ids, over_below),
        other => return Err(format!("transactions are {other:?}")),
    };
    for id in traces.held {
        order(here, Command::Conclude { id, is_done: done.contains(&id) }).await?;
    }
    if traces.first_over.is_some_and(|first| first.number() < over_below) {
        order(here, Command::Passed { tree, below: over_below }).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
