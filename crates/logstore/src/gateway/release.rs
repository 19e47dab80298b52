//! Readers of what was moved away (decision 12). A reader of a large object holds the places of its chunks for as long as its client takes.
//!
//! ```text
//!   leader: all moves applied everywhere ─► Release { whose } ─► member: marks its readers ─ those of these objects end, whenever ─► Released
//! ```
//!
//! A question is about one zone, and names the objects for which chunks and nodes in it were written; of more than [`OWNERS_PER_QUESTION`] there are
//! several. Where some of the zone can't be read it is about the readers of any. The answer comes when it comes, on the stream as all others, and
//! nothing waits behind the question, nor behind another zone's. The leader goes on collecting other zones, and keeps the question: asked anew, it
//! would be about readers that have come since, and while there is always one nothing would ever be reset.
//!
//! Invariants:
//! - A pin that names an object holds places of chunks and nodes that were written for it, and no others (`check_chunk`). A finished zone gets no
//!   frame more, so the objects that the leader found in it are all whose readers can hold a place there.
//! - When a member marks its readers it has applied every move out of the zone: the leader asks after all have answered `Retire`. A pin that is taken
//!   later counts only if the list that it was taken for is the newest after it was taken (`pin_content`), and that names no place in the zone. So
//!   `Released` says: of the objects named nobody here holds a place that they had before, nor ever will.
//! - An answer counts in the view in which it was asked for. In another one all is asked again, and who joined it has read the lists after the moves.

use super::member::Member;
use super::question::Question;
use crate::peers::Item;
use crate::pins::Stamp;
use crate::store::Inner;
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::{Arc, Weak};
use std::time::Duration;
use types::{GatewayId, KeyHash, ViewNumber};

/// So many objects at most a question names: it travels with others, and is kept until it is answered.
pub(crate) const OWNERS_PER_QUESTION: usize = 1024;
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
    whose: Option<BTreeSet<KeyHash>>,
    from: GatewayId,
    question: u64,
    view: ViewNumber,
}

/// The readers of a cell at one moment: of some objects, or of any.
pub(crate) struct Readers {
    here: Stamp,
    whose: Option<BTreeSet<KeyHash>>,
    elsewhere: Vec<Question>,
}

impl Inner {
    /// The readers of these objects that there are now, at every member; without objects, all readers.
    pub(crate) fn present_readers(&self, whose: Option<BTreeSet<KeyHash>>) -> Readers {
        let mut elsewhere = Vec::new();
        if let Some(member) = &self.member {
            let mut ask = |whose: Option<Vec<KeyHash>>| {
                elsewhere.push(member.put(|question| Item::Release { question, whose: whose.clone() }));
            };
            match &whose {
                None => ask(None),
                Some(owners) => {
                    let owners: Vec<KeyHash> = owners.iter().copied().collect();
                    owners.chunks(OWNERS_PER_QUESTION).for_each(|some| ask(Some(some.to_vec())));
                }
            }
        }
        Readers { here: self.pins.mark(), whose, elsewhere }
    }

    /// Whether these readers are done.
    pub(crate) fn are_done(&self, readers: &Readers) -> bool {
        self.are_pins_gone(readers.whose.as_ref(), readers.here) && readers.elsewhere.iter().all(Question::is_answered)
    }

    /// Whether nobody will say any more that these readers are done: another view came, whose members have to be asked.
    pub(crate) fn are_forgotten(&self, readers: &Readers) -> bool {
        let Some(member) = &self.member else { return false };
        let now = member.view().number();
        readers.elsewhere.iter().any(|question| question.view() != now)
    }

    /// At a member: `from` waits for the readers of now.
    pub(super) fn release(self: &Arc<Self>, member: &Member, from: GatewayId, question: u64, whose: Option<Vec<KeyHash>>) {
        let whose = whose.map(BTreeSet::from_iter);
        let wanted = Wanted { before: self.pins.mark(), whose, from, question, view: member.view().number() };
        if self.are_gone(&wanted) {
            member.push(from, &Item::Released { question });
            return;
        }
        let mut owed = member.releases.0.lock();
        owed.questions.push(wanted);
        if !std::mem::replace(&mut owed.is_watched, true) {
            self.env.spawn(watch(Arc::downgrade(self)));
        }
    }

    /// Those of records whose outcome is not known are gone when a checkpoint has covered these.
    fn are_pins_gone(&self, whose: Option<&BTreeSet<KeyHash>>, before: Stamp) -> bool {
        let covered = self.remembered.covered();
        self.unknown_pins.lock().retain(|_, (epoch, _)| *epoch > covered);
        self.pins.released(whose, before)
    }

    fn are_gone(&self, wanted: &Wanted) -> bool {
        self.are_pins_gone(wanted.whose.as_ref(), wanted.before)
    }

    /// Answers what can be answered; whether something is left.
    fn answer_released(&self, member: &Member) -> bool {
        let view = member.view().number();
        let mut owed = member.releases.0.lock();
        owed.questions.retain(|wanted| wanted.view == view);
        for done in owed.questions.extract_if(.., |wanted| self.are_gone(wanted)) {
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
