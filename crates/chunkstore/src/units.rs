//! Maintenance units as processes: consensus groups on nodes, and what their leaders do (docs/rfd/0012).
//!
//! Reading order: `machine`, `service`, `member`, `leading`, `placing`, `requests`, `mending`, `space`, `membership`, `link`.

mod filling;
mod leading;
mod link;
mod machine;
mod member;
mod membership;
mod mending;
mod placing;
mod requests;
mod service;
mod space;

pub use machine::UnitMachine;
pub use member::UnitMember;
pub use service::Units;
