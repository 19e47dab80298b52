//! Where the manifest of the newest checkpoint is kept: with the manager, which the data path never calls.

use engine::EngineFuture;
use types::Epoch;

/// The manager's part in the log engine.
pub trait Manifests: Send + Sync + 'static {
    /// The installed manifest, encoded; none before the first checkpoint.
    fn load(&self) -> Option<Vec<u8>>;

    /// Replaces the manifest of epoch `expected` (0: none yet), durably. Fails if another one is installed.
    fn install(&self, expected: Epoch, epoch: Epoch, manifest: Vec<u8>) -> EngineFuture<'_, ()>;

    /// Fails if nothing can be installed at the moment. Asked before a run is written, or copies are, that count only with another manifest: what is
    /// written in vain takes space until one is installed.
    fn reach(&self) -> EngineFuture<'_, ()> {
        Box::pin(async { Ok(()) })
    }

    /// A number that no earlier start of this gateway was given, greater than theirs. Durable before it is returned.
    fn incarnation(&self) -> EngineFuture<'_, u64>;
}
