//! Where the copies of a new chunk go.
