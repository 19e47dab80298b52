//! What is allocated but not yet published: one machine for chunk puts, blocks of volumes and provisional inodes.
//!
//! ```text
//!              reserve            commit
//!   (free) ──────────► pending ──────────► (published: the caller's)
//!     ▲                   │ revoke, deadline     │ release
//!     │   drained         ▼                      ▼
//!     └────────────────── limbo ◄────────────────┘
//! ```
//!
//! Whoever reserves may die before it publishes, so every reservation may have a deadline. Whoever gives up may have requests under way that
//! use what was reserved, and so may readers of what was published, so nothing is free before its user says that it is *drained*: that
//! nothing can touch it any more.
//!
//! [`Blocks`] is the same for the blocks of a volume: it chooses them too, by a bitmap of several levels.
//!
//! Pure: no clock, no I/O. Time comes in as milliseconds that the caller's log agrees on; members that are told the same in the same order
//! hold the same.
#![forbid(unsafe_code)]

mod bitmap;
mod blocks;
mod reserve;

pub use bitmap::Bitmap;
pub use blocks::{Blocks, BlocksError, Extent};
pub use reserve::{Deadline, Reserve, ReserveError};
