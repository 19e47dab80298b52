//! What nodes do, and how the chunk ends.

use super::{ChunkStore, Copy, DEAD, Era, PUT, Place, Stage, State, Version, Wrong, bit, has};

impl ChunkStore {
    /// A copy takes a write of its era that is not older than what it has. Whether it has the write now, or better.
    pub(super) fn take_write(&self, state: &mut State, place: Place, era: Era, version: Version) -> bool {
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
        if state.unit.is_moving {
            // The copies that stay may have been raised.
            state.unit.era = self.moves.script()[state.unit.moves_begun - 1].era();
        }
        state.unit.is_moving = false;
        Some(())
    }

    /// Places that may hold a copy, as far as the unit has to reckon with.
    pub(super) fn used(&self, state: &State) -> impl Iterator<Item = Place> + use<> {
        let begun = &self.moves.script()[..state.unit.moves_begun];
        let targets = begun.iter().filter_map(|made| made.to);
        let places: Vec<Place> = self.moves.first_places().iter().copied().chain(targets).collect();
        let released = state.unit.released;
        places.into_iter().filter(move |place| !has(released, *place))
    }

    /// The unit's order to end a copy, which leaves a dead mark also where there was none. A departed copy stays what it is: as a dead one it
    /// would count for a delete that goes by the former places.
    pub(super) fn erase(&self, state: &mut State, place: Place) -> Option<()> {
        let is_asked = state.unit.stage == Stage::Freeing && self.used(state).any(|used| used == place);
        is_asked.then_some(())?;
        let (erased_departed, unit_era) = (self.wrong == Wrong::ErasesDeparted, state.unit.era);
        match state.copies[place] {
            Copy::Live { era, .. } => state.copies[place] = Copy::Dead { settled: false, era },
            Copy::Departed { .. } if erased_departed => state.copies[place] = Copy::Dead { settled: false, era: unit_era },
            Copy::Absent => state.copies[place] = Copy::Dead { settled: false, era: unit_era },
            Copy::Departed { .. } | Copy::Dead { .. } | Copy::Lost => {}
        }
        state.unit.erased |= bit(place);
        let erased = state.unit.erased;
        let needs_no_end = |place: Place| {
            self.wrong == Wrong::ErasesNoGivenUp && self.moves.script().iter().any(|made| made.given_up == Some(place))
        };
        if self.used(state).all(|used| has(erased, used) || needs_no_end(used)) {
            state.unit.stage = Stage::Limbo;
        }
        Some(())
    }

    /// A node gives the space of a dead copy back, or of one that has moved, and hears with the order what is resolved.
    pub(super) fn forget(&self, state: &mut State, place: Place) -> Option<()> {
        let unit = &state.unit;
        let is_left = unit.moves_begun > 0 && !unit.is_moving && !unit.places.contains(place);
        let is_in_use = matches!(state.copies[place], Copy::Live { .. });
        let is_ordered = unit.stage == Stage::Limbo || (unit.stage == Stage::Live && is_left && !is_in_use);
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
}
