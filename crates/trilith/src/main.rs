//! The `trilith` binary.
#![forbid(unsafe_code)]

fn main() {}
