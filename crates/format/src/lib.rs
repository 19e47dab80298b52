//! Every durable and wire record: layout, version, encode, decode, golden bytes.
#![forbid(unsafe_code)]

pub mod frame;
pub mod superblock;
pub mod zone_header;

pub mod chunk_block;
pub mod chunk_command;
pub mod chunk_fences;
pub mod chunk_id;
pub mod chunk_page;
pub mod chunk_place;
pub mod chunk_update;

pub mod attributes;
pub mod blob_header;
pub mod chunk_ref;
pub mod decode;
#[cfg(test)]
mod document;
pub mod entry;
mod hex;
mod layout;
pub mod manifest;
pub mod name_entry;
pub mod part_table;
pub mod record;
pub mod replicas;
pub mod run_block;
pub mod run_index;
pub mod unit_table;
pub mod version_id;

/// All durable formats together, as this version of Trilith writes them. A cluster that has allowed a higher number is not for it.
pub const FORMAT_VERSION: u32 = 1;
