//! What the client knows of inodes beside the partitions: references of the kernel, open files, the extent that grows, and write errors.
//!
//! An inode is in the table while the kernel refers to it or a file of it is open. One without names is told to the meta partition as not
//! open when it leaves the table.
//!
//! The table of a client that was resumed does not have what the kernel got from an earlier process: an inode that is absent may be in use, and
//! only the kernel can say whether it is. An inode stays in such a table until the kernel has dropped it.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio::sync::RwLock;

use super::ClientError;
use super::buffered::Queue;
use super::plan::OpenExtent;
use crate::ids::Ino;
use crate::meta::{Attributes, Time};

/// An open file, as the mount names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileHandle(pub u64);

/// The most files that are open at once.
pub const MAX_OPEN_FILES: usize = 1 << 20;

/// One inode in use.
#[derive(Debug, Default)]
pub struct InodeState {
    /// Readers share it; what changes the content has it alone. The extent is the one that the file grows in.
    pub content: RwLock<Option<OpenExtent>>,
    /// Writes that wait for it, of a kernel that buffers them.
    pub buffered: Queue,
    failure: Mutex<Failure>,
    /// It was looked for, and this client has set none since.
    is_without_capability: AtomicBool,
    seen: Mutex<Option<Seen>>,
}

/// What the kernel's caches of an inode are of. None: it has none.
#[derive(Clone, Copy, Debug)]
struct Seen {
    version: u64,
    ctime: Time,
}

/// What the kernel has of a file that is old, because another client has changed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Old {
    Nothing,
    Attributes,
    /// And attributes.
    Pages,
}

/// The last write that failed after, or apart from, its call.
#[derive(Debug, Default)]
struct Failure {
    /// Counts failures: an open file has seen those up to a number.
    number: u64,
    error: Option<ClientError>,
}

impl InodeState {
    /// Each file of the inode that is open now tells the error once, at its next fsync or close.
    pub fn record_failure(&self, error: &ClientError) {
        let mut failure = self.failure.lock();
        failure.number += 1;
        failure.error = Some(error.clone());
    }

    /// Of an inode that the kernel may have from an earlier process, which does not say of which version.
    fn taken_over() -> InodeState {
        let seen = Seen { version: 0, ctime: Time::default() };
        InodeState { seen: Mutex::new(Some(seen)), ..InodeState::default() }
    }

    /// The kernel is told these attributes: what it has that is older.
    pub fn told(&self, attributes: &Attributes) -> Old {
        let mut seen = self.seen.lock();
        match seen.as_mut() {
            None => {
                *seen = Some(Seen { version: attributes.version, ctime: attributes.ctime });
                Old::Nothing
            }
            Some(seen) if attributes.version > seen.version => Old::Pages,
            Some(seen) if attributes.ctime > seen.ctime => {
                seen.ctime = attributes.ctime;
                Old::Attributes
            }
            Some(_) => Old::Nothing,
        }
    }

    /// The kernel has nothing that is older than this.
    pub fn renewed(&self, attributes: &Attributes) {
        let mut seen = self.seen.lock();
        if seen.is_none_or(|seen| seen.version < attributes.version) {
            *seen = Some(Seen { version: attributes.version, ctime: attributes.ctime });
        }
    }

    /// This client has changed the content once, by a call of the kernel's. If another one has changed it before, what the kernel has stays old.
    pub fn changed_here(&self, attributes: &Attributes) {
        if let Some(seen) = self.seen.lock().as_mut()
            && seen.version + 1 == attributes.version
        {
            *seen = Seen { version: attributes.version, ctime: attributes.ctime };
        }
    }

    pub fn is_without_capability(&self) -> bool {
        self.is_without_capability.load(Ordering::Acquire)
    }

    /// The caller holds the content's lock.
    pub fn has_no_capability(&self) {
        self.is_without_capability.store(true, Ordering::Release);
    }

    /// The caller holds the content's lock.
    pub fn may_have_capability(&self) {
        self.is_without_capability.store(false, Ordering::Release);
    }
}

#[derive(Debug, Default)]
struct Used {
    references: u64,
    opens: u64,
    has_no_name: bool,
    state: Arc<InodeState>,
}

#[derive(Debug)]
struct OpenFile {
    ino: Ino,
    seen_failure: u64,
}

#[derive(Debug, Default)]
struct Tables {
    inodes: HashMap<Ino, Used>,
    files: HashMap<FileHandle, OpenFile>,
    next_handle: u64,
    is_taken_over: bool,
}

impl Tables {
    /// The entry of an inode, where need be a fresh one.
    fn used(&mut self, ino: Ino) -> &mut Used {
        let is_taken_over = self.is_taken_over;
        self.inodes.entry(ino).or_insert_with(|| match is_taken_over {
            true => Used { state: Arc::new(InodeState::taken_over()), ..Used::default() },
            false => Used::default(),
        })
    }
}

/// Handles that one process gives out.
const HANDLES: u32 = 40;

/// The table of inodes in use and of open files.
#[derive(Debug, Default)]
pub struct Files {
    tables: Mutex<Tables>,
}

impl Files {
    /// The table of a client that was resumed in its so manieth process. Handles of different processes differ.
    pub fn taken_over(generation: u64) -> Files {
        let tables = Tables { next_handle: generation << HANDLES, is_taken_over: true, ..Tables::default() };
        Files { tables: Mutex::new(tables) }
    }

    pub fn is_taken_over(&self) -> bool {
        self.tables.lock().is_taken_over
    }

    /// The state of an inode; a fresh one where the inode is not in the table.
    pub fn state(&self, ino: Ino) -> Arc<InodeState> {
        let mut tables = self.tables.lock();
        match tables.is_taken_over {
            true => Arc::clone(&tables.used(ino).state),
            false => tables.inodes.get(&ino).map(|used| Arc::clone(&used.state)).unwrap_or_default(),
        }
    }

    pub fn refer(&self, ino: Ino) {
        self.tables.lock().used(ino).references += 1;
    }

    /// The inode has no name any more. False where it is not in use.
    pub fn lost_its_names(&self, ino: Ino) -> bool {
        let mut tables = self.tables.lock();
        if tables.is_taken_over {
            tables.used(ino).has_no_name = true;
            return true;
        }
        let Some(used) = tables.inodes.get_mut(&ino) else { return false };
        used.has_no_name = true;
        true
    }

    /// The inode got a name.
    pub fn named(&self, ino: Ino) {
        if let Some(used) = self.tables.lock().inodes.get_mut(&ino) {
            used.has_no_name = false;
        }
    }

    /// The inode, where it left the table and has no name.
    pub fn forget(&self, ino: Ino, references: u64) -> Option<Ino> {
        let mut tables = self.tables.lock();
        if let Some(used) = tables.inodes.get_mut(&ino) {
            used.references = used.references.saturating_sub(references);
        }
        tables.leaves(ino)
    }

    /// The kernel does not have the inode any more, as it says itself. Returns the inode where it has no name.
    pub fn dropped(&self, ino: Ino) -> Option<Ino> {
        self.tables.lock().inodes.remove(&ino)?.has_no_name.then_some(ino)
    }

    pub fn open(&self, ino: Ino) -> Result<FileHandle, ClientError> {
        let mut tables = self.tables.lock();
        if tables.files.len() >= MAX_OPEN_FILES {
            return Err(ClientError::TooManyOpenFiles);
        }
        tables.next_handle += 1;
        let handle = FileHandle(tables.next_handle);
        let used = tables.used(ino);
        used.opens += 1;
        let seen_failure = used.state.failure.lock().number;
        tables.files.insert(handle, OpenFile { ino, seen_failure });
        Ok(handle)
    }

    /// As [`Files::forget`].
    pub fn close(&self, handle: FileHandle) -> Option<Ino> {
        let mut tables = self.tables.lock();
        let ino = tables.files.remove(&handle)?.ino;
        if let Some(used) = tables.inodes.get_mut(&ino) {
            used.opens = used.opens.saturating_sub(1);
        }
        tables.leaves(ino)
    }

    /// The failure that an open file has not told yet.
    pub fn take_failure(&self, handle: FileHandle) -> Result<(), ClientError> {
        let mut tables = self.tables.lock();
        let Tables { inodes, files, .. } = &mut *tables;
        let Some(file) = files.get_mut(&handle) else { return Ok(()) };
        let Some(used) = inodes.get(&file.ino) else { return Ok(()) };
        let failure = used.state.failure.lock();
        if failure.number == file.seen_failure {
            return Ok(());
        }
        file.seen_failure = failure.number;
        failure.error.clone().map_or(Ok(()), Err)
    }
}

impl Tables {
    /// Takes an inode out that is not in use any more; returns it where it has no name.
    fn leaves(&mut self, ino: Ino) -> Option<Ino> {
        if self.is_taken_over {
            return None;
        }
        let Entry::Occupied(used) = self.inodes.entry(ino) else { return None };
        if used.get().references > 0 || used.get().opens > 0 {
            return None;
        }
        used.remove().has_no_name.then_some(ino)
    }
}

#[cfg(test)]
mod tests;
