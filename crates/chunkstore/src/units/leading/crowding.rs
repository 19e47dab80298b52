//! Whether the open shard's unit takes registrations, as far as consensus logs go. One with a member whose log has no room for longer states refuses them for as long as nothing there gets
//! shorter, and all puts of the cluster wait for the open shard. So its leader closes it: the next one is opened, and the rows of this one go to pages.
//!
//! The next one may have the same members, and be refused as well. So each that follows is given more time. That is remembered by the node, not by the leadership: whoever leads on
//! another node begins anew, which costs a few shards more.

use std::time::Duration;

use env::Instant;

use crate::limits::{CROWDED_PATIENCE, MAX_CROWDED_PATIENCE};

/// How long a node goes on with a shard that takes nothing.
#[derive(Debug)]
pub struct CrowdedPatience(Duration);

impl Default for CrowdedPatience {
    fn default() -> CrowdedPatience {
        CrowdedPatience(CROWDED_PATIENCE)
    }
}

/// What a leader knows of it.
#[derive(Debug, Default)]
pub struct Crowding {
    /// Whether registrations are taken, and since when that is so.
    last: Option<(bool, Instant)>,
}

impl Crowding {
    /// It was looked at. Whether the shard is to be closed.
    pub fn hear(&mut self, now: Instant, is_taken: bool, patience: &mut CrowdedPatience) -> bool {
        let unchanged = self.last.filter(|(was_taken, _)| *was_taken == is_taken);
        let (_, since) = *self.last.insert(unchanged.unwrap_or((is_taken, now)));
        if now.saturating_duration_since(since) < patience.0 {
            return false;
        }
        if is_taken {
            *patience = CrowdedPatience::default();
            return false;
        }
        // It may not come about: it is asked for again.
        self.last = None;
        patience.0 = (patience.0 * 2).min(MAX_CROWDED_PATIENCE);
        true
    }
}

#[cfg(test)]
mod tests;
