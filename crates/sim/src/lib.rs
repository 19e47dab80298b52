//! Whole-system simulation and faults.
#![forbid(unsafe_code)]
