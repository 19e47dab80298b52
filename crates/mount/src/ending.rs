//! The end of a mount: when the last request is answered, and the client's session is closed too.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// Whether the session of the client has been closed.
#[derive(Debug, Default)]
pub struct Ending {
    is_over: Mutex<bool>,
    changed: Condvar,
}

/// The closing of a session, which is over when this is dropped: also where a runtime that stops drops the task that has it.
pub struct Closing(Arc<Ending>);

impl Ending {
    pub fn closing(self: Arc<Self>) -> Closing {
        Closing(self)
    }

    /// Waits until it is over. False where it is not after `patience`.
    pub fn wait(&self, patience: Option<Duration>) -> bool {
        let mut is_over = self.is_over.lock();
        match patience {
            None => self.changed.wait_while(&mut is_over, |is_over| !*is_over),
            Some(patience) => {
                self.changed.wait_while_for(&mut is_over, |is_over| !*is_over, patience);
            }
        }
        *is_over
    }
}

impl Drop for Closing {
    fn drop(&mut self) {
        *self.0.is_over.lock() = true;
        self.0.changed.notify_all();
    }
}
