//! Marks: a simulation counts which rare branches of the code under test it went through.
//!
//! Counts are kept by the thread that asked for them with [`keep_marks`]; elsewhere a mark costs a look at a thread's own cell. Names
//! are words of the part that sets them ("recovery: begun again"), so that the counts read as a table.

use std::cell::RefCell;
use std::collections::BTreeMap;

type Marks = BTreeMap<&'static str, u64>;

thread_local! {
    static MARKS: RefCell<Option<Marks>> = const { RefCell::new(None) };
}

/// This branch was taken.
pub fn mark(what: &'static str) {
    MARKS.with_borrow_mut(|marks| {
        if let Some(marks) = marks {
            *marks.entry(what).or_default() += 1;
        }
    });
}

/// Counts marks of this thread from here on, from nothing.
pub fn keep_marks() {
    MARKS.set(Some(Marks::new()));
}

/// What was counted; counting ends.
pub fn take_marks() -> BTreeMap<&'static str, u64> {
    MARKS.take().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_count_while_they_are_kept() {
        mark("before");
        keep_marks();
        mark("branch");
        mark("branch");
        assert_eq!(take_marks(), BTreeMap::from([("branch", 2)]));
        mark("after");
        assert_eq!(take_marks(), BTreeMap::new());
    }
}
