//! What of a data partition's list was given back and is not confirmed yet. A piece that can't be given back now holds up no other: its extent may be what a change
//! waits on for hours, and to give back others may be what ends that.
//!
//! ```text
//!   list   1 .. confirmed | given back, some failed .. up_to | not tried
//! ```

use std::collections::BTreeMap;
use std::time::Duration;

use env::Env;

use crate::data::{DataError, DataPartition};
use crate::meta::{Freed, FreedPiece};

/// How long one piece may take. It is carried out nevertheless, and asked for again.
const PATIENCE: Duration = Duration::from_secs(2);
/// So many pieces that failed are tried again in turn; with more the list waits for them.
const MAX_FAILED: usize = 256;

/// The pieces of one data partition, while this node leads its tree.
#[derive(Debug, Default)]
pub struct Tried {
    up_to: u64,
    confirmed: u64,
    failed: BTreeMap<u64, FreedPiece>,
    /// The one that was tried again last.
    last_again: u64,
}

impl Tried {
    /// The last number that was tried.
    pub fn up_to(&self) -> u64 {
        self.up_to
    }

    /// Whether all that was tried is confirmed.
    pub fn is_done(&self) -> bool {
        self.confirmed == self.up_to
    }

    /// Up to which number all is given back, if that is not confirmed.
    pub fn to_confirm(&self) -> Option<u64> {
        let up_to = self.failed.first_key_value().map_or(self.up_to, |(first, _)| first - 1);
        (up_to > self.confirmed).then_some(up_to)
    }

    pub fn confirmed(&mut self, up_to: u64) {
        self.confirmed = up_to;
    }

    /// Tries a piece again that has failed, then these, which follow, until one fails; whether some were given back.
    pub async fn give_back(&mut self, env: &Env, partition: &dyn DataPartition, freed: Vec<Freed>) -> bool {
        let mut has_worked = false;
        let later = self.failed.range(self.last_again + 1..).next().or_else(|| self.failed.first_key_value());
        if let Some((number, what)) = later.map(|(number, what)| (*number, *what)) {
            self.last_again = number;
            if give_back(env, partition, what).await.is_ok() {
                self.failed.remove(&number);
                has_worked = true;
            }
        }
        for Freed { number, what } in freed {
            if self.failed.len() >= MAX_FAILED {
                break;
            }
            let given_back = give_back(env, partition, what).await;
            self.up_to = number;
            match given_back {
                Ok(()) => has_worked = true,
                Err(error) => {
                    tracing::debug!(?what, %error, "a piece is not given back now");
                    self.failed.insert(number, what);
                    break;
                }
            }
        }
        has_worked
    }
}

async fn give_back(env: &Env, partition: &dyn DataPartition, what: FreedPiece) -> Result<(), DataError> {
    let given_back = async {
        match what {
            FreedPiece::Extent(extent) => partition.remove(extent).await,
            FreedPiece::Range { extent, offset, len } => partition.punch(extent, offset, len).await,
        }
    };
    let outcome = tokio::select! {
        outcome = given_back => outcome,
        () = env.sleep(PATIENCE) => Err(DataError::Unavailable("it takes too long".to_owned())),
    };
    match outcome {
        // What is not there needs not be given back.
        Err(DataError::NoExtent(_) | DataError::Beyond { .. }) => Ok(()),
        outcome => outcome,
    }
}

#[cfg(test)]
mod tests;
