//! Applying what the leader did to places and layers: checkpoints that it installed, records that it moved.
//!
//! One thing after the other, in the leader's order: a record is moved only after the checkpoint that has it, and a zone is reset only
//! after every member has applied the moves out of it (decisions 10 and 12).

use super::member::Member;
use crate::index::Located;
use crate::peers::Item;
use crate::store::Inner;
use format::manifest::Manifest;
use format::name_entry::NameEntry;
use format::replicas::Places;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use types::{Epoch, GatewayId};

/// Changes that wait to be applied; then the leader's stream waits.
pub(crate) const MAX_FOLLOWING: usize = 4096;
/// Pause before a checkpoint that can't be read is read again.
const RETRY_PAUSE: Duration = Duration::from_millis(500);
/// How often a member that holds places back looks whether its readers are done.
const PIN_LOOK: Duration = Duration::from_millis(20);
/// How long it does.
const PIN_PATIENCE: Duration = Duration::from_secs(5);

/// One change.
pub(crate) enum Follow {
    Installed(Vec<u8>),
    Relocated {
        old: Places,
        name: Box<NameEntry>,
    },
    Retire {
        from: GatewayId,
        question: u64,
    },
    /// Tells that everything before it is applied.
    Reached(oneshot::Sender<()>),
}

/// Moves that this gateway has made or applied, and that no checkpoint covers: told again when another gateway begins to lead, so that
/// no member is left with places that the next leader takes for garbage.
pub(crate) type Moves = Vec<(Places, NameEntry)>;

/// Applies changes until the engine is dropped or leaves its cell.
pub(super) async fn run(inner: Weak<Inner>, mut followed: mpsc::Receiver<Follow>) {
    while let Some(follow) = followed.recv().await {
        let Some(inner) = inner.upgrade() else { return };
        let Some(member) = &inner.member else { return };
        match follow {
            Follow::Installed(bytes) => inner.follow_installed(member, &bytes).await,
            Follow::Relocated { old, name } => inner.follow_relocated(&old, *name),
            Follow::Retire { from, question } => inner.follow_retire(member, from, question).await,
            // Whoever asked may have gone.
            Follow::Reached(asked) => drop(asked.send(())),
        }
        if member.is_deposed() {
            return;
        }
    }
}

impl Inner {
    async fn follow_installed(self: &Arc<Self>, member: &Member, bytes: &[u8]) {
        let manifest = match Manifest::decode(bytes) {
            Ok(manifest) => manifest,
            Err(error) => return tracing::error!(%error, "the leader sent a manifest that can't be read"),
        };
        if !self.wait_for_end_of(manifest.epoch).await {
            return;
        }
        while let Err(error) = self.adopt(manifest.clone()).await {
            tracing::warn!(%error, "a checkpoint of the leader can't be read yet");
            tokio::select! {
                biased;
                () = member.deposed() => return,
                () = self.env.sleep(RETRY_PAUSE) => {}
            }
        }
    }

    fn follow_relocated(&self, old: &Places, name: NameEntry) {
        let entry = name.entry;
        let known = {
            let mut keys = self.shard(&entry.hash).lock();
            let known = keys.index().newest(&entry.hash);
            if !keys.index_mut().relocate(old, entry) {
                return;
            }
            self.note_move(old, &name);
            self.names.insert(entry.epoch, name);
            known
        };
        if let Some(known) = known {
            self.targets.remove_live_entry(&known);
        }
        self.targets.add_live_entry(&Located::from(&entry));
    }

    async fn follow_retire(&self, member: &Member, from: GatewayId, question: u64) {
        let mark = self.pins.mark();
        let patience = self.env.now() + PIN_PATIENCE;
        while !self.pins.released_before(mark) {
            if self.env.now() >= patience {
                return;
            }
            self.env.sleep(PIN_LOOK).await;
        }
        member.push(from, &Item::Retired { question });
    }

    /// As leader: waits until no member needs what was moved away; false if that took too long, or the view changed.
    pub(crate) async fn retire_places(&self) -> bool {
        let Some(member) = &self.member else { return true };
        self.check_leads().is_ok() && member.ask_all(self, |question| Item::Retire { question }, 2 * PIN_PATIENCE).await
    }

    /// As leader: tells the members that a record was moved. Under the shard's lock.
    pub(crate) fn tell_relocated(&self, old: &Places, name: &NameEntry) {
        if let Some(member) = &self.member {
            member.push_to_all(&Item::Relocated { old: *old, name: name.clone() });
            self.note_move(old, name);
        }
    }

    fn note_move(&self, old: &Places, name: &NameEntry) {
        if let Some(member) = &self.member {
            member.moves.lock().push((*old, name.clone()));
        }
    }

    /// In a new view: tells the members which moves this gateway knows of.
    pub(super) fn tell_moves(&self, member: &Member) {
        for (old, name) in member.moves.lock().iter() {
            member.push_to_all(&Item::Relocated { old: *old, name: name.clone() });
        }
    }

    /// A checkpoint covers the moves of this epoch and before.
    pub(crate) fn forget_moves(&self, covered: Epoch) {
        if let Some(member) = &self.member {
            member.moves.lock().retain(|(_, name)| name.entry.epoch > covered);
        }
    }

    /// Waits until every move that other gateways have told is applied.
    pub(crate) async fn applied_all(&self) {
        let Some(member) = &self.member else { return };
        let (asked, reached) = oneshot::channel();
        if member.following.send(Follow::Reached(asked)).await.is_ok() {
            let _ = reached.await;
        }
    }

    /// As leader: tells the members that a manifest is installed.
    pub(crate) fn tell_installed(&self, manifest: &Manifest) {
        self.forget_moves(manifest.epoch);
        if let Some(member) = &self.member {
            member.push_to_all(&Item::Installed { manifest: manifest.encode() });
        }
    }
}
