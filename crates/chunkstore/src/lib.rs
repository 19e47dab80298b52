//! The chunk store (Smash, Liu et al. 2023): chunks of up to 4 MiB that the system names, placed anywhere, found by lookup units that hold no ids.
#![forbid(unsafe_code)]

pub mod placement;
