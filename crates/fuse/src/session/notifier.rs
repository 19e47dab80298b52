//! Sending notifications.

use std::sync::Arc;

use rustix::io::Errno;

use super::core::Core;
use crate::notify::Notification;

/// Tells the kernel what changed behind its back. It can be cloned and used from any thread but one that serves a request of the same
/// inode: the kernel may hold the inode's lock until that request is answered.
#[derive(Clone, Debug)]
pub struct Notifier {
    core: Arc<Core>,
}

impl Notifier {
    pub(super) fn new(core: Arc<Core>) -> Self {
        Notifier { core }
    }

    /// Sends a notification. ENOENT says that the kernel does not know the node or the name, and so has nothing that is wrong.
    pub fn send(&self, notification: &Notification<'_>) -> Result<(), Errno> {
        let device = self.core.device(0);
        notification.encode(|header, parts| device.write(&header, parts))?
    }
}
