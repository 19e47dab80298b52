//! A gateway that joins gets its map: what checkpoints have from the runs, the rest from every member (decision 24).
//!
//! ```text
//!   installed as one that joins ─► Hello, Unsaved, Carried of every member ─► runs of the manager's manifest ─► index, names ─► lease
//! ```
//!
//! Every member sends its own, because a conclusion may have reached one and not another. What is concluded after the installation comes
//! to this gateway as to everybody. Until it has all of that it has no lease and takes no client's write.

use super::follow;
use super::member::{Heard, Member};
use crate::background;
use crate::store::{Inner, LogStore};
use engine::EngineError;
use format::name_entry::NameEntry;
use net::BoxFuture;
use std::sync::Arc;
use std::time::Duration;
use types::Epoch;

/// How often a gateway that joins looks whether the manager's state has come so far.
const MANIFEST_LOOK: Duration = Duration::from_millis(20);

impl LogStore {
    /// Waits until this gateway has the maps of its cell: it can have a lease then.
    pub fn join(&self) -> BoxFuture<'_, Result<(), EngineError>> {
        Box::pin(async move {
            let inner = &self.inner;
            let Some(member) = &inner.member else { return Ok(()) };
            tokio::select! {
                biased;
                joined = inner.gather_maps(member) => joined,
                () = member.until(|heard| heard.gives_up) => {
                    Err(EngineError::Unavailable { reason: "this gateway leads its cell without the maps that another one has".to_owned() })
                }
                () = member.deposed() => Err(super::depose::deposed()),
            }
        })
    }
}

impl Inner {
    async fn gather_maps(self: &Arc<Self>, member: &Member) -> Result<(), EngineError> {
        let mut unsaved = Vec::new();
        // The newest: one that was merged since, without another epoch, names runs whose zones may be reset already, and it was told to those who
        // were members then.
        let epoch = loop {
            let is_ready = |heard: &Heard| member.have_all_carried(heard) && heard.undecided.is_empty();
            member.until(is_ready).await;
            let (view, epoch, installed) = {
                let mut heard = member.heard.lock();
                if !is_ready(&heard) {
                    continue;
                }
                unsaved.append(&mut heard.unsaved);
                let installed = heard.hello.values().filter_map(|(_, installed)| *installed).max().unwrap_or_default();
                (heard.view, heard.greeted_with(), installed)
            };
            // Before it is chosen: from then on nothing here waits for a decision, which may be this gateway's to make.
            let is_there = self.remembered.reach().await.is_ok() && self.newest_covered()? >= installed;
            if is_there && member.choose_checkpoint(view) {
                self.load_newest_manifest().await?;
                break epoch;
            }
            self.env.sleep(MANIFEST_LOOK).await;
        };
        let covered = self.remembered.epoch();
        self.begin_at(member, epoch.max(Epoch(covered.0 + 1)));
        // The lists last: nothing of these epochs enters them any more then.
        self.shards.iter().for_each(|shard| shard.lock().index_mut().is_loaded_until(covered));
        self.names.drop_covered(covered);
        self.absorb(unsaved, covered);
        self.forget_ended_uploads();
        self.shards.iter().for_each(|shard| shard.lock().maps_are_complete());
        self.count_live().await?;
        // It has no write of an earlier epoch.
        self.tell_begun(member, member.view().number(), self.epochs.present());
        // First: who finds no task that applies moves takes this gateway for one that founds its cell.
        self.start_member_tasks(member);
        member.heard.lock().joining = false;
        member.moved();
        Ok(())
    }

    /// One that joins and leads recovers what was acknowledged in an epoch that no checkpoint covers: nobody keeps what is of one that it has loaded. None is
    /// installed before this recovery has ended.
    pub(super) async fn begin_beyond_checkpoints(&self, member: &Member) -> Result<(), EngineError> {
        self.remembered.reach().await?;
        let covered = self.newest_covered()?;
        let greeted_with = member.heard.lock().greeted_with();
        self.begin_at(member, greeted_with.max(Epoch(covered.0 + 1)));
        Ok(())
    }

    /// What a member does beside its clients' work.
    pub(crate) fn start_member_tasks(self: &Arc<Self>, member: &Member) {
        if let Some(followed) = member.followed.lock().take() {
            self.env.spawn(follow::run(Arc::downgrade(self), followed));
            self.env.spawn(background::run(Arc::downgrade(self)));
            self.start_scrubs();
        }
    }

    /// A gateway that joins has no write of its own: it begins in the epoch of the others.
    /// The leader may have announced the next one meanwhile.
    fn begin_at(&self, member: &Member, epoch: Epoch) {
        let _no_announced_one = member.changing.lock();
        while self.epochs.present() < epoch {
            self.advance_towards(epoch);
        }
    }

    /// Takes in names that no checkpoint has, from all members: the newest of each counts, and of one order the last place.
    /// The checkpoint of epoch `covered` has all that there was until then, or what replaced it: who tells of it has not adopted that checkpoint yet,
    /// and may not have heard of a move, or of a deletion that is forgotten by now.
    fn absorb(&self, mut unsaved: Vec<NameEntry>, covered: Epoch) {
        unsaved.sort_by_key(|name| (name.entry.order, name.entry.epoch));
        for name in unsaved.into_iter().filter(|name| name.entry.epoch > covered) {
            let entry = name.entry;
            let mut keys = self.shard(&entry.hash).lock();
            let known = keys.index().newest(&entry.hash);
            // As leader it may have recovered the record itself, and have told all where it stands.
            let stands_since = |epoch: Epoch| keys.index().unsaved_epoch(&entry.hash).is_some_and(|newest| newest > epoch);
            match known {
                Some(known) if known.order > entry.order => continue,
                Some(known) if known.order == entry.order && stands_since(entry.epoch) => continue,
                Some(known) if known.order == entry.order => drop(keys.index_mut().relocate(&known.places, entry)),
                _ => drop(keys.index_mut().publish(entry)),
            }
            self.note_open_upload(&name);
            self.names.insert(entry.epoch, name);
        }
    }
}
