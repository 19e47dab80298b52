//! Whom a copy obeys: one session of one primary. No I/O.
//!
//! ```text
//!   none ── enter(pass) ─► obeys pass ── enter(greater pass) ─► obeys that one; drained when what was admitted before has ended
//! ```

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A session of a primary. Greater ones are newer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Pass {
    pub term: u64,
    pub session: u64,
}

/// The gate of one copy since its node started.
#[derive(Debug, Default)]
pub struct Gate {
    obeyed: Option<Pass>,
    /// How many requests of each session are under way.
    under_way: BTreeMap<Pass, usize>,
}

/// Why a copy did not admit a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum NotAdmitted {
    #[error("the copy obeys a newer primary")]
    Newer,
    #[error("the primary has not entered the copy since that started")]
    NotEntered,
}

impl Gate {
    /// Obeys this session from now on. `known_term`: what the copy's own member of the group knows, and has durably.
    pub fn enter(&mut self, pass: Pass, known_term: u64) -> Result<(), NotAdmitted> {
        if pass.term < known_term || self.obeyed.is_some_and(|obeyed| pass < obeyed) {
            return Err(NotAdmitted::Newer);
        }
        // A log that does not know the term would forget the promise with this process.
        if pass.term > known_term {
            return Err(NotAdmitted::NotEntered);
        }
        self.obeyed = Some(pass);
        Ok(())
    }

    /// A request begins; [`Gate::leave`] ends it.
    pub fn admit(&mut self, pass: Pass) -> Result<(), NotAdmitted> {
        match self.obeyed {
            Some(obeyed) if obeyed == pass => {
                *self.under_way.entry(pass).or_default() += 1;
                Ok(())
            }
            Some(obeyed) if obeyed > pass => Err(NotAdmitted::Newer),
            _ => Err(NotAdmitted::NotEntered),
        }
    }

    pub fn leave(&mut self, pass: Pass) {
        let count = self.under_way.get_mut(&pass).expect("it was admitted");
        *count -= 1;
        if *count == 0 {
            self.under_way.remove(&pass);
        }
    }

    /// Whether nothing is under way that was admitted before this session.
    pub fn is_drained(&self, pass: Pass) -> bool {
        self.under_way.range(..pass).next().is_none()
    }
}

#[cfg(test)]
mod tests;
