//! What the clients of one run and the one who disturbs them share.

use crate::server::{LOOK, PATIENCE};
use env::Env;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Requests under way, and how they went.
#[derive(Default)]
pub struct Load {
    pub answered: AtomicU64,
    /// The kill is next: from now on connections may break.
    pub is_ending: AtomicBool,
    pub clients_lost: AtomicU64,
}

impl Load {
    /// Waits until the clients have had so many more answers.
    pub fn await_more(&self, answers: u64) {
        let enough = self.answered.load(Ordering::Relaxed) + answers;
        let env = Env::real_with_cores(1);
        let deadline = env.now() + PATIENCE;
        while self.answered.load(Ordering::Relaxed) < enough && self.clients_lost.load(Ordering::Relaxed) == 0 {
            assert!(env.now() < deadline, "not {answers} answers in {PATIENCE:?}");
            std::thread::sleep(LOOK);
        }
    }
}
