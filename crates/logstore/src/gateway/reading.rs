//! Looking a key up: here alone if it is stable, else by asking those who write it (paper section 3.2).

use super::keys::Op;
use crate::index::Located;
use crate::machine::Stable;
use crate::store::Inner;
use engine::EngineError;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use types::{KeyHash, ViewNumber};

/// How long a read waits for another gateway's answer, or for the decision about one that was removed.
const READ_PATIENCE: Duration = Duration::from_secs(15);

/// A read that waits for answers.
pub(crate) struct ReadOp(Mutex<Option<oneshot::Sender<Answer>>>);

/// The newest record of a key, as of a view; none if the gateway left its cell.
type Answer = Option<(Option<Located>, ViewNumber)>;

impl ReadOp {
    /// The machine's answer.
    pub fn answer(&self, newest: Option<Located>, view: ViewNumber) {
        self.tell(Some((newest, view)));
    }

    /// There will be none.
    pub fn abandon(&self) {
        self.tell(None);
    }

    fn tell(&self, answer: Answer) {
        if let Some(asker) = self.0.lock().take() {
            // Whoever asked may have lost interest.
            let _ = asker.send(answer);
        }
    }
}

impl Inner {
    /// What this gateway alone can say of a key: its newest record, tombstones included. `None`: a write of it is in flight.
    pub(crate) fn look_up(&self, hash: &KeyHash) -> Result<Option<Option<Located>>, EngineError> {
        self.check_decidable(hash)?;
        let (stable, view) = {
            let keys = self.shard(hash).lock();
            (keys.stable(hash), keys.view())
        };
        match stable {
            Stable::Newest(newest) => {
                self.check_lease(view)?;
                Ok(Some(newest))
            }
            Stable::InFlight => Ok(None),
        }
    }

    /// The newest live record of a key.
    pub(crate) async fn locate(self: &Arc<Self>, hash: &KeyHash) -> Result<Located, EngineError> {
        let newest = match self.look_up(hash)? {
            Some(newest) => newest,
            None => self.ask(hash).await?,
        };
        newest.filter(Located::is_live).ok_or(EngineError::NotFound)
    }

    async fn ask(self: &Arc<Self>, hash: &KeyHash) -> Result<Option<Located>, EngineError> {
        self.stats.slow_reads.add(1);
        let (asker, answered) = oneshot::channel();
        let op = Op::Read(Arc::new(ReadOp(Mutex::new(Some(asker)))));
        self.step(hash, None, |keys, out| keys.read(*hash, op, out));
        let answer = tokio::select! {
            biased;
            answer = answered => answer.ok().flatten(),
            () = self.env.sleep(READ_PATIENCE) => {
                let reason = "a write of this object is in flight at a gateway that does not answer".to_owned();
                return Err(EngineError::Unavailable { reason });
            }
        };
        let Some((newest, view)) = answer else { return Err(super::depose::deposed()) };
        self.check_lease(view)?;
        Ok(newest)
    }
}
