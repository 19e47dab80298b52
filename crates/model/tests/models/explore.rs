//! Runs a model to the end of its states and says what was found.

use stateright::{Checker, Model};
use std::hash::Hash;

/// Most states of a run in an ordinary test.
const MAX_STATES: usize = 3_000_000;
const MAX_SOAK_STATES: usize = 60_000_000;

/// Whether to take the larger bounds.
pub fn soaking() -> bool {
    std::env::var_os("TRILITH_SOAK").is_some()
}

/// What exploring a model found.
#[derive(Debug)]
pub struct Explored {
    pub states: usize,
    /// The properties that do not hold, with the shortest way there, one action a line.
    pub broken: Vec<(&'static str, String)>,
}

impl Explored {
    /// All properties hold in every state that can be reached.
    pub fn assert_sound(&self, what: &str) {
        println!("{what}: {} states", self.states);
        if let Some((property, path)) = self.broken.first() {
            panic!("{what}: \"{property}\" does not hold:\n{path}");
        }
    }

    /// This property is found not to hold.
    pub fn assert_broken(&self, what: &str, property: &str) {
        let found = self.broken.iter().find(|(broken, _)| *broken == property);
        match found {
            Some((_, path)) => println!("{what}: {} states, \"{property}\" broken:\n{path}", self.states),
            None => panic!("{what}: \"{property}\" was not found broken in {} states: {:?}", self.states, self.broken),
        }
    }
}

/// Explores breadth first, so that a counterexample is as short as possible.
pub fn explore<M>(model: M) -> Explored
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + std::fmt::Debug + Hash + Send + Sync + PartialEq + 'static,
    M::Action: Clone + std::fmt::Debug + Send + Sync + PartialEq + 'static,
{
    let most = if soaking() { MAX_SOAK_STATES } else { MAX_STATES };
    let checker = model.checker().threads(2).target_state_count(most).spawn_bfs().join();
    let states = checker.unique_state_count();
    let broken: Vec<(&'static str, String)> = checker
        .discoveries()
        .into_iter()
        .map(|(property, path)| {
            let actions: Vec<String> = path.into_actions().iter().map(|action| format!("  {action:?}")).collect();
            (property, actions.join("\n"))
        })
        .collect();
    assert!(!broken.is_empty() || checker.is_done(), "more than {most} states");
    assert!(!broken.is_empty() || states < most, "more than {most} states: the bound cut the exploration short");
    Explored { states, broken }
}
