//! The chunk store (Smash, Liu et al. 2023): chunks of up to 4 MiB that the system names, placed anywhere, found by lookup units that hold no ids.
#![forbid(unsafe_code)]

mod asking;
pub mod block_service;
pub mod blocks;
mod branches;
mod breakers;
pub mod chunk_client;
pub mod client;
pub mod contact;
pub mod deliveries;
pub mod host_service;
pub mod leader;
pub mod limits;
pub mod load_reporting;
mod look_around;
pub mod lookup;
pub mod maintenance;
pub mod map_service;
pub mod message;
pub mod monitor;
pub mod outside;
mod part;
pub mod placement;
pub mod protocol;
pub mod publisher;
pub mod reach;
pub mod reporting;
pub mod settings;
pub mod storage_node;
pub mod unit_ways;
pub mod units;
pub mod wire;

pub use part::{ChunkStarter, Chunks};

#[cfg(test)]
mod played;
#[cfg(test)]
mod simulation;
