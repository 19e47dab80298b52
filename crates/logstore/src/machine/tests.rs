//! The machine alone: turns of one gateway, scenarios of several, and seeded simulations of a whole cell.

mod checks;
mod mutant;
mod scenario;
mod simulation;
mod turns;
mod world;
