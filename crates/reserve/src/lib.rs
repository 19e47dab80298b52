//! What is allocated but not yet published: one machine for chunk puts, blocks of volumes and provisional inodes.
#![forbid(unsafe_code)]
