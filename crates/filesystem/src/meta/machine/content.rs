//! Attributes and contents of files.

use super::super::attributes::{Kind, MODE_BITS};
use super::super::command::{AttributeChange, Expected, FileTimes, TimeChange};
use super::super::limits::{MAX_FILE_BYTES, MAX_KEYS};
use super::super::reply::{Done, MetaError, Reply};
use super::{At, Machine};
use crate::ids::{ExtentKey, Ino};

impl Machine {
    pub(super) fn set_attributes(&mut self, at: At, ino: Ino, change: &AttributeChange) -> Reply {
        let has_moments = [change.atime, change.mtime].iter().flatten().all(|change| match change {
            TimeChange::Now => true,
            TimeChange::At(time) => time.is_moment(),
        });
        if !has_moments || change.ctime.is_some_and(|time| !time.is_moment()) {
            return Err(MetaError::Invalid);
        }
        if let Some(size) = change.size {
            self.truncate(ino, size)?;
        }
        let inode = self.inode_mut(ino)?;
        if change.kills_set_ids {
            inode.kill_set_ids();
        }
        if let Some(mode) = change.mode {
            inode.mode = mode & MODE_BITS;
        }
        inode.uid = change.uid.unwrap_or(inode.uid);
        inode.gid = change.gid.unwrap_or(inode.gid);
        match change.size {
            Some(_) => inode.modified(at.now),
            None => inode.changed(at.now),
        }
        let time = |change: TimeChange| match change {
            TimeChange::Now => at.now,
            TimeChange::At(time) => time,
        };
        if let Some(atime) = change.atime {
            inode.atime = time(atime);
        }
        if let Some(mtime) = change.mtime {
            inode.mtime = time(mtime);
        }
        inode.ctime = change.ctime.unwrap_or(inode.ctime);
        self.answer(ino)
    }

    /// Times that a kernel has, of files of this tree.
    pub(super) fn set_times(&mut self, times: &[FileTimes]) -> Reply {
        if times.iter().any(|times| !times.mtime.is_moment() || !times.ctime.is_moment()) {
            return Err(MetaError::Invalid);
        }
        times.iter().try_for_each(|times| self.check_ours(times.ino))?;
        for FileTimes { ino, mtime, ctime } in times {
            if let Some(inode) = self.tables.inode_mut(*ino) {
                (inode.mtime, inode.ctime) = (*mtime, *ctime);
            }
        }
        Ok(Done::Done)
    }

    /// What lies beyond the new size is freed. A file that grows gets a hole.
    fn truncate(&mut self, ino: Ino, size: u64) -> Result<(), MetaError> {
        self.check_file(ino)?;
        if size > MAX_FILE_BYTES {
            return Err(MetaError::FileTooLong);
        }
        self.cut(ino, size, MAX_FILE_BYTES - size)?;
        self.inode_mut(ino)?.size = size;
        Ok(())
    }

    pub(super) fn commit(
        &mut self,
        at: At,
        ino: Ino,
        keys: &[ExtentKey],
        least_size: u64,
        kills_set_ids: bool,
        expects: &Expected,
    ) -> Reply {
        self.check_file(ino)?;
        check_keys(keys)?;
        let end = keys.last().map_or(0, |key| key.file_offset + key.len).max(least_size);
        if end > MAX_FILE_BYTES {
            return Err(MetaError::FileTooLong);
        }
        self.check_expected(at, ino, keys, expects)?;
        if self.inode(ino)?.keys.len() + keys.len() > MAX_KEYS {
            return Err(MetaError::TooManyKeys);
        }
        self.check_room(ino, keys)?;
        for key in keys {
            self.put_key(ino, *key)?;
        }
        let inode = self.inode_mut(ino)?;
        inode.size = inode.size.max(least_size);
        if kills_set_ids {
            inode.kill_set_ids();
        }
        inode.modified(at.now);
        self.answer(ino)
    }

    pub(super) fn punch(&mut self, at: At, ino: Ino, offset: u64, len: u64, expects: &Expected) -> Reply {
        self.check_file(ino)?;
        let end = offset.checked_add(len).filter(|end| *end <= MAX_FILE_BYTES && len > 0).ok_or(MetaError::Invalid)?;
        self.check_expected(at, ino, &[], expects)?;
        // A hole may make two keys of one.
        if self.inode(ino)?.keys.len() > MAX_KEYS {
            return Err(MetaError::TooManyKeys);
        }
        self.cut(ino, offset, end - offset)?;
        self.inode_mut(ino)?.modified(at.now);
        self.answer(ino)
    }

    fn check_file(&self, ino: Ino) -> Result<(), MetaError> {
        match self.inode(ino)?.kind {
            Kind::File => Ok(()),
            Kind::Directory => Err(MetaError::IsDirectory),
            _ => Err(MetaError::Invalid),
        }
    }

    /// Whether the file is what the client has seen. Another one may have changed it since: what it wrote is not replaced.
    fn check_expected(&self, at: At, ino: Ino, keys: &[ExtentKey], expects: &Expected) -> Result<(), MetaError> {
        let inode = self.inode(ino)?;
        let is_taken = |key: &ExtentKey| {
            let next = inode.keys.partition_point(|other| other.file_offset + other.len <= key.file_offset);
            inode.keys.get(next).is_some_and(|other| other.file_offset < key.file_offset + key.len)
        };
        let is_end = |size: u64| size == inode.size && !self.is_end_locked(ino, at.session);
        let is_same = expects.cuts == inode.cuts && expects.size.is_none_or(is_end) && !keys.iter().any(is_taken);
        if is_same { Ok(()) } else { Err(MetaError::Changed) }
    }

    /// Whether the quota has room for keys.
    fn check_room(&self, ino: Ino, keys: &[ExtentKey]) -> Result<(), MetaError> {
        let Some(most) = self.quota.bytes else { return Ok(()) };
        let mut after = self.inode(ino)?.clone();
        let before = after.content_bytes();
        for key in keys {
            insert(&mut after.keys, *key);
        }
        let grows = after.content_bytes() > before;
        let total = (self.tables.bytes - before + after.content_bytes()).saturating_add(self.quota.bytes_elsewhere);
        if grows && total > most { Err(MetaError::Quota) } else { Ok(()) }
    }

    fn put_key(&mut self, ino: Ino, key: ExtentKey) -> Result<(), MetaError> {
        let inode = self.inode_mut(ino)?;
        let before = inode.content_bytes();
        insert(&mut inode.keys, key);
        let after = inode.content_bytes();
        self.tables.bytes = self.tables.bytes - before + after;
        Ok(())
    }

    /// Cuts a range out of the keys of a file, and has it freed.
    fn cut(&mut self, ino: Ino, offset: u64, len: u64) -> Result<(), MetaError> {
        let inode = self.inode_mut(ino)?;
        let before = inode.content_bytes();
        let removed = super::freeing::cut_keys(&mut inode.keys, offset, len);
        inode.cuts += u64::from(!removed.is_empty());
        let after = inode.content_bytes();
        self.tables.bytes = self.tables.bytes - before + after;
        removed.iter().for_each(|key| self.freed.range(key.extent, key.extent_offset, key.len));
        Ok(())
    }

    /// Has what these keys name freed, but for what the file names: a client may commit again what the file has.
    pub(super) fn free_unnamed(&mut self, ino: Ino, keys: &[ExtentKey]) {
        let named = self.tables.inode(ino).map_or(&[][..], |inode| &inode.keys);
        // Of what ends beyond all offsets nothing can have been written.
        for key in keys.iter().filter(|key| key.len > 0 && key.extent_offset.checked_add(key.len).is_some()) {
            // Cut by places in the extent, not in the file.
            let mut left = vec![ExtentKey { file_offset: key.extent_offset, ..*key }];
            for other in named.iter().filter(|other| other.extent == key.extent) {
                super::freeing::cut_keys(&mut left, other.extent_offset, other.len);
            }
            left.iter().for_each(|piece| self.freed.range(piece.extent, piece.extent_offset, piece.len));
        }
    }
}

/// Puts a key between the others, and joins it with the one before where it goes on there.
fn insert(keys: &mut Vec<ExtentKey>, key: ExtentKey) {
    let at = keys.partition_point(|other| other.file_offset < key.file_offset);
    if let Some(before) = at.checked_sub(1).map(|at| &mut keys[at]) {
        let goes_on = before.extent == key.extent
            && before.file_offset + before.len == key.file_offset
            && before.extent_offset + before.len == key.extent_offset;
        if goes_on {
            before.len += key.len;
            return;
        }
    }
    // Most files have one key: no room for more is kept.
    if keys.is_empty() {
        keys.reserve_exact(1);
    }
    keys.insert(at, key);
}

/// Keys of a command: ascending, apart, with what they need to be in.
fn check_keys(keys: &[ExtentKey]) -> Result<(), MetaError> {
    let mut end = 0;
    for key in keys {
        let is_well = key.len > 0
            && key.file_offset >= end
            && key.file_offset % crate::ids::BLOCK_BYTES == key.extent_offset % crate::ids::BLOCK_BYTES
            && key.extent_offset.checked_add(key.len).is_some();
        end = key.file_offset.checked_add(key.len).filter(|_| is_well).ok_or(MetaError::Invalid)?;
    }
    Ok(())
}
