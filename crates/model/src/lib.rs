//! Model checks of the protocols, and the tools that other crates' tests check histories with.
//!
//! - [`linearizability`]: judges a recorded history of calls and outcomes against a sequential specification.
//! - [`register`]: the specification of one key: read, write, compare-and-swap.
//! - [`choice`]: where a simulation takes its decisions from: a seed, or every possibility in turn.
//!
//! The models themselves are tests (`tests/models`), one file per protocol; each opens with its states, messages and invariants.
#![forbid(unsafe_code)]

pub mod choice;
pub mod linearizability;
pub mod register;
