//! The baselines: object stores that keep metadata and data apart, and write them in order.
//!
//! ```text
//!   log ──── group commit           needle ── bytes on a volume
//!   table ── log + kv               volumes ── append-only volumes: writing, compacting
//!        ├── haystack: the proxy's log ─► directory ─► needle
//!        └── tectonic: name ─► file ─► block ─► needle
//! ```
//!
//! Each `─►` waits until what is before it is durable (the Cheetah paper, sections 2.2 and 2.3, figure 1). Logs are those of the volume engine (crate `wal`), disks those
//! of crate `disk`. Calls between the roles are direct, as those of a lone server are.

pub mod directory;
pub mod haystack;
mod layout;
mod log;
mod needle;
mod table;
pub mod tectonic;
pub mod volumes;

pub use layout::Layout;
pub use needle::starts as needle_starts;
