//! The shell and the machine together.

mod crash;
mod document;
mod equivalence;
mod format;
mod machine;
mod shell;
mod workload;
