//! Looking a key up: here alone if it is stable, else by asking those who write it (paper section 3.2).

use super::keys::Op;
use crate::index::Located;
use crate::machine::{ReadId, Stable};
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

/// A read that is being waited for. Who has waited long enough, or goes, takes it along: whether the others ever answer is not known.
struct Asking<'a> {
    inner: &'a Inner,
    hash: &'a KeyHash,
    read: ReadId,
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.inner.shard(self.hash).lock().forget_read(self.hash, self.read);
    }
}

impl Inner {
    /// What this gateway alone can say of a key at once: its newest record, tombstones included. `None`: a write of it is in flight, or
    /// there is no lease at the moment.
    pub(crate) fn look_up(&self, hash: &KeyHash) -> Result<Option<Option<Located>>, EngineError> {
        self.check_decidable(hash)?;
        let (stable, view) = {
            let keys = self.shard(hash).lock();
            (keys.stable(hash), keys.view())
        };
        match stable {
            Stable::Newest(newest) => Ok(self.check_lease(view).is_ok().then_some(newest)),
            Stable::InFlight => Ok(None),
        }
    }

    /// The newest live record of a key.
    pub(crate) async fn locate(self: &Arc<Self>, hash: &KeyHash) -> Result<Located, EngineError> {
        self.newest(hash).await?.filter(Located::is_live).ok_or(EngineError::NotFound)
    }

    /// The newest record of a key, tombstones included.
    pub(crate) async fn newest(self: &Arc<Self>, hash: &KeyHash) -> Result<Option<Located>, EngineError> {
        match self.look_up(hash)? {
            Some(newest) => Ok(newest),
            None => self.look_up_or_ask(hash).await,
        }
    }

    async fn look_up_or_ask(self: &Arc<Self>, hash: &KeyHash) -> Result<Option<Located>, EngineError> {
        let patience = self.env.now() + READ_PATIENCE;
        loop {
            self.check_deposed()?;
            self.lease_comes().await?;
            let newest = match self.look_up(hash)? {
                Some(newest) => Some(newest),
                None => self.ask(hash).await?,
            };
            match newest {
                Some(newest) => return Ok(newest),
                // The view changed, and its lease is to come.
                None if self.env.now() < patience => {}
                None => {
                    self.check_lease(self.shard(hash).lock().view())?;
                    // There is a lease again, of a view that nobody has answered in: what the object is is not known.
                    let reason = "the cell's view kept changing while the object was looked up".to_owned();
                    return Err(EngineError::Unavailable { reason });
                }
            }
        }
    }

    /// The newest record, by those who write the key; nothing if the lease ended before they had answered.
    async fn ask(self: &Arc<Self>, hash: &KeyHash) -> Result<Option<Option<Located>>, EngineError> {
        self.stats.slow_reads.add(1);
        let (asker, answered) = oneshot::channel();
        let op = Op::Read(Arc::new(ReadOp(Mutex::new(Some(asker)))));
        let read = self.step(hash, None, |keys, out| keys.read(*hash, op, out));
        let _asking = read.map(|read| Asking { inner: self, hash, read });
        let answer = tokio::select! {
            biased;
            answer = answered => answer.ok().flatten(),
            () = self.env.sleep(READ_PATIENCE) => {
                let reason = "a write of this object is in flight at a gateway that does not answer".to_owned();
                return Err(EngineError::Unavailable { reason });
            }
        };
        let Some((newest, view)) = answer else { return Err(super::depose::deposed()) };
        Ok(self.check_lease(view).is_ok().then_some(newest))
    }
}
