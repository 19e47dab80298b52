//! The shell and the machine together.

mod cells;
mod crash;
mod document;
mod equivalence;
mod format;
mod machine;
pub(crate) mod nodes;
mod shell;
mod workload;
