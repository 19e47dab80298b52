//! The fences in force.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use format::superblock::fences::{MAX_FENCES, encode};
use parking_lot::RwLock;
use types::Token;

use crate::FenceKey;
use crate::error::{AppendRefused, FenceError};

pub(crate) struct Fences {
    table: RwLock<Table>,
    /// What was raised elsewhere while this target was away is in the table.
    is_loaded: AtomicBool,
}

struct Table {
    fences: BTreeMap<FenceKey, Token>,
    turns: Turn,
}

/// Who wants the table durable, counted. Also who has changed nothing in it: what was found on the device may stand in the page cache alone, and a disk that
/// hangs must not be taken for one that has noted it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Turn(u64);

impl Fences {
    pub(crate) fn new(table: Vec<(FenceKey, Token)>, is_loaded: bool) -> Fences {
        let table = Table { fences: table.into_iter().collect(), turns: Turn::default() };
        Fences { table: RwLock::new(table), is_loaded: AtomicBool::new(is_loaded) }
    }

    pub(crate) fn get(&self, writer: FenceKey) -> Option<Token> {
        self.table.read().fences.get(&writer).copied()
    }

    pub(crate) fn set_loaded(&self) {
        self.is_loaded.store(true, Ordering::Release);
    }

    pub(crate) fn check(&self, writer: FenceKey, token: Token) -> Result<(), AppendRefused> {
        if !self.is_loaded.load(Ordering::Acquire) {
            return Err(AppendRefused::FencesNotLoaded);
        }
        match self.get(writer) {
            Some(fence) if token < fence => {
                env::mark("target: a fence refused an append");
                Err(AppendRefused::Fenced { writer, found: token, fence })
            }
            _ => Ok(()),
        }
    }

    /// The fence holds when this returns.
    pub(crate) fn raise(&self, writer: FenceKey, token: Token) -> Result<(), FenceError> {
        let mut table = self.table.write();
        match table.fences.get(&writer) {
            Some(fence) if token < *fence => return Err(FenceError::Older { writer, found: token, fence: *fence }),
            Some(_) => {}
            None if table.fences.len() >= MAX_FENCES => return Err(FenceError::TooMany { most: MAX_FENCES }),
            None => {}
        }
        table.fences.insert(writer, token);
        Ok(())
    }

    /// What was raised before is durable when a table is that was taken after this turn.
    pub(crate) fn take_turn(&self) -> Turn {
        let turns = &mut self.table.write().turns;
        turns.0 += 1;
        *turns
    }

    /// The table, and the last turn that was taken before.
    pub(crate) fn encode(&self) -> (Vec<u8>, Turn) {
        let table = self.table.read();
        let fences: Vec<(FenceKey, Token)> = table.fences.iter().map(|(key, token)| (*key, *token)).collect();
        (encode(&fences), table.turns)
    }
}
