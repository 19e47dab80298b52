//! Decision 21.
