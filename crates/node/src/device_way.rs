//! The way to a device, wherever it is at present: a disk may be carried to another node, and a node may get another address, while a gateway
//! keeps its hold.

use arc_swap::ArcSwapOption;
use bytes::Bytes;
use env::{Env, Instant};
use manager::{Manager, NodeRecord};
use net::{BoxFuture, CallError, Caller, ServiceTag};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use subsystem::Callers;
use types::DeviceId;

/// Makes ways, and knows those that are in use.
pub(crate) struct Ways {
    env: Env,
    manager: Arc<Manager>,
    callers: Callers,
    in_use: Mutex<Vec<Weak<DeviceWay>>>,
}

impl Ways {
    pub fn new(env: &Env, manager: &Arc<Manager>, callers: &Callers) -> Ways {
        Ways { env: env.clone(), manager: manager.clone(), callers: callers.clone(), in_use: Mutex::default() }
    }

    /// A way to a device.
    pub fn to(&self, device: DeviceId) -> Arc<DeviceWay> {
        let (env, manager, callers) = (self.env.clone(), self.manager.clone(), self.callers.clone());
        let (present, owed) = (ArcSwapOption::empty(), Owed::default());
        let way = Arc::new(DeviceWay { env, manager, callers, device, present, owed });
        let mut in_use = self.in_use.lock();
        in_use.retain(|way| way.strong_count() > 0);
        in_use.push(Arc::downgrade(&way));
        way
    }

    /// Devices that owe answers, and since when they have given none.
    pub fn owing(&self) -> BTreeMap<DeviceId, Instant> {
        let mut owing = BTreeMap::new();
        for way in self.in_use.lock().iter().filter_map(Weak::upgrade) {
            if let Some(since) = way.owed.since() {
                let known = owing.entry(way.device).or_insert(since);
                *known = since.min(*known);
            }
        }
        owing
    }
}

/// Since when something was asked and nothing was answered. A target tells its state from memory, twice a second: whatever its disk does, one that lives has an
/// answer to something.
#[derive(Default)]
struct Owed(Mutex<Option<Instant>>);

impl Owed {
    fn since(&self) -> Option<Instant> {
        *self.0.lock()
    }

    fn note_question(&self, now: Instant) {
        self.0.lock().get_or_insert(now);
    }

    fn note_end(&self, answer: &Result<Bytes, CallError>) {
        // What could not be sent is a node's silence, and pings tell of that.
        if !matches!(answer, Err(CallError::Unanswered { .. })) {
            *self.0.lock() = None;
        }
    }
}

/// Calls the target of a device at the node that has it, by what the manager says at the time of the call.
pub(crate) struct DeviceWay {
    env: Env,
    manager: Arc<Manager>,
    callers: Callers,
    device: DeviceId,
    present: ArcSwapOption<ToNode>,
    owed: Owed,
}

/// The way that was taken last.
struct ToNode {
    node: Arc<NodeRecord>,
    caller: Arc<dyn Caller>,
}

impl DeviceWay {
    fn caller(&self) -> Result<Arc<ToNode>, CallError> {
        let nowhere =
            || CallError::NotSent { address: format!("device {}", self.device), reason: "no node serves it".to_owned() };
        let node = self.manager.node_of(self.device).ok_or_else(nowhere)?;
        if let Some(present) = self.present.load_full().filter(|present| Arc::ptr_eq(&present.node, &node)) {
            return Ok(present);
        }
        let caller = self.callers.to_node(&node, ServiceTag::TARGETS);
        let present = Arc::new(ToNode { node, caller });
        self.present.store(Some(present.clone()));
        Ok(present)
    }
}

impl Caller for DeviceWay {
    fn call(&self, payload: Bytes, deadline: Instant) -> BoxFuture<'_, Result<Bytes, CallError>> {
        let present = self.caller();
        Box::pin(async move {
            let present = present?;
            self.owed.note_question(self.env.now());
            let answer = present.caller.call(payload, deadline).await;
            self.owed.note_end(&answer);
            answer
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_of_any_kind_ends_what_is_owed_and_no_answer_does_not() {
        let (env, owed, address) = (Env::simulated(1), Owed::default(), || "there".to_owned());
        let (asked, later) = (env.now(), env.now() + std::time::Duration::from_secs(1));
        let lost = Err(CallError::Unanswered { address: address(), reason: String::new() });
        let refused = Err(CallError::Refused { address: address(), refusal: net::Refusal::new("no") });
        let unsent = Err(CallError::NotSent { address: address(), reason: String::new() });
        for answer in [Ok(Bytes::new()), refused, unsent] {
            owed.note_question(asked);
            owed.note_question(later);
            owed.note_end(&lost);
            assert_eq!(owed.since(), Some(asked));
            owed.note_end(&answer);
            assert_eq!(owed.since(), None);
        }
    }
}
