//! The fences in force.

use std::collections::BTreeMap;

use format::superblock::fences::{MAX_FENCES, encode};
use parking_lot::RwLock;
use types::Token;

use crate::FenceKey;
use crate::error::{AppendRefused, FenceError};

pub(crate) struct Fences {
    table: RwLock<BTreeMap<FenceKey, Token>>,
}

impl Fences {
    pub(crate) fn new(table: Vec<(FenceKey, Token)>) -> Fences {
        Fences { table: RwLock::new(table.into_iter().collect()) }
    }

    pub(crate) fn get(&self, writer: FenceKey) -> Option<Token> {
        self.table.read().get(&writer).copied()
    }

    pub(crate) fn check(&self, writer: FenceKey, token: Token) -> Result<(), AppendRefused> {
        match self.get(writer) {
            Some(fence) if token < fence => Err(AppendRefused::Fenced { writer, found: token, fence }),
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
