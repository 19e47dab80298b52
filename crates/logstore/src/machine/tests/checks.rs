//! The machine's invariants, looked at from above: with every gateway's state in view.

use super::super::{Consistency, FreezeId, Message, Output, Outputs, Shard};
use super::world::{Failure, Op, OpId, key_hash};
use crate::index::Located;
use format::record::WriteId;
use model::register::Call;
use std::collections::BTreeMap;
use types::{GatewayId, Order};

/// How many freezes of others a write at the front of its queue may wait for.
const MAX_FREEZES_BEFORE_A_WRITE: usize = 1;

/// What a check remembers between steps.
pub struct Checks {
    keys: Vec<KeyChecks>,
    gateways: usize,
    consistency: Consistency,
}

#[derive(Clone, Default)]
struct KeyChecks {
    /// Each gateway's dispatched write that has not ended.
    outstanding: BTreeMap<usize, (OpId, WriteId)>,
    /// Orders that were acknowledged, and the newest of them.
    acknowledged: Vec<Order>,
    newest: Option<Located>,
    /// Who holds the freeze: from the dispatch of its write to the write's end.
    holder: Option<usize>,
    /// Each gateway's newest order when it was last looked at.
    known: Vec<Option<Order>>,
    /// Freezes dispatched so far.
    grants: usize,
    /// Freezes that wait at the home: how many had been granted when each came.
    waiting_freezes: BTreeMap<(GatewayId, FreezeId), usize>,
    granted: usize,
    last_granted: Option<(GatewayId, FreezeId)>,
    /// Ordinary writes at the front of their gateway's queue: how many freezes had been dispatched when each came there.
    waiting_writes: BTreeMap<usize, (OpId, usize)>,
}

fn fail<T>(text: String) -> Result<T, Failure> {
    Err(Failure(text))
}

impl Checks {
    pub fn new(gateways: usize, keys: usize, consistency: Consistency) -> Self {
        let key = KeyChecks { known: vec![None; gateways], ..KeyChecks::default() };
        Checks { keys: vec![key; keys], gateways, consistency }
    }

    /// Before a machine's output is done. The machines have already taken their steps.
    pub fn output(
        &mut self,
        gateways: &[Shard<OpId>],
        ops: &[Op],
        gateway: usize,
        output: &Output<OpId>,
    ) -> Result<(), Failure> {
        match output {
            Output::Dispatch { op, write, newest } => self.dispatched(ops, gateway, *op, *write, *newest),
            Output::Acknowledge { op, entry, .. } | Output::AcknowledgeOwn { op, entry, .. } => {
                let key = ops[*op].key;
                self.acknowledged(gateways, gateway, key, *op, entry)
            }
            Output::Send { .. }
            | Output::PublishOwn { .. }
            | Output::Spread { .. }
            | Output::Published { .. }
            | Output::Moved { .. }
            | Output::Answer { .. }
            | Output::RecoveredHeld => Ok(()),
        }
    }

    /// Invariants 1 and 5, and that a condition is evaluated against the newest write that was acknowledged.
    fn dispatched(
        &mut self,
        ops: &[Op],
        gateway: usize,
        op: OpId,
        write: WriteId,
        newest: Option<Located>,
    ) -> Result<(), Failure> {
        let key = ops[op].key;
        let state = &mut self.keys[key];
        if let Some((other, _)) = state.outstanding.insert(gateway, (op, write)) {
            return fail(format!("gateway {gateway} dispatches op {op} beside op {other} of key {key}"));
        }
        if let Some(holder) = state.holder {
            return fail(format!("gateway {gateway} dispatches op {op} while {holder} holds a freeze of key {key}"));
        }
        if let Call::Swap { .. } = ops[op].call {
            if state.outstanding.len() > 1 {
                return fail(format!("op {op} is granted a freeze of key {key} while {:?} are outstanding", state.outstanding));
            }
            if newest.map(|newest| newest.order) != state.newest.map(|newest| newest.order) {
                return fail(format!("op {op} sees {newest:?} of key {key}, newest is {:?}", state.newest));
            }
            state.holder = Some(gateway);
            state.grants += 1;
        } else if let Some((_, grants)) = state.waiting_writes.remove(&gateway).filter(|(waiting, _)| *waiting == op) {
            let passed = state.grants - grants;
            if passed > MAX_FREEZES_BEFORE_A_WRITE {
                return fail(format!("op {op} of gateway {gateway} waited for {passed} freezes of key {key}"));
            }
        }
        Ok(())
    }

    /// Invariant 3.
    fn acknowledged(
        &mut self,
        gateways: &[Shard<OpId>],
        gateway: usize,
        key: usize,
        op: OpId,
        entry: &format::entry::Entry,
    ) -> Result<(), Failure> {
        for (member, shard) in gateways.iter().enumerate().filter(|(member, _)| *member != gateway) {
            let peers = shard.keys.get(&key_hash(key)).and_then(|state| state.peers.as_ref());
            let knows = match self.consistency {
                Consistency::Linearizable => peers.is_some_and(|peers| peers.announced.contains(&entry.write)),
                Consistency::ReadAfterWrite => {
                    shard.index().newest(&key_hash(key)).is_some_and(|newest| newest.order >= entry.order)
                }
            };
            if !knows {
                return fail(format!("op {op} is acknowledged, but gateway {member} does not know of it"));
            }
        }
        let state = &mut self.keys[key];
        state.acknowledged.push(entry.order);
        if state.newest.is_none_or(|newest| newest.order < entry.order) {
            state.newest = Some(Located::from(entry));
        }
        self.withdrawn(gateway, key, entry.write);
        Ok(())
    }

    /// Paper, section 3.2, step (a): an answer waits until every member holds the notice of the answering gateway's write. Since
    /// entries are published at the acknowledge point only, no history would show a breach.
    pub fn sends(&self, gateways: &[Shard<OpId>], gateway: usize, message: &Message) -> Result<(), Failure> {
        let Message::Told { hash, .. } = message else { return Ok(()) };
        let key = self.keys.iter().enumerate().find(|(key, _)| key_hash(*key) == *hash);
        let Some((_, write)) = key.and_then(|(_, state)| state.outstanding.get(&gateway)) else { return Ok(()) };
        for (member, shard) in gateways.iter().enumerate().filter(|(member, _)| *member != gateway) {
            let peers = shard.keys.get(hash).and_then(|state| state.peers.as_ref());
            if !peers.is_some_and(|peers| peers.announced.contains(write)) {
                return fail(format!("gateway {gateway} answers while {member} has not heard of its write"));
            }
        }
        Ok(())
    }

    /// A write ended.
    pub fn withdrawn(&mut self, gateway: usize, key: usize, write: WriteId) {
        let state = &mut self.keys[key];
        if state.outstanding.get(&gateway).is_some_and(|(_, outstanding)| *outstanding == write) {
            state.outstanding.remove(&gateway);
        }
        if state.holder == Some(gateway) {
            state.holder = None;
        }
    }

    /// Invariant 4.
    pub fn read_at_once(&self, shard: &Shard<OpId>, key: usize, out: &Outputs<OpId>) -> Result<(), Failure> {
        let answers = out.iter().any(|output| matches!(output, Output::Answer { .. }));
        let peers = shard.keys.get(&key_hash(key)).and_then(|state| state.peers.as_ref());
        if answers && peers.is_some_and(|peers| !peers.announced.is_empty()) {
            return fail(format!("a read of key {key} is answered at once while a write of it is in flight"));
        }
        Ok(())
    }

    /// After each event: invariant 2, and that nobody waits for more than is fair.
    pub fn after_step(&mut self, gateways: &[Shard<OpId>]) -> Result<(), Failure> {
        for key in 0..self.keys.len() {
            self.index_grows(gateways, key)?;
            self.freezes_are_fair(gateways, key)?;
            self.writes_at_the_front(gateways, key);
        }
        Ok(())
    }

    fn index_grows(&mut self, gateways: &[Shard<OpId>], key: usize) -> Result<(), Failure> {
        let state = &mut self.keys[key];
        for (gateway, shard) in gateways.iter().enumerate() {
            let newest = shard.index().newest(&key_hash(key)).map(|newest| newest.order);
            if newest == state.known[gateway] {
                continue;
            }
            if newest < state.known[gateway] {
                return fail(format!("gateway {gateway} went back from {:?} to {newest:?} of key {key}", state.known[gateway]));
            }
            let is_early = newest.is_some_and(|newest| !state.acknowledged.contains(&newest));
            if is_early && self.consistency == Consistency::Linearizable {
                return fail(format!("gateway {gateway} has {newest:?} of key {key}, which nobody has acknowledged"));
            }
            state.known[gateway] = newest;
        }
        Ok(())
    }

    /// The home grants in the order in which it was asked: before a freeze that waits there come at most those of the other gateways.
    fn freezes_are_fair(&mut self, gateways: &[Shard<OpId>], key: usize) -> Result<(), Failure> {
        let state = &mut self.keys[key];
        let home = gateways[0].cell.home(&key_hash(key));
        let peers = gateways[home.0 as usize].keys.get(&key_hash(key)).and_then(|state| state.peers.as_ref());
        let holder = peers.and_then(|peers| peers.home_holder);
        if holder != state.last_granted {
            state.last_granted = holder;
            if let Some(granted) = holder {
                state.granted += 1;
                let since = state.waiting_freezes.remove(&granted).unwrap_or(state.granted);
                if state.granted.saturating_sub(since) > self.gateways {
                    return fail(format!("freeze {granted:?} of key {key} waited for {} others", state.granted - since));
                }
            }
        }
        for waiting in peers.iter().flat_map(|peers| peers.home_queue.iter()) {
            state.waiting_freezes.entry(*waiting).or_insert(state.granted);
        }
        Ok(())
    }

    fn writes_at_the_front(&mut self, gateways: &[Shard<OpId>], key: usize) {
        let state = &mut self.keys[key];
        for (gateway, shard) in gateways.iter().enumerate() {
            let front = shard.keys.get(&key_hash(key)).filter(|state| state.active.is_none());
            let front =
                front.and_then(|state| state.queue.front()).filter(|waiting| !waiting.exclusive).map(|waiting| waiting.op);
            match front {
                Some(op) if state.waiting_writes.get(&gateway).is_some_and(|(waiting, _)| *waiting == op) => {}
                Some(op) => {
                    state.waiting_writes.insert(gateway, (op, state.grants));
                }
                None => {
                    state.waiting_writes.remove(&gateway);
                }
            }
        }
    }
}
