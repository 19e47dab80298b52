//! A newer view (RFD 5): every shard installs it, then the others are told what this gateway carries over.
//!
//! ```text
//!   streams to new members ─► table, then each shard: install ─► Hello, moves, what is decided, names for who joins, Carried to every member
//! ```
//!
//! The replica table comes with the view. A write dispatched by a shard that has installed it goes by its table, and is acknowledged
//! only when every member has installed it too: so no write of an older generation begins anywhere after a newer one was
//! acknowledged, and generations need no draining (decision 2).

use super::hear::ToldBy;
use super::member::{Heard, Member};
use crate::machine::{Cell, CellMessage, Message};
use crate::peers::{Item, Link, Staged};
use crate::store::{Inner, LogStore};
use engine::EngineError;
use format::name_entry::NameEntry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use target::LogTarget;
use topology::{HeldLease, ReplicaTable, View};
use types::{DeviceId, GatewayId};

/// Names that travel in one item.
const NAMES_PER_ITEM: usize = 256;

/// A view of the cell, as the manager gives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CellView {
    pub view: View,
    pub table: ReplicaTable,
    /// Removed gateways that are not decided.
    pub undecided: BTreeSet<GatewayId>,
    /// The member that recovers, checkpoints and collects.
    pub leader: GatewayId,
    /// Tables by which writes may have gone that no checkpoint covers: of this view, and of former ones. Who
    /// founds the cell judges by them what can't be decided, and who recovers whether it has read enough.
    pub uncovered: Vec<ReplicaTable>,
}

impl LogStore {
    /// Installs a newer view, which this gateway is a member of. To be called once for each view, in order; views may be skipped.
    pub async fn install(&self, next: CellView) {
        let inner = &self.inner;
        let Some(member) = &inner.member else { return };
        if next.view.number() <= member.view().number() || member.is_deposed() {
            return;
        }
        inner.install(member, next);
    }

    /// Takes in a device that this gateway could not reach when it was opened.
    pub fn add_target(&self, target: Arc<dyn LogTarget>) {
        self.inner.targets.add(target);
    }

    /// Says which devices the cell has, those that are away among them. What has copies on others gets new ones.
    pub fn set_devices(&self, devices: BTreeSet<DeviceId>) {
        if self.inner.targets.set_known(devices) {
            self.inner.background.want_repair();
        }
    }

    /// Says in whose places other devices are. What has copies on them gets others beside these, as long as it can be read somewhere.
    pub fn set_replaced(&self, devices: BTreeSet<DeviceId>) {
        if self.inner.targets.set_replaced(devices) {
            self.inner.background.want_repair();
        }
    }

    /// Whether this gateway has a hold on a device.
    pub fn has_target(&self, device: DeviceId) -> bool {
        self.inner.targets.device(device).is_some()
    }

    /// Takes in a grant of the serve lease.
    pub fn renew_lease(&self, granted: HeldLease) {
        if let Some(member) = &self.inner.member {
            member.lease.renew(granted);
        }
    }
}

impl Inner {
    fn install(self: &Arc<Self>, member: &Member, next: CellView) {
        let _one_at_a_time = member.changing.lock();
        let cell = Arc::new(Cell::new(self.me, next.view.clone()).writing(self.config.consistency));
        let added: Vec<GatewayId> =
            next.view.members().iter().copied().filter(|gateway| !member.view().view().contains(*gateway)).collect();
        self.change_links(member, &next.view);
        {
            let mut heard = member.heard.lock();
            let decided = std::mem::take(&mut heard.decided);
            // What was decided stays decided until the manager has taken note.
            heard.undecided = next.undecided.iter().copied().filter(|gateway| !decided.contains(gateway)).collect();
            heard.decided = decided.into_iter().filter(|gateway| next.undecided.contains(gateway)).collect();
            (heard.view, heard.leader) = (next.view.number(), Some(next.leader));
            heard.uncovered = next.uncovered;
            (heard.hello, heard.carried, heard.holding, heard.holding_shards) = Default::default();
            let Heard { begun, has_heard, undecided, .. } = &mut *heard;
            has_heard.retain(|gateway, _| next.view.contains(*gateway));
            begun.retain(|gateway, _| next.view.contains(*gateway) || undecided.contains(gateway));
            // Who joins begins with the greatest epoch that it is greeted with, so that nobody waits for it to end one before: it
            // may have to wait itself for what comes behind. Nothing is known of its chunks.
            let present = self.epochs.present();
            heard.begun.extend(added.iter().map(|gateway| (*gateway, (present, Staged::default()))));
        }
        let table = Arc::new(next.table);
        if table.generation() > self.targets.table().generation() {
            self.background.want_checkpoint();
        }
        self.targets.set_table(table.clone());
        self.background.want_repair();
        let removed: Vec<GatewayId> = member.heard.lock().undecided.iter().copied().collect();
        for shard in &self.shards {
            self.step_on(shard, None, |keys, out| {
                keys.table = table.clone();
                keys.install(cell.clone(), &removed, out);
            });
        }
        member.set_view(cell.clone());
        self.greet(member, &cell, &added);
        tracing::info!(view = cell.number().0, members = ?next.view.members(), "installed a view of the cell");
    }

    /// Writes go by this table from now on. For a gateway that is alone; in a cell tables come with views.
    pub(crate) fn set_table(&self, table: ReplicaTable) {
        let table = Arc::new(table);
        self.targets.set_table(table.clone());
        self.shards.iter().for_each(|shard| shard.lock().table = table.clone());
    }

    /// First words in a view: where this gateway is, the moves that no checkpoint covers, uploads that end, for who joins all names that no checkpoint has,
    /// and that no other freeze is held.
    ///
    /// Moves stand behind `Hello`, which waits for the view at its receiver: one that is not so far takes whatever the leader tells of places for a
    /// move that it has just made, and would go back to where the record stood before the last of them.
    pub(crate) fn greet(&self, member: &Member, cell: &Cell, added: &[GatewayId]) {
        let view = cell.number();
        let (joined, leader) = (self.has_joined(), member.heard.lock().leader);
        let installed = member.has_chosen_checkpoint().then(|| self.remembered.epoch());
        let hello = Item::Hello { view, epoch: self.epochs.present(), installed };
        cell.others().iter().for_each(|to| member.push(*to, &hello));
        self.tell_moves(member);
        self.tell_endings(member);
        for to in cell.others() {
            if leader == Some(*to) {
                self.tell_decided(member, *to);
                self.tell_held(member, *to);
            }
            if joined && added.contains(to) {
                self.tell_names(member, *to);
            }
            member.push(*to, &Item::All(CellMessage::Carried { view }));
        }
    }

    /// The leader hears whom a former one has decided here. When that was told to anybody all held what was told before: so the leader publishes it, and passes over what
    /// the former one did not find.
    fn tell_decided(&self, member: &Member, leader: GatewayId) {
        let gateways: Vec<GatewayId> = member.heard.lock().decided.iter().copied().collect();
        if !gateways.is_empty() {
            member.push(leader, &Item::All(CellMessage::Decided { gateways }));
        }
    }

    /// The leader hears what former ones have told of gateways that are not decided. They may have told it to this gateway alone, and it may stand where
    /// nobody looks any more. Behind the first words of the view: in an older one the leader may not know yet that they are removed.
    fn tell_held(&self, member: &Member, leader: GatewayId) {
        for shard in &self.shards {
            for name in shard.lock().held() {
                let message = Message::Recovered { entry: name.entry };
                member.push(leader, &Item::Key { message, name: Some(Box::new(name)) });
            }
        }
    }

    fn tell_names(&self, member: &Member, to: GatewayId) {
        for memtable in self.names.layers().memtables {
            let names: Vec<NameEntry> = memtable.read().values().cloned().collect();
            env::mark("gateway: names told to who joins");
            self.stats.names_told.add(names.len() as u64);
            for names in names.chunks(NAMES_PER_ITEM) {
                member.push(to, &Item::Unsaved { names: names.to_vec() });
            }
        }
    }

    /// Opens streams to new members and ends those to gateways that left.
    pub(crate) fn change_links(self: &Arc<Self>, member: &Member, view: &View) {
        let known = member.links();
        let mut links = BTreeMap::new();
        for to in view.members().iter().copied().filter(|to| *to != self.me) {
            let link = known.get(&to).cloned().unwrap_or_else(|| {
                let link = Link::new(to, &self.stats);
                let told = Arc::new(ToldBy(Arc::downgrade(self)));
                self.env.spawn(link.clone().run(self.env.clone(), self.me, member.directory.clone(), told));
                link
            });
            links.insert(to, link);
        }
        for (gateway, link) in known.iter() {
            if !links.contains_key(gateway) {
                link.close();
            }
        }
        member.set_links(links);
        member.hearings.install(view);
    }

    /// Whether this gateway has the maps of its cell.
    pub(super) fn has_joined(&self) -> bool {
        self.member.as_ref().is_none_or(|member| !member.heard.lock().joining)
    }

    /// Whether collection is this gateway's.
    pub(crate) fn leads(&self) -> bool {
        self.member.as_ref().is_none_or(|member| member.is_leader())
    }

    /// Refuses what only the leader of a settled view may do.
    pub(crate) fn check_leads(&self) -> Result<(), EngineError> {
        let Some(member) = &self.member else { return Ok(()) };
        let is_settled = member.all_carried() && {
            let heard = member.heard.lock();
            heard.undecided.is_empty() && !heard.joining
        };
        match is_settled && member.is_leader() && !member.is_deposed() {
            true => Ok(()),
            false => {
                Err(EngineError::Unavailable { reason: "another gateway leads the cell, or its view is changing".to_owned() })
            }
        }
    }

    /// As leader: work that waits for devices under the checkpoints' lock, given up when the view changes. Who recovers in the next one needs
    /// the lock first of all, all readers of what is undecided wait for it, and a device that has gone silent, and leaves with the old view, may
    /// be asked for a long time. The work must be such that it can end anywhere.
    pub(crate) async fn while_view_lasts<T>(
        &self,
        work: impl Future<Output = Result<T, EngineError>>,
    ) -> Result<T, EngineError> {
        let Some(member) = &self.member else { return work.await };
        // Read before the check: a view that comes between the two ends the work.
        let view = member.view().number();
        self.check_leads()?;
        member.while_in(view, work).await
    }
}
