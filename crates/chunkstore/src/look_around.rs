//! Asking where everything is because something was not where the map says; seldom, however many find that.

use std::sync::Arc;

use env::{Env, Instant};
use parking_lot::Mutex;

use crate::limits::LOOK_AROUND_INTERVAL;
use crate::reach::Reach;

/// Refreshes a process's map.
pub struct LookAround {
    env: Env,
    reach: Arc<dyn Reach>,
    last: Mutex<Option<Instant>>,
}

impl LookAround {
    pub fn new(env: &Env, reach: Arc<dyn Reach>) -> LookAround {
        LookAround { env: env.clone(), reach, last: Mutex::default() }
    }

    /// Refreshes the map, unless that was begun a moment ago.
    pub async fn look(&self) {
        if self.is_due() {
            self.reach.refresh().await;
        }
    }

    fn is_due(&self) -> bool {
        let now = self.env.now();
        let mut last = self.last.lock();
        let is_due = last.is_none_or(|last| now.saturating_duration_since(last) >= LOOK_AROUND_INTERVAL);
        if is_due {
            *last = Some(now);
        }
        is_due
    }
}
