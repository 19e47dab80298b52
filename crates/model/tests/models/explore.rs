//! Runs a model to the end of its states and says what was found.

use stateright::{Checker, Expectation, HasDiscoveries, Model, Property};
use std::collections::BTreeSet;
use std::fmt::Debug;
use std::hash::Hash;

/// Most steps of a run in an ordinary test: each leads to a state, most often to one that is known.
const MAX_STEPS: usize = 3_000_000;
/// Most steps of a run with `TRILITH_SOAK`.
const MAX_SOAK_STEPS: usize = 200_000_000;

/// Whether to take the larger bounds.
pub fn soaking() -> bool {
    std::env::var_os("TRILITH_SOAK").is_some()
}

/// All properties hold in every state that can be reached, and what need hold in some state only does there.
pub fn assert_sound<M>(what: &str, model: M)
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + Debug + Hash + Send + Sync + PartialEq + 'static,
    M::Action: Clone + Debug + Send + Sync + PartialEq + 'static,
{
    let examples = examples(&model);
    let Explored { states, broken, reached } = explore(model, HasDiscoveries::AnyFailures);
    println!("{what}: {states} states, sound");
    if let Some((property, path)) = broken {
        panic!("{what}: \"{property}\" does not hold:\n{path}");
    }
    assert_eq!(reached, examples, "{what}: not all that is to happen does, in {states} states");
}

/// This property is found not to hold.
pub fn assert_broken<M>(what: &str, model: M, property: &'static str)
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + Debug + Hash + Send + Sync + PartialEq + 'static,
    M::Action: Clone + Debug + Send + Sync + PartialEq + 'static,
{
    let Explored { states, broken, .. } = explore(model, HasDiscoveries::AnyOf(BTreeSet::from([property])));
    match broken {
        Some((found, path)) if found == property => println!("{what}: {states} states, \"{property}\" broken:\n{path}"),
        other => panic!("{what}: \"{property}\" was not found broken in {states} states, but {other:?}"),
    }
}

/// What an exploration has found.
struct Explored {
    states: usize,
    /// A property that must hold in every state, and how it is broken: one action a line.
    broken: Option<(&'static str, String)>,
    /// What need hold in some state only, and does.
    reached: BTreeSet<&'static str>,
}

/// What need hold in some state only.
fn examples<M: Model>(model: &M) -> BTreeSet<&'static str> {
    let is_example = |property: &Property<M>| property.expectation == Expectation::Sometimes;
    model.properties().into_iter().filter(is_example).map(|property| property.name).collect()
}

/// Breadth first, so that a counterexample is about as short as it can be.
fn explore<M>(model: M, until: HasDiscoveries) -> Explored
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + Debug + Hash + Send + Sync + PartialEq + 'static,
    M::Action: Clone + Debug + Send + Sync + PartialEq + 'static,
{
    let most = if soaking() { MAX_SOAK_STEPS } else { MAX_STEPS };
    let wanted = match &until {
        HasDiscoveries::AnyOf(properties) => properties.first().copied(),
        _ => None,
    };
    let checker = model.checker().threads(2).target_state_count(most).finish_when(until).spawn_bfs().join();
    let states = checker.unique_state_count();
    let mut discoveries = checker.discoveries();
    let mut reached = examples(checker.model());
    reached.retain(|property| discoveries.remove(property).is_some());
    let found = wanted.filter(|property| discoveries.contains_key(property)).or_else(|| discoveries.keys().next().copied());
    let broken = found.and_then(|property| discoveries.remove(property).map(|path| (property, path)));
    // The bound is on steps, of which there are more than states.
    let steps = checker.state_count();
    assert!(broken.is_some() || steps < most, "more than {most} steps to {states} states: the bound cut the exploration short");
    let lines = |(property, path): (&'static str, stateright::Path<M::State, M::Action>)| {
        let actions: Vec<String> = path.into_actions().iter().map(|action| format!("  {action:?}")).collect();
        (property, actions.join("\n"))
    };
    Explored { states, broken: broken.map(lines), reached }
}
