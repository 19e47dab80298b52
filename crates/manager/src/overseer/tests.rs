//! The rules one by one, and all of them in a simulated cluster.

mod links;
mod reach;
mod rules;
mod scene;
mod simulation;
mod stuck;
mod wire;
mod world;
