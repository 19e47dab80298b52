//! Readers of what was moved away (decision 12). A reader of a large object holds the places of its chunks for as long as its client takes.
//!
//! ```text
//!   leader: all moves applied everywhere ─► Release ─► every member: marks its present readers ─ they end, whenever ─► Released
//! ```
//!
//! The answer comes when it comes, on the stream as all others, and nothing waits behind the question. The leader goes on collecting other zones, and
//! keeps the question: asked anew, it would be about readers that have come since, and while there is always one nothing would ever be reset.

use super::member::Member;
use super::question::Question;
use crate::peers::Item;
use crate::pins::Stamp;
use crate::store::Inner;
use parking_lot::Mutex;
use std::sync::{Arc, Weak};
use std::time::Duration;
use types::{GatewayId, ViewNumber};

/// How often a member whose readers are waited for looks whether they are done.
const PIN_LOOK: Duration = Duration::from_millis(20);

/// Questions of leaders that this gateway owes an answer. A leader asks for no more than it has emptied zones for, and what one of an older view asked is
/// dropped.
#[derive(Default)]
pub(crate) struct Releases(Mutex<Owed>);

#[derive(Default)]
struct Owed {
    questions: Vec<Wanted>,
    /// A task looks after them.
    is_watched: bool,
}

struct Wanted {
    before: Stamp,
    from: GatewayId,
    question: u64,
    view: ViewNumber,
}

/// The readers of a cell at one moment.
pub(crate) struct Readers {
    here: Stamp,
    elsewhere: Option<Question>,
}

impl Inner {
    /// All readers that there are now, at every member.
    pub(crate) fn present_readers(&self) -> Readers {
        let elsewhere = self.member.as_ref().map(|member| member.put(|question| Item::Release { question }));
        Readers { here: self.pins.mark(), elsewhere }
    }

    /// Whether these readers are done.
    pub(crate) fn are_done(&self, readers: &Readers) -> bool {
        self.pins.released_before(readers.here) && readers.elsewhere.as_ref().is_none_or(Question::is_answered)
    }

    /// Whether nobody will say any more that these readers are done: another view came, whose members have to be asked.
    pub(crate) fn are_forgotten(&self, readers: &Readers) -> bool {
        let (Some(member), Some(question)) = (&self.member, &readers.elsewhere) else { return false };
        question.view() != member.view().number()
    }

    /// At a member: `from` waits for the readers of now.
    pub(super) fn release(self: &Arc<Self>, member: &Member, from: GatewayId, question: u64) {
        let wanted = Wanted { before: self.pins.mark(), from, question, view: member.view().number() };
        if self.pins.released_before(wanted.before) {
            member.push(from, &Item::Released { question });
            return;
        }
        let mut owed = member.releases.0.lock();
        owed.questions.push(wanted);
        if !std::mem::replace(&mut owed.is_watched, true) {
            self.env.spawn(watch(Arc::downgrade(self)));
        }
    }

    /// Answers what can be answered; whether something is left.
    fn answer_released(&self, member: &Member) -> bool {
        let view = member.view().number();
        let mut owed = member.releases.0.lock();
        owed.questions.retain(|wanted| wanted.view == view);
        for done in owed.questions.extract_if(.., |wanted| self.pins.released_before(wanted.before)) {
            member.push(done.from, &Item::Released { question: done.question });
        }
        owed.is_watched = !owed.questions.is_empty() && !member.is_deposed();
        owed.is_watched
    }
}

/// Looks until nothing is owed.
async fn watch(inner: Weak<Inner>) {
    loop {
        let Some(inner) = inner.upgrade() else { return };
        let Some(member) = &inner.member else { return };
        if !inner.answer_released(member) {
            return;
        }
        let env = inner.env.clone();
        drop(inner);
        env.sleep(PIN_LOOK).await;
    }
}
