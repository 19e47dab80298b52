//! The shell and the machine together.

mod crash;
mod equivalence;
mod format;
mod machine;
mod shell;
mod workload;
