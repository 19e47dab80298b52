//! What the kernel has of files that another client changed is dropped, before the kernel is told what is new.
//!
//! No other client changes files of an exclusive mount, and pages that its kernel has may be newer than any that is written: none is dropped there.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use filesystem::client::{Client, Old};
use filesystem::meta::Attributes;
use fuse::{Errno, NodeId, Notification, Notifier};
use tokio::task::JoinHandle;

/// How long a write's answer waits for what it makes old. The kernel may have locked the page that it writes until it has the answer: then it is dropped after it.
const WRITE_PATIENCE: Duration = Duration::from_millis(5);

/// An offset that keeps the pages of a file.
const KEEP_PAGES: i64 = -1;

/// The way to the caches of the kernel.
#[derive(Debug, Default)]
pub struct Caches {
    /// None before the mount is served: the kernel has nothing then.
    notifier: OnceLock<Notifier>,
}

impl Caches {
    pub fn serve(&self, notifier: Notifier) {
        // A mount is served once.
        drop(self.notifier.set(notifier));
    }

    /// The kernel is about to be told attributes, which it then has.
    pub async fn renew(&self, client: &Client, attributes: &Attributes) {
        if !client.is_exclusive() && client.told(attributes) == Old::Pages {
            self.drop_pages(client, attributes).await;
        }
    }

    /// The kernel shall ask anew for the attributes of a file that a call has changed beside what it asked for.
    pub async fn renew_changed(&self, client: &Client, attributes: &Attributes) {
        match client.is_exclusive() {
            true => joined(self.drop(attributes, KEEP_PAGES)).await,
            false => self.renew_all(client, attributes).await,
        }
    }

    /// The kernel is about to be answered without attributes: it shall ask for them anew where they have changed.
    pub async fn renew_all(&self, client: &Client, attributes: &Attributes) {
        if client.is_exclusive() {
            return;
        }
        match client.told(attributes) {
            Old::Nothing => {}
            Old::Attributes => joined(self.drop(attributes, KEEP_PAGES)).await,
            Old::Pages => self.drop_pages(client, attributes).await,
        }
    }

    /// A write is about to be answered. `is_elsewhere`: the kernel has put its bytes at another offset into its cache.
    pub async fn renew_after_write(self: Arc<Self>, client: &Arc<Client>, attributes: Attributes, is_elsewhere: bool) {
        if client.is_exclusive() || client.told(&attributes) != Old::Pages && !is_elsewhere {
            return;
        }
        let (caches, owned) = (self, Arc::clone(client));
        let dropping = tokio::spawn(async move { caches.drop_pages(&owned, &attributes).await });
        tokio::select! {
            () = joined(Some(dropping)) => {}
            () = client.env().sleep(WRITE_PATIENCE) => {}
        }
    }

    async fn drop_pages(&self, client: &Client, attributes: &Attributes) {
        joined(self.drop(attributes, 0)).await;
        client.renewed(attributes);
    }

    /// From a thread of its own: it may wait for pages that are being read or written.
    fn drop(&self, attributes: &Attributes, offset: i64) -> Option<JoinHandle<()>> {
        let notifier = self.notifier.get()?.clone();
        let node = NodeId(attributes.ino.0);
        Some(tokio::task::spawn_blocking(move || {
            match notifier.send(&Notification::InvalidateInode { node, offset, length: 0 }) {
                // The kernel does not know the inode, or the mount is gone.
                Ok(()) | Err(Errno::NOENT | Errno::NODEV | Errno::CONNABORTED | Errno::PERM) => {}
                Err(errno) => tracing::warn!(%errno, "what the kernel has of a file may be old"),
            }
        }))
    }
}

async fn joined(dropping: Option<JoinHandle<()>>) {
    if let Some(dropping) = dropping
        && let Err(error) = dropping.await
    {
        tracing::warn!(%error, "what the kernel has of a file may be old");
    }
}
