//! The table of open uploads.

use crate::store::Inner;
use format::entry::EntryState;
use format::name_entry::NameEntry;
use format::record::{Space, split_compound};
use types::{KeyHash, UploadId};

impl Inner {
    /// Keeps the table of open uploads.
    pub(crate) fn note_open_upload(&self, name: &NameEntry) {
        if name.name.space != Space::Upload {
            return;
        }
        let Ok((_, suffix)) = split_compound(Space::Upload, &name.name.name) else { return };
        let upload = UploadId(suffix.try_into().expect("split_compound checked the length"));
        let mut open = self.open_uploads.lock();
        match name.entry.state {
            EntryState::Live => drop(open.insert(upload, name.name.clone())),
            EntryState::Tombstone | EntryState::DeleteMarker => {
                open.remove(&upload);
                self.background.upload_ended(&name.name);
            }
        }
    }

    /// Who joins hears of the end of an upload also before it reads in a run that it is open.
    pub(crate) fn forget_ended_uploads(&self) {
        // Not under the table's lock: a shard's is held where the table is told of something.
        let open: Vec<(UploadId, KeyHash)> = self.open_uploads.lock().iter().map(|(id, name)| (*id, name.hash())).collect();
        for (upload, hash) in open {
            let keys = self.shard(&hash).lock();
            if keys.index().newest(&hash).is_none_or(|newest| !newest.is_live()) {
                self.open_uploads.lock().remove(&upload);
            }
        }
    }
}
