//! The machine alone: what it writes, in which order, and what it answers.

mod changes;
mod ending;
mod moving;
mod queue;
pub(crate) mod rig;
mod space;
