//! An exchange of a group's members: nodes that were removed leave, others take their places.

use std::collections::{BTreeMap, BTreeSet};

use consensus::{Group, GroupStatus, MemberError, NodeId, StateMachine};

/// Makes these the members, or begins to; whether anything was changed. An exchange under way is ended first: a member that leaves in the middle of
/// it must come back as a learner if it is wanted again.
pub(crate) async fn change_members<S: StateMachine>(
    group: &Group<S>,
    wanted: &BTreeMap<NodeId, String>,
    silent: &BTreeSet<NodeId>,
) -> Result<bool, MemberError> {
    group.finish_exchange().await?;
    let status = group.status();
    // Changes before this one that did not come to their end left them.
    let unwanted: BTreeSet<NodeId> = status.learners.iter().copied().filter(|node| !wanted.contains_key(node)).collect();
    if !unwanted.is_empty() {
        group.remove_learners(&unwanted).await?;
    }
    let voters: BTreeSet<NodeId> = status.voters.iter().flatten().copied().collect();
    let stay: BTreeSet<NodeId> = voters.iter().copied().filter(|node| wanted.contains_key(node)).collect();
    let (next, failure) = next_voters(group, wanted, &voters, &stay, silent).await?;
    // A member that leaves keeps its vote until all others have theirs.
    let is_whole = next.len() == wanted.len();
    let changes = next != voters && (is_whole || stay == voters);
    if changes {
        group.set_voters(&next).await?;
    }
    failure.filter(|_| !is_whole).map_or(Ok(changes), Err)
}

/// Members that stay, and nodes that have caught up; and why others have not. One that is away or does not catch up makes an odd number of an even one: no decision needs more votes for
/// that, and when it is back it stands in for any of the others. Two could not take it in when one of them has died meanwhile.
async fn next_voters<S: StateMachine>(
    group: &Group<S>,
    wanted: &BTreeMap<NodeId, String>,
    voters: &BTreeSet<NodeId>,
    stay: &BTreeSet<NodeId>,
    silent: &BTreeSet<NodeId>,
) -> Result<(BTreeSet<NodeId>, Option<MemberError>), MemberError> {
    let new = wanted.keys().copied().filter(|node| !voters.contains(node));
    // A leader that was removed hears of no node any more: where a member leaves, all that are named are waited for.
    let (away, there): (Vec<NodeId>, Vec<NodeId>) = new.partition(|node| *stay == *voters && silent.contains(node));
    let mut waited = Waited::default();
    waited.wait_for(group, wanted, there).await;
    if !waited.behind.is_empty() {
        // That took a while: nothing could be decided any more if one that has a vote now had gone meanwhile.
        let caught_up = std::mem::take(&mut waited.caught_up);
        waited.wait_for(group, wanted, caught_up).await;
    }
    let Waited { caught_up, behind, failure } = waited;
    let mut next: BTreeSet<NodeId> = stay.iter().copied().chain(caught_up).collect();
    let odd_one = behind.into_iter().chain(away).next().filter(|_| !next.is_empty() && next.len().is_multiple_of(2));
    let Some(odd_one) = odd_one else { return Ok((next, failure)) };
    if stay != voters {
        // A member that leaves may have stood in for one of these; the odd one does not yet.
        let mut waited = Waited::default();
        waited.wait_for(group, wanted, stay.iter().copied()).await;
        if waited.failure.is_some() {
            return Ok((next, waited.failure));
        }
    }
    env::mark("groups: a group took in a member that is away");
    group.add_absent_learner(odd_one, &wanted[&odd_one]).await?;
    next.insert(odd_one);
    Ok((next, failure))
}

/// Members that were waited for.
#[derive(Default)]
struct Waited {
    caught_up: Vec<NodeId>,
    behind: Vec<NodeId>,
    /// Why one of these has not caught up.
    failure: Option<MemberError>,
}

impl Waited {
    /// One after the other; those that are not members are from now on, without a vote.
    async fn wait_for<S: StateMachine>(
        &mut self,
        group: &Group<S>,
        wanted: &BTreeMap<NodeId, String>,
        nodes: impl IntoIterator<Item = NodeId>,
    ) {
        for node in nodes {
            match group.add_learner(node, &wanted[&node]).await {
                Ok(()) => self.caught_up.push(node),
                Err(error) => {
                    self.behind.push(node);
                    self.failure = Some(error);
                }
            }
        }
    }
}

/// Whether these have the votes, all of them, and the group has no other member.
pub(crate) fn are_members(status: &GroupStatus, wanted: &BTreeMap<NodeId, String>) -> bool {
    match &status.voters[..] {
        [voters] => voters.iter().eq(wanted.keys()) && status.learners.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
pub(crate) mod tests;
