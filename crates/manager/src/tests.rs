//! The shell and the machine together.

mod both;
mod cells;
mod crash;
mod document;
mod equivalence;
mod files;
mod format;
mod groups;
mod images;
mod machine;
pub(crate) mod nodes;
mod placements;
mod replicated;
mod shards;
mod shell;
mod tables;
mod workload;
