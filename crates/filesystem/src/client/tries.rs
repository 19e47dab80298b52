//! What is begun anew because another client has changed the file meanwhile.

use std::time::Duration;

use env::Instant;

use super::{Client, ClientError};
use crate::meta::MetaError;

/// For how long it is tried. Longer than the lease of a client that has the end of the file and dies.
const PATIENCE: Duration = Duration::from_secs(60);
/// A client that was overtaken so often asks for the end of the file.
const MANY: u32 = 3;
/// The longest pause before it is tried again; it is chosen by chance, and the first pauses are shorter.
const LONGEST_PAUSE: Duration = Duration::from_millis(16);
const SHORTEST_PAUSE: Duration = Duration::from_micros(250);

/// Tries of one call.
pub struct Tries {
    count: u32,
    until: Instant,
}

impl Tries {
    pub fn are_many(&self) -> bool {
        self.count >= MANY
    }

    /// Before it is tried again.
    pub async fn again(&mut self, client: &Client) -> Result<(), ClientError> {
        let env = client.commands.env();
        if env.now() >= self.until {
            return Err(MetaError::Changed.into());
        }
        env::mark("files: a call begun anew after another client's");
        let longest = SHORTEST_PAUSE.saturating_mul(1 << self.count.min(16)).min(LONGEST_PAUSE);
        self.count += 1;
        env.sleep(Duration::from_micros(env.random_below(longest.as_micros() as u64))).await;
        Ok(())
    }
}

impl Client {
    pub(super) fn tries(&self) -> Tries {
        Tries { count: 0, until: self.commands.env().now() + PATIENCE }
    }
}
