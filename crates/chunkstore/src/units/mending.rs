//! What a leader asks of nodes about copies and blocks that are damaged. What is not done is found, and asked for, again.

use std::sync::Arc;

use format::chunk_block::{ChunkVersion, Era};
use format::chunk_place::BlockPlace;

use super::leading::healing::Healing;
use super::leading::mends::Mend;
use super::member::{UnitMember, with_leader};
use crate::asking::{ask_block, ask_to_condemn};
use crate::leader::Errand;
use crate::limits::ERRAND_PATIENCE;
use crate::message::{LiveCopy, Mark, NodeAnswer, NodeRequest, ToNode};

/// How new a copy is: a write of former places that comes late counts for nothing, whatever its version.
type Age = (Era, ChunkVersion);

/// What a copy is to become.
struct Newest {
    /// Where it is to be had; nowhere if only the copy itself may have it.
    places: Vec<BlockPlace>,
    /// None if no other copy has anything.
    age: Option<Age>,
    /// No copy has something newer that anybody was told of.
    is_compared: bool,
}

/// What became of a mend.
#[derive(PartialEq, Eq)]
enum Mended {
    Done,
    /// The copy has something newer than was brought, or belongs to other places: that is what can't be read, or is doubted.
    IsOther,
    Not,
}

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
            let is_mended = member.mend_by_newest(&mend).await;
            if is_mended {
                tracing::info!(id = %mend.id, device = mend.rotten.device().0, "a chunk's copy has its content again");
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

    async fn mend_by_newest(&self, mend: &Mend) -> bool {
        let Some(newest) = self.newest_of(mend).await else { return false };
        let mut is_other = newest.places.is_empty();
        for place in newest.places.iter().copied() {
            match self.mend_from(mend, place, &newest).await {
                Mended::Done => return true,
                Mended::IsOther => is_other = true,
                Mended::Not => {}
            }
        }
        // Merely doubted, it gets what it has.
        is_other && self.mend_from(mend, mend.rotten, &newest).await == Mended::Done
    }

    /// What the other copies have; none if that may not do.
    ///
    /// It does if all of them have answered, or one that did is settled: nobody was told anything newer then. Else one that says nothing may have
    /// something newer, and only what the copy itself had makes it no older than it was.
    async fn newest_of(&self, mend: &Mend) -> Option<Newest> {
        let (mut heard, mut is_whole, mut is_any_settled) = (Vec::new(), mend.is_whole, false);
        for place in mend.others.iter().copied() {
            match self.ask_of(mend, place, NodeRequest::Query).await {
                Some(NodeAnswer::Live(copy)) => {
                    heard.push((place, (copy.era, copy.version)));
                    is_any_settled |= copy.is_settled;
                }
                // It is not there; or it was being overwritten, and others have what was answered.
                Some(NodeAnswer::Absent | NodeAnswer::Departed | NodeAnswer::Damaged) => {}
                _ => is_whole = false,
            }
        }
        let is_compared = is_whole || is_any_settled;
        let age = match is_compared {
            true => heard.iter().map(|(_, age)| *age).max(),
            false => Some(self.age_of_unreadable(mend).await?),
        };
        let places = heard.into_iter().filter(|(_, its)| Some(*its) == age).map(|(place, _)| place).collect();
        Some(Newest { places, age, is_compared })
    }

    /// What the copy was, if its content can't be read: that was not what it is doubted for.
    async fn age_of_unreadable(&self, mend: &Mend) -> Option<Age> {
        if self.ask_of(mend, mend.rotten, NodeRequest::Read).await != Some(NodeAnswer::Damaged) {
            return None;
        }
        match self.ask_of(mend, mend.rotten, NodeRequest::Query).await {
            Some(NodeAnswer::Live(copy)) => Some((copy.era, copy.version)),
            _ => None,
        }
    }

    /// By what is there, if that is not older than this.
    async fn mend_from(&self, mend: &Mend, place: BlockPlace, newest: &Newest) -> Mended {
        let found = self.ask_of(mend, place, NodeRequest::Read).await;
        let Some(NodeAnswer::Live(LiveCopy { version, era, content: Some(content), .. })) = found else { return Mended::Not };
        if Some((era, version)) < newest.age {
            return Mended::Not;
        }
        // In a relocation that has begun meanwhile copies are raised, and depart: the others may have been asked in its middle.
        let is_compared = newest.is_compared && Some(era) == mend.era;
        match self.ask_of(mend, mend.rotten, NodeRequest::Mend { era, version, is_compared, content }).await {
            Some(NodeAnswer::OtherEra) => Mended::IsOther,
            Some(NodeAnswer::Done(Some(Mark::Live(held)))) if held > version => Mended::IsOther,
            Some(NodeAnswer::Done(_)) => Mended::Done,
            _ => Mended::Not,
        }
    }

    async fn ask_of(&self, mend: &Mend, place: BlockPlace, request: NodeRequest) -> Option<NodeAnswer> {
        ask_block(&self.env, &*self.reach, ToNode { place, id: mend.id, request }, ERRAND_PATIENCE).await
    }
}
