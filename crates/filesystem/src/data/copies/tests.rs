//! Copies of a partition in a simulated world: nodes that crash and pause, messages that are lost and late, a group that changes its leader.

mod checker;
mod random;
mod scenarios;
mod world;
