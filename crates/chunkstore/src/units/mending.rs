//! What a leader asks of nodes about copies and blocks that are damaged. What is not done is found, and asked for, again.

use std::sync::Arc;

use format::chunk_place::BlockPlace;

use super::leading::healing::{Healing, Mend};
use super::member::{UnitMember, with_leader};
use crate::asking::{ask_block, ask_to_condemn};
use crate::leader::Errand;
use crate::limits::ERRAND_PATIENCE;
use crate::message::{LiveCopy, Mark, NodeAnswer, NodeRequest, ToNode};

impl UnitMember {
    pub(super) fn mend_all(self: &Arc<Self>, healing: Healing) {
        healing.condemn.into_iter().for_each(|place| self.condemn(place));
        healing.mend.into_iter().for_each(|mend| self.mend(mend));
    }

    /// Has a node condemn a block, of which it tells in its reports.
    fn condemn(&self, place: BlockPlace) {
        let (env, reach) = (self.env.clone(), self.reach.clone());
        self.env.spawn(async move {
            let answer = ask_to_condemn(&env, &*reach, place, ERRAND_PATIENCE).await;
            tracing::info!(device = place.device().0, block = place.block(), ?answer, "a damaged block is to be condemned");
        });
    }

    /// Takes the content of another copy to one that has lost it.
    fn mend(self: &Arc<Self>, mend: Mend) {
        let key = (Errand::Mend, mend.id, mend.rotten);
        let Some((permit, node)) = self.begin_errand(key) else { return };
        let member = self.clone();
        self.env.spawn(async move {
            let mut is_mended = false;
            let others = if mend.is_doubtful { member.newest_of(&mend).await } else { mend.others.clone() };
            for other in others {
                is_mended = member.mend_from(&mend, other).await;
                if is_mended {
                    tracing::info!(id = %mend.id, device = mend.rotten.device().0, "a chunk's copy has its content again");
                    break;
                }
            }
            with_leader(&Arc::downgrade(&member), |leading| {
                leading.errands.end(node, &key);
                if is_mended {
                    leading.mended(mend.id, mend.rotten);
                }
                Vec::new()
            });
            drop(permit);
        });
    }

    /// Those of the copies that have the newest version, as all of them say; none if one says nothing: it may have a newer one.
    async fn newest_of(&self, mend: &Mend) -> Vec<BlockPlace> {
        let (mut newest, mut version) = (Vec::new(), None);
        for place in mend.others.iter().copied() {
            let to = ToNode { place, id: mend.id, request: NodeRequest::Query };
            match ask_block(&self.env, &*self.reach, to, ERRAND_PATIENCE).await {
                Some(NodeAnswer::Live(copy)) => {
                    let its = Some((copy.era, copy.version));
                    if its > version {
                        (newest, version) = (Vec::new(), its);
                    }
                    if its == version {
                        newest.push(place);
                    }
                }
                // It is not there; or it was being overwritten, and others have what was answered.
                Some(NodeAnswer::Absent | NodeAnswer::Departed | NodeAnswer::Damaged) => {}
                _ => return Vec::new(),
            }
        }
        newest
    }

    async fn mend_from(&self, mend: &Mend, other: BlockPlace) -> bool {
        let id = mend.id;
        let ask = |place, request| ask_block(&self.env, &*self.reach, ToNode { place, id, request }, ERRAND_PATIENCE);
        let found = ask(other, NodeRequest::Read).await;
        let Some(NodeAnswer::Live(LiveCopy { version, era, content: Some(content), .. })) = found else { return false };
        match ask(mend.rotten, NodeRequest::Mend { era, version, content }).await {
            // It has something newer, and that is what can't be read.
            Some(NodeAnswer::Done(Some(Mark::Live(held)))) => held <= version,
            answer => matches!(answer, Some(NodeAnswer::Done(_))),
        }
    }
}
