//! The trees of a volume, as the leader of one of them has them.

use std::sync::Arc;
use std::time::Duration;

use manager::FileTreeId;

use super::{Outcome, TreeMember, Trees};
use crate::asking::tree::{LeaderAsk, TreeAnswer};
use crate::ids::TreeIndex;
use crate::meta::{Answer, Command, Envelope, MetaError, Part, Prepared, Query, Reply, Time, TransactionId};
use crate::transactions;

/// How long another tree may take for one order or question. A transaction is given up then, and begun anew.
const PATIENCE: Duration = Duration::from_secs(2);

/// A tree that this node leads, with the ways to the others of its volume.
#[derive(Clone)]
pub struct Siblings {
    pub trees: Arc<Trees>,
    pub member: Arc<TreeMember>,
    /// All of them, by their index.
    all: Arc<[FileTreeId]>,
}

impl Siblings {
    pub fn of(trees: &Arc<Trees>, member: &Arc<TreeMember>) -> Siblings {
        Siblings { trees: trees.clone(), member: member.clone(), all: trees.siblings(member).into() }
    }

    pub fn are_several(&self) -> bool {
        self.all.len() > 1
    }

    /// All trees but the own one.
    pub fn others(&self) -> impl Iterator<Item = TreeIndex> {
        let here = self.member.tree();
        (0..self.all.len() as u16).map(TreeIndex).filter(move |tree| *tree != here)
    }

    async fn ask(&self, tree: TreeIndex, asked: LeaderAsk) -> Result<TreeAnswer, String> {
        let id = self.all.get(usize::from(tree.0)).ok_or("this node does not know of the tree yet")?;
        let until = self.trees.around.env.now() + PATIENCE;
        self.trees.way(*id).ask_leader(asked, until).await
    }
}

impl transactions::Trees for Siblings {
    fn parts(&self, command: &Command, new_directory: TreeIndex, prepared: &[Prepared]) -> Result<Vec<Part>, MetaError> {
        self.member.look(|machine| machine.parts(command, new_directory, prepared))
    }

    fn is_decided(&self, id: TransactionId) -> bool {
        self.member.look(|machine| machine.is_decided(id))
    }

    async fn propose(&self, envelope: Envelope) -> Result<Reply, String> {
        self.member.propose(&envelope).await.map_err(Outcome::reason)
    }

    async fn order(&self, tree: TreeIndex, now: Time, command: Command) -> Result<Reply, String> {
        if tree == self.member.tree() {
            return self.member.lead(now, command).await.map_err(Outcome::reason);
        }
        match self.ask(tree, LeaderAsk::Order { now, command }).await? {
            TreeAnswer::Reply(reply) => Ok(reply),
            _ => Err("an answer to another question".to_owned()),
        }
    }

    async fn query(&self, tree: TreeIndex, query: Query) -> Result<Answer, String> {
        if tree == self.member.tree() {
            return self.member.read(|machine| machine.query(&query)).await.map_err(Outcome::reason);
        }
        match self.ask(tree, LeaderAsk::Query(query)).await? {
            TreeAnswer::Answer(answer) => Ok(answer),
            _ => Err("an answer to another question".to_owned()),
        }
    }
}
