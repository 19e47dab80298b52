//! Questions to all other gateways at once: the answers come on their streams, behind everything that they have said before.

use super::member::Member;
use crate::peers::Item;
use crate::store::Inner;
use engine::EngineError;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use types::{GatewayId, ViewNumber};

/// How long a list waits for the other gateways.
const LIST_PATIENCE: Duration = Duration::from_secs(15);

/// Questions under way, and who has not answered.
#[derive(Default)]
pub(crate) struct Questions {
    open: Mutex<Open>,
    changed: Notify,
}

#[derive(Default)]
struct Open {
    next: u64,
    missing: BTreeMap<u64, BTreeSet<GatewayId>>,
}

impl Questions {
    /// A new question to these gateways.
    fn ask(&self, asked: &[GatewayId]) -> u64 {
        let mut open = self.open.lock();
        open.next += 1;
        let question = open.next;
        open.missing.insert(question, asked.iter().copied().collect());
        question
    }

    /// A gateway has answered.
    pub fn answered(&self, from: GatewayId, question: u64) {
        if let Some(missing) = self.open.lock().missing.get_mut(&question) {
            missing.remove(&from);
        }
        self.changed.notify_waiters();
    }

    /// Waits for all answers.
    async fn all_answered(&self, question: u64) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if self.is_answered(question) {
                return;
            }
            changed.await;
        }
    }

    fn is_answered(&self, question: u64) -> bool {
        self.open.lock().missing.get(&question).is_none_or(BTreeSet::is_empty)
    }
}

/// A question to all other members of a view. Forgotten when this is dropped, however it ends.
pub(crate) struct Question {
    questions: Arc<Questions>,
    number: u64,
    view: ViewNumber,
}

impl Question {
    /// The view whose members were asked. In another one some may never answer.
    pub fn view(&self) -> ViewNumber {
        self.view
    }

    pub fn is_answered(&self) -> bool {
        self.questions.is_answered(self.number)
    }
}

impl Drop for Question {
    fn drop(&mut self) {
        self.questions.open.lock().missing.remove(&self.number);
    }
}

impl Member {
    /// Puts a question to all other members.
    pub fn put(&self, item: impl Fn(u64) -> Item) -> Question {
        let view = self.view();
        let others = view.others();
        let number = self.questions.ask(others);
        others.iter().for_each(|to| self.push(*to, &item(number)));
        Question { questions: self.questions.clone(), number, view: view.number() }
    }

    /// Waits until this gateway has heard everything that the other members had said to anybody.
    pub async fn hear_out(&self) {
        let question = self.put(|question| Item::Ask { question });
        self.questions.all_answered(question.number).await;
    }

    /// Puts a question, and waits for the answers; false if they took too long or the view changed meanwhile.
    pub async fn ask_all(&self, inner: &Inner, item: impl Fn(u64) -> Item, patience: Duration) -> bool {
        let question = self.put(item);
        tokio::select! {
            biased;
            // First: an answer that comes behind another view was not meant for this one.
            () = self.view_after(question.view) => false,
            () = self.questions.all_answered(question.number) => true,
            () = inner.env.sleep(patience) => false,
        }
    }
}

impl Inner {
    /// Answers who wants to have heard everything. What a shard says to all members goes to one after the other, under its lock: who hears the answer has
    /// heard what any of them has.
    pub(super) fn answer(&self, member: &Member, to: GatewayId, question: u64) {
        self.shards.iter().for_each(|shard| drop(shard.lock()));
        member.push(to, &Item::Answer { question });
    }

    /// Waits until this gateway's lists hold every name that was acknowledged anywhere before the call (decision 14).
    pub(crate) async fn hear_all_names(self: &Arc<Self>) -> Result<(), EngineError> {
        let Some(member) = &self.member else { return Ok(()) };
        let patience = self.env.now() + LIST_PATIENCE;
        loop {
            let view = member.view().number();
            let settled = tokio::select! {
                biased;
                settled = self.names_heard(member) => settled,
                () = self.env.sleep_until(patience) => {
                    let reason = "another gateway of the cell does not answer, or a removed one is not recovered yet".to_owned();
                    return Err(EngineError::Unavailable { reason });
                }
            };
            if settled && self.check_lease(view).is_ok() {
                return Ok(());
            }
            self.lease_comes().await?;
        }
    }

    async fn names_heard(&self, member: &Member) -> bool {
        member.all_decided().await;
        member.ask_all(self, |question| Item::Ask { question }, LIST_PATIENCE).await
    }
}
