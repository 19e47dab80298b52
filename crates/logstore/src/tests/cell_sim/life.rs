//! A process lives until it is killed; what it has begun then goes no further.

use crate::watched::Watched;

#[derive(Default)]
pub struct Life(Watched<bool>);

impl Life {
    pub fn is_alive(&self) -> bool {
        !self.0.get()
    }

    pub fn end(&self) {
        self.0.change(|has_ended| *has_ended = true);
    }

    /// Goes on if the process lives, else never.
    pub async fn stay(&self) {
        if !self.is_alive() {
            std::future::pending::<()>().await;
        }
    }

    pub async fn ended(&self) {
        self.0.wait_for(|has_ended| *has_ended).await;
    }
}
