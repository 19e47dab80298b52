//! Models of the protocols, explored state by state.
//!
//! Each file opens with its states, messages and invariants, checks the protocol within small bounds (larger ones with
//! `TRILITH_SOAK`), and then breaks one rule at a time to show that the check notices.

mod allack;
mod archived_units;
mod chunk_store;
mod cold_start;
mod copies;
mod epochs;
mod explore;
mod failed_writes;
mod freeze;
mod images;
mod interference;
mod views;
