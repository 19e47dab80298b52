//! openraft, and all that touches its types. Nothing of it leaves this module.

mod core;
mod machine;
mod network;
mod runtime;
mod storage;
mod types;
mod watch;

pub(crate) use self::core::{Core, Refused};
pub(crate) use self::machine::Machine as RaftMachine;

#[cfg(test)]
mod tests;
