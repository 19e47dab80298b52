//! A node that was removed from its cluster leaves its groups; one that stops lets others lead them.
//!
//! Others hear it lead, and follow it; so nobody takes its place, and clients, who are told of the present members alone, find no leader. What the manager has decided
//! since, this node does not hear: another one says where everything is.
//!
//! ```text
//!   removed ─► the manager names others ─► led here: these become the members ─► it has no vote any more ─► it ends here
//!                                          not led: the leader does that           └─ after 90 s: if the others are a majority
//! ```
//!
//! It does not just end: of a group with one member nothing would be left, of one with two no majority.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use consensus::{GroupStatus, NodeId, StateMachine};
use futures_util::future::join_all;
use net::BoxFuture;

use crate::host::{Host, Kind, Member};
use crate::limits::{HAND_OVER_LOOK, HAND_OVER_PATIENCE, LEAVE_LOOK, LEAVE_PATIENCE};
use crate::map::Named;
use crate::placed::Placed;

impl<K: Kind> Host<K> {
    /// Ends this node's part in its groups, for good; returns when it has none. `look` asks another node which nodes the members are to be.
    pub async fn leave(&self, look: impl Fn() -> BoxFuture<'static, Option<Named>>) {
        self.has_left.store(true, Ordering::SeqCst);
        let until = self.env.now() + LEAVE_PATIENCE;
        loop {
            let members = self.all();
            // One that is starting is not among them yet.
            if members.is_empty() && self.following.available_permits() > 0 {
                return;
            }
            let named = look().await.unwrap_or_default();
            for member in members {
                let placed = member.placed();
                let number = placed.key().number;
                if let Some(named) = named.get(&number) {
                    placed.hand_over(named, || member.silent());
                }
                let status = placed.group().status();
                let is_over = self.env.now() >= until;
                if may_leave(&status, placed.group().node(), is_over) {
                    tracing::info!(group = ?placed.key(), "this node, which was removed, has left a placed group");
                    self.end(number).await;
                }
            }
            self.env.sleep(LEAVE_LOOK).await;
        }
    }

    /// Lets other members lead the groups that this node leads, for it is about to stop: they would miss it first, and elect one of them then.
    /// Returns when they do, or after a while.
    pub async fn stop_leading(&self) {
        let members = self.all();
        let handed = join_all(members.iter().map(|member| member.placed().stop_leading(|| member.silent())));
        tokio::select! {
            biased;
            _ = handed => {}
            () = self.env.sleep(HAND_OVER_PATIENCE) => tracing::info!("not all placed groups of this node are led by others yet"),
        }
    }
}

impl<S: StateMachine> Placed<S> {
    /// Where this node leads: a member that is there takes over. Returns when this one leads no more.
    async fn stop_leading(&self, silent: impl FnOnce() -> BTreeSet<NodeId>) {
        let status = self.group().status();
        if !status.is_leader {
            return;
        }
        let silent = silent();
        let own = self.group().node();
        let has_vote = |node: &NodeId| status.voters.iter().all(|set| set.contains(node));
        let voters = status.voters.iter().flatten().copied().filter(|node| *node != own && has_vote(node));
        // One that says nothing may be there all the same, and is no worse than none.
        let Some(next) = voters.min_by_key(|node| silent.contains(node)) else { return };
        if let Err(error) = self.group().transfer_leader(next).await {
            tracing::info!(group = ?self.key(), %error, "a placed group was not handed over");
            return;
        }
        while self.group().status().is_leader {
            self.env.sleep(HAND_OVER_LOOK).await;
        }
        env::mark("groups: a group handed over by a node that stops");
    }
}

/// Whether the others can go on without a node: it has no part any more in their decisions, or they are a majority and it has waited long enough. One that
/// leads is in the members' list no more from the moment at which it has written the change down, and they may need it until that is committed.
fn may_leave(status: &GroupStatus, node: NodeId, is_over: bool) -> bool {
    match status.voters.iter().any(|set| set.contains(&node)) {
        true => is_over && can_do_without(status, node),
        false => !status.is_leader,
    }
}

/// Whether the others are a majority.
fn can_do_without(status: &GroupStatus, node: NodeId) -> bool {
    status.voters.iter().all(|set| 2 * set.iter().filter(|voter| **voter != node).count() > set.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::membership::tests::status;

    #[test]
    fn a_majority_is_one_of_each_set() {
        let can = |sets: &[&[u64]]| can_do_without(&status(sets, &[]), NodeId(1));
        assert_eq!([&[1_u64][..], &[1, 2], &[1, 2, 3]].map(|set| can(&[set])), [false, false, true]);
        assert!(can(&[&[1, 2, 3], &[2, 4]]) && !can(&[&[1, 2], &[2, 3, 4]]));
    }

    /// Caught: a leader that left when its own removal was written down, and not committed. The other one needed its vote for ever.
    #[test]
    fn who_leads_stays_until_its_removal_is_committed() {
        let changing = status(&[&[2, 3], &[1, 2]], &[4]);
        assert_eq!([1, 4].map(|node| may_leave(&changing, NodeId(node), false)), [false, true]);
        let changed = |is_leader: bool| GroupStatus { is_leader, ..status(&[&[2]], &[]) };
        for is_over in [false, true] {
            assert_eq!([true, false].map(|is_leader| may_leave(&changed(is_leader), NodeId(1), is_over)), [false, true]);
        }
        let three = status(&[&[1, 2, 3]], &[]);
        assert_eq!([false, true].map(|is_over| may_leave(&three, NodeId(1), is_over)), [false, true]);
    }
}
