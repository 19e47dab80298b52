//! A volume's tree as its clients ask for it.

use std::time::Duration;

use net::BoxFuture;
use serde::{Deserialize, Serialize};

use super::{AskLimits, Way};
use crate::meta::{Answer, Envelope, MetaCallError, MetaPartition, Query, Reply};

/// How long the leader of a tree may take, and how long a question looks for it.
pub const LIMITS: AskLimits = AskLimits { each: Duration::from_secs(10), all: Duration::from_secs(20) };

/// What a client asks.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum TreeAsk {
    Command(Envelope),
    Query(Query),
}

#[derive(Debug, Serialize, Deserialize)]
pub enum TreeAnswer {
    Reply(Reply),
    Answer(Answer),
}

/// The tree of a volume, wherever it is led. A command that may have been carried out is sent again: the tree remembers its reply.
pub struct TreePartition<W>(pub W);

impl<W: Way<TreeAsk, TreeAnswer>> TreePartition<W> {
    async fn ask(&self, asked: TreeAsk) -> Result<TreeAnswer, MetaCallError> {
        let unavailable =
            |reason| MetaCallError::Unavailable(format!("the tree of volume {} does not answer: {reason}", self.0.number()));
        self.0.ask(asked, None).await.map_err(unavailable)
    }
}

impl<W: Way<TreeAsk, TreeAnswer>> MetaPartition for TreePartition<W> {
    fn command(&self, envelope: Envelope) -> BoxFuture<'_, Result<Reply, MetaCallError>> {
        Box::pin(async move {
            match self.ask(TreeAsk::Command(envelope)).await? {
                TreeAnswer::Reply(reply) => Ok(reply),
                TreeAnswer::Answer(_) => Err(another_question()),
            }
        })
    }

    fn query(&self, query: Query) -> BoxFuture<'_, Result<Answer, MetaCallError>> {
        Box::pin(async move {
            match self.ask(TreeAsk::Query(query)).await? {
                TreeAnswer::Answer(answer) => Ok(answer),
                TreeAnswer::Reply(_) => Err(another_question()),
            }
        })
    }
}

fn another_question() -> MetaCallError {
    MetaCallError::Unavailable("an answer to another question".to_owned())
}
