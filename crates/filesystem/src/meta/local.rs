//! Trees in this process's memory, which nothing replicates: for tests and checks.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use net::BoxFuture;
use parking_lot::Mutex;

use super::{
    Answer, Command, Envelope, Kind, Machine, MetaCallError, MetaError, MetaPartition, MetaSession, MetaTrees, Part, Prepared,
    Query, Reply, Time, TransactionId,
};
use crate::ids::TreeIndex;
use crate::transactions::{self, Ended};

/// How often a command is tried that meets transactions. Each of those ends within some steps.
const MOST_TRIES: u32 = 10_000;

/// A machine behind a lock.
#[derive(Default)]
pub struct LocalPartition(pub Mutex<Machine>);

impl MetaPartition for LocalPartition {
    fn command(&self, envelope: Envelope) -> BoxFuture<'_, Result<Reply, MetaCallError>> {
        let reply = self.0.lock().carry_out(&envelope);
        Box::pin(std::future::ready(Ok(reply)))
    }

    fn query(&self, query: Query) -> BoxFuture<'_, Result<Answer, MetaCallError>> {
        let answer = self.0.lock().query(&query);
        Box::pin(std::future::ready(Ok(answer)))
    }
}

/// The trees of a volume. New directories go to each of them in turn.
pub struct LocalTrees {
    trees: Mutex<Vec<Arc<LocalPartition>>>,
    /// Held by the transaction that is under way; how many there were.
    driving: tokio::sync::Mutex<u64>,
    /// Chooses trees for new directories.
    made: AtomicU64,
}

impl LocalTrees {
    pub fn new(count: u16) -> LocalTrees {
        let trees = LocalTrees { trees: Mutex::default(), driving: tokio::sync::Mutex::default(), made: AtomicU64::new(1) };
        (0..count).for_each(|_| trees.add());
        trees
    }

    /// The volume gets another one.
    pub fn add(&self) {
        let mut trees = self.trees.lock();
        let machine = Machine::of_tree(TreeIndex(trees.len() as u16));
        trees.push(Arc::new(LocalPartition(Mutex::new(machine))));
    }

    pub fn all(&self) -> Vec<Arc<LocalPartition>> {
        self.trees.lock().clone()
    }

    fn tree(&self, tree: TreeIndex) -> Arc<LocalPartition> {
        self.trees.lock()[usize::from(tree.0)].clone()
    }

    /// As the leader of a tree does it: what is busy is tried again.
    async fn carry_out(&self, tree: TreeIndex, envelope: &Envelope) -> Reply {
        let machine = self.tree(tree);
        let new_directory = match &envelope.command {
            Command::Make { new, .. } if new.kind == Kind::Directory => {
                let turn = self.made.fetch_add(1, Ordering::Relaxed) % self.trees.lock().len() as u64;
                TreeIndex(turn as u16)
            }
            _ => tree,
        };
        for _ in 0..MOST_TRIES {
            let parts = {
                let machine = machine.0.lock();
                if let Some(reply) = machine.earlier_reply(envelope.session, envelope.sequence) {
                    return reply;
                }
                machine.parts(&envelope.command, new_directory, &[])
            };
            let ended = match parts {
                Ok(parts) if parts.is_empty() => Ended::Alone,
                _ => self.drive(tree, envelope, new_directory).await,
            };
            match ended {
                Ended::Reply(reply) => return reply,
                Ended::Alone => match machine.0.lock().carry_out(envelope) {
                    Err(MetaError::Busy | MetaError::Across) => {}
                    reply => return reply,
                },
                Ended::Again(_) => {}
            }
            tokio::task::yield_now().await;
        }
        panic!("what is in the way of {envelope:?} does not end")
    }

    /// Carries out a transaction, the only one that is under way.
    async fn drive(&self, tree: TreeIndex, envelope: &Envelope, new_directory: TreeIndex) -> Ended {
        let mut number = self.driving.lock().await;
        let (here, id) = (Here { all: self, tree }, TransactionId { tree, reign: 0, number: *number });
        *number += 1;
        let (ended, rest) = transactions::carry_out(&here, id, envelope, new_directory).await;
        let below = (0, *number);
        let ids = if rest.conclude(&here).await { vec![id] } else { Vec::new() };
        let leave = |partition: &LocalPartition, command| {
            let left = partition.0.lock().carry_out(&of_leader(envelope.now, command));
            assert!(left.is_ok(), "{left:?}");
        };
        leave(&self.tree(tree), Command::Forget { ids, below });
        // The deciding tree may have had parts, too.
        self.all().iter().for_each(|partition| leave(partition, Command::Passed { tree, below }));
        ended
    }
}

fn of_leader(now: Time, command: Command) -> Envelope {
    Envelope { session: MetaSession::LEADER, sequence: 0, answered_below: 0, now, locks_lost: 0, command }
}

impl MetaTrees for LocalTrees {
    fn count(&self) -> u16 {
        self.trees.lock().len() as u16
    }

    fn command_at(&self, tree: TreeIndex, envelope: Envelope) -> BoxFuture<'_, Result<Reply, MetaCallError>> {
        Box::pin(async move { Ok(self.carry_out(tree, &envelope).await) })
    }

    fn query_at(&self, tree: TreeIndex, query: Query) -> BoxFuture<'_, Result<Answer, MetaCallError>> {
        Box::pin(async move {
            let tree = self.tree(tree);
            loop {
                let answer = tree.0.lock().query(&query);
                match answer {
                    Err(MetaError::Busy) => tokio::task::yield_now().await,
                    answer => return Ok(answer),
                }
            }
        })
    }
}

/// The trees as the leader of one sees them.
struct Here<'a> {
    all: &'a LocalTrees,
    tree: TreeIndex,
}

impl transactions::Trees for Here<'_> {
    fn parts(&self, command: &Command, new_directory: TreeIndex, prepared: &[Prepared]) -> Result<Vec<Part>, MetaError> {
        self.all.tree(self.tree).0.lock().parts(command, new_directory, prepared)
    }

    fn is_decided(&self, id: TransactionId) -> bool {
        self.all.tree(self.tree).0.lock().is_decided(id)
    }

    async fn propose(&self, envelope: Envelope) -> Result<Reply, String> {
        // Others have their turn between the steps.
        tokio::task::yield_now().await;
        Ok(self.all.tree(self.tree).0.lock().carry_out(&envelope))
    }

    async fn order(&self, tree: TreeIndex, now: Time, command: Command) -> Result<Reply, String> {
        Here { all: self.all, tree }.propose(of_leader(now, command)).await
    }

    async fn query(&self, tree: TreeIndex, query: Query) -> Result<Answer, String> {
        Ok(self.all.tree(tree).0.lock().query(&query))
    }
}
