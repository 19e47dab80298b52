//! A primary whose members are there and don't take part: it asks for a view without those that hold it up.
//!
//! The manager knows only which nodes are silent. A node whose log is full or broken, whose disk hangs, or that another member can't reach, is not.

use std::collections::BTreeMap;
use std::sync::Arc;

use allack::Obstacle;
use manager::NamePlacement;
use types::NodeId;

use super::Members;
use crate::limits::{STALL_INTERVAL, STALL_LOOKS};

impl Members {
    /// For as long as the node lives.
    pub(super) async fn watch(self: &Arc<Self>) {
        let mut stalls: BTreeMap<u32, (Obstacle, u32)> = BTreeMap::new();
        loop {
            self.env.sleep(STALL_INTERVAL).await;
            for group in self.groups() {
                let Some(obstacle) = group.machine.lock().obstacle(self.env.now()) else {
                    stalls.remove(&group.number);
                    continue;
                };
                let (former, looks) = stalls.entry(group.number).or_insert_with(|| (obstacle.clone(), 0));
                let is_same =
                    (former.view, former.waits_for, former.level) == (obstacle.view, obstacle.waits_for, obstacle.level);
                *looks = if is_same { *looks + 1 } else { 0 };
                *former = obstacle.clone();
                if *looks == STALL_LOOKS {
                    stalls.remove(&group.number);
                    let members = self.clone();
                    drop(self.env.spawn(async move { members.go_on_without(group.number, &obstacle).await }));
                }
            }
        }
    }

    /// Names the next view without the members that are waited for, if a member is left that has everything.
    async fn go_on_without(&self, group: u32, obstacle: &Obstacle) {
        let Obstacle { view, waits_for, nodes, .. } = obstacle;
        if self.manager.fresh().await.is_err() {
            return;
        }
        let Some(record) = self.manager.snapshot().placement(group).filter(|record| record.view == *view).cloned() else {
            return;
        };
        let is_kept = |node: &NodeId| !nodes.contains(node);
        let voters: Vec<NodeId> = record.voters.iter().copied().filter(is_kept).collect();
        let base = record.active().map_or_else(|| record.voters.clone(), |active| active.voters);
        let able = || voters.iter().copied().filter(|node| base.contains(node));
        let Some(primary) = able().find(|node| *node == self.me).or_else(|| able().next()) else { return };
        env::mark("volume engine: members held a primary up");
        tracing::warn!(
            group,
            view = view.0,
            waits_for,
            ?nodes,
            "a placement group goes on without members that do not take part"
        );
        let learners = record.learners.iter().copied().filter(is_kept).collect();
        self.name_next(NamePlacement { group, after: Some(*view), primary, voters, learners }).await;
    }
}
