//! Ordered key-value state: atomic batches, snapshots, prefix scans.
