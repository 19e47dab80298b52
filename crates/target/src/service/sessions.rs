//! Sessions: what a writer sends after it has lost an answer is told from what it sent before.

use std::collections::BTreeMap;

use env::Env;
use parking_lot::RwLock;
use types::{ErrorKind, Token};

use crate::limits::MAX_SESSIONS;
use crate::wire::{Failure, Fault};
use crate::{FenceKey, Writer};

/// The present session of each writer at one target. Numbers are drawn: after a restart none of them comes again.
pub(super) struct Sessions {
    env: Env,
    present: RwLock<BTreeMap<FenceKey, (Token, u64)>>,
}

impl Sessions {
    pub fn new(env: &Env) -> Sessions {
        Sessions { env: env.clone(), present: RwLock::default() }
    }

    /// From here on nothing of an earlier session of this writer begins.
    pub fn begin(&self, writer: Writer) -> Result<u64, Failure> {
        let mut present = self.present.write();
        match present.get(&writer.key) {
            Some((token, _)) if *token > writer.token => {
                let reason = format!("{:?} writes under token {token} already, not {}", writer.key, writer.token);
                return Err(Failure::refused(ErrorKind::Denied, reason));
            }
            None if present.len() >= MAX_SESSIONS => {
                return Err(Failure::refused(ErrorKind::Busy, format!("{MAX_SESSIONS} writers have sessions here")));
            }
            Some(_) | None => {}
        }
        let session = self.env.random_u64();
        present.insert(writer.key, (writer.token, session));
        Ok(session)
    }

    /// Begins an append, if its session is the present one until the append is admitted.
    pub fn within<T>(&self, writer: Writer, session: u64, begin: impl FnOnce() -> T) -> Result<T, Failure> {
        let present = self.present.read();
        match present.get(&writer.key) {
            Some(known) if *known == (writer.token, session) => Ok(begin()),
            _ => Err(Failure { fault: Fault::OtherSession, reason: "the append's session is not the present one".to_owned() }),
        }
    }
}
