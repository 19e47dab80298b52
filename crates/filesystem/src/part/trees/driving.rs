//! What clients ask of a tree that this node leads: commands that concern other trees are driven as transactions, and what meets a transaction is asked again.
//!
//! | the command | what the leader does |
//! |---|---|
//! | of a volume with one tree, or about one inode | puts it into the log |
//! | about names | looks which other trees it concerns; then the log, or a transaction |
//! | is answered *busy* or *across* | pauses by chance, and begins anew, until [`PATIENCE`] is over |
//!
//! A transaction goes on when its client is gone: it is a task of its own.

use std::sync::Arc;
use std::time::Duration;

use env::{Env, Instant};
use tokio::sync::oneshot;

use super::driven::begin;
use super::siblings::Siblings;
use super::usage::tree_for_directory;
use super::{Outcome, TreeMember, Trees};
use crate::meta::{Answer, Envelope, MetaError, Query, Reply};
use crate::transactions::{self, Ended, HELD};

/// How long the leader begins anew what meets transactions. Then its client is told to ask again.
const PATIENCE: Duration = Duration::from_secs(8);
/// The longest pause before that; it is chosen by chance, and the first pauses are shorter.
const LONGEST_PAUSE: Duration = Duration::from_millis(32);
const SHORTEST_PAUSE: Duration = Duration::from_millis(1);

struct Pauses<'a> {
    env: &'a Env,
    until: Instant,
    longest: Duration,
}

impl Pauses<'_> {
    fn new(env: &Env) -> Pauses<'_> {
        Pauses { env, until: env.now() + PATIENCE, longest: SHORTEST_PAUSE }
    }

    async fn pause(&mut self, reason: String) -> Result<(), Outcome> {
        if self.env.now() >= self.until {
            return Err(Outcome::Again(reason));
        }
        env::mark("files: a transaction was in the way");
        self.env.sleep(Duration::from_micros(self.env.random_below(self.longest.as_micros() as u64))).await;
        self.longest = self.longest.saturating_mul(2).min(LONGEST_PAUSE);
        Ok(())
    }
}

/// Has a client's command carried out.
pub async fn carry_out(trees: &Arc<Trees>, member: &Arc<TreeMember>, envelope: &Envelope) -> Result<Reply, Outcome> {
    let mut pauses = Pauses::new(&trees.around.env);
    loop {
        let siblings = envelope.command.is_of_names().then(|| Siblings::of(trees, member));
        let driven = match siblings.filter(Siblings::are_several) {
            Some(siblings) => drive(&siblings, envelope).await?,
            None => Ended::Alone,
        };
        let reason = match driven {
            Ended::Reply(reply) => return Ok(reply),
            Ended::Again(reason) => reason,
            Ended::Alone => match member.propose(envelope).await? {
                Err(MetaError::Busy | MetaError::Across) => HELD.to_owned(),
                reply => return Ok(reply),
            },
        };
        pauses.pause(reason).await?;
    }
}

/// Answers a client's question.
pub async fn answer(trees: &Trees, member: &TreeMember, query: &Query) -> Result<Answer, Outcome> {
    let mut pauses = Pauses::new(&trees.around.env);
    loop {
        match member.read(|machine| machine.query(query)).await? {
            Err(MetaError::Busy) => pauses.pause(HELD.to_owned()).await?,
            answer => return Ok(answer),
        }
    }
}

/// Carries out one transaction for a command, if it takes one.
async fn drive(siblings: &Siblings, envelope: &Envelope) -> Result<Ended, Outcome> {
    let new_directory = tree_for_directory(siblings);
    // Only what the leader is sure of: what it refuses is refused for good.
    let look = siblings.member.read(|machine| {
        let earlier = machine.earlier_reply(envelope.session, envelope.sequence);
        earlier.map_or_else(|| Err(machine.parts(&envelope.command, new_directory, &[])), Ok)
    });
    match look.await? {
        Ok(earlier) => return Ok(Ended::Reply(earlier)),
        Err(Ok(parts)) if parts.is_empty() => return Ok(Ended::Alone),
        Err(_) => {}
    }
    let driving = begin(&siblings.member).await?;
    let (siblings, envelope, (tell, told)) = (siblings.clone(), envelope.clone(), oneshot::channel());
    let env = siblings.trees.around.env.clone();
    env.spawn(async move {
        let (ended, rest) = transactions::carry_out(&siblings, driving.id, &envelope, new_directory).await;
        if tell.send(ended).is_err() {
            tracing::debug!("the client of a transaction has not waited for it");
        }
        if rest.conclude(&siblings).await {
            driving.concluded();
        }
    });
    told.await.map_err(|_| Outcome::Unknown("the node stops".to_owned()))
}
