//! What nodes, the unit and its leader do.

use super::{COPIES, ChunkStore, Copy, DEAD, Flight, Moves, PUT, Place, Stage, State, TARGET, Version, Wrong, bit, has};

impl ChunkStore {
    /// A copy takes a write of its era that is not older than what it has. Whether it has the write now, or better.
    pub(super) fn take_write(&self, state: &mut State, place: Place, era: u8, version: Version) -> bool {
        match state.copies[place] {
            Copy::Dead { era: own, .. } => version != PUT && (own == era || self.wrong == Wrong::DeadInAllEras),
            Copy::Live { .. } if version == PUT => true,
            Copy::Live { version: found, era: own, .. } if own == era || self.wrong == Wrong::NoEras => {
                if version == DEAD {
                    state.copies[place] = Copy::Dead { settled: false, era: own };
                } else if version > found {
                    state.copies[place] = Copy::Live { version, settled: false, era: own };
                }
                true
            }
            Copy::Absent if version == PUT && !has(state.fenced, place) => {
                state.copies[place] = Copy::Live { version, settled: true, era };
                true
            }
            Copy::Absent | Copy::Live { .. } | Copy::Departed { .. } | Copy::Lost => false,
        }
    }

    pub(super) fn expire(&self, state: &mut State) -> Option<()> {
        (state.unit.stage == Stage::Pending).then_some(())?;
        state.unit.stage = Stage::Freeing;
        state.unit.has_expired = true;
        Some(())
    }

    /// A freed record of any node that has a dead copy.
    pub(super) fn free(&self, state: &mut State) -> Option<()> {
        let is_dead = state.copies.iter().any(|copy| matches!(copy, Copy::Dead { .. }));
        (is_dead && state.unit.stage == Stage::Live).then_some(())?;
        state.unit.stage = Stage::Freeing;
        state.unit.is_moving = false;
        Some(())
    }

    /// Places that may hold a copy, as far as the unit has to reckon with.
    fn used(&self, state: &State) -> impl Iterator<Item = Place> {
        let places = if state.unit.has_moved { PLACES_MOVED } else { PLACES_AT_FIRST };
        let released = state.unit.released;
        (0..places.len()).map(move |index| places[index]).filter(move |place| !has(released, *place))
    }

    /// The unit's order to end a copy, which leaves a dead mark also where there was none. A departed copy stays what it is: as a dead one it
    /// would count for a delete that goes by the former places.
    pub(super) fn erase(&self, state: &mut State, place: Place) -> Option<()> {
        let is_asked = state.unit.stage == Stage::Freeing && self.used(state).any(|used| used == place);
        is_asked.then_some(())?;
        let erased_departed = self.wrong == Wrong::ErasesDeparted;
        match state.copies[place] {
            Copy::Live { era, .. } => state.copies[place] = Copy::Dead { settled: false, era },
            Copy::Departed { .. } if erased_departed => state.copies[place] = Copy::Dead { settled: false, era: 1 },
            Copy::Absent => state.copies[place] = Copy::Dead { settled: false, era: u8::from(place == TARGET) },
            Copy::Departed { .. } | Copy::Dead { .. } | Copy::Lost => {}
        }
        state.unit.erased |= bit(place);
        let erased = state.unit.erased;
        if self.used(state).all(|used| has(erased, used)) {
            state.unit.stage = Stage::Limbo;
        }
        Some(())
    }

    /// A node gives the space of a dead copy back, or of one that has moved, and hears with the order what is resolved.
    pub(super) fn forget(&self, state: &mut State, place: Place) -> Option<()> {
        let unit = &state.unit;
        let is_source = unit.has_moved && !unit.is_moving && !unit.places.contains(&place) && place != TARGET;
        let is_ordered = unit.stage == Stage::Limbo || (unit.stage == Stage::Live && is_source);
        let is_early = self.wrong == Wrong::ForgetsAlone && matches!(state.copies[place], Copy::Dead { .. });
        let is_used = self.used(state).any(|used| used == place);
        ((is_ordered || is_early) && is_used).then_some(())?;
        if state.copies[place] != Copy::Lost {
            state.copies[place] = Copy::Absent;
        }
        if is_ordered {
            state.fenced |= if self.wrong == Wrong::NoFences { 0 } else { bit(place) };
            state.unit.released |= bit(place);
        }
        if state.unit.stage == Stage::Limbo && self.used(state).next().is_none() {
            state.unit.stage = Stage::Free;
        }
        Some(())
    }

    pub(super) fn begin_move(&self, state: &mut State) -> Option<()> {
        let may_move = state.unit.stage == Stage::Live && !state.unit.has_moved && self.moves != Moves::Never;
        may_move.then_some(())?;
        state.unit.is_moving = true;
        state.unit.has_moved = true;
        Some(())
    }

    /// The node of the first copy is lost, and nobody reads there any more.
    pub(super) fn lose(&self, state: &mut State) -> Option<()> {
        (self.moves == Moves::Repairs && state.unit.has_moved).then_some(())?;
        state.copies[SOURCE] = Copy::Lost;
        state.flight.has_departed = true;
        Some(())
    }

    /// From here on the source answers nobody but the driver. The copies that stay are of the new era by then: where one of them is away the source remains
    /// readable.
    pub(super) fn depart(&self, state: &mut State) -> Option<()> {
        (self.moves == Moves::Relocates && state.unit.has_moved && state.flight.has_raised).then_some(())?;
        let Copy::Live { version, settled, .. } = state.copies[SOURCE] else { return None };
        state.copies[SOURCE] = Copy::Departed { version, settled };
        state.flight.has_departed = true;
        Some(())
    }

    /// The copies that stay refuse writes that were begun before.
    pub(super) fn raise(&self, state: &mut State) -> Option<()> {
        state.unit.has_moved.then_some(())?;
        match &mut state.copies[SURVIVOR] {
            Copy::Live { era, .. } => *era = 1,
            _ => return None,
        }
        state.flight.has_raised = true;
        Some(())
    }

    /// What the driver will copy: the source's last state, or a survivor's.
    pub(super) fn capture(&self, state: &mut State) -> Option<()> {
        let Flight { has_departed, has_raised, content, .. } = state.flight;
        let may_read = has_departed && (has_raised || self.wrong == Wrong::NoEras) && content.is_none();
        may_read.then_some(())?;
        let from = if state.copies[SOURCE] == Copy::Lost { SURVIVOR } else { SOURCE };
        match state.copies[from] {
            Copy::Live { version, settled, .. } | Copy::Departed { version, settled } => {
                state.flight.content = Some((version, settled));
            }
            _ => return None,
        }
        Some(())
    }

    /// The copy lands at its new place, perhaps late and again.
    pub(super) fn copy(&self, state: &mut State) -> Option<()> {
        let (version, settled) = state.flight.content?;
        if state.copies[TARGET] == Copy::Absent && !has(state.fenced, TARGET) {
            state.copies[TARGET] = Copy::Live { version, settled, era: 1 };
        }
        state.flight.is_copied |= matches!(state.copies[TARGET], Copy::Live { .. });
        Some(())
    }

    /// The unit's compare-and-swap.
    pub(super) fn swap(&self, state: &mut State) -> Option<()> {
        (state.unit.is_moving && state.flight.is_copied).then_some(())?;
        state.unit.is_moving = false;
        state.unit.places[0] = TARGET;
        state.updates.push(state.unit.places);
        Some(())
    }
}

/// The copy that moves, and the one that stays.
const SOURCE: Place = 0;
const SURVIVOR: Place = 1;
const PLACES_AT_FIRST: &[Place] = &[SOURCE, SURVIVOR];
const PLACES_MOVED: &[Place] = &[SOURCE, SURVIVOR, TARGET];

const _: () = assert!(COPIES == 2, "one copy moves and one stays");
