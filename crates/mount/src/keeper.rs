//! The mount keeper: a process that holds mounts while no server serves them, and the server's way to it (docs/rfd/0025).
//!
//! ```text
//!  server ── mount-keeper.sock, one message a packet ── keeper
//!    KEEP, then the mount's handover  ─►                 holds them in place of what it had under this key
//!                                     ◄─ DONE
//!    TAKE                             ─►
//!                                     ◄─ HELD, then the handover, for each mount; then DONE
//!    RELEASE                          ─►                 ends when it holds nothing
//! ```
//!
//! Invariants
//! - The keeper never reads from a mount, and never uses a path of one.
//! - A server has the keeper hold a mount before it reads a request from it. It gives the mount up when the mount is over.
//! - Every wait for the other side has a limit.

mod message;
mod process;
mod way;

pub use process::run;
pub use way::{Held, Keeper, new_record};

/// The keeper's socket in the data folder.
pub const SOCKET: &str = "mount-keeper.sock";

/// The most mounts that a keeper holds.
pub const MAX_MOUNTS: usize = 256;

/// Why the keeper does not hold a mount.
#[derive(Debug, thiserror::Error)]
pub enum KeeperError {
    #[error("the mount keeper's socket failed: {0}")]
    Socket(#[from] std::io::Error),
    #[error("the mount keeper did not start: {0}")]
    Start(std::io::Error),
    #[error(transparent)]
    Handover(#[from] fuse::HandoverError),
    #[error("the mount keeper sent no answer that this version knows")]
    Message,
    #[error("it holds {MAX_MOUNTS} mounts: end one of them with `trilith umount`")]
    Full,
    #[error("the client of the mount has no record")]
    NoRecord,
}

impl From<fuse::Errno> for KeeperError {
    fn from(errno: fuse::Errno) -> Self {
        KeeperError::Socket(errno.into())
    }
}

#[cfg(test)]
mod tests;
