//! When the page cache and the medium agree.
//!
//! A direct write must leave no older bytes of its range in the page cache, or cached reads would serve them from then on.
//! The kernel drops the range from the cache before such a write. A read that overlaps the write in time can bring the old
//! bytes back, so the range has to be dropped once more after it:
//!
//! - file systems do so before they report completion, of waiting and of asynchronous writes alike;
//! - on a block device that happens only in a call that waits. After an asynchronous write nobody does it, and a program
//!   cannot: POSIX_FADV_DONTNEED passes over pages that are being read or copied from, which are the very ones in question.
//!
//! So after each write that a ring did on a block device we ask whether anything of the range is cached (cachestat, Linux 6.5).
//! Nothing is, unless somebody read while we wrote: what comes into the cache later comes from the medium as it is now. If
//! something is, the same bytes are written again by a call that waits. Where the kernel cannot be asked, all writes to
//! block devices go to threads and wait.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// The number of the call, the same on all architectures that we build for; libc names it on few of them.
const CACHESTAT: libc::c_long = 451;

/// The kernel's `struct cachestat_range`.
#[repr(C)]
struct Range {
    offset: u64,
    len: u64,
}

/// The kernel's `struct cachestat`, in pages.
#[repr(C)]
#[derive(Default)]
struct Pages {
    cached: u64,
    dirty: u64,
    writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

/// Whether the page cache holds a page, complete or not, of the `len` bytes at `offset`.
pub(super) fn holds_any(file: &OwnedFd, offset: u64, len: u64) -> io::Result<bool> {
    let range = Range { offset, len };
    let mut pages = Pages::default();
    let no_flags = 0;
    // SAFETY: the descriptor is open, and both pointers are to live structures of the layout that this call knows.
    let code = unsafe { libc::syscall(CACHESTAT, file.as_raw_fd(), &raw const range, &raw mut pages, no_flags) };
    if code == 0 { Ok(pages.cached > 0) } else { Err(io::Error::last_os_error()) }
}
