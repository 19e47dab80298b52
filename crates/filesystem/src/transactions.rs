//! Carries out commands that concern several trees: the leader of the tree that decides has parts prepared in the others, decides, and tells them
//! (docs/rfd/0031). The trees are behind [`Trees`]: this module knows no network and no log.
//!
//! | lost | what happens |
//! |---|---|
//! | a tree does not answer | nothing is decided; parts that are held ready are dropped |
//! | the leader that decides, before | the others ask its tree ([`settle`]), which refuses |
//! | the leader that decides, after | the next one tells the others ([`tell`]), or they ask |
//! | the leader of another tree | its next one has the parts in its log |

use crate::ids::{Ino, TreeIndex};
use crate::meta::{
    Answer, Command, Done, Envelope, Found, MetaError, Part, PartAnswer, Prepared, Query, RenameHow, Reply, Time, TransactionId,
};

/// Most directories that one is below: a path is longer only if it was made step by step.
const MAX_DEPTH: usize = 1 << 20;

/// The trees of a volume, as the leader of one of them sees them.
pub trait Trees {
    /// What a command needs in other trees, as this tree is now.
    fn parts(&self, command: &Command, new_directory: TreeIndex, prepared: &[Prepared]) -> Result<Vec<Part>, MetaError>;

    /// Puts an envelope into this tree's log. The error says that it may have been carried out.
    fn propose(&self, envelope: Envelope) -> impl Future<Output = Result<Reply, String>> + Send;

    /// Whether this tree has noted a transaction of its own as done.
    fn is_decided(&self, id: TransactionId) -> impl Future<Output = Result<bool, String>> + Send;

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

/// A transaction on its way.
struct Transaction<'a, T> {
    trees: &'a T,
    id: TransactionId,
    envelope: &'a Envelope,
    new_directory: TreeIndex,
    prepared: Vec<Prepared>,
    /// Trees that may hold parts ready.
    touched: Vec<TreeIndex>,
}

/// Carries out a client's command as this transaction. `new_directory`: which tree is to have a directory that is made.
pub async fn carry_out<T: Trees>(trees: &T, id: TransactionId, envelope: &Envelope, new_directory: TreeIndex) -> Ended {
    let (prepared, touched) = (Vec::new(), Vec::new());
    let mut transaction = Transaction { trees, id, envelope, new_directory, prepared, touched };
    let ended = transaction.run().await;
    // Where it is not known, the others ask.
    if let Ok(is_done) = trees.is_decided(id).await
        && (is_done || transaction.is_surely_undone(&ended))
    {
        let is_known = tell(trees, id, &transaction.touched, envelope.now, is_done).await;
        if is_done && is_known {
            forget(trees, vec![id], envelope.now).await;
        }
    }
    ended
}

impl<T: Trees> Transaction<'_, T> {
    /// This is the only one that would decide it: where that was refused, or not asked for, it will not be.
    fn is_surely_undone(&self, ended: &Ended) -> bool {
        !matches!(ended, Ended::Again(reason) if reason == UNKNOWN)
    }

    async fn run(&mut self) -> Ended {
        loop {
            let parts = match self.trees.parts(&self.envelope.command, self.new_directory, &self.prepared) {
                Ok(parts) => parts,
                Err(error) => return ended(error),
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
        if !self.touched.contains(&tree) {
            self.touched.push(tree);
        }
        let command = Command::Prepare { id: self.id, part: part.clone() };
        let answer = match self.trees.order(tree, self.envelope.now, command).await.map_err(Ended::Again)? {
            Ok(Done::Part(answer)) => answer,
            Ok(other) => return Err(Ended::Again(format!("a tree has answered a part with {other:?}"))),
            Err(error) => return Err(ended(error)),
        };
        let is_lock = part == Part::MoveLock;
        self.prepared.push(Prepared { part, answer });
        if is_lock { self.check_not_below().await } else { Ok(()) }
    }

    /// A directory is not moved into itself or below. From the lock on until it is decided no directory comes to another parent.
    async fn check_not_below(&self) -> Result<(), Ended> {
        let Command::Rename { from, to, how } = &self.envelope.command else { return Ok(()) };
        if let Some(source) = self.lookup(from).await? {
            self.check_above(source, to.0).await?;
        }
        if *how != RenameHow::Exchange {
            return Ok(());
        }
        match self.lookup(to).await? {
            Some(target) => self.check_above(target, from.0).await,
            None => Ok(()),
        }
    }

    /// What a name of the command means: here, or as the part that holds it says.
    async fn lookup(&self, (parent, name): &(Ino, Vec<u8>)) -> Result<Option<Ino>, Ended> {
        let held = self.prepared.iter().find_map(|prepared| match (&prepared.part, prepared.answer) {
            (Part::PutName { parent: of, name: held, .. }, PartAnswer::Target(target)) if (of, held) == (parent, name) => {
                Some(target.map(|(ino, _)| ino))
            }
            _ => None,
        });
        if let Some(held) = held {
            return Ok(held);
        }
        let query = Query::Place { parent: *parent, name: name.clone() };
        match self.trees.query(parent.tree(), query).await.map_err(Ended::Again)? {
            Ok(Found::Elsewhere(ino)) => Ok(Some(ino)),
            Err(MetaError::NotFound) => Ok(None),
            Ok(other) => Err(Ended::Again(format!("a name is {other:?}"))),
            Err(error) => Err(ended(error)),
        }
    }

    async fn check_above(&self, directory: Ino, below: Ino) -> Result<(), Ended> {
        let mut at = below;
        for _ in 0..MAX_DEPTH {
            if at == directory {
                return Err(Ended::Reply(Err(MetaError::Below)));
            }
            if at == Ino::ROOT {
                return Ok(());
            }
            let chain = match self.trees.query(at.tree(), Query::Ancestors { ino: at }).await.map_err(Ended::Again)? {
                Ok(Found::Inos(chain)) => chain,
                Ok(other) => return Err(Ended::Again(format!("directories are {other:?}"))),
                Err(error) => return Err(ended(error)),
            };
            if chain.contains(&directory) {
                return Err(Ended::Reply(Err(MetaError::Below)));
            }
            at = chain.last().copied().unwrap_or(Ino::ROOT);
        }
        Err(Ended::Again("the directory is too deep".to_owned()))
    }

    async fn decide(&mut self) -> Ended {
        let command = Box::new(self.envelope.command.clone());
        let command = Command::Decide { id: self.id, command, prepared: self.prepared.clone() };
        match self.trees.propose(Envelope { command, ..self.envelope.clone() }).await {
            Ok(Err(MetaError::Busy | MetaError::Across)) => Ended::Again("a transaction holds it".to_owned()),
            Ok(reply) => Ended::Reply(reply),
            Err(_) => Ended::Again(UNKNOWN.to_owned()),
        }
    }
}

const UNKNOWN: &str = "whether it was decided is not known";

fn ended(error: MetaError) -> Ended {
    match error {
        MetaError::Busy | MetaError::Across => Ended::Again("a transaction holds it".to_owned()),
        // Two names of one inode: nothing is done.
        MetaError::SameInode => Ended::Reply(Ok(Done::Renamed(None))),
        error => Ended::Reply(Err(error)),
    }
}

/// Tells trees how a transaction of this one ended; whether all know it then.
pub async fn tell<T: Trees>(trees: &T, id: TransactionId, others: &[TreeIndex], now: Time, is_done: bool) -> bool {
    let mut is_known = true;
    for tree in others {
        let told = trees.order(*tree, now, Command::Conclude { id, is_done }).await;
        is_known &= matches!(told, Ok(Ok(_)));
    }
    is_known
}

/// All trees know how these transactions of this one ended.
pub async fn forget<T: Trees>(trees: &T, ids: Vec<TransactionId>, now: Time) {
    let Some(tree) = ids.first().map(|id| id.tree) else { return };
    if let Ok(Err(error)) = trees.order(tree, now, Command::Forget { ids }).await {
        tracing::debug!(%error, "transactions are forgotten later");
    }
}

/// Asks the tree of a transaction how it ended, for a part that this tree, `here`, has held ready for long, and has it end here, too.
/// `is_over`: it has taken effect here.
pub async fn settle<T: Trees>(trees: &T, here: TreeIndex, id: TransactionId, is_over: bool, now: Time) -> Result<(), String> {
    if !is_over {
        // From here on the answer does not change, but for being forgotten when this tree has said that it knows.
        trees.order(id.tree, now, Command::Refuse { id }).await?.map_err(|error| error.to_string())?;
    }
    let is_done = match trees.query(id.tree, Query::IsDecided { id }).await? {
        Ok(Found::IsDecided(is_done)) => is_done,
        other => return Err(format!("a transaction is {other:?}")),
    };
    if is_over && is_done {
        return Ok(());
    }
    trees.order(here, now, Command::Conclude { id, is_done }).await?.map(drop).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests;
