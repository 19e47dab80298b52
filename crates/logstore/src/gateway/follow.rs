//! Applying what the leader did to places and layers: checkpoints that it installed, records that it moved.
//!
//! One thing after the other, in the leader's order: a record is moved only after the checkpoint that has it, and a zone is reset only
//! after every member has applied the moves out of it (decisions 10 and 12).

use super::hear::HearError;
use super::keys::Keys;
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
use types::{Epoch, GatewayId, KeyHash, Order};

/// Pause before a checkpoint that can't be read is read again.
const RETRY_PAUSE: Duration = Duration::from_millis(500);
/// How long a leader waits for the others to apply what it has told.
const RETIRE_PATIENCE: Duration = Duration::from_secs(10);

/// One change.
pub(crate) enum Follow {
    Installed(Vec<u8>),
    Relocated {
        old: Places,
        name: Box<NameEntry>,
        /// The leader has just made it, knowing all moves before it: where the record stands here does not matter.
        is_fresh: bool,
    },
    Retire {
        from: GatewayId,
        question: u64,
    },
    /// Tells that everything before it is applied.
    Reached(oneshot::Sender<()>),
}

/// Moves of a record that this gateway has made or heard, and that no checkpoint covers: told again when another gateway begins to lead, so that
/// no member is left with places that the next leader takes for garbage. Heard, not applied: what waits to be applied would be told by nobody
/// else.
pub(crate) type Moves = Vec<(Places, NameEntry)>;

/// Applies changes until the engine is dropped or leaves its cell.
pub(super) async fn run(inner: Weak<Inner>, mut followed: mpsc::UnboundedReceiver<Follow>) {
    // Whether the newest manifest that was told is adopted. If not, an answer to `Retire` would say of this gateway what is not so: that it needs nothing of
    // what the leader's checkpoints have.
    let mut is_level = true;
    while let Some(follow) = followed.recv().await {
        let Some(inner) = inner.upgrade() else { return };
        let Some(member) = &inner.member else { return };
        match follow {
            Follow::Installed(bytes) => is_level = inner.follow_installed(member, &bytes).await,
            Follow::Relocated { old, name, is_fresh } => inner.follow_relocated(member, &old, *name, is_fresh),
            // Everything before it is applied.
            Follow::Retire { from, question } if is_level => member.push(from, &Item::Retired { question }),
            Follow::Retire { .. } => env::mark("gateway: a question not answered behind a manifest that was passed over"),
            // Whoever asked may have gone.
            Follow::Reached(asked) => drop(asked.send(())),
        }
        if member.is_deposed() {
            return;
        }
    }
}

impl Inner {
    /// Whether this gateway has what that manifest names.
    async fn follow_installed(self: &Arc<Self>, member: &Member, bytes: &[u8]) -> bool {
        let manifest = match Manifest::decode(bytes) {
            Ok(manifest) => manifest,
            Err(error) => {
                tracing::error!(%error, "the leader sent a manifest that can't be read");
                return false;
            }
        };
        if self.has_adopted(&manifest).await {
            return true;
        }
        // Without all that it covers it is not adopted: who recovers takes what the index lacks of a covered epoch for replaced. The recovery's
        // own checkpoint is the next one.
        if !self.wait_for_end_of(manifest.epoch).await {
            return false;
        }
        while let Err(error) = self.adopt(manifest.clone()).await {
            tracing::warn!(%error, "a checkpoint of the leader can't be read yet");
            tokio::select! {
                biased;
                () = member.deposed() => return false,
                () = self.env.sleep(RETRY_PAUSE) => {}
            }
        }
        true
    }

    fn follow_relocated(&self, member: &Member, old: &Places, name: NameEntry, is_fresh: bool) {
        let mut keys = self.shard(&name.entry.hash).lock();
        match keys.index().newest(&name.entry.hash) {
            Some(known) if known.order > name.entry.order => {}
            Some(known) if known.order == name.entry.order => {
                if known.places == *old || is_fresh {
                    self.take_move(&mut keys, &known, name);
                }
            }
            // Its write is not concluded here yet; or it is undecided, and the leader that recovers it needs to know.
            _ => {
                env::mark("gateway: a move told before the record");
                member.early_moves.lock().entry(name.entry.hash).or_default().push((*old, name));
            }
        }
    }

    /// A record stands elsewhere now.
    fn take_move(&self, keys: &mut Keys, known: &Located, name: NameEntry) {
        let entry = name.entry;
        if known.places == entry.places || !keys.index_mut().relocate(&known.places, entry) {
            return;
        }
        self.note_move(&known.places, &name);
        self.names.insert(entry.epoch, name);
        self.targets.remove_live_entry(known);
        self.targets.add_live_entry(&Located::from(&entry));
        self.background.note_write(entry.frame_bytes.into());
    }

    /// Moves of a record that were told before it was published here. Under the shard's lock.
    pub(super) fn take_early_moves(&self, keys: &mut Keys, hash: &KeyHash) {
        let Some(member) = &self.member else { return };
        let Some(moves) = member.early_moves.lock().remove(hash) else { return };
        for (old, name) in moves {
            match keys.index().newest(hash) {
                Some(known) if known.order == name.entry.order && known.places == old => {
                    self.stats.early_moves.add(1);
                    self.take_move(keys, &known, name);
                }
                Some(known) if known.order >= name.entry.order => {}
                _ => member.early_moves.lock().entry(*hash).or_default().push((old, name)),
            }
        }
    }

    /// Where a record that this gateway has not published stands, after the moves that it was told of.
    pub(super) fn moved_places(&self, hash: &KeyHash, order: Order, found: Places) -> Places {
        let Some(member) = &self.member else { return found };
        let early = member.early_moves.lock();
        let moves = early.get(hash).into_iter().flatten().filter(|(_, name)| name.entry.order == order);
        moves.fold(found, |places, (old, name)| if places == *old { name.entry.places } else { places })
    }

    /// As leader: waits until no member looks up what was moved away, where it was; false if that took too long, or the view changed. Readers of
    /// large objects may still hold places.
    pub(crate) async fn retire_places(&self) -> bool {
        let Some(member) = &self.member else { return true };
        self.check_leads().is_ok() && member.ask_all(self, |question| Item::Retire { question }, RETIRE_PATIENCE).await
    }

    /// As leader: tells the members that a record was moved. Under the shard's lock.
    pub(crate) fn tell_relocated(&self, old: &Places, name: &NameEntry) {
        if let Some(member) = &self.member {
            member.push_to_all(&Item::Relocated { old: *old, name: name.clone() });
        }
        self.note_move(old, name);
    }

    /// Each once: all members tell all moves again in each view.
    pub(super) fn note_move(&self, old: &Places, name: &NameEntry) {
        self.remembered.note_move(name.entry.epoch);
        let Some(member) = &self.member else { return };
        let mut moves = member.moves.lock();
        let of_key = moves.entry(name.entry.hash).or_default();
        let is_same = |(from, to): &(Places, NameEntry)| {
            from == old && to.entry.order == name.entry.order && to.entry.places == name.entry.places
        };
        if !of_key.iter().any(is_same) {
            of_key.push((*old, name.clone()));
        }
    }

    /// In a new view: tells the members which moves this gateway knows of.
    pub(super) fn tell_moves(&self, member: &Member) {
        let moves = member.moves.lock().clone();
        for (old, name) in moves.into_values().flatten() {
            self.stats.moves_told_again.add(1);
            member.push_to_all(&Item::Relocated { old, name });
        }
    }

    /// A checkpoint covers the moves of this epoch and before.
    pub(crate) fn forget_moves(&self, covered: Epoch) {
        if let Some(member) = &self.member {
            for by_key in [&member.moves, &member.early_moves] {
                by_key.lock().retain(|_, moves| {
                    moves.retain(|(_, name)| name.entry.epoch > covered);
                    !moves.is_empty()
                });
            }
        }
    }

    /// The leader has decided where this record stands.
    pub(super) fn forget_moves_of(&self, hash: &KeyHash) {
        if let Some(member) = &self.member {
            member.moves.lock().remove(hash);
            member.early_moves.lock().remove(hash);
        }
    }

    /// Queues a change; fails if this gateway has left its cell. However many wait: what is being applied, a checkpoint or the end of a join, may wait itself for what
    /// stands behind these on the same streams. They are no more than the moves that the members have in memory themselves.
    pub(super) fn follow(&self, member: &Member, follow: Follow) -> Result<(), HearError> {
        member.following.send(follow).map_err(|_| HearError::Deposed)
    }

    /// Waits until every move that other gateways have told is applied.
    pub(crate) async fn applied_all(&self) {
        let Some(member) = &self.member else { return };
        if member.followed.lock().is_some() {
            // Nobody applies anything yet: this gateway is founding its cell.
            return;
        }
        let (asked, reached) = oneshot::channel();
        if member.following.send(Follow::Reached(asked)).is_ok() {
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
