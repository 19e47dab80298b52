//! The fences in force.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use format::superblock::fences::{MAX_FENCES, encode};
use parking_lot::RwLock;
use types::Token;

use crate::FenceKey;
use crate::error::{AppendRefused, FenceError};

pub(crate) struct Fences {
    table: RwLock<BTreeMap<FenceKey, Token>>,
    /// What was raised elsewhere while this target was away is in the table.
    is_loaded: AtomicBool,
}

impl Fences {
    pub(crate) fn new(table: Vec<(FenceKey, Token)>, is_loaded: bool) -> Fences {
        Fences { table: RwLock::new(table.into_iter().collect()), is_loaded: AtomicBool::new(is_loaded) }
    }

    pub(crate) fn get(&self, writer: FenceKey) -> Option<Token> {
        self.table.read().get(&writer).copied()
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

    pub(crate) fn raise(&self, writer: FenceKey, token: Token) -> Result<(), FenceError> {
        let mut table = self.table.write();
        match table.get(&writer) {
            Some(fence) if token < *fence => return Err(FenceError::Older { writer, found: token, fence: *fence }),
            Some(_) => {}
            None if table.len() >= MAX_FENCES => return Err(FenceError::TooMany { most: MAX_FENCES }),
            None => {}
        }
        table.insert(writer, token);
        Ok(())
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let table: Vec<(FenceKey, Token)> = self.table.read().iter().map(|(key, token)| (*key, *token)).collect();
        encode(&table)
    }
}
