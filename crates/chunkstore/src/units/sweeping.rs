//! What a leader looks for in pages, at its own pace: rows that it has to do something about come into the state.

use std::collections::BTreeSet;
use std::sync::Arc;

use format::chunk_command::CopyOf;
use format::chunk_id::ChunkId;
use format::chunk_page::ChunkRow;

use super::member::UnitMember;
use crate::limits::MAX_REPAIRS;
use crate::maintenance::PageRef;

impl UnitMember {
    /// Goes on with the sweep, as far as there is room for what it finds.
    pub(super) fn keep_sweeping(self: &Arc<Self>) {
        self.in_turn(&self.pages.sweeping, async |member| while member.sweep().await {});
    }

    /// Whether there may be a further page to sweep now.
    async fn sweep(&self) -> bool {
        let unread = self.pages.unread(self.env.now());
        let due = self.group.look(|machine| self.leading.lock().as_mut()?.sweep.due(machine.unit(), &unread));
        let Some(at) = due else { return false };
        // Else it is among those that could not be read, and another one is due.
        let Some(page) = self.read_page(at).await else { return true };
        let found: Option<(Vec<ChunkRow>, usize)> = self.group.look(|machine| {
            let leading = self.leading.lock();
            let leading = leading.as_ref()?;
            let sweep = &leading.sweep;
            // Another page has taken its place: that is looked at.
            machine.unit().is_current(&page).then_some(())?;
            let rows = || machine.unit().rows_in(&page);
            let gone = rows().filter(|row| sweep.is_gone(&row.places)).count();
            // One after the other: those that are to grow must not take the room of those that are lost.
            let is_for_growth = sweep.is_for_growth();
            let wants = |row: &&ChunkRow| if is_for_growth { leading.can_grow(row) } else { sweep.wants(&row.places) };
            Some((rows().filter(wants).copied().collect(), gone))
        });
        let Some((found, gone)) = found else { return false };
        if !self.touch(at, found.clone()).await {
            return false;
        }
        let copies = found.iter().flat_map(|row| {
            let id = row.id(self.shard);
            row.places.iter().map(move |place| CopyOf { id, place })
        });
        if let Some(leading) = self.leading.lock().as_mut() {
            leading.swept(at.id.number, copies, gone);
        }
        true
    }

    /// Copies about which something is known to be wrong, and whose rows are in pages.
    pub(super) fn bring_ailing(self: &Arc<Self>) {
        let unread = self.pages.unread(self.env.now());
        let ids: Vec<ChunkId> = self.group.look(|machine| {
            let leading = self.leading.lock();
            let ailing: BTreeSet<ChunkId> = leading.iter().flat_map(|leading| leading.ailing_chunks()).collect();
            let is_due = |id: &ChunkId| machine.unit().page_of(*id).is_some_and(|page| !unread.contains(&page.id.number));
            ailing.into_iter().filter(is_due).take(MAX_REPAIRS).collect()
        });
        if ids.is_empty() {
            return;
        }
        self.in_turn(&self.pages.bringing, async move |member| {
            let absent = member.bring(&ids).await.absent;
            if let Some(leading) = member.leading.lock().as_mut() {
                leading.forget_ailing(&absent);
            }
        });
    }

    /// Reads the page that the audit goes on with.
    pub(super) fn read_for_audit(self: &Arc<Self>, page: PageRef) {
        let member = self.clone();
        self.env.spawn(async move {
            // Else it goes on behind it.
            let Some(page) = member.read_page(page).await else { return };
            if let Some(leading) = member.leading.lock().as_mut() {
                leading.audit_goes_on_with(page);
            }
        });
    }
}
