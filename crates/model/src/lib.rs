//! Model checks of the protocols.
