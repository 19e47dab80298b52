//! How the chunk's places change: what the unit decides, and what its leaders do.

use super::{ChunkStore, Copy, Era, Flight, Mask, NOTHING, Place, Places, Stage, State, Wrong, bit, has};

/// Most moves of a run.
pub(super) const MOVES: usize = 2;

/// Which moves there are, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Moves {
    Never,
    /// The first copy's node takes part.
    Relocates,
    /// The first copy's node is lost, and its lease has ended.
    Repairs,
    /// A second copy is made, or a third.
    Grows,
    GrowsThird,
    /// The same, and the target is given up while it is being made.
    GivesUp,
    /// The same, at a place where the chunk once stood.
    GivesUpFormer,
    /// The first copy is moved to where the chunk once stood, and then to another place in that one's stead.
    Retargets,
    /// The first copy's node is lost, and there is no other one; later there is.
    Shrinks,
    ShrinksAndGrows,
}

/// One change of the chunk's places.
#[derive(Clone, Copy, Debug)]
pub(super) struct Move {
    pub from: Option<Place>,
    pub to: Option<Place>,
    pub is_lost: bool,
    /// Places that stay.
    stays: &'static [Place],
    number: u8,
    /// The target of the move that is given up for this one.
    pub given_up: Option<Place>,
}

const RELOCATION: Move = Move { from: Some(0), to: Some(2), is_lost: false, stays: &[1], number: 1, given_up: None };
const REPAIR: Move = Move { is_lost: true, ..RELOCATION };
const GROWTH: Move = Move { from: None, ..RELOCATION };
const GROWTH_TO_THREE: Move = Move { stays: &[0, 1], ..GROWTH };
const GIVEN_UP: Move = Move { to: None, number: 2, given_up: Some(2), ..GROWTH };
const RETARGETED: Move = Move { to: Some(3), number: 2, given_up: Some(2), ..RELOCATION };
const SHRINKING: Move = Move { to: None, ..REPAIR };
const GROWTH_AFTER: Move = Move { number: 2, ..GROWTH };

impl Moves {
    pub fn script(self) -> &'static [Move] {
        match self {
            Moves::Never => &[],
            Moves::Relocates => &[RELOCATION],
            Moves::Repairs => &[REPAIR],
            Moves::Grows => &[GROWTH],
            Moves::GrowsThird => &[GROWTH_TO_THREE],
            Moves::GivesUp | Moves::GivesUpFormer => &[GROWTH, GIVEN_UP],
            Moves::Retargets => &[RELOCATION, RETARGETED],
            Moves::Shrinks => &[SHRINKING],
            Moves::ShrinksAndGrows => &[SHRINKING, GROWTH_AFTER],
        }
    }

    pub fn first_places(self) -> &'static [Place] {
        match self {
            Moves::Grows | Moves::GivesUp | Moves::GivesUpFormer => &[1],
            _ => &[0, 1],
        }
    }

    /// Where the chunk stood before that, if it has moved; a host may not have heard yet that it does no more.
    pub fn former_places(self) -> Option<&'static [Place]> {
        match self {
            Moves::GivesUpFormer => Some(&[1, 2]),
            Moves::Retargets => Some(&[2, 1]),
            _ => None,
        }
    }
}

impl Move {
    /// Of all copies when it is over.
    pub fn era(&self) -> Era {
        Era { number: self.number, copies: (self.stays.len() + usize::from(self.to.is_some())) as u8 }
    }

    fn places_after(&self) -> Places {
        // The new one stands where the former one stood, or after the others.
        let places: Vec<Place> = match self.from {
            Some(_) => self.to.into_iter().chain(self.stays.iter().copied()).collect(),
            None => self.stays.iter().copied().chain(self.to).collect(),
        };
        Places::of(&places)
    }

    fn staying(&self) -> Mask {
        self.stays.iter().fold(0, |mask, place| mask | bit(*place))
    }
}

impl ChunkStore {
    fn made(&self, state: &State, number: usize) -> Option<&'static Move> {
        self.moves.script()[..state.unit.moves_begun].get(number)
    }

    /// The next move. A target is given up only while it is one.
    pub(super) fn begin_move(&self, state: &mut State) -> Option<()> {
        let next = self.moves.script().get(state.unit.moves_begun)?;
        (state.unit.stage == Stage::Live && state.unit.is_moving == next.given_up.is_some()).then_some(())?;
        state.unit.is_moving = true;
        state.unit.moves_begun += 1;
        Some(())
    }

    /// The node of the first copy is lost, and nobody reads there any more.
    pub(super) fn lose(&self, state: &mut State) -> Option<()> {
        let begun = &self.moves.script()[..state.unit.moves_begun];
        let number = begun.iter().position(|made| made.is_lost)?;
        if self.wrong != Wrong::GivesUpTheSilent {
            state.copies[begun[number].from?] = Copy::Lost;
        }
        state.flights[number].has_departed = true;
        Some(())
    }

    /// From here on the source answers nobody but the driver. The copies that stay are of the new era by then: where one of them is away the source
    /// remains readable.
    pub(super) fn depart(&self, state: &mut State, number: usize) -> Option<()> {
        let made = self.made(state, number).filter(|made| !made.is_lost)?;
        (state.flights[number].raised == made.staying()).then_some(())?;
        let source = made.from?;
        let (Copy::Live { version, settled, .. } | Copy::Departed { version, settled }) = state.copies[source] else {
            return None;
        };
        state.copies[source] = Copy::Departed { version, settled };
        state.flights[number].has_departed = true;
        Some(())
    }

    /// A copy that stays refuses writes that were begun before. In the new era writes are completed without a target that was given up: it answers
    /// nobody by then.
    pub(super) fn raise(&self, state: &mut State, number: usize, place: Place) -> Option<()> {
        let made = self.made(state, number).filter(|made| made.stays.contains(&place))?;
        let may_answer = made.given_up.is_some_and(|given_up| self.may_answer(state, given_up));
        (!may_answer).then_some(())?;
        match &mut state.copies[place] {
            Copy::Live { era, .. } => *era = made.era().max(*era),
            _ => return None,
        }
        state.flights[number].raised |= bit(place);
        Some(())
    }

    /// What the driver will copy: the source's last state, or that of one that stays, which is at least what anybody was told. After another target was given up it is the
    /// newest of these.
    pub(super) fn capture(&self, state: &mut State, number: usize, place: Place) -> Option<()> {
        let made = self.made(state, number)?;
        let from = made.from.filter(|source| state.copies[*source] != Copy::Lost);
        let is_good = from.map_or(made.stays.contains(&place), |source| source == place);
        let may_read = is_good && self.is_closed(made, &state.flights[number]) && state.flights[number].content.is_none();
        may_read.then_some(())?;
        let (Copy::Live { version, settled, .. } | Copy::Departed { version, settled }) = state.copies[place] else {
            return None;
        };
        let mut content = (version, settled);
        if made.given_up.is_some() {
            // In the era of the move before this one writes may have been completed without the source, which had departed.
            for stays in made.stays {
                if let Copy::Live { version, settled, .. } = state.copies[*stays]
                    && version > content.0
                {
                    content = (version, settled);
                }
            }
        }
        state.flights[number].content = Some(content);
        Some(())
    }

    /// Whether no write of the former era can be completed any more.
    fn is_closed(&self, made: &Move, flight: &Flight) -> bool {
        let needs_no_era =
            self.wrong == Wrong::NoEras || (self.wrong == Wrong::GrowsWithoutEra && made.from.is_none() && made.to.is_some());
        (flight.has_departed || made.from.is_none()) && (flight.raised == made.staying() || needs_no_era)
    }

    /// The copy lands at its new place, perhaps late and again.
    pub(super) fn copy(&self, state: &mut State, number: usize) -> Option<()> {
        let made = self.made(state, number)?;
        let target = made.to?;
        let (version, settled) = state.flights[number].content?;
        if state.copies[target] == Copy::Absent && !has(state.fenced, target) {
            let settled = settled && self.wrong != Wrong::BringsUnsettled;
            state.copies[target] = Copy::Live { version, settled, era: made.era() };
        }
        state.flights[number].is_copied |= matches!(state.copies[target], Copy::Live { .. });
        Some(())
    }

    /// Whether somebody may be led to a target that was given up, and find a copy there, now or later.
    fn may_answer(&self, state: &State, given_up: Place) -> bool {
        let is_led_there = self.moves.former_places().is_some();
        let is_over = match state.copies[given_up] {
            Copy::Departed { .. } | Copy::Lost => true,
            Copy::Absent => has(state.fenced, given_up),
            Copy::Live { .. } | Copy::Dead { .. } => false,
        };
        is_led_there && !is_over && !matches!(self.wrong, Wrong::LeavesTheGivenUp | Wrong::BringsUnsettled)
    }

    /// The unit's compare-and-swap.
    pub(super) fn swap(&self, state: &mut State, number: usize) -> Option<()> {
        let made = self.made(state, number)?;
        let flight = &state.flights[number];
        let is_done = if made.to.is_some() { flight.is_copied } else { self.is_closed(made, flight) };
        let is_last = state.unit.is_moving && number + 1 == state.unit.moves_begun;
        (is_last && is_done).then_some(())?;
        state.unit.is_moving = false;
        state.unit.era = made.era();
        let places = made.places_after();
        if places != state.unit.places {
            state.unit.places = places;
            state.updates.push(places);
        }
        Some(())
    }

    /// A target that was given up may have its copy, or get it late: that answers nobody from now on, and can be forgotten.
    pub(super) fn discard(&self, state: &mut State, place: Place) -> Option<()> {
        let begun = &self.moves.script()[..state.unit.moves_begun];
        let is_given_up = state.unit.stage == Stage::Live && begun.iter().any(|made| made.given_up == Some(place));
        let is_used = self.used(state).any(|used| used == place);
        (is_given_up && is_used).then_some(())?;
        let (version, settled) = match state.copies[place] {
            Copy::Live { version, settled, .. } => (version, settled),
            Copy::Absent => (NOTHING, false),
            Copy::Departed { .. } | Copy::Dead { .. } | Copy::Lost => return None,
        };
        state.copies[place] = Copy::Departed { version, settled };
        Some(())
    }
}
