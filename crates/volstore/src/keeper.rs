//! Which nodes have the placement groups. It acts where the manager is led; what a primary sees for itself, it asks for itself.
//!
//! | a group | the next view |
//! |---|---|
//! | is wanted and not there | three nodes, or as many as there are; the primary among them by turns |
//! | has a primary that is silent or gone | the first voter of the last active membership that is there leads those that are there |
//! | has a voter that is silent or gone | without it |
//! | has a view that does not become active | another voter of the last active membership leads |
//! | has too few members, and has rested | with a learner: those that are there by turns |

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use env::Instant;
use manager::{BucketEngine, NamePlacement, PLACEMENT_GROUPS, PlacementRecord, Snapshot};
use subsystem::Silent;
use types::{NodeId, ViewNumber};

use crate::limits::{GROUP_COPIES, INACTIVE_PATIENCE, KEEPER_HEARING, KEEPER_INTERVAL, LEARNER_PAUSE};
use crate::place::Place;

/// For as long as the node lives.
pub async fn keep(place: Place, silent: Silent) {
    let (env, manager) = (place.env().clone(), place.manager().clone());
    let mut changes = manager.changes();
    let mut leads_since = None;
    let mut seen: BTreeMap<u32, (ViewNumber, Instant)> = BTreeMap::new();
    loop {
        tokio::select! {
            () = env.sleep(KEEPER_INTERVAL) => {}
            // A bucket may have been made.
            Ok(()) = changes.changed() => {}
        }
        if !manager.is_leader() {
            leads_since = None;
            continue;
        }
        let since = *leads_since.get_or_insert(env.now());
        let has_heard = env.now().saturating_duration_since(since) >= KEEPER_HEARING;
        let is_alone = manager.snapshot().nodes().count() <= 1;
        if !(has_heard || is_alone) || manager.fresh().await.is_err() {
            continue;
        }
        let state = manager.snapshot();
        let silent = silent();
        let there: Vec<NodeId> = state.nodes().map(|node| node.id).filter(|node| !silent.contains(node)).collect();
        for next in founded(&state, &there) {
            name(&place, next).await;
        }
        for record in state.placements() {
            let (view, named_at) = seen.entry(record.group).or_insert((record.view, env.now()));
            if *view != record.view {
                (*view, *named_at) = (record.view, env.now());
            }
            let rest = env.now().saturating_duration_since(*named_at);
            if let Some(next) = next_view(record, &there, rest) {
                name(&place, next).await;
            }
        }
    }
}

async fn name(place: &Place, next: NamePlacement) {
    tracing::info!(?next, "a placement group is to have another view");
    if let Err(error) = place.manager().name_placement(next).await {
        tracing::warn!(%error, "a view of a placement group was not named");
    }
}

/// Groups that are to be founded: when there is a bucket that needs them.
fn founded(state: &Snapshot, there: &[NodeId]) -> Vec<NamePlacement> {
    let is_wanted = state.buckets().iter().any(|bucket| bucket.engine != BucketEngine::Log);
    if !is_wanted || there.is_empty() {
        return Vec::new();
    }
    let copies = there.len().min(GROUP_COPIES);
    let lacking = (0..PLACEMENT_GROUPS).filter(|group| state.placement(*group).is_none());
    let first = |group: u32| {
        let at = group as usize % there.len();
        let voters: Vec<NodeId> = there.iter().cycle().skip(at).take(copies).copied().collect();
        NamePlacement { group, after: None, primary: voters[0], voters, learners: Vec::new() }
    };
    lacking.map(first).collect()
}

/// The next view of a group, if it needs one.
fn next_view(record: &PlacementRecord, there: &[NodeId], rest: Duration) -> Option<NamePlacement> {
    let is_there = |node: &NodeId| there.contains(node);
    let next = |primary: NodeId, voters: Vec<NodeId>, learners: Vec<NodeId>| {
        Some(NamePlacement { group: record.group, after: Some(record.view), primary, voters, learners })
    };
    let learners: Vec<NodeId> = record.learners.iter().copied().filter(is_there).collect();
    let voters: Vec<NodeId> = record.voters.iter().copied().filter(is_there).collect();
    if !is_there(&record.primary) {
        let base = record.active().map_or_else(|| record.voters.clone(), |active| active.voters);
        let able: Vec<NodeId> = base.into_iter().filter(is_there).collect();
        // Nobody that is there has everything: it is waited for.
        let primary = *able.iter().min_by_key(|node| (node.0 + record.group) % able.len().max(1) as u32)?;
        return next(primary, able, Vec::new());
    }
    if voters.len() < record.voters.len() || learners.len() < record.learners.len() {
        return next(record.primary, voters, learners);
    }
    if !record.is_active && rest >= INACTIVE_PATIENCE {
        // The primary would have asked for a view without others that hold it up: it is stuck itself.
        let base = record.active().map_or_else(|| record.voters.clone(), |active| active.voters);
        let at = voters.iter().position(|node| *node == record.primary).map_or(0, |at| at + 1);
        let mut others = voters.iter().cycle().skip(at).take(voters.len());
        let primary = *others.find(|node| base.contains(node) && **node != record.primary)?;
        return next(primary, voters, learners);
    }
    let members: BTreeSet<NodeId> = record.members().collect();
    let others: Vec<NodeId> = there.iter().copied().filter(|node| !members.contains(node)).collect();
    // One that could not be filled is not the next one again, if there are others.
    let other = others.get(record.view.0 as usize % others.len().max(1)).copied();
    let has_rested = rest >= LEARNER_PAUSE;
    match other {
        Some(other) if has_rested && record.is_active && learners.is_empty() && members.len() < GROUP_COPIES => {
            next(record.primary, voters, vec![other])
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use manager::{ActiveMembership, PlacementRecord};
    use types::{NodeId, ViewNumber};

    use super::next_view;
    use crate::limits::{INACTIVE_PATIENCE, LEARNER_PAUSE};

    fn nodes(numbers: &[u32]) -> Vec<NodeId> {
        numbers.iter().copied().map(NodeId).collect()
    }

    fn record(voters: &[u32], learners: &[u32]) -> PlacementRecord {
        PlacementRecord {
            group: 3,
            view: ViewNumber(9),
            primary: NodeId(voters[0]),
            voters: nodes(voters),
            learners: nodes(learners),
            is_active: true,
            base: None,
        }
    }

    #[test]
    fn a_group_that_is_whole_keeps_its_view() {
        assert_eq!(next_view(&record(&[1, 2, 3], &[]), &nodes(&[1, 2, 3, 4]), LEARNER_PAUSE), None);
    }

    #[test]
    fn a_silent_primary_is_replaced_by_one_that_has_everything() {
        let next = next_view(&record(&[1, 2, 3], &[]), &nodes(&[2, 3, 4]), LEARNER_PAUSE).expect("another view");
        assert!([2, 3].contains(&next.primary.0), "{next:?}");
        assert_eq!((next.voters, next.learners), (nodes(&[2, 3]), nodes(&[])));
        // The newest view never became active: its learner that was to vote may lack something.
        let base = ActiveMembership { view: ViewNumber(5), primary: NodeId(1), voters: nodes(&[1, 2]), learners: nodes(&[4]) };
        let promoted = PlacementRecord { is_active: false, base: Some(base), ..record(&[1, 2, 4], &[]) };
        let next = next_view(&promoted, &nodes(&[2, 4]), LEARNER_PAUSE).expect("another view");
        assert_eq!((next.primary, next.voters), (NodeId(2), nodes(&[2])));
        assert_eq!(next_view(&promoted, &nodes(&[4]), LEARNER_PAUSE), None, "none that is there has everything");
    }

    #[test]
    fn silent_voters_go_and_learners_come_after_a_rest() {
        let next = next_view(&record(&[1, 2, 3], &[]), &nodes(&[1, 2]), Duration::ZERO).expect("another view");
        assert_eq!((next.primary, next.voters), (NodeId(1), nodes(&[1, 2])));
        let lacking = record(&[1, 2], &[]);
        assert_eq!(next_view(&lacking, &nodes(&[1, 2, 3]), Duration::ZERO), None, "it has not rested");
        let next = next_view(&lacking, &nodes(&[1, 2, 3]), LEARNER_PAUSE).expect("another view");
        assert_eq!((next.voters, next.learners), (nodes(&[1, 2]), nodes(&[3])));
        assert_eq!(next_view(&record(&[1, 2], &[3]), &nodes(&[1, 2, 3]), LEARNER_PAUSE), None, "it is being filled");
    }

    #[test]
    fn a_view_that_does_not_become_active_gets_another_primary() {
        let base = ActiveMembership { view: ViewNumber(5), primary: NodeId(3), voters: nodes(&[1, 2]), learners: nodes(&[4]) };
        let stuck = PlacementRecord { is_active: false, base: Some(base), ..record(&[1, 4, 2], &[]) };
        assert_eq!(next_view(&stuck, &nodes(&[1, 2, 4]), LEARNER_PAUSE), None, "its primary looks for itself first");
        let next = next_view(&stuck, &nodes(&[1, 2, 4]), INACTIVE_PATIENCE).expect("another view");
        assert_eq!((next.primary, next.voters), (NodeId(2), nodes(&[1, 4, 2])), "node 4 may lack something");
        let alone = PlacementRecord { is_active: false, ..record(&[1], &[]) };
        assert_eq!(next_view(&alone, &nodes(&[1, 2]), INACTIVE_PATIENCE), None, "no other node has everything");
    }

    #[test]
    fn nodes_that_may_become_learners_take_turns() {
        let lacking = |view: u64| PlacementRecord { view: ViewNumber(view), ..record(&[1, 2], &[]) };
        let next = |view| next_view(&lacking(view), &nodes(&[1, 2, 3, 4]), LEARNER_PAUSE).expect("a learner").learners;
        assert_eq!((next(8), next(9)), (nodes(&[3]), nodes(&[4])));
    }
}
