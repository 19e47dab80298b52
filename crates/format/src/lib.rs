//! Every durable and wire record: layout, version, encode, decode, golden bytes.
#![forbid(unsafe_code)]

pub mod frame;
