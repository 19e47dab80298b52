//! What clients do.

use super::{
    Attempt, Broken, ChunkStore, Copy, DEAD, Era, FIRST_PLACES, Kind, MIN_COPIES, NOTHING, PUT, Place, Places, Stage, State,
    Step, Version, WRITERS, Wrong, bit,
};

impl ChunkStore {
    pub(super) fn is_put_acknowledged(&self, state: &State) -> bool {
        self.of_kind(Kind::Put).any(|call| state.calls[call].step == Step::Done)
    }

    /// Whether somebody has begun to delete.
    pub(super) fn is_deleting(&self, state: &State) -> bool {
        self.of_kind(Kind::Delete).any(|call| state.calls[call].step != Step::Idle)
    }

    fn of_kind(&self, kind: Kind) -> impl Iterator<Item = usize> + '_ {
        (0..self.calls.len()).filter(move |call| self.calls[*call] == kind)
    }

    /// A put registers; others know the id from its registration on.
    pub(super) fn register(&self, state: &mut State, call: usize) -> Option<()> {
        let is_first = state.unit.stage == Stage::Unregistered && self.calls[call] == Kind::Put;
        is_first.then_some(())?;
        if self.hosts < MIN_COPIES && self.wrong != Wrong::AcksOneCopy {
            // Nothing is stored.
            state.calls[call].step = Step::Died;
            return Some(());
        }
        let places: Vec<Place> = state.unit.places.iter().take(self.hosts.min(FIRST_PLACES)).collect();
        let places = Places::of(&places);
        (state.unit.stage, state.unit.places, state.unit.era) = (Stage::Pending, places, Era::first(&places));
        state.updates.push(places);
        self.write(state, call, places, Era::first(&places), PUT);
        Some(())
    }

    /// Whether a call asks where the chunk is. What was seen by now is the least that it may answer with.
    fn begin(&self, state: &mut State, call: usize) -> Option<()> {
        match state.calls[call].step {
            Step::Idle if self.calls[call] != Kind::Put && state.unit.stage != Stage::Unregistered => {
                state.calls[call].floor = state.floor;
                Some(())
            }
            Step::Asking => Some(()),
            _ => None,
        }
    }

    /// A lookup host answers by an update; after the last one comes a host that does not know the chunk yet.
    pub(super) fn route(&self, state: &mut State, call: usize, update: usize) -> Option<()> {
        self.begin(state, call)?;
        match state.updates.get(update) {
            Some(places) => state.calls[call].step = Step::Routed(*places),
            None if self.wrong == Wrong::BelievesAbsence => return self.conclude(state, call, NOTHING),
            None => state.calls[call].step = Step::Asking,
        }
        Some(())
    }

    pub(super) fn ask(&self, state: &mut State, call: usize) -> Option<()> {
        let again = state.calls[call].step == Step::AskingAgain;
        if !again {
            self.begin(state, call)?;
        }
        let stage = state.unit.stage;
        if matches!(stage, Stage::Limbo | Stage::Free) {
            return self.conclude(state, call, DEAD);
        }
        if again && stage == Stage::Pending {
            return self.conclude(state, call, NOTHING);
        }
        let (places, is_pending) = (state.unit.places, stage == Stage::Pending);
        state.calls[call].step = Step::Direct { places, absent: 0, is_pending };
        Some(())
    }

    pub(super) fn read(&self, state: &mut State, call: usize, copy: usize) -> Option<()> {
        let (places, is_direct) = match state.calls[call].step {
            Step::Routed(places) => (places, false),
            Step::Direct { places, .. } => (places, true),
            _ => return None,
        };
        (copy < places.count).then_some(())?;
        match state.copies[places.all[copy]] {
            Copy::Live { version, settled, era } => self.meet_live(state, call, places, (version, settled, era)),
            Copy::Departed { version, .. } if self.wrong == Wrong::SourceAnswers && self.calls[call] == Kind::Get => {
                self.conclude(state, call, version)
            }
            Copy::Dead { settled, era } => {
                if settled || self.wrong == Wrong::BelievesTheDead {
                    return self.conclude(state, call, DEAD);
                }
                self.begin_help(state, call, places, era, DEAD)
            }
            Copy::Absent if self.wrong == Wrong::ComparesNoIds => {
                state.broken = Some(Broken::OwnBytes);
                Some(())
            }
            Copy::Absent if !is_direct && self.wrong == Wrong::BelievesAbsence => self.conclude(state, call, NOTHING),
            Copy::Absent | Copy::Departed { .. } | Copy::Lost => {
                self.meet_nothing(state, call, copy);
                Some(())
            }
        }
    }

    fn meet_nothing(&self, state: &mut State, call: usize, copy: usize) {
        let is_absent = |place: Place| state.copies[place] == Copy::Absent;
        let next = match state.calls[call].step {
            Step::Direct { places, absent, is_pending } if is_pending && is_absent(places.all[copy]) => {
                let absent = absent | bit(copy);
                if absent == places.all_copies() { Step::AskingAgain } else { Step::Direct { places, absent, is_pending } }
            }
            // Another copy may be there: only the order of reading differs from asking anew.
            _ => Step::Asking,
        };
        state.calls[call].step = next;
        if next == Step::AskingAgain && self.wrong == Wrong::DoesNotAskAgain {
            self.conclude(state, call, NOTHING);
        }
    }

    fn meet_live(
        &self,
        state: &mut State,
        call: usize,
        places: Places,
        (found, settled, era): (Version, bool, Era),
    ) -> Option<()> {
        let is_known = self.is_of(places, era);
        match self.calls[call] {
            Kind::Put => None,
            Kind::Get if settled || self.wrong == Wrong::ReturnsUnsettled => self.conclude(state, call, found),
            Kind::Get => self.begin_help(state, call, places, era, found),
            Kind::Modify | Kind::Delete if !is_known => self.ask_anew(state, call),
            Kind::Modify => {
                let mut version = state.calls[call].version;
                if version == NOTHING || self.wrong == Wrong::NewVersions {
                    version = (found / WRITERS + 1) * WRITERS + call as Version;
                }
                self.write(state, call, places, era, version);
                Some(())
            }
            Kind::Delete => {
                self.write(state, call, places, era, DEAD);
                Some(())
            }
        }
    }

    /// Whether an era may be that of these places: a copy that tells another number of them belongs to others.
    fn is_of(&self, places: Places, era: Era) -> bool {
        usize::from(era.copies) == places.count || self.wrong == Wrong::CountsNoPlaces
    }

    fn ask_anew(&self, state: &mut State, call: usize) -> Option<()> {
        state.calls[call].step = Step::Asking;
        Some(())
    }

    fn write(&self, state: &mut State, call: usize, places: Places, era: Era, version: Version) {
        if version <= state.calls[call].floor {
            state.broken = Some(Broken::Newest);
        }
        let recorded = &mut state.calls[call];
        recorded.version = version;
        recorded.attempts.iter_mut().for_each(|made| made.landed = 0);
        // An attempt that was made before is made again by its place at the end.
        let same = |made: &Attempt| made.places == places && made.era == era && made.version == version;
        let made = recorded.attempts.iter().position(same).map(|index| recorded.attempts.remove(index));
        recorded.attempts.push(made.unwrap_or(Attempt { places, era, version, landed: 0 }));
        recorded.step = Step::Writing;
    }

    /// A write reaches a copy. It counts for its client if that still waits for it.
    pub(super) fn land(&self, state: &mut State, call: usize, attempt: usize, copy: usize) -> Option<()> {
        let Attempt { places, era, version, .. } = state.calls[call].attempts[attempt];
        (copy < places.count).then_some(())?;
        let taken = self.take_write(state, places.all[copy], era, version);
        let recorded = &mut state.calls[call];
        let is_last = attempt + 1 == recorded.attempts.len();
        if recorded.step != Step::Writing || !is_last {
            return Some(());
        }
        if !taken {
            // A put whose place refuses it is given up; its registration runs out.
            recorded.step = if self.calls[call] == Kind::Put { Step::Died } else { Step::Asking };
            return Some(());
        }
        recorded.attempts[attempt].landed |= bit(copy);
        if recorded.attempts[attempt].landed != places.all_copies() {
            return Some(());
        }
        if self.calls[call] == Kind::Put {
            recorded.step = Step::Committing;
            return if self.wrong == Wrong::AcksBeforeCommit { self.conclude(state, call, PUT) } else { Some(()) };
        }
        recorded.settles = Some((places, version));
        self.conclude(state, call, version)
    }

    pub(super) fn try_again(&self, state: &mut State, call: usize) -> Option<()> {
        (state.calls[call].step == Step::Writing && self.calls[call] != Kind::Put).then_some(())?;
        state.calls[call].step = Step::Asking;
        Some(())
    }

    /// The unit makes the registration lasting: the put is acknowledged.
    pub(super) fn commit(&self, state: &mut State, call: usize) -> Option<()> {
        (state.calls[call].step == Step::Committing).then_some(())?;
        if state.unit.stage != Stage::Pending {
            state.calls[call].step = Step::Died;
            return Some(());
        }
        state.unit.stage = Stage::Live;
        if state.unit.places.count < MIN_COPIES {
            state.broken = Some(Broken::TwoCopies);
        }
        self.conclude(state, call, PUT)
    }

    fn begin_help(&self, state: &mut State, call: usize, places: Places, era: Era, known: Version) -> Option<()> {
        if !self.is_of(places, era) {
            return self.ask_anew(state, call);
        }
        state.calls[call].step = Step::Helping { places, era, known, helped: 0 };
        Some(())
    }

    /// Writes what is known to one more copy. A copy that knows better is followed from there on.
    pub(super) fn help(&self, state: &mut State, call: usize, copy: usize) -> Option<()> {
        let Step::Helping { places, era, known, helped } = state.calls[call].step else { return None };
        (copy < places.count).then_some(())?;
        let place = places.all[copy];
        let (newer, reached) = match state.copies[place] {
            Copy::Live { era: other, .. } | Copy::Dead { era: other, .. }
                if other != era && self.wrong != Wrong::DeadInAllEras =>
            {
                (known, false)
            }
            Copy::Live { version, .. } if version > known => (version, true),
            Copy::Live { version, .. } if version == known => (known, true),
            Copy::Live { era, .. } => (known, self.take_write(state, place, era, known)),
            Copy::Dead { .. } => (DEAD, true),
            Copy::Absent | Copy::Departed { .. } | Copy::Lost => (known, false),
        };
        if !reached {
            state.calls[call].step = Step::Asking;
            return Some(());
        }
        let helped = if newer == known { helped | bit(copy) } else { bit(copy) };
        state.calls[call].step = Step::Helping { places, era, known: newer, helped };
        if helped != places.all_copies() {
            return Some(());
        }
        state.calls[call].settles = Some((places, newer));
        self.conclude(state, call, newer)
    }

    pub(super) fn settle(&self, state: &mut State, call: usize) -> Option<()> {
        let (places, version) = state.calls[call].settles.take()?;
        for place in places.iter() {
            match &mut state.copies[place] {
                Copy::Live { version: found, settled, .. } if *found == version => *settled = true,
                Copy::Dead { settled, .. } if version == DEAD => *settled = true,
                _ => {}
            }
        }
        Some(())
    }

    pub(super) fn die(&self, state: &mut State, call: usize) -> Option<()> {
        let is_under_way = !matches!(state.calls[call].step, Step::Idle | Step::Done | Step::Died);
        (is_under_way && state.deaths_left > 0).then_some(())?;
        state.deaths_left -= 1;
        state.calls[call].step = Step::Died;
        Some(())
    }

    /// Answers a call: with a version, with [`DEAD`] when the chunk is gone for good, with [`NOTHING`] when it is not there yet.
    fn conclude(&self, state: &mut State, call: usize, answer: Version) -> Option<()> {
        let is_gone = self.is_deleting(state) || state.unit.has_expired;
        let recorded = &mut state.calls[call];
        if answer < recorded.floor || (answer == DEAD && !is_gone) {
            state.broken = Some(Broken::Newest);
        }
        recorded.step = Step::Done;
        // What plays no part any more is the same in all states.
        recorded.floor = NOTHING;
        recorded.version = NOTHING;
        recorded.attempts.iter_mut().for_each(|made| made.landed = 0);
        if answer > state.floor {
            state.floor = answer;
            self.note(state, answer);
        }
        Some(())
    }

    fn note(&self, state: &mut State, version: Version) {
        if self.of_kind(Kind::Modify).count() < 2 {
            return;
        }
        let writer = if version < WRITERS || version == DEAD { version } else { WRITERS + version % WRITERS };
        if state.seen.last() == Some(&writer) {
            return;
        }
        if state.seen.contains(&writer) {
            state.broken = Some(Broken::Once);
        }
        state.seen.push(writer);
    }
}
