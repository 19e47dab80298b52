//! A tree of a volume as its clients ask for it.

use std::time::Duration;

use net::BoxFuture;
use serde::{Deserialize, Serialize};
use types::NodeId;

use super::{AskLimits, Way};
use crate::meta::{Answer, Command, Envelope, MetaCallError, MetaPartition, Query, Reply, Time, Usage};

/// How long the leader of a tree may take, and how long a question looks for it.
pub const LIMITS: AskLimits = AskLimits { each: Duration::from_secs(10), all: Duration::from_secs(20) };

/// What is asked of a tree's leader.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum TreeAsk {
    Command(Envelope),
    Query(Query),
    /// What people ask: which node leads it, and what it has.
    Standing,
    OfLeader(LeaderAsk),
}

impl TreeAsk {
    /// Whether clients ask it, on nodes and elsewhere.
    pub fn is_of_clients(&self) -> bool {
        matches!(self, TreeAsk::Command(_) | TreeAsk::Query(_))
    }
}

/// What the leader of another tree of the volume asks. What is in the way of it is answered at once.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum LeaderAsk {
    Order { now: Time, command: Command },
    Query(Query),
}

#[derive(Debug, Serialize, Deserialize)]
pub enum TreeAnswer {
    Reply(Reply),
    Answer(Answer),
    Standing(TreeStanding),
}

/// A tree, as its leader says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TreeStanding {
    pub leader: NodeId,
    /// What this tree alone has.
    pub usage: Usage,
    /// Its leader answers changes of names and attributes when they outlive the process.
    pub is_ordered: bool,
}

/// A tree of a volume, wherever it is led. A command that may have been carried out is sent again: the tree remembers its reply.
pub struct TreePartition<W>(pub W);

impl<W: Way<TreeAsk, TreeAnswer>> TreePartition<W> {
    async fn ask(&self, asked: TreeAsk) -> Result<TreeAnswer, MetaCallError> {
        let unavailable = |reason| MetaCallError::Unavailable(format!("tree {} does not answer: {reason}", self.0.number()));
        self.0.ask(asked, None).await.map_err(unavailable)
    }
}

impl<W: Way<TreeAsk, TreeAnswer>> MetaPartition for TreePartition<W> {
    fn command(&self, envelope: Envelope) -> BoxFuture<'_, Result<Reply, MetaCallError>> {
        Box::pin(async move {
            match self.ask(TreeAsk::Command(envelope)).await? {
                TreeAnswer::Reply(reply) => Ok(reply),
                TreeAnswer::Answer(_) | TreeAnswer::Standing(_) => Err(another_question()),
            }
        })
    }

    fn query(&self, query: Query) -> BoxFuture<'_, Result<Answer, MetaCallError>> {
        Box::pin(async move {
            match self.ask(TreeAsk::Query(query)).await? {
                TreeAnswer::Answer(answer) => Ok(answer),
                TreeAnswer::Reply(_) | TreeAnswer::Standing(_) => Err(another_question()),
            }
        })
    }
}

fn another_question() -> MetaCallError {
    MetaCallError::Unavailable("an answer to another question".to_owned())
}
