//! Whole-system simulation and faults.
