//! Ways between gateways, on which messages are late, lost, or taken and not answered.

use super::life::Life;
use crate::{Directory, LogStore};
use bytes::Bytes;
use env::{Env, Instant};
use net::{BoxFuture, CallError, Caller};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use types::{DeviceId, GatewayId};

/// All ways of a cell.
pub struct Streets {
    pub env: Env,
    pub stores: Mutex<BTreeMap<GatewayId, (LogStore, Arc<Life>)>>,
    /// From, to: nothing arrives.
    pub cut: Mutex<BTreeSet<(GatewayId, GatewayId)>>,
    /// Of 1000 messages, and of as many answers, so many are lost.
    pub lost: Mutex<u64>,
    pub delay_us: Mutex<u64>,
    /// Messages taken whose answers were lost.
    pub doubled: Mutex<u64>,
}

/// The ways of one gateway.
pub struct Ways {
    pub streets: Arc<Streets>,
    pub from: GatewayId,
    pub life: Arc<Life>,
}

struct Way {
    streets: Arc<Streets>,
    from: GatewayId,
    to: GatewayId,
    life: Arc<Life>,
}

impl Directory for Ways {
    fn caller(&self, to: GatewayId) -> Option<Arc<dyn Caller>> {
        Some(Arc::new(Way { streets: self.streets.clone(), from: self.from, to, life: self.life.clone() }))
    }

    /// Targets are elsewhere.
    fn beside(&self, _device: DeviceId) -> Option<GatewayId> {
        None
    }
}

impl Streets {
    async fn pass(&self, from: GatewayId, to: GatewayId) -> Result<(), CallError> {
        let longer = if self.env.random_below(30) == 0 { 10 } else { 1 };
        let most = *self.delay_us.lock() * longer;
        self.env.sleep(Duration::from_micros(self.env.random_below(most) + 1)).await;
        let is_lost = self.cut.lock().contains(&(from, to)) || self.env.random_below(1000) < *self.lost.lock();
        if is_lost {
            self.env.sleep(Duration::from_millis(20 + self.env.random_below(200))).await;
            return Err(lost(to, "lost on the way"));
        }
        Ok(())
    }
}

fn lost(to: GatewayId, reason: &str) -> CallError {
    CallError::Unanswered { address: to.to_string(), reason: reason.to_owned() }
}

impl Caller for Way {
    fn call(&self, payload: Bytes, _deadline: Instant) -> BoxFuture<'_, Result<Bytes, CallError>> {
        Box::pin(async move {
            self.life.stay().await;
            self.streets.pass(self.from, self.to).await?;
            let found = self.streets.stores.lock().get(&self.to).cloned();
            let Some((store, life)) = found.filter(|(_, life)| life.is_alive()) else {
                return Err(lost(self.to, "nobody is there"));
            };
            let heard = tokio::select! {
                biased;
                () = life.ended() => Err(lost(self.to, "it has just ended")),
                heard = store.hear(&payload) => heard.map_err(|error| lost(self.to, &error.to_string())),
            };
            let answer = heard?;
            let back = self.streets.pass(self.to, self.from).await;
            if back.is_err() {
                *self.streets.doubled.lock() += 1;
            }
            back.map(|()| answer)
        })
    }
}
