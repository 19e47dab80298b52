//! How a program mounts: `filesystem` knows which volumes are mounted where, and speaks no kernel protocol.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::client::Client;
use crate::protocol::{MountOptions, UnmountHow};

/// Mounts volumes on folders.
pub trait MountDoor: Send + Sync {
    /// An empty file for the record of a mount's client.
    fn record(&self) -> io::Result<File>;

    /// Serves a volume at a folder. The next process finds the label with a mount that outlives this one. The error says what to do.
    fn mount(
        &self,
        client: Arc<Client>,
        volume: &str,
        point: &Path,
        options: &MountOptions,
        label: Vec<u8>,
    ) -> Result<Box<dyn Mounted>, String>;

    /// Unmounts what a server that died has left on a folder, if there is such a thing. The error says what to do.
    fn clear(&self, point: &Path) -> Result<(), String>;

    /// Mounts that have outlived the process before, the oldest first. The error says what to do.
    fn left(&self) -> Result<Vec<Box<dyn LeftMount>>, String>;

    /// Looks whether mounts would outlive this process, and sees to it that they do. Called now and then.
    fn look(&self);
}

/// A mount that has outlived the process that served it: its calls wait.
pub trait LeftMount: Send {
    fn label(&self) -> &[u8];

    /// The record of its client.
    fn record(&self) -> io::Result<File>;

    /// Whether it lies on its folder. One that was detached has its last uses.
    fn is_in_place(&self) -> bool;

    /// Serves it with the client that was resumed. Where that fails the mount is ended. The error says what to do.
    fn resume(self: Box<Self>, client: &Arc<Client>, volume: &str, options: &MountOptions) -> Result<Box<dyn Mounted>, String>;

    /// Ends it: its calls fail.
    fn give_up(self: Box<Self>);
}

/// A mount that is served.
pub trait Mounted: Send + Sync {
    /// Ends it. The error says what to do.
    fn unmount(&self, how: UnmountHow) -> Result<(), String>;

    /// Whether it has ended, also by other hands.
    fn is_over(&self) -> bool;

    /// Whether it lies on its folder. One that was detached, or of which containers have copies, is not over then.
    fn is_in_place(&self) -> bool;

    /// Takes no more calls: they wait for the next process. False where the mount can't outlive this one, and nothing was done.
    fn stop(&self) -> bool;

    /// Whether it has stopped, and all calls that it took are answered.
    fn is_idle(&self) -> bool;

    /// Leaves the calls under way of a mount that stops to the next process; how many they are.
    fn abandon(&self) -> usize;
}
