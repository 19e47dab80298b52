//! What the leader of a tree does about transactions beside driving them: it concludes what was noted before its time, forgets what all know, and asks other
//! trees about what it holds ready for long.
//!
//! ```text
//!   noted, and driven by no task here ─► the others are told ─┐
//!   driven here, and all others know ─────────────────────────┴─► forgotten, some at once
//!   held ready for 5 s ─► its tree is asked ─► takes effect, or is dropped
//!   taken effect ───────► its tree is asked below which number all are over ─► traces go
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use env::Instant;
use futures_util::StreamExt;
use futures_util::future::{join, join_all};
use futures_util::stream::iter;

use super::siblings::Siblings;
use super::usage;
use super::{Outcome, TreeMember, Trees};
use crate::ids::TreeIndex;
use crate::meta::limits::MAX_ANSWER;
use crate::meta::{Command, TransactionId};
use crate::transactions::{Traces, settle, tell};

/// Between two looks.
const LOOK: Duration = Duration::from_millis(250);
/// What is held ready for so long is asked about. Longer than a leader takes for a transaction.
const PATIENCE: Duration = Duration::from_secs(5);
/// Transactions whose trees are told at once.
const TOLD_AT_ONCE: usize = 32;

/// When this node has first seen what its tree has of transactions. None: it has not looked yet. What it finds then is of before its start, and is asked about at once.
pub type HeldSince = Option<BTreeMap<TransactionId, Instant>>;

/// The work for all trees that this node leads.
pub struct Settler(pub Arc<Trees>);

impl Settler {
    /// For as long as the node lives.
    pub async fn run(self) {
        join(self.settle_all(), self.ask_for_usage()).await;
    }

    fn led(&self) -> Vec<Siblings> {
        let led = self.0.all().into_iter().filter(|member| member.leads());
        led.map(|member| Siblings::of(&self.0, &member)).filter(Siblings::are_several).collect()
    }

    async fn settle_all(&self) {
        loop {
            self.0.around.env.sleep(LOOK).await;
            let led = self.led();
            join_all(led.iter().map(|siblings| async {
                if let Err(reason) = look_at(siblings).await {
                    tracing::debug!(tree = siblings.member.id().0, reason, "transactions are settled later");
                }
            }))
            .await;
        }
    }

    async fn ask_for_usage(&self) {
        loop {
            let led = self.led();
            join_all(led.iter().map(|siblings| async {
                if let Err(reason) = usage::ask(siblings).await {
                    tracing::debug!(tree = siblings.member.id().0, reason, "what other trees have is noted later");
                }
            }))
            .await;
            self.0.around.env.sleep(usage::LOOK).await;
        }
    }
}

async fn look_at(siblings: &Siblings) -> Result<(), String> {
    // Only what the leader is sure of.
    siblings.member.read(|_| ()).await.map_err(Outcome::reason)?;
    join(conclude(siblings), settle_held(siblings)).await.0
}

/// Tells others of what is noted and driven by no task here, then forgets what all know.
async fn conclude(siblings: &Siblings) -> Result<(), String> {
    let member = &siblings.member;
    // Before what is driven is looked at: what was noted since is cared for.
    let (noted, least) = member.look(|machine| (machine.decided(), machine.least_transaction()));
    let known = member.driven.take();
    let left = noted.into_iter().filter(|(id, _)| !known.are_cared_for.contains(id));
    let now = member.now();
    let told = iter(left).map(|(id, others)| async move {
        env::mark("files: a transaction of another leader concluded");
        tell(siblings, id, &others, now, true).await.then_some(id)
    });
    let told: Vec<Option<TransactionId>> = told.buffer_unordered(TOLD_AT_ONCE).collect().await;
    let mut ids: Vec<TransactionId> = told.into_iter().flatten().chain(known.concluded).collect();
    ids.sort_unstable();
    let below = known.floor.unwrap_or(least);
    if ids.is_empty() && below <= least {
        return Ok(());
    }
    let forgotten = member.lead(now, Command::Forget { ids, below }).await.map_err(Outcome::reason)?;
    forgotten.map(drop).map_err(|error| error.to_string())
}

/// Asks the trees of transactions whose parts this one holds, or has concluded.
async fn settle_held(siblings: &Siblings) {
    let here = siblings.member.tree();
    let asked = traces(&siblings.member).into_iter().map(|(tree, traces)| async move {
        if let Err(reason) = settle(siblings, here, tree, traces, siblings.member.now()).await {
            tracing::debug!(tree = siblings.member.id().0, reason, "what is held ready for another tree stays so");
        }
    });
    join_all(asked).await;
}

fn traces(member: &TreeMember) -> BTreeMap<TreeIndex, Traces> {
    let prepared = member.look(|machine| machine.prepared());
    let (now, mut since) = (member.around.env.now(), member.held_since.lock());
    let mut held = BTreeMap::new();
    let mut traces: BTreeMap<TreeIndex, Traces> = BTreeMap::new();
    for (id, is_over) in prepared {
        let seen = since.as_ref().and_then(|since| since.get(&id).copied()).unwrap_or(now);
        held.insert(id, seen);
        let is_old = since.is_none() || now.saturating_duration_since(seen) >= PATIENCE;
        if !is_old && !is_over {
            continue;
        }
        let of_tree = traces.entry(id.tree).or_default();
        if is_over {
            of_tree.first_over.get_or_insert(id);
        } else if of_tree.held.len() < MAX_ANSWER {
            env::mark("files: a part of a transaction held for long");
            of_tree.held.push(id);
        }
        if is_old {
            of_tree.last_old = of_tree.last_old.max(Some(id));
        }
    }
    *since = Some(held);
    traces
}
