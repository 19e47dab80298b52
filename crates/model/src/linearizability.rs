//! Is a history linearizable? (Herlihy and Wing 1990.)
//!
//! A history is a list of calls, each with the moment at which it was made, the moment at which it was answered, and the
//! outcome. It is linearizable if the calls can be put in one order, such that a call which was answered before another was made comes
//! first, and each outcome is what a sequential object would have given.
//!
//! The search is Wing and Gong's (1993) with Lowe's memory (2017): try each call that nothing unplaced had to precede, remember
//! every (set of placed calls, state) that led nowhere. Exponential at worst, fast for the short histories of one key.
//!
//! Calls without an outcome would make most histories slow, because any subset of them may have taken effect. Three rules leave out what
//! changes no verdict: a call that nobody heard of is placed only if it changes the state, not right before a call that hides what it
//! did, and of several with the same effect ([`Specification::classes`]) only the one that expires first. What is left is bounded by
//! [`MAX_STEPS`]; beyond it the history counts as refused, loudly.
//!
//! A call without an outcome (its client or gateway died) may have taken effect at any time after it was made, or never. If it is
//! known when the last of it died, it took effect before that moment or never (strict linearizability, Aguilera and Frølund 2003).

use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::Hash;

/// Places that a search tries before it gives up. Histories of some hundred calls of one key take some thousand.
pub const MAX_STEPS: usize = 1 << 21;

/// What a sequential object does.
pub trait Specification {
    type State: Clone + Eq + Hash + Debug;
    type Call: Clone + Debug;
    type Outcome: Clone + Debug;

    /// The state after `call`, or nothing if a sequential object in `state` would not have answered `outcome`. Without an outcome
    /// the call took effect and nobody heard.
    fn step(state: &Self::State, call: &Self::Call, outcome: Option<&Self::Outcome>) -> Option<Self::State>;

    /// Whether the call leaves the same state whatever was there before, and its outcome tells nothing of that.
    fn hides_the_past(_call: &Self::Call) -> bool {
        false
    }

    /// The class of each call of a history. Of calls that nobody heard of, those of one class may stand for each other: no outcome in
    /// the history tells one's effect from the other's.
    fn classes(calls: &[(&Self::Call, Option<&Self::Outcome>)]) -> Vec<Option<usize>> {
        vec![None; calls.len()]
    }
}

/// Names a call within its history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(usize);

/// One call of a history.
#[derive(Clone, Debug)]
struct Recorded<S: Specification> {
    call: S::Call,
    called_at: usize,
    answer: Option<(usize, S::Outcome)>,
    /// When it became certain that it has no effect that it has not had.
    lost_at: Option<usize>,
    withdrawn: bool,
}

impl<S: Specification> Recorded<S> {
    fn call_and_outcome(&self) -> (&S::Call, Option<&S::Outcome>) {
        (&self.call, self.answer.as_ref().map(|(_, outcome)| outcome))
    }

    fn is_open(&self) -> bool {
        self.answer.is_none() && self.lost_at.is_none() && !self.withdrawn
    }
}

/// What clients did, in the order in which an observer of everything saw it.
#[derive(Clone, Debug)]
pub struct History<S: Specification> {
    calls: Vec<Recorded<S>>,
    now: usize,
}

impl<S: Specification> Default for History<S> {
    fn default() -> Self {
        History { calls: Vec::new(), now: 0 }
    }
}

/// No order of the calls explains the outcomes.
#[derive(Clone, Debug)]
pub struct Violation {
    /// The history, one call a line, in the order in which they were made.
    pub history: String,
    /// The longest explanation found: calls in an order that works as far as it goes.
    pub explained: Vec<CallId>,
    /// Whether the search ended before it had tried everything.
    pub gave_up: bool,
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let explained: Vec<usize> = self.explained.iter().map(|call| call.0).collect();
        if self.gave_up {
            write!(f, "undecided after {MAX_STEPS} steps, counted as ")?;
        }
        write!(f, "not linearizable; the longest order that explains outcomes is {explained:?} of\n{}", self.history)
    }
}

impl<S: Specification> History<S> {
    /// A client makes a call.
    pub fn call(&mut self, call: S::Call) -> CallId {
        self.now += 1;
        self.calls.push(Recorded { call, called_at: self.now, answer: None, lost_at: None, withdrawn: false });
        CallId(self.calls.len() - 1)
    }

    /// What was asked.
    pub fn asked(&self, id: CallId) -> &S::Call {
        &self.calls[id.0].call
    }

    /// The call is answered.
    pub fn answer(&mut self, id: CallId, outcome: S::Outcome) {
        self.now += 1;
        let recorded = &mut self.calls[id.0];
        assert!(recorded.is_open(), "call {id:?} ends twice");
        recorded.answer = Some((self.now, outcome));
    }

    /// The call ended in a way that promises that it had no effect.
    pub fn withdraw(&mut self, id: CallId) {
        let recorded = &mut self.calls[id.0];
        assert!(recorded.is_open(), "call {id:?} ends twice");
        recorded.withdrawn = true;
    }

    /// Nobody will ever hear of the call, and what it has not done by now it never does: whoever worked on it has died.
    pub fn lose(&mut self, id: CallId) {
        self.now += 1;
        let recorded = &mut self.calls[id.0];
        assert!(recorded.is_open(), "call {id:?} ends twice");
        recorded.lost_at = Some(self.now);
    }

    /// Calls recorded.
    pub fn len(&self) -> usize {
        self.calls.len()
    }

    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Finds an order of the calls that explains all outcomes, from this initial state.
    pub fn check(&self, initial: S::State) -> Result<Vec<CallId>, Violation> {
        let mut search = Search::new(self);
        if search.run(initial) {
            return Ok(search.placed.iter().map(|step| CallId(step.call)).collect());
        }
        let explained = search.longest.iter().map(|call| CallId(*call)).collect();
        Err(Violation { history: self.to_string(), explained, gave_up: search.has_given_up() })
    }
}

impl<S: Specification> std::fmt::Display for History<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (number, recorded) in self.calls.iter().enumerate().filter(|(_, recorded)| !recorded.withdrawn) {
            write!(f, "  {number:3}  {:4} to ", recorded.called_at)?;
            match &recorded.answer {
                Some((at, outcome)) => writeln!(f, "{at:4}  {:?} -> {outcome:?}", recorded.call)?,
                None => match recorded.lost_at {
                    Some(at) => writeln!(f, "{at:4}? {:?}", recorded.call)?,
                    None => writeln!(f, "   ?  {:?}", recorded.call)?,
                },
            }
        }
        Ok(())
    }
}

/// A set of calls as bits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct CallSet(Vec<u64>);

impl CallSet {
    fn empty(calls: usize) -> CallSet {
        CallSet(vec![0; calls.div_ceil(64)])
    }

    fn is_within(&self, other: &CallSet) -> bool {
        self.0.iter().zip(&other.0).all(|(own, others)| own & !others == 0)
    }

    fn contains(&self, call: usize) -> bool {
        self.0[call / 64] & (1 << (call % 64)) != 0
    }

    fn flip(&mut self, call: usize) {
        self.0[call / 64] ^= 1 << (call % 64);
    }
}

/// A call put in its place, and the state before it.
struct Step<State> {
    call: usize,
    /// In the order of the search.
    at: usize,
    before: State,
}

/// Where a search has been: the answered calls that are placed, the state, and whether the last call placed was heard of by nobody.
type Visited<State> = (CallSet, State, bool);

struct Search<'a, S: Specification> {
    history: &'a History<S>,
    placed: Vec<Step<S::State>>,
    /// All calls that are placed, and those of them that were answered and that nobody heard of.
    done: CallSet,
    heard: CallSet,
    unheard: CallSet,
    /// Answered calls that are not placed.
    unanswered: usize,
    /// The calls that nobody heard of, placed at each visit. A visit with more of them finds nothing that one with fewer did not.
    dead_ends: HashMap<Visited<S::State>, Vec<CallSet>>,
    steps: usize,
    /// Calls in the order in which they are tried: first those that were answered, then those that nobody heard of.
    order: Vec<usize>,
    classes: Vec<Option<usize>>,
    longest: Vec<usize>,
}

impl<'a, S: Specification> Search<'a, S> {
    fn new(history: &'a History<S>) -> Self {
        let calls: Vec<_> = history.calls.iter().map(Recorded::call_and_outcome).collect();
        let answered = history.calls.iter().filter(|recorded| recorded.answer.is_some()).count();
        let is_answered = |call: &usize| history.calls[*call].answer.is_some();
        let (mut order, unheard): (Vec<usize>, Vec<usize>) = (0..history.calls.len()).partition(is_answered);
        order.extend(unheard);
        Search {
            history,
            placed: Vec::new(),
            done: CallSet::empty(history.calls.len()),
            heard: CallSet::empty(history.calls.len()),
            unheard: CallSet::empty(history.calls.len()),
            unanswered: answered,
            dead_ends: HashMap::new(),
            steps: 0,
            order,
            classes: S::classes(&calls),
            longest: Vec::new(),
        }
    }

    /// Depth first; `from` is the first place of the order to try at this depth.
    fn run(&mut self, initial: S::State) -> bool {
        let mut state = initial;
        let mut from = 0;
        while self.unanswered > 0 {
            if self.has_given_up() {
                return false;
            }
            match self.next(&state, from) {
                Some((at, after)) => {
                    let call = self.order[at];
                    self.place(at, call, std::mem::replace(&mut state, after));
                    from = 0;
                }
                None => {
                    let Some(step) = self.placed.pop() else { return false };
                    self.flip(step.call);
                    self.unanswered += usize::from(self.history.calls[step.call].answer.is_some());
                    from = step.at + 1;
                    state = step.before;
                }
            }
        }
        true
    }

    fn has_given_up(&self) -> bool {
        self.steps > MAX_STEPS
    }

    fn flip(&mut self, call: usize) {
        self.done.flip(call);
        match self.history.calls[call].answer {
            Some(_) => self.heard.flip(call),
            None => self.unheard.flip(call),
        }
    }

    fn place(&mut self, at: usize, call: usize, before: S::State) {
        self.flip(call);
        self.unanswered -= usize::from(self.history.calls[call].answer.is_some());
        self.placed.push(Step { call, at, before });
        if self.placed.len() > self.longest.len() {
            self.longest = self.placed.iter().map(|step| step.call).collect();
        }
    }

    /// The place in the order of the next call that may come now, and the state after it.
    fn next(&mut self, state: &S::State, from: usize) -> Option<(usize, S::State)> {
        // A call may come now if it was made before the first answer among those that are not placed.
        let first_answer = self.open().filter_map(|call| self.history.calls[call].answer.as_ref()).map(|(at, _)| *at).min()?;
        let last_made = self.placed.iter().map(|step| self.history.calls[step.call].called_at).max().unwrap_or(0);
        let last_is_unheard = self.placed.last().is_some_and(|step| self.history.calls[step.call].answer.is_none());
        for at in from..self.order.len() {
            let call = self.order[at];
            let recorded = &self.history.calls[call];
            if recorded.called_at > first_answer {
                continue;
            }
            if !self.is_placeable(call, last_made) || (last_is_unheard && S::hides_the_past(&recorded.call)) {
                continue;
            }
            let (_, outcome) = recorded.call_and_outcome();
            let Some(after) = S::step(state, &recorded.call, outcome) else { continue };
            let is_unheard = outcome.is_none();
            if is_unheard && (after == *state || self.has_stand_in(call, last_made)) {
                continue;
            }
            if self.is_new(call, &after, is_unheard) {
                return Some((at, after));
            }
        }
        None
    }

    /// Entered once: whoever comes back has been there and left without success.
    fn is_new(&mut self, call: usize, after: &S::State, is_unheard: bool) -> bool {
        self.steps += 1;
        let (mut heard, mut unheard) = (self.heard.clone(), self.unheard.clone());
        if is_unheard {
            unheard.flip(call);
        } else {
            heard.flip(call);
        }
        let visits = self.dead_ends.entry((heard, after.clone(), is_unheard)).or_default();
        if visits.iter().any(|visit| visit.is_within(&unheard)) {
            return false;
        }
        visits.retain(|visit| !unheard.is_within(visit));
        visits.push(unheard);
        true
    }

    fn is_placeable(&self, call: usize, last_made: usize) -> bool {
        let recorded = &self.history.calls[call];
        let is_too_late = recorded.lost_at.is_some_and(|lost_at| lost_at < last_made);
        !self.done.contains(call) && !recorded.withdrawn && !is_too_late
    }

    /// Whether an earlier call that nobody heard of does as well, and expires no later: if this one leads anywhere, so does that one.
    fn has_stand_in(&self, call: usize, last_made: usize) -> bool {
        let Some(class) = self.classes[call] else { return false };
        let expires = |call: usize| self.history.calls[call].lost_at.unwrap_or(usize::MAX);
        (0..call).any(|other| {
            self.classes[other] == Some(class)
                && self.history.calls[other].answer.is_none()
                && expires(other) <= expires(call)
                && self.is_placeable(other, last_made)
        })
    }

    fn open(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.history.calls.len()).filter(|call| !self.done.contains(*call))
    }
}

#[cfg(test)]
mod tests;
