//! Real units, filled and weighed.

use crate::random::mix64;
use anyhow::Context;
use hashbrown::HashMap;
use ludo::{Config, Maintenance, Shape, Simple};

/// The paper's ids.
pub const KEY_BYTES: usize = 40;

/// Bits for each key of a full structure.
#[derive(Clone, Copy, Debug)]
pub struct Weighed {
    pub keys: u64,
    pub lookup: f64,
    /// The lookup unit in it counted too.
    pub maintenance: f64,
    pub simple: f64,
    /// Ids with a block number.
    pub local: f64,
}

/// Builds all of them with so many keys, and values of these widths.
pub fn weigh(keys: u64, value_bits: u32, block_bits: u32, seed: u64) -> anyhow::Result<Weighed> {
    let config = |bits| Ok::<_, anyhow::Error>(Config { key_bytes: KEY_BYTES, shape: Shape::new(keys, bits, 0)?, seed });
    let per_key = |bytes: usize| bytes as f64 * 8.0 / keys as f64;
    let kept = Maintenance::build(config(value_bits)?, (0..keys).map(|number| (key(number, seed), value(number, value_bits))))
        .context("building a maintenance unit")?;
    let (lookup, maintenance) = (per_key(kept.lookup().memory_bytes()), per_key(kept.memory_bytes()));
    drop(kept);
    let simple = |bits| -> anyhow::Result<f64> {
        let mut simple = Simple::new(config(bits)?);
        for number in 0..keys {
            simple.insert(&key(number, seed), value(number, bits)).context("filling an index with keys")?;
        }
        Ok(per_key(simple.memory_bytes()))
    };
    Ok(Weighed { keys, lookup, maintenance, simple: simple(value_bits)?, local: simple(block_bits)? })
}

/// What a local index of so many ids takes as the general-purpose hash map that storage systems keep such indices in: bytes allocated for ids and
/// block numbers of 32 bits. It doubles when it is 7/8 full, so between two doublings it is half empty.
pub fn map_bytes(ids: u64) -> usize {
    HashMap::<[u8; KEY_BYTES], u32>::with_capacity(ids as usize).allocation_size()
}

fn key(number: u64, seed: u64) -> [u8; KEY_BYTES] {
    let mut key = [0; KEY_BYTES];
    for (at, part) in key.chunks_mut(8).enumerate() {
        part.copy_from_slice(&mix64(mix64(number ^ seed).wrapping_add(at as u64)).to_le_bytes());
    }
    key
}

fn value(number: u64, bits: u32) -> u128 {
    let wide = (u128::from(mix64(number)) << 64) | u128::from(number);
    wide & (u128::MAX >> (128 - bits))
}
