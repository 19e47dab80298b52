//! Uploads whose objects are complete and that have not ended: their tombstones found no room, or their outcome is not known.
//!
//! ```text
//!   Complete: the object's record ─► UploadEnding to all ─► the upload's tombstone ─ fails ─► the turn and the freeze end all the same
//!   another Complete, anywhere: the freeze, behind UploadEnding ─► answers what the first one did
//! ```
//!
//! Nobody else could tell: the upload is open in every index, and its object may be overwritten. A Complete that is repeated at another gateway would make
//! the object again, over a newer one (decision 15). So every member knows it, and tells it again in a new view, until the tombstone is published.

use crate::gateway::Member;
use crate::peers::Item;
use crate::store::Inner;
use format::attributes::Attributes;
use format::record::EntryName;

impl Inner {
    /// This gateway is about to end an upload, whose object is complete. Whoever asks for it here is told that it has ended, from now on; and at the other
    /// members, before any of them is granted the upload's freeze after this one.
    pub(crate) fn upload_is_ending(&self, name: EntryName, tombstone: Attributes) {
        if let Some(member) = &self.member {
            member.push_to_all(&Item::UploadEnding { name: name.clone(), tombstone: Box::new(tombstone.clone()) });
        }
        self.background.end_upload(name, tombstone);
    }

    /// Another gateway is, or knows of one that is.
    pub(crate) fn hear_of_ending(&self, name: EntryName, tombstone: Attributes) {
        let hash = name.hash();
        // Under the shard's lock: the tombstone may come on another stream.
        let keys = self.shard(&hash).lock();
        if keys.index().newest(&hash).is_none_or(|known| known.is_live()) {
            self.background.hear_of_ending(name, tombstone);
        }
    }

    /// In a new view: the members have it from this gateway, whoever is removed.
    pub(crate) fn tell_endings(&self, member: &Member) {
        for (name, tombstone) in self.background.endings() {
            member.push_to_all(&Item::UploadEnding { name, tombstone: Box::new(tombstone) });
        }
    }
}
