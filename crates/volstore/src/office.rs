//! A placement group at its primary, under one view: the store of its objects, and what the next view is asked for.
//!
//! ```text
//!   serving ─► copies meet ─► superblock, dump, entries ─► doubts: copies are compared ─► open
//!                  │                                                                       │ learners: filled, then named as voters
//!                  └────────── a copy that counts fails: the next view, without it ◄───────┘
//! ```

use std::collections::BTreeSet;
use std::sync::Arc;

use ::engine::EngineError;
use env::Env;
use manager::{NamePlacement, PlacementRecord};
use net::ServiceTag;
use tokio::sync::watch;
use types::{NodeId, ViewNumber};

use crate::desk::Desk;
use crate::interface::VolumeEngine;
use crate::limits::{LEARNER_PATIENCE, LEARNER_PAUSE, LEASE, NEXT_VIEW_PAUSE, PRIMARY_PAUSE, SHUT_PAUSE};
use crate::members::{Group, Members};
use crate::mirror::{Copy, Mirror};
use crate::name::Opseq;
use crate::seat::Seat;
use crate::store::Store;

/// A group that is served here.
pub struct Office {
    pub view: ViewNumber,
    pub store: Store,
    /// What other gateways hold here.
    pub desk: Desk,
    ended: watch::Sender<bool>,
}

impl Office {
    pub fn engine(&self, is_strict: bool) -> VolumeEngine {
        VolumeEngine::new(self.store.clone(), is_strict)
    }

    /// Waits for the lease of a view that has just begun, or of a manager that is slow. Not for ever: what is asked then is refused.
    pub async fn until_lease(&self, env: &Env) {
        let until = env.now() + LEASE;
        while !self.store.may_answer() && env.now() < until {
            env.sleep(PRIMARY_PAUSE).await;
        }
    }

    /// Another view has begun.
    pub fn end(&self) {
        self.store.refuse_writes();
        self.ended.send_replace(true);
    }

    /// Serves a group under a view, until it ends.
    pub async fn serve(members: Arc<Members>, group: Arc<Group>, view: ViewNumber) {
        let Some(record) = members.manager.snapshot().placement(group.number).filter(|record| record.view == view).cloned()
        else {
            return;
        };
        let mirror = mirror_of(&members, &group, &record);
        let opened = open(&members, &group, view, &mirror).await;
        let store = match opened {
            Ok(store) => store,
            Err(error) => {
                tracing::warn!(%error, group = group.number, view = view.0, "a placement group can't be served under this view");
                let is_alone = record.voters.len() == 1;
                members.note_obstacle(group.number, is_alone.then_some(error));
                members.env.sleep(if is_alone { SHUT_PAUSE } else { NEXT_VIEW_PAUSE }).await;
                return ask_for_next(&members, &record, &mirror, true).await;
            }
        };
        members.note_obstacle(group.number, None);
        let (ended, mut told) = watch::channel(false);
        let office = Arc::new(Office { view, store, desk: Desk::default(), ended });
        if !group.open_office(&office) {
            return;
        }
        let failing = async {
            let reason = tokio::select! {
                reason = office.store.failure() => reason,
                () = until_device_stops(&members, &record, &mirror) => "the device of this node's copy takes no writes".to_owned(),
            };
            until_a_view_helps(&members, &record, &mirror).await;
            tracing::warn!(reason, group = group.number, view = view.0, "a placement group asks for another view");
            ask_for_next(&members, &record, &mirror, false).await;
        };
        tokio::select! {
            () = failing => {}
            () = look_after(&members, &group, &office, &record, &mirror) => {}
            () = async { drop(told.wait_for(|is_ended| *is_ended).await.map(drop)) } => {}
        }
    }
}

/// Waits until another node had better lead.
async fn until_device_stops(members: &Members, record: &PlacementRecord, mirror: &Mirror) {
    while record.voters == [members.me] || mirror.takes_writes() {
        members.env.sleep(LEARNER_PAUSE).await;
    }
}

/// Waits while this node alone has the group and its device takes no writes: what is there is read meanwhile.
async fn until_a_view_helps(members: &Members, record: &PlacementRecord, mirror: &Mirror) {
    while record.voters == [members.me] && !mirror.takes_writes() {
        members.env.sleep(SHUT_PAUSE).await;
    }
}

fn mirror_of(members: &Members, group: &Arc<Group>, record: &PlacementRecord) -> Mirror {
    let others = record.members().filter(|node| *node != members.me);
    let copy = |node: NodeId| {
        let caller = (members.ways)(node, ServiceTag::OBJECT_BLOCKS);
        Copy::new(node, caller, record.voters.contains(&node))
    };
    Mirror::new(&members.env, group.clone(), record.view, members.me, others.map(copy).collect())
}

async fn open(members: &Arc<Members>, group: &Arc<Group>, view: ViewNumber, mirror: &Mirror) -> Result<Store, EngineError> {
    mirror.meet().await.map_err(|error| EngineError::Unavailable { reason: error.to_string() })?;
    let (entries, next) = group.entries_from(0);
    let entries = entries.into_iter().map(|(opseq, bytes)| (Opseq(opseq), bytes)).collect();
    let seat = Seat { members: members.clone(), group: group.clone(), view, mirror: mirror.clone() };
    Store::open(&members.env, mirror.clone(), seat, entries, Opseq(next)).await
}

/// Keeps the store in order and fills the learners, for as long as the view lasts.
async fn look_after(members: &Arc<Members>, group: &Arc<Group>, office: &Office, record: &PlacementRecord, mirror: &Mirror) {
    let filling = async {
        if record.learners.is_empty() {
            return;
        }
        mirror.prepare().await;
        let is_whole = !mirror.filling().is_empty() && fill(&members.env, group, office, mirror).await;
        let filling = mirror.filling().into_iter();
        let filled: Vec<NodeId> = filling.filter(|node| is_whole && mirror.is_filled(*node)).collect();
        match filled.is_empty() {
            true => members.env.sleep(LEARNER_PAUSE).await,
            false => env::mark("volume engine: a learner was filled"),
        }
        // Learners that are broken go, so that others come.
        while members.is_newest(record) {
            let voters = record.voters.iter().chain(&filled).copied().collect();
            members.name_next(NamePlacement { voters, learners: mirror.preparing(), ..next_of(record) }).await;
            members.env.sleep(NEXT_VIEW_PAUSE).await;
        }
    };
    tokio::join!(filling, office.store.maintain(), office.desk.tidy(&members.env));
}

/// Whether the learners that are not broken have everything.
async fn fill(env: &Env, group: &Group, office: &Office, mirror: &Mirror) -> bool {
    let filled = fill_all(env, group, office, mirror).await;
    filled
        .inspect_err(|error| tracing::warn!(%error, group = group.number, "a copy of a placement group was not filled"))
        .is_ok()
}

async fn fill_all(env: &Env, group: &Group, office: &Office, mirror: &Mirror) -> Result<(), EngineError> {
    office.store.copy_to(mirror).await?;
    // A learner's log may begin anywhere. The names that it has must be newer than that, and its log must have all since.
    let until = env.now() + LEARNER_PATIENCE;
    let mut keep_from = Opseq(0);
    loop {
        let (ready, filling) = (group.ready_learners(), mirror.filling());
        let base_of = |node: &NodeId| ready.iter().find(|(learner, _)| learner == node).map(|(_, base)| base.0);
        let bases: Vec<Option<u64>> = filling.iter().map(base_of).collect();
        if bases.iter().all(|base| base.is_some_and(|base| base < keep_from.0)) {
            return Ok(());
        }
        if bases.iter().all(Option::is_some) {
            keep_from = office.store.write_names().await?;
        } else if env.now() >= until {
            filling.iter().filter(|node| base_of(node).is_none()).for_each(|node| mirror.give_up(*node));
        }
        env.sleep(NEXT_VIEW_PAUSE).await;
    }
}

fn next_of(record: &PlacementRecord) -> NamePlacement {
    let (voters, learners) = (record.voters.clone(), record.learners.clone());
    NamePlacement { group: record.group, after: Some(record.view), primary: record.primary, voters, learners }
}

/// The next view is without the copies that have failed. `is_shut`: this node could not open the group, so another one leads if there is one.
async fn ask_for_next(members: &Members, record: &PlacementRecord, mirror: &Mirror, is_shut: bool) {
    let is_alone = |failed: &BTreeSet<NodeId>| record.voters.iter().all(|node| *node == members.me || failed.contains(node));
    if is_alone(&mirror.failed()) {
        // All others were silent at once: this node may have been.
        drop(members.manager.fresh().await);
        mirror.forgive().await;
    }
    let failed = mirror.failed();
    let keeps = |node: &&NodeId| !failed.contains(node);
    let voters: Vec<NodeId> = record.voters.iter().filter(keeps).copied().collect();
    let base = record.active().map_or_else(|| record.voters.clone(), |active| active.voters);
    let is_fit = |node: &&NodeId| base.contains(node);
    let at = voters.iter().position(|node| *node == members.me).map_or(0, |at| at + 1);
    let others = voters.iter().cycle().skip(at).take(voters.len());
    let other = others.filter(is_fit).find(|node| **node != members.me).copied();
    let own = voters.contains(&members.me).then_some(members.me);
    let primary = if is_shut && failed.is_empty() { other.or(own) } else { own.or(other) };
    // If all copies have failed, the same ones try again.
    let (primary, voters) = primary.map_or_else(|| (record.primary, record.voters.clone()), |primary| (primary, voters));
    let learners: Vec<NodeId> =
        record.learners.iter().filter(keeps).filter(|node| !mirror.broken().contains(node)).copied().collect();
    // The manager may not be there. Nobody else asks: the keeper sees a primary that is.
    while members.is_newest(record) {
        let (voters, learners) = (voters.clone(), learners.clone());
        members.name_next(NamePlacement { primary, voters, learners, ..next_of(record) }).await;
        members.env.sleep(NEXT_VIEW_PAUSE).await;
    }
}
