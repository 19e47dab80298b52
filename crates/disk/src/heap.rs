//! Memory that is free goes back to the operating system.
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

unsafe extern "C" {
    fn mi_collect(force: bool);
}

/// Gives back free memory of the process, and of the heap of the present thread.
pub fn give_back(what: GiveBack) {
    // SAFETY: it takes no pointer, may be called on any thread at any time, and frees only what nobody has.
    unsafe { mi_collect(what == GiveBack::All) }
}
