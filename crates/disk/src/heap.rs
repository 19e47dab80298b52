//! The process's memory: what is free goes back to the operating system, and a small process uses small pages.
//!
//! The allocator keeps what was freed for the next allocation, and returns it after a second, but only looks for it while it is asked
//! for more. A process that has become idle keeps the memory of its busiest moment. So the program asks the allocator to look.
//! It stands here because the allocator's interface is C, and this is the crate with `unsafe`.

// Only links it: the one function that is needed takes and returns nothing that would need its types.
use libmimalloc_sys as _;

/// How much is given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GiveBack {
    /// What has been free for a second. Cheap enough for a busy thread, once a second.
    Expired,
    /// All that is free, also in pages of the present thread that it keeps for itself. For an idle thread: what is used next is paged in anew.
    All,
}

/// From so many resident bytes on a process uses pages of 2 MiB. They make look-ups in large maps faster, and a small process twice as large.
const HUGE_PAGES_FROM_BYTES: u64 = 256 << 20;

unsafe extern "C" {
    fn mi_collect(force: bool);
}

/// Gives back free memory of the process, and of the heap of the present thread.
pub fn give_back(what: GiveBack) {
    // SAFETY: it takes no pointer, may be called on any thread at any time, and frees only what nobody has.
    unsafe { mi_collect(what == GiveBack::All) }
}

/// Has the process use small pages until [`use_huge_pages_when_large`] finds it large. Where the kernel refuses, nothing changes.
pub fn use_small_pages() {
    set_huge_pages(false);
}

/// Lets the process use huge pages if it has become large; true from then on.
pub fn use_huge_pages_when_large() -> bool {
    use_huge_pages_from(HUGE_PAGES_FROM_BYTES)
}

fn use_huge_pages_from(least: u64) -> bool {
    let is_large = resident_bytes().is_none_or(|bytes| bytes >= least);
    if is_large {
        set_huge_pages(true);
    }
    is_large
}

fn resident_bytes() -> Option<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = statm.split(' ').nth(1)?.parse().ok()?;
    // SAFETY: it takes a number and reads nothing of ours.
    let page_bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    Some(pages * u64::try_from(page_bytes).ok()?)
}

fn set_huge_pages(are_used: bool) {
    let unused: libc::c_ulong = 0;
    // SAFETY: this operation of prctl takes a flag and three zeros, and changes which pages later page faults get.
    unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, libc::c_ulong::from(!are_used), unused, unused, unused) };
}

#[cfg(test)]
mod tests {
    use super::{resident_bytes, use_huge_pages_from, use_small_pages};

    #[test]
    fn huge_pages_are_off_until_the_process_is_large() {
        let disabled = || {
            // SAFETY: it takes zeros and answers with a flag.
            unsafe { libc::prctl(libc::PR_GET_THP_DISABLE, 0, 0, 0, 0) }
        };
        let resident = resident_bytes().unwrap();
        assert!(resident > 100_000, "{resident}");
        use_small_pages();
        assert_eq!(disabled(), 1);
        assert!(!use_huge_pages_from(u64::MAX));
        assert_eq!(disabled(), 1);
        assert!(use_huge_pages_from(1));
        assert_eq!(disabled(), 0);
    }
}
