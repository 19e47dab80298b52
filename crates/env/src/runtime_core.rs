//! Which runtime core a thread is.

use std::cell::Cell;

thread_local! {
    static CORE_INDEX: Cell<usize> = const { Cell::new(0) };
}

/// The index of the runtime core that this thread is; 0 on every thread that was not told otherwise.
pub fn core_index() -> usize {
    CORE_INDEX.with(Cell::get)
}

/// Makes this thread runtime core `index`. Called once, at the start of the thread.
pub fn set_core_index(index: usize) {
    CORE_INDEX.with(|cell| cell.set(index));
}
