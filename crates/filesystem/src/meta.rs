//! Meta partitions: inodes and dentries.
