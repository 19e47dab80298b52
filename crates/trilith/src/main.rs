//! The `trilith` binary.

fn main() {}
