//! The shell and the machine together.

mod shell;
