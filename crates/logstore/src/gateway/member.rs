//! A gateway's membership of its cell: the view that it has installed, its ways to the others, what it has heard in this view.

use super::depose::deposed;
use super::follow::{Follow, Moves};
use super::install::CellView;
use super::lease::Lease;
use super::question::Questions;
use super::release::Releases;
use crate::machine::Cell;
use crate::peers::{Directory, Hearings, Item, Link, Staged};
use crate::store::LogStore;
use crate::watched::Watched;
use arc_swap::ArcSwap;
use engine::EngineError;
use format::name_entry::NameEntry;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::mpsc;
use topology::ReplicaTable;
use types::{DeviceId, Epoch, GatewayId, KeyHash, ViewNumber};

/// What makes a log engine the gateway of a cell.
#[derive(Clone)]
pub struct MemberSetup {
    /// Ways to the other gateways.
    pub directory: Arc<dyn Directory>,
    /// The view in which it begins.
    pub first: CellView,
    /// No other gateway can join its cell while it lives.
    pub is_sole: bool,
}

/// What a gateway says of itself in its heartbeats.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemberStatus {
    pub view: ViewNumber,
    /// It has the maps of all members, and may have a lease.
    pub has_joined: bool,
    /// Removed gateways of which it has processed the decision.
    pub decided: BTreeSet<GatewayId>,
    /// As leader: those that are decided everywhere and checkpointed.
    pub recovered: BTreeSet<GatewayId>,
    /// Members that did not answer its last call.
    pub unreachable: BTreeSet<GatewayId>,
}

impl LogStore {
    /// What this gateway says of its membership; none if it is alone.
    pub fn member_status(&self) -> Option<MemberStatus> {
        let member = self.inner.member.as_ref()?;
        let links = member.links();
        let unreachable = links.iter().filter(|(_, link)| link.is_failing()).map(|(gateway, _)| *gateway).collect();
        let heard = member.heard.lock();
        Some(MemberStatus {
            view: heard.view,
            has_joined: !heard.joining,
            decided: heard.decided.clone(),
            recovered: heard.recovered.clone(),
            unreachable,
        })
    }
}

/// The membership.
pub(crate) struct Member {
    /// No other gateway can join while this one lives.
    pub is_sole: bool,
    pub directory: Arc<dyn Directory>,
    cell: ArcSwap<Cell>,
    links: ArcSwap<BTreeMap<GatewayId, Arc<Link>>>,
    pub hearings: Hearings,
    pub lease: Lease,
    pub questions: Arc<Questions>,
    /// Changes of places, in the order in which the leader made them.
    pub following: mpsc::UnboundedSender<Follow>,
    /// Taken by the task that applies them.
    pub followed: Mutex<Option<mpsc::UnboundedReceiver<Follow>>>,
    /// Of this gateway and of the leaders before, in no checkpoint yet, by key.
    pub moves: Mutex<BTreeMap<KeyHash, Moves>>,
    /// Moves of records that this gateway has not heard of, by key: applied when it does.
    pub early_moves: Mutex<BTreeMap<KeyHash, Moves>>,
    /// Who waits for the readers of this gateway.
    pub releases: Releases,
    /// Held while a view is installed, and while a message about all keys is taken in.
    pub changing: Mutex<()>,
    pub heard: Mutex<Heard>,
    /// Counts changes of `heard` and of the view.
    pub progress: Watched<u64>,
    pub is_deposed: AtomicBool,
    /// The checkpoint that it joins with is chosen, or it has joined.
    has_checkpoint: AtomicBool,
    /// One step of the epoch at a time.
    pub advancing: tokio::sync::Mutex<()>,
}

/// What has been heard.
#[derive(Default)]
pub(crate) struct Heard {
    /// The view that this is about. It changes before the shards do.
    pub view: ViewNumber,
    pub leader: Option<GatewayId>,
    /// Tables by which writes may have gone that no checkpoint covers.
    pub uncovered: Vec<ReplicaTable>,
    /// Removed gateways that are not decided here.
    pub undecided: BTreeSet<GatewayId>,
    /// Of this view, from each other member:
    pub hello: BTreeMap<GatewayId, (Epoch, Option<Epoch>)>,
    pub carried: BTreeSet<GatewayId>,
    pub holding: BTreeSet<GatewayId>,
    /// Shards of this gateway that hold everything that was recovered.
    pub holding_shards: usize,
    /// The epoch that each member, and each removed gateway that is not decided, has begun, and what it had staged then.
    pub begun: BTreeMap<GatewayId, (Epoch, Staged)>,
    /// Each member has heard everything that was concluded in the epochs before this one.
    pub has_heard: BTreeMap<GatewayId, Epoch>,
    /// For a gateway that joins: names that the members told.
    pub unsaved: Vec<NameEntry>,
    /// This gateway has been installed as one that joins, and has not finished.
    pub joining: bool,
    /// It leads its view, joins, and another one has maps: it joins anew.
    pub gives_up: bool,
    pub decided: BTreeSet<GatewayId>,
    pub recovered: BTreeSet<GatewayId>,
    /// The view in which this gateway, as leader, has had every member begin its epoch.
    pub in_step: Option<ViewNumber>,
}

impl Heard {
    /// The greatest epoch that another member was in when it installed this view.
    pub fn greeted_with(&self) -> Epoch {
        self.hello.values().map(|(epoch, _)| *epoch).max().unwrap_or_default()
    }

    /// Everything that these members, and removed gateways that are not decided, concluded in the epochs before this one has been heard here.
    pub fn heard_of(&self, others: &[GatewayId]) -> Epoch {
        let begun = |gateway| self.begun.get(gateway).map_or(Epoch(0), |(epoch, _)| *epoch);
        others.iter().chain(&self.undecided).map(begun).min().unwrap_or(Epoch(u64::MAX))
    }

    /// Whether a gateway that is removed and not decided has not said here that it had begun an epoch after this one.
    pub fn lacks_words_of_removed(&self, ended: Epoch) -> bool {
        self.undecided.iter().any(|removed| self.begun.get(removed).is_none_or(|(begun, _)| *begun <= ended))
    }
}

impl Member {
    pub fn new(setup: MemberSetup, cell: Arc<Cell>, joining: bool) -> Self {
        #[expect(
            clippy::disallowed_methods,
            reason = "what waits is bounded by the moves in memory; a limit here can stop a stream for good (`follow`)"
        )]
        let (following, followed) = mpsc::unbounded_channel();
        let view = cell.number();
        Member {
            is_sole: setup.is_sole,
            directory: setup.directory,
            hearings: Hearings::new(cell.view().clone()),
            cell: ArcSwap::new(cell),
            links: ArcSwap::default(),
            lease: Lease::default(),
            questions: Arc::default(),
            following,
            followed: Mutex::new(Some(followed)),
            moves: Mutex::default(),
            early_moves: Mutex::default(),
            releases: Releases::default(),
            changing: Mutex::default(),
            heard: Mutex::new(Heard {
                view,
                joining,
                leader: Some(setup.first.leader),
                uncovered: setup.first.uncovered,
                undecided: setup.first.undecided,
                ..Heard::default()
            }),
            progress: Watched::default(),
            is_deposed: AtomicBool::new(false),
            has_checkpoint: AtomicBool::new(false),
            advancing: tokio::sync::Mutex::default(),
        }
    }

    /// The view that this gateway has installed.
    pub fn view(&self) -> arc_swap::Guard<Arc<Cell>> {
        self.cell.load()
    }

    /// All shards have installed this view.
    pub fn set_view(&self, cell: Arc<Cell>) {
        self.cell.store(cell);
        self.moved();
    }

    /// Queues an item for another gateway. For one that has left it is dropped.
    pub fn push(&self, to: GatewayId, item: &Item) {
        if let Some(link) = self.links.load().get(&to) {
            link.push(item);
        }
    }

    /// What waits for the gateway beside a device goes now, with an append there.
    pub fn hurry_beside(&self, device: DeviceId) {
        if let Some(link) = self.directory.beside(device).and_then(|gateway| self.links.load().get(&gateway).cloned()) {
            link.hurry();
        }
    }

    /// What waits for the other gateways goes now.
    pub fn hurry_all(&self) {
        self.links.load().values().for_each(|link| link.hurry());
    }

    /// Queues an item for every other member; while a view is being installed also for who joins with it.
    pub fn push_to_all(&self, item: &Item) {
        self.links.load().values().for_each(|link| link.push(item));
    }

    /// A member has begun an epoch.
    pub fn note_begun(&self, from: GatewayId, epoch: Epoch, staged: Staged, has_heard: Epoch) {
        {
            let mut heard = self.heard.lock();
            if heard.begun.get(&from).is_none_or(|(begun, _)| *begun <= epoch) {
                heard.begun.insert(from, (epoch, staged));
                heard.has_heard.insert(from, has_heard);
            }
        }
        self.moved();
    }

    /// Everything that was concluded in the epochs before this one has been heard by every member.
    pub fn heard_everywhere(&self) -> Epoch {
        let cell = self.view();
        let heard = self.heard.lock();
        let has_heard = |other| heard.has_heard.get(other).copied().unwrap_or_default();
        cell.others().iter().map(has_heard).fold(heard.heard_of(cell.others()), Epoch::min)
    }

    /// Whether a move that this gateway tells now was made by it as leader: what a member tells again in a new view comes after its first word in it,
    /// which waits for the view, and before it has carried.
    pub fn is_fresh_from_leader(&self, from: GatewayId) -> bool {
        let heard = self.heard.lock();
        heard.leader == Some(from) && heard.carried.contains(&from)
    }

    pub fn links(&self) -> Arc<BTreeMap<GatewayId, Arc<Link>>> {
        self.links.load_full()
    }

    pub fn set_links(&self, links: BTreeMap<GatewayId, Arc<Link>>) {
        self.links.store(Arc::new(links));
    }

    /// Something was heard, or a view installed: whoever waits looks again.
    pub fn moved(&self) {
        self.progress.change(|count| *count += 1);
    }

    /// Waits until `is_so` of what was heard.
    pub async fn until(&self, is_so: impl Fn(&Heard) -> bool) {
        self.progress.wait_for(|_| is_so(&self.heard.lock())).await;
    }

    /// Waits until a view after this one is installed.
    pub async fn view_after(&self, number: ViewNumber) {
        self.progress.wait_for(|_| self.view().number() > number).await;
    }

    /// What this work gives, unless this view ends first, or this gateway leaves its cell: then the work is given up where it is.
    pub async fn while_in<T>(
        &self,
        view: ViewNumber,
        work: impl Future<Output = Result<T, EngineError>>,
    ) -> Result<T, EngineError> {
        tokio::select! {
            biased;
            outcome = work => outcome,
            () = self.view_after(view) => Err(EngineError::Unavailable { reason: "the cell's view is changing".to_owned() }),
            () = self.deposed() => Err(deposed()),
        }
    }

    /// Waits until nothing is undecided.
    pub async fn all_decided(&self) {
        self.until(|heard| heard.undecided.is_empty()).await;
    }

    /// Waits until this gateway has left its cell.
    pub async fn deposed(&self) {
        self.progress.wait_for(|_| self.is_deposed()).await;
    }

    /// Whether this gateway has left its cell: nothing that it knows counts any more.
    pub fn is_deposed(&self) -> bool {
        self.is_deposed.load(Ordering::Acquire)
    }

    /// From here on a gateway that joins reads no newer checkpoint, and says so in each view as those do that have joined: else a recovery would not walk what this
    /// one's lacks and a newer one has. False if the view is not that one any more: in another one it may have said that it has chosen none, and what was under
    /// way there must be decided first.
    pub fn choose_checkpoint(&self, view: ViewNumber) -> bool {
        let _no_installation = self.changing.lock();
        if self.has_chosen_checkpoint() {
            return true;
        }
        let (is_same, is_decided) = {
            let heard = self.heard.lock();
            (heard.view == view, heard.undecided.is_empty())
        };
        if is_same && is_decided {
            self.has_checkpoint.store(true, Ordering::Release);
        }
        is_same && is_decided
    }

    /// Whether it has a checkpoint, or is about to read the one that it has chosen. Until then it is going to have the newest.
    pub fn has_chosen_checkpoint(&self) -> bool {
        self.has_checkpoint.load(Ordering::Acquire) || !self.heard.lock().joining
    }

    /// Whether every other member of the view has told what it carries over.
    pub fn all_carried(&self) -> bool {
        self.have_all_carried(&self.heard.lock())
    }

    /// The same of what was heard, for who has it locked.
    pub fn have_all_carried(&self, heard: &Heard) -> bool {
        let view = self.view();
        heard.view == view.number() && view.others().iter().all(|other| heard.carried.contains(other))
    }

    /// Whether this gateway leads its view: recovers, checkpoints, collects.
    pub fn is_leader(&self) -> bool {
        self.heard.lock().leader == Some(self.view().me())
    }
}
