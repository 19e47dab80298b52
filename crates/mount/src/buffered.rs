//! What is different where the kernel buffers writes: in an exclusive mount.
//!
//! | request | |
//! |---|---|
//! | SETATTR of times alone | the kernel says the times of what it has written back: the tree is told a moment later |
//! | FLUSH | ENOSYS: locks are the kernel's, and `close` tells errors of writing back by itself. It is not asked again |
//! | LSEEK | ENOSYS: holes are not known here before they are written back. The kernel takes the file as one piece of data |
//! | COPY_FILE_RANGE | ENOSYS, for the same reason: the kernel copies through its cache |
//! | WRITE | its offset counts, also in files that are opened to append |
//! | locks | are not negotiated: they are the kernel's |

use filesystem::ids::Ino;
use filesystem::meta::{AttributeChange, FileTimes, TimeChange};

/// The times that a kernel says of a file, where it says nothing else.
pub fn times(ino: Ino, change: &AttributeChange) -> Option<FileTimes> {
    let (Some(TimeChange::At(mtime)), Some(ctime)) = (change.mtime, change.ctime) else { return None };
    let alone = AttributeChange { mtime: change.mtime, ctime: change.ctime, ..AttributeChange::default() };
    (*change == alone).then_some(FileTimes { ino, mtime, ctime })
}
