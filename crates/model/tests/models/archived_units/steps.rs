//! What is applied to the unit's state, what leaders read, and what becomes of copies.

use super::{ArchivedUnits, Draft, Line, NUMBERS, Number, Page, PageId, Row, State, Value, Wrong, bit, has};

impl ArchivedUnits {
    /// What the state means.
    pub(super) fn merged(&self, state: &State, number: Number) -> Option<Value> {
        if let Some(row) = state.unit.rows[number] {
            return Some(row.value);
        }
        if has(state.unit.gone, number) {
            return None;
        }
        match state.pages[state.unit.page?].lines[number] {
            Line::Has(value) => Some(value),
            Line::Empty | Line::Unread => None,
        }
    }

    pub(super) fn line(&self, state: &State, number: Number) -> Line {
        self.merged(state, number).map_or(Line::Empty, Line::Has)
    }

    pub(super) fn read_early(&self, state: &mut State, number: Number) -> Option<()> {
        let may_read = self.wrong == Wrong::ReadsBeforeRegistering && state.early[number] == Line::Unread;
        may_read.then_some(())?;
        state.early[number] = self.line(state, number);
        Some(())
    }

    pub(super) fn register(&self, state: &mut State) -> Option<()> {
        (state.unit.draft.is_none() && state.pages.len() < self.pages).then_some(())?;
        state.unit.draft = Some(Draft { page: state.pages.len(), changed: 0 });
        state.pages.push(Page { lines: state.early, was_current: false, left: 0, outlived: 0 });
        state.early = [Line::Unread; NUMBERS];
        Some(())
    }

    /// The leader that has registered the draft reads one of its rows; the current page is there as long as the draft is.
    pub(super) fn read(&self, state: &mut State, number: Number) -> Option<()> {
        let page = state.unit.draft?.page;
        (state.pages[page].lines[number] == Line::Unread).then_some(())?;
        state.pages[page].lines[number] = self.line(state, number);
        Some(())
    }

    /// Proposed when all of the page is durable.
    pub(super) fn commit(&self, state: &mut State, page: PageId) -> Option<()> {
        let Draft { page: registered, changed } = state.unit.draft?;
        let is_asked = page == registered || self.wrong == Wrong::CommitsForAnyDraft;
        (is_asked && !state.pages[page].lines.contains(&Line::Unread)).then_some(())?;
        state.unit.draft = None;
        if state.unit.live == 0 && !self.installs_for_nobody() {
            state.unit.gone = 0;
            return Some(());
        }
        let mut left = 0;
        for number in 0..NUMBERS {
            let Some(row) = state.unit.rows[number] else { continue };
            let has_work = row.is_moving && self.wrong != Wrong::DropsWork;
            let is_newer = has(changed, number) && self.wrong != Wrong::DropsChanged;
            if !has_work && !is_newer {
                state.unit.rows[number] = None;
                left |= bit(number);
            }
        }
        state.unit.gone &= if self.wrong == Wrong::CommitForgetsTheGone { 0 } else { changed };
        state.unit.page = Some(page);
        let (gone, installed) = (state.unit.gone, &mut state.pages[page]);
        let is_held = |number: &Number| has(gone, *number) && installed.lines[*number] != Line::Empty;
        installed.outlived = (0..NUMBERS).filter(is_held).map(bit).sum();
        (installed.was_current, installed.left) = (true, left);
        Some(())
    }

    /// Its leader gives the draft up, or another one does.
    pub(super) fn revoke(&self, state: &mut State) -> Option<()> {
        self.end_draft(state)?;
        if state.unit.page.is_none() || self.wrong == Wrong::RevocationForgetsTheGone {
            state.unit.gone = 0;
        }
        Some(())
    }

    /// Without a commit. What was read for its page is nothing to anybody, and would only make more states of one.
    fn end_draft(&self, state: &mut State) -> Option<()> {
        let Draft { page, .. } = state.unit.draft.take()?;
        if self.wrong != Wrong::CommitsForAnyDraft {
            state.pages[page].lines = [Line::Unread; NUMBERS];
        }
        Some(())
    }

    /// A row that somebody read from a page when that was current.
    pub(super) fn touch(&self, state: &mut State, page: PageId, number: Number) -> Option<()> {
        let Page { lines, was_current: true, .. } = state.pages[page] else { return None };
        let Line::Has(value) = lines[number] else { return None };
        let resident = state.unit.rows[number];
        let is_taken = self.wrong == Wrong::TouchesFromFormerPages && state.unit.page.is_some();
        let is_current = state.unit.page == Some(page) || is_taken;
        let is_away = resident.is_none() || self.wrong == Wrong::TouchesTheResident;
        let is_there = !has(state.unit.gone, number) || self.wrong == Wrong::TouchesTheGone;
        (is_current && is_away && is_there).then_some(())?;
        // Work is not the row's: it stays.
        state.unit.rows[number] = Some(Row { value, is_moving: resident.is_some_and(|row| row.is_moving) });
        Some(())
    }

    pub(super) fn begin_move(&self, state: &mut State, number: Number) -> Option<()> {
        let changes = self.changes;
        let row = state.unit.rows[number].as_mut().filter(|row| row.value < changes)?;
        row.is_moving = true;
        Some(())
    }

    /// The node has the copy; from here on the relocation must end.
    pub(super) fn arrive(&self, state: &mut State, number: Number) -> Option<()> {
        state.unit.rows[number].filter(|row| row.is_moving)?;
        state.arrived |= bit(number);
        Some(())
    }

    /// The relocation's end.
    pub(super) fn change(&self, state: &mut State, number: Number) -> Option<()> {
        has(state.arrived, number).then_some(())?;
        let row = state.unit.rows[number].as_mut().filter(|row| row.is_moving)?;
        *row = Row { value: row.value + 1, is_moving: false };
        if let Some(draft) = &mut state.unit.draft {
            draft.changed |= bit(number);
        }
        state.arrived &= !bit(number);
        state.truth[number] = state.truth[number].map(|value| value + 1);
        Some(())
    }

    /// The chunk's end.
    pub(super) fn remove(&self, state: &mut State, number: Number) -> Option<()> {
        state.unit.rows[number].take()?;
        state.arrived &= !bit(number);
        state.truth[number] = None;
        // Not below zero where a wrong rule has brought a chunk back.
        state.unit.live = state.unit.live.saturating_sub(1);
        if state.unit.live == 0 {
            (state.unit.page, state.unit.gone) = (None, 0);
            return if self.keeps_draft_of_nobody() { Some(()) } else { self.end_draft(state).or(Some(())) };
        }
        let unit = &mut state.unit;
        let is_marked = match self.wrong {
            Wrong::NoTombstones => false,
            Wrong::NoTombstonesForDrafts => unit.page.is_some(),
            _ => unit.page.is_some() || unit.draft.is_some(),
        };
        if is_marked {
            unit.gone |= bit(number);
        }
        if let Some(draft) = &mut unit.draft {
            draft.changed |= bit(number);
        }
        Some(())
    }

    fn keeps_draft_of_nobody(&self) -> bool {
        matches!(self.wrong, Wrong::KeepsDraftOfNobody | Wrong::KeepsAndInstallsForNobody)
    }

    fn installs_for_nobody(&self) -> bool {
        matches!(self.wrong, Wrong::InstallsForNobody | Wrong::KeepsAndInstallsForNobody)
    }
}
