//! The log engine (ZStore): maps, notices, epochs, checkpoints, recovery, garbage collection.
