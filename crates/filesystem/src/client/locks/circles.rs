//! Owners of one client that wait for each other's locks, in a circle: none of them would ever get its lock.
//!
//! A wait notes what it is behind each time that it asks. So a note may be older than the unlock that ends the wait: a circle is one only when the tree
//! has confirmed each of its waits, and all of them still stand afterwards. The owner whose wait closes the circle is refused. Circles across clients are
//! not seen: waits are the clients' own.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use crate::ids::Ino;
use crate::meta::{Lock, LockOwner};

/// An owner waits for a lock that another owner of this client keeps from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    pub ino: Ino,
    pub lock: Lock,
    pub behind: LockOwner,
}

/// The waits of a client. Its calls under way bound them.
#[derive(Debug, Default)]
pub struct Circles {
    waits: Mutex<BTreeMap<LockOwner, Wait>>,
}

impl Circles {
    /// Notes a wait. The answer has the waits of the circle that it closes.
    pub fn begin(&self, wait: Wait) -> Option<Vec<Wait>> {
        let mut waits = self.waits.lock();
        waits.insert(wait.lock.owner, wait);
        let mut circle = vec![wait];
        let mut at = wait;
        // A chain may end in a circle of others, of which this wait is no part.
        while circle.len() <= waits.len() {
            at = *waits.get(&at.behind)?;
            circle.push(at);
            if at.behind == wait.lock.owner {
                return Some(circle);
            }
        }
        None
    }

    /// An owner waits no more, or for another client's lock.
    pub fn end(&self, owner: LockOwner) {
        self.waits.lock().remove(&owner);
    }

    /// Whether all of these are still waited for.
    pub fn stand(&self, circle: &[Wait]) -> bool {
        let waits = self.waits.lock();
        circle.iter().all(|wait| waits.get(&wait.lock.owner) == Some(wait))
    }
}
