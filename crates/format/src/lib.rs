//! Every durable and wire record: layout, version, encode, decode, golden bytes.
#![forbid(unsafe_code)]

pub mod frame;
pub mod superblock;
pub mod zone_header;
