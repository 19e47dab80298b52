//! Model checks of the protocols.
#![forbid(unsafe_code)]
