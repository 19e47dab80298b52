//! Whether the answers that clients have got so far can be explained.

use super::{FailedWrites, Kind, Mask, Outcome, Stage, State, bit, has};

pub fn is_linearizable(model: &FailedWrites, state: &State) -> bool {
    let answered = |call: &usize| matches!(state.calls[*call].stage, Stage::Done(outcome) if outcome != Outcome::Unknown);
    let must: Mask = (0..state.calls.len()).filter(answered).map(bit).sum();
    can_go_on(model, state, must, 0, 0)
}

/// Whether what is left of the calls that `must` be explained follows some order behind `placed`, which leaves `content` (a call from 1).
fn can_go_on(model: &FailedWrites, state: &State, must: Mask, placed: Mask, content: u8) -> bool {
    if must & !placed == 0 {
        return true;
    }
    (0..state.calls.len()).any(|index| {
        let call = &state.calls[index];
        let is_due = !has(placed, index) && call.stage != Stage::Idle && call.after & must & !placed == 0;
        is_due
            && next_content(model, state, index, content)
                .is_some_and(|content| can_go_on(model, state, must, placed | bit(index), content))
    })
}

/// What a register that holds `content` holds after a call, if that could have had its outcome.
fn next_content(model: &FailedWrites, state: &State, index: usize, content: u8) -> Option<u8> {
    let own = index as u8 + 1;
    let outcome = match state.calls[index].stage {
        Stage::Done(outcome) => outcome,
        _ => Outcome::Unknown,
    };
    match (model.calls[index].1, outcome) {
        (Kind::Put, _) => Some(own),
        (Kind::PutIfAbsent, Outcome::Refused) => (content != 0).then_some(content),
        // Of unknown outcome and refused it changes nothing: as if it were not placed.
        (Kind::PutIfAbsent, _) => (content == 0).then_some(own),
        (Kind::Get, Outcome::Read(found)) => (found == content).then_some(content),
        (Kind::Get, _) => None,
    }
}
