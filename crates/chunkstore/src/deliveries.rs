//! Answers that come to a client from elsewhere than where it asked: its request went through a lookup host.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use env::Env;
use net::{BoxFuture, Refusal, Request, Service};
use parking_lot::Mutex;
use tokio::sync::mpsc;

use crate::client::{Event, Round};
use crate::protocol::Delivery;
use crate::wire;

/// Requests that wait for their answers.
pub struct Deliveries {
    waiting: Mutex<Waiting>,
}

struct Waiting {
    next: u64,
    requests: BTreeMap<u64, (Round, mpsc::Sender<Event>)>,
}

/// A request's place among those that wait. It is given up when this is dropped.
pub struct Expected {
    deliveries: Arc<Deliveries>,
    pub token: u64,
}

impl Deliveries {
    pub fn new(env: &Env) -> Arc<Deliveries> {
        // Another process may have had this address: what was meant for it has other tokens.
        Arc::new(Deliveries { waiting: Mutex::new(Waiting { next: env.random_u64(), requests: BTreeMap::new() }) })
    }

    /// What is delivered under the token that this gives goes to `events`.
    pub fn expect(self: &Arc<Self>, round: Round, events: mpsc::Sender<Event>) -> Expected {
        let mut waiting = self.waiting.lock();
        let token = waiting.next;
        waiting.next = token.wrapping_add(1);
        waiting.requests.insert(token, (round, events));
        Expected { deliveries: self.clone(), token }
    }

    fn take(&self, delivery: Delivery) {
        let Delivery { token, places, place, answer } = delivery;
        if let Some((round, events)) = self.waiting.lock().requests.remove(&token) {
            // A machine that has too many events does without: it asks again.
            _ = events.try_send(Event::Routed { round, places, place, answer });
        }
    }
}

impl Drop for Expected {
    fn drop(&mut self) {
        self.deliveries.waiting.lock().requests.remove(&self.token);
    }
}

impl Service for Deliveries {
    fn handle(&self, request: Request) -> BoxFuture<'_, Result<Bytes, Refusal>> {
        Box::pin(async move {
            self.take(wire::decode(&request.payload).map_err(Refusal::new)?);
            Ok(Bytes::new())
        })
    }
}
