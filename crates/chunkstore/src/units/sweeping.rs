//! What a leader looks for in pages, at its own pace: rows that it has to do something about come into the state.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use format::chunk_command::CopyOf;
use format::chunk_id::ChunkId;
use format::chunk_page::ChunkRow;
use format::chunk_place::BlockPlace;

use super::member::UnitMember;
use crate::limits::MAX_REPAIRS;
use crate::maintenance::PageRef;

impl UnitMember {
    /// Goes on with the sweep, as far as there is room for what it finds.
    pub(super) fn keep_sweeping(self: &Arc<Self>) {
        if self.pages.is_sweeping.swap(true, Ordering::AcqRel) {
            return;
        }
        let member = self.clone();
        self.env.spawn(async move {
            while member.sweep().await {}
            member.pages.is_sweeping.store(false, Ordering::Release);
        });
    }

    /// Whether a page was swept.
    async fn sweep(&self) -> bool {
        let due = self.group.look(|machine| self.leading.lock().as_mut()?.sweep.due(machine.unit()));
        let Some(at) = due else { return false };
        let Some(page) = self.read_page(at).await else { return false };
        let found: Option<Vec<ChunkRow>> = self.group.look(|machine| {
            let leading = self.leading.lock();
            let sweep = &leading.as_ref()?.sweep;
            // Another page has taken its place: that is looked at.
            machine.unit().is_current(&page).then_some(())?;
            Some(machine.unit().rows_in(&page).filter(|row| sweep.wants(&row.places)).copied().collect())
        });
        let Some(found) = found else { return false };
        if !self.touch(at, found.clone()).await {
            return false;
        }
        let copies = found.iter().flat_map(|row| {
            let id = ChunkId { shard: self.shard, number: row.number, nonce: row.nonce };
            row.places.iter().map(move |place| CopyOf { id, place })
        });
        if let Some(leading) = self.leading.lock().as_mut() {
            leading.swept(at.id.number, copies);
        }
        true
    }

    /// Copies about which something is known to be wrong, and whose rows are in pages.
    pub(super) fn bring_ailing(self: &Arc<Self>) {
        let ids: Vec<ChunkId> = self.group.look(|machine| {
            let leading = self.leading.lock();
            let ailing = leading.iter().flat_map(|leading| leading.ailing_copies());
            let archived = ailing.filter(|(id, _): &(ChunkId, BlockPlace)| machine.unit().page_of(*id).is_some());
            archived.map(|(id, _)| id).take(MAX_REPAIRS).collect()
        });
        if ids.is_empty() || self.pages.is_bringing.swap(true, Ordering::AcqRel) {
            return;
        }
        let member = self.clone();
        self.env.spawn(async move {
            if member.bring(&ids).await {
                let absent: Vec<ChunkId> = member.group.look(|machine| {
                    let is_absent = |id: &&ChunkId| machine.unit().page_of(**id).is_some();
                    ids.iter().filter(is_absent).copied().collect()
                });
                if let Some(leading) = member.leading.lock().as_mut() {
                    leading.forget_ailing(&absent);
                }
            }
            member.pages.is_bringing.store(false, Ordering::Release);
        });
    }

    /// Reads the page that the audit goes on with.
    pub(super) fn read_for_audit(self: &Arc<Self>, page: PageRef) {
        let member = self.clone();
        self.env.spawn(async move {
            let Some(page) = member.read_page(page).await else { return };
            if let Some(leading) = member.leading.lock().as_mut() {
                leading.audit_goes_on_with(page);
            }
        });
    }
}
