//! The machine as rows.
//!
//! ```text
//!   table 1 │ key                     │ value
//!   0       │                         │ lowest inode number and freed number never given out, bytes of contents, quota
//!   1       │ inode 8                 │ inode
//!   2       │ directory 8, cookie 8   │ inode number, name
//!   3       │ session 8               │ session
//!   4       │ session 8, sequence 8   │ reply
//!   5       │ inode 8                 │ sessions that may have the orphan open
//!   6       │ inode 8                 │ locks
//!   7       │ partition 8, number 8   │ what is to be freed
//!   8       │ tree 8, reign 8, number 8 │ parts that are held ready
//!   9       │ reign 8, number 8       │ trees that may not know that the transaction is done
//!   10      │ tree 8                  │ reign and number below which all transactions of that tree are over
//! ```
//!
//! Numbers of keys are big-endian; values are postcard.

use consensus::{MachineError, RowChange, Rows};
use serde::{Deserialize, Serialize};

use super::super::transaction::TransactionNumber;
use super::rowmap::{decode, encode};
use super::{Machine, Quota};

/// Tables, by the first byte of their keys.
pub const TOTALS: u8 = 0;
pub const INODES: u8 = 1;
pub const DENTRIES: u8 = 2;
pub const SESSIONS: u8 = 3;
pub const REPLIES: u8 = 4;
pub const ORPHANS: u8 = 5;
pub const LOCKS: u8 = 6;
pub const FREED: u8 = 7;
pub const PREPARED: u8 = 8;
pub const DECIDED: u8 = 9;
pub const PASSED: u8 = 10;

/// What is one for the whole tree.
#[derive(Serialize, Deserialize)]
struct Totals {
    next_inode: u64,
    next_freed: u64,
    bytes: u64,
    quota: Quota,
    least_transaction: TransactionNumber,
}

impl Rows for Machine {
    fn take_changes(&mut self) -> Vec<RowChange> {
        let (next_inode, bytes) = self.tables.totals();
        let (next_freed, quota, least_transaction) = (self.freed.next(), self.quota, self.transactions.least());
        let totals = Totals { next_inode, next_freed, bytes, quota, least_transaction };
        let mut rows = vec![(vec![TOTALS], Some(encode(&totals)))];
        self.tables.take_changes(&mut rows);
        self.sessions.take_changes(&mut rows);
        self.locks.take_changes(&mut rows);
        self.freed.take_changes(&mut rows);
        self.transactions.take_changes(&mut rows);
        rows
    }

    fn clear(&mut self) {
        *self = Machine::empty();
    }

    fn load(&mut self, key: &[u8], value: &[u8]) -> Result<(), MachineError> {
        let (table, key) = key.split_first().ok_or_else(|| MachineError("a row of a tree without a key".to_owned()))?;
        match *table {
            TOTALS => {
                let totals: Totals = decode(value).map_err(|error| MachineError(format!("the totals of a tree: {error}")))?;
                self.tables.set_totals(totals.next_inode, totals.bytes);
                self.freed.set_next(totals.next_freed);
                self.quota = totals.quota;
                self.transactions.raise_least(totals.least_transaction);
                Ok(())
            }
            INODES | DENTRIES => self.tables.load(*table, key, value),
            SESSIONS | REPLIES | ORPHANS => self.sessions.load(*table, key, value),
            LOCKS => self.locks.load(key, value),
            FREED => self.freed.load(key, value),
            PREPARED | DECIDED | PASSED => self.transactions.load(*table, key, value),
            other => Err(MachineError(format!("a row of a tree in table {other}"))),
        }
    }
}

#[cfg(test)]
mod tests;
