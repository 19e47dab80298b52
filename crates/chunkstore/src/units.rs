//! Maintenance units as processes: consensus groups on nodes, and what their leaders do (docs/rfd/0012).
//!
//! Reading order: `machine`, `service`, `member`, `errands`, `leading`, `placing`, `requests`, `mending`, `pages`, `archive`, `sweeping`, `space`, `link`.

mod archive;
mod errands;
mod filling;
mod leading;
mod link;
mod machine;
mod member;
mod mending;
mod pages;
mod placing;
mod requests;
mod service;
mod space;
mod sweeping;

#[cfg(test)]
pub use leading::fixture;
pub use machine::UnitMachine;
pub use member::UnitMember;
pub use service::Units;
