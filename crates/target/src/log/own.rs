//! Appends of this process's own gateway that its target has not answered.
//!
//! Those of other nodes have deadlines there. One from here would wait for a disk that hangs as long as that does, and its key with it, at every gateway: so
//! it is given up too, while the disk hangs. It has not been handed to the disk by then, and never will be (its deadline is the same), or it counts among the
//! requests that the disk owes, and the device is used again only when it owes none that old.

use std::collections::BTreeMap;
use std::sync::Arc;

use device::{AppendDone, AppendError, Appended};
use env::Instant;
use parking_lot::Mutex;

/// Hears the device's answers, and passes them on to whoever has not been told otherwise.
#[derive(Default)]
pub(crate) struct OwnAppends {
    under_way: Mutex<UnderWay>,
}

#[derive(Default)]
struct UnderWay {
    next: u64,
    appends: BTreeMap<u64, OwnAppend>,
}

struct OwnAppend {
    deadline: Instant,
    done: Arc<dyn AppendDone>,
    tag: u64,
}

impl OwnAppends {
    /// The number under which the device answers it.
    pub fn begin(&self, deadline: Instant, done: Arc<dyn AppendDone>, tag: u64) -> u64 {
        let mut under_way = self.under_way.lock();
        let number = under_way.next;
        under_way.next += 1;
        under_way.appends.insert(number, OwnAppend { deadline, done, tag });
        number
    }

    /// It is not answered any more.
    pub fn forget(&self, number: u64) {
        self.under_way.lock().appends.remove(&number);
    }

    /// Answers those whose deadline has passed.
    pub fn give_up(&self, now: Instant, error: &AppendError) {
        let expired: Vec<OwnAppend> = {
            let appends = &mut self.under_way.lock().appends;
            let numbers: Vec<u64> =
                appends.iter().filter(|(_, append)| append.deadline <= now).map(|(number, _)| *number).collect();
            numbers.iter().filter_map(|number| appends.remove(number)).collect()
        };
        for append in expired {
            env::mark("target: an append of this process was given up");
            append.done.appended(append.tag, Err(error.clone()));
        }
    }
}

impl AppendDone for OwnAppends {
    fn appended(&self, number: u64, result: Result<Appended, AppendError>) {
        let append = self.under_way.lock().appends.remove(&number);
        // None: it was given up.
        if let Some(OwnAppend { done, tag, .. }) = append {
            done.appended(tag, result);
        }
    }
}
