//! What is measured: a store of objects with numbers for names.

use bytes::Bytes;
use disk::DiskStats;
use futures_util::future::BoxFuture;

/// An outcome that is waited for.
pub type Asked<'a, T> = BoxFuture<'a, anyhow::Result<T>>;

/// A store. An object is written by one caller at a time, and not while it is there.
pub trait Subject: Send + Sync {
    /// Durable when it is answered.
    fn put(&self, number: u64, bytes: Bytes) -> Asked<'_, ()>;

    /// Its bytes, which were checked against their sums.
    fn get(&self, number: u64) -> Asked<'_, Bytes>;

    /// Durable when it is answered.
    fn delete(&self, number: u64) -> Asked<'_, ()>;

    /// Bytes of the device that objects can't have anew.
    fn occupied_bytes(&self) -> u64;

    /// Whether it moves objects to win space.
    fn is_compacting(&self) -> bool {
        false
    }

    /// Bytes that were moved for it.
    fn moved_bytes(&self) -> u64 {
        0
    }

    /// What its device was asked for.
    fn device(&self) -> DiskStats;
}

/// Names begin so, and have so many digits.
pub const NAME_PREFIX: &[u8] = b"object-";
pub const NAME_DIGITS: usize = 12;

/// What an object is called.
pub fn name(number: u64) -> Vec<u8> {
    [NAME_PREFIX, format!("{number:0width$}", width = NAME_DIGITS).as_bytes()].concat()
}
