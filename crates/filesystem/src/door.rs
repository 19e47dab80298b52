//! How a program mounts: `filesystem` knows which volumes are mounted where, and speaks no kernel protocol.

use std::path::Path;
use std::sync::Arc;

use crate::client::Client;
use crate::protocol::{MountOptions, UnmountHow};

/// Mounts volumes on folders.
pub trait MountDoor: Send + Sync {
    /// Serves a volume at a folder. The error says what to do.
    fn mount(
        &self,
        client: Arc<Client>,
        volume: &str,
        point: &Path,
        options: &MountOptions,
    ) -> Result<Box<dyn Mounted>, String>;

    /// Unmounts what a server that died has left on a folder, if there is such a thing.
    fn clear(&self, point: &Path);
}

/// A mount that is served.
pub trait Mounted: Send + Sync {
    /// Ends it. The error says what to do.
    fn unmount(&self, how: UnmountHow) -> Result<(), String>;

    /// Whether it has ended, also by other hands.
    fn is_over(&self) -> bool;
}
