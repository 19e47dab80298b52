//! Scenarios of the machine.
