//! The machine alone: turns of one gateway, scenarios of several, and seeded simulations of a whole cell.

mod cell_world;
mod checks;
mod forgotten;
mod joining;
mod membership;
mod mutant;
mod recoveries;
mod scenario;
mod simulation;
mod turns;
mod view_changes;
mod world;
