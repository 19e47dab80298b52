//! The manager's state, copied to every device of this node: a lost consensus log is made anew from there (`trilith fsck --rebuild`).
//!
//! ```text
//!   a change of the state ─► copied at once, then at most every NOTES_INTERVAL      bucket made, credential added, ...
//!   a checkpoint, a start ─► copied before it counts                                so no zone that a copy needs is reset
//! ```
//!
//! Invariants:
//! - Clients never wait for a copy; checkpoints and starts do, but not for a disk that hangs.
//! - A copy on a device is whole: it goes to the one of two slots that holds the older one.
//! - The copies hold secret keys, so a file that stands in for a disk is readable by its owner only.

use device::{Device, NotesKind};
use env::Env;
use manager::{CommandIndex, Manager};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;

/// Least time between copies that nobody waits for.
const NOTES_INTERVAL: Duration = Duration::from_secs(1);

/// Writes the manager's state to the devices.
pub(crate) struct Notes {
    manager: Arc<Manager>,
    devices: Vec<Arc<Device>>,
    written: Mutex<CommandIndex>,
}

impl Notes {
    pub fn new(manager: Arc<Manager>, devices: Vec<Arc<Device>>) -> Arc<Notes> {
        Arc::new(Notes { manager, devices, written: Mutex::default() })
    }

    /// Copies the present state to every device, unless they have it. A device that can't take it keeps the copy before, and the
    /// log says so.
    pub async fn write(&self) {
        let mut written = self.written.lock().await;
        let state = self.manager.snapshot();
        if state.applied() == *written {
            return;
        }
        let copy = state.export();
        for device in &self.devices {
            let written = tokio::select! {
                biased;
                written = device.write_notes(NotesKind::Manager, &copy) => written.map_err(|error| error.to_string()),
                () = device.hung() => Err("its disk hangs".to_owned()),
            };
            if let Err(error) = written {
                tracing::error!(
                    device = device.id().0,
                    error,
                    "the manager's state could not be copied to a device; keep a copy of the folder `consensus` elsewhere"
                );
            }
        }
        *written = state.applied();
    }

    /// Copies every change, for as long as the manager lives.
    pub async fn keep(self: Arc<Self>, env: Env) {
        let mut changes = self.manager.changes();
        loop {
            self.write().await;
            env.sleep(NOTES_INTERVAL).await;
            if changes.changed().await.is_err() {
                return;
            }
        }
    }
}
