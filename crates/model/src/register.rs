//! The sequential specification of one key: a register that may be absent, with compare-and-swap.

use crate::linearizability::Specification;
use std::collections::{HashMap, HashSet};
use std::fmt::Debug;
use std::hash::Hash;
use std::marker::PhantomData;

/// One key whose values are of type `V`; `None` is absent.
#[derive(Clone, Copy, Debug, Default)]
pub struct Register<V>(PhantomData<V>);

/// What a client asks of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call<V> {
    Read,
    /// A PUT, or with `None` a DELETE.
    Write(Option<V>),
    /// Writes `new` if the key holds `expected`.
    Swap {
        expected: Option<V>,
        new: Option<V>,
    },
}

/// What the client is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome<V> {
    Read(Option<V>),
    Written,
    Swapped,
    /// The key held something else.
    Differs {
        found: Option<V>,
    },
    /// The key held something else, and the answer does not say what; it was not absent (HTTP's 412).
    Occupied,
}

impl<V: Clone + Eq + Hash + Debug> Specification for Register<V> {
    type State = Option<V>;
    type Call = Call<V>;
    type Outcome = Outcome<V>;

    fn step(state: &Option<V>, call: &Call<V>, outcome: Option<&Outcome<V>>) -> Option<Option<V>> {
        match (call, outcome) {
            (Call::Read, Some(Outcome::Read(found))) => (found == state).then(|| state.clone()),
            (Call::Write(new), Some(Outcome::Written)) => Some(new.clone()),
            (Call::Swap { expected, new }, Some(Outcome::Swapped)) => (expected == state).then(|| new.clone()),
            (Call::Swap { expected, .. }, Some(Outcome::Differs { found })) => {
                (found == state && expected != state).then(|| state.clone())
            }
            (Call::Swap { expected, .. }, Some(Outcome::Occupied)) => {
                (state.is_some() && expected != state).then(|| state.clone())
            }
            (Call::Read, None) => Some(state.clone()),
            (Call::Write(new), None) => Some(new.clone()),
            (Call::Swap { expected, new }, None) => Some(if expected == state { new.clone() } else { state.clone() }),
            (call, Some(outcome)) => panic!("{outcome:?} is no outcome of {call:?}"),
        }
    }

    fn hides_the_past(call: &Call<V>) -> bool {
        matches!(call, Call::Write(_))
    }

    /// Deletes do the same, and so do writes of values that no outcome and no condition names.
    fn classes(calls: &[(&Call<V>, Option<&Outcome<V>>)]) -> Vec<Option<usize>> {
        let mut named: HashSet<&V> = HashSet::new();
        for (call, outcome) in calls {
            if let Call::Swap { expected, .. } = call {
                named.extend(expected);
            }
            if let Some(Outcome::Read(found) | Outcome::Differs { found }) = outcome {
                named.extend(found);
            }
        }
        let mut numbers = HashMap::new();
        let class = |(call, _): &(&Call<V>, Option<&Outcome<V>>)| {
            let (condition, new) = match *call {
                Call::Read => return None,
                Call::Write(new) => (None, new),
                Call::Swap { expected, new } => (Some(expected.clone()), new),
            };
            if new.as_ref().is_some_and(|new| named.contains(new)) {
                return None;
            }
            let next = numbers.len();
            Some(*numbers.entry((condition, new.is_some())).or_insert(next))
        };
        calls.iter().map(class).collect()
    }
}
