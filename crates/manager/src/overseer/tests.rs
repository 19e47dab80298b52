//! The rules one by one, and all of them in a simulated cluster.

mod rules;
mod simulation;
mod wire;
mod world;
