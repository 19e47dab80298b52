//! Unit tests, by what they are about.

mod content;
mod listing;
mod response;
mod signature;
mod tally;
mod workload;
