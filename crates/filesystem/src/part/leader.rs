//! The way to the leader of a placed group, here or on another node.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use env::{Env, Instant};
use manager::GroupKey;
use net::ServiceTag;
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use subsystem::Surroundings;

use crate::asking::AskLimits;

/// Between two looks for a leader.
const REST: Duration = Duration::from_millis(50);

/// What a member of a group says.
#[derive(Debug, Serialize, Deserialize)]
pub enum Told<T> {
    Answer(T),
    /// Nothing was done: another node leads, by this address if it is known.
    Elsewhere(Option<String>),
    /// Nothing was done: try again.
    Again(String),
    /// It may have been done: the same can be asked again.
    Unknown(String),
}

/// The way to one group's leader.
pub struct Search {
    around: Surroundings,
    key: GroupKey,
    tag: ServiceTag,
    limits: AskLimits,
    /// Where the last answer came from, for a node that is no member.
    last: Mutex<Option<String>>,
}

impl Search {
    /// `tag`: the service of the group's leader.
    pub fn new(around: &Surroundings, key: GroupKey, tag: ServiceTag, limits: AskLimits) -> Search {
        Search { around: around.clone(), key, tag, limits, last: Mutex::default() }
    }

    pub fn env(&self) -> &Env {
        &self.around.env
    }

    /// The number of the group.
    pub fn number(&self) -> u32 {
        self.key.number
    }

    /// Finds the leader and asks it, until `until` at the latest. What may have been done is asked again. `here` asks the member on this node, if there is one. The error says why there is no answer.
    pub async fn ask<A, T, F>(&self, asked: &A, until: Option<Instant>, here: impl Fn() -> F) -> Result<T, String>
    where
        A: Serialize,
        T: DeserializeOwned,
        F: Future<Output = Option<Told<T>>>,
    {
        let longest = self.around.env.now() + self.limits.all;
        let until = until.map_or(longest, |until| until.min(longest));
        let mut leader: Option<String> = None;
        loop {
            let told = match leader.take() {
                Some(address) => self.ask_there(&address, asked, until).await,
                None => self.ask_here(here(), until).await.unwrap_or_else(|| Told::Elsewhere(self.likely_member())),
            };
            let reason = match told {
                Told::Answer(answer) => return Ok(answer),
                Told::Elsewhere(Some(address)) if address != self.around.address => {
                    leader = Some(address);
                    "another node leads it".to_owned()
                }
                Told::Elsewhere(_) => "it has no leader".to_owned(),
                Told::Again(reason) | Told::Unknown(reason) => reason,
            };
            if self.around.env.now() >= until {
                return Err(reason);
            }
            if leader.is_none() {
                self.around.env.sleep(REST).await;
            }
        }
    }

    /// Waits until all that this node's trees have answered is durable.
    pub async fn settle(&self) -> Result<(), String> {
        self.around.member.settle().await.map_err(|error| error.to_string())
    }

    fn deadline(&self, until: Instant) -> Instant {
        until.min(self.around.env.now() + self.limits.each)
    }

    async fn ask_here<T>(&self, here: impl Future<Output = Option<Told<T>>>, until: Instant) -> Option<Told<T>> {
        tokio::select! {
            told = here => told,
            () = self.around.env.sleep_until(self.deadline(until)) => Some(Told::Unknown("this node does not answer in time".to_owned())),
        }
    }

    async fn ask_there<A: Serialize, T: DeserializeOwned>(&self, address: &str, asked: &A, until: Instant) -> Told<T> {
        let Ok(request) = postcard::to_stdvec(&(self.key.number, asked)) else {
            return Told::Again("the request can't be written".to_owned());
        };
        // What another node does must not outlive what led to it.
        if let Err(reason) = self.settle().await {
            return Told::Again(reason);
        }
        let caller = self.around.callers.to(address, self.tag);
        let answer = caller.call(Bytes::from(request), self.deadline(until)).await;
        let told = match answer.map(|answer| postcard::from_bytes(&answer)) {
            Ok(Ok(told)) => told,
            Ok(Err(error)) => Told::Again(error.to_string()),
            Err(error) => Told::Unknown(error.to_string()),
        };
        *self.last.lock() = matches!(told, Told::Answer(_)).then(|| address.to_owned());
        told
    }

    /// The node that gave the last answer, or some member of the group, for a node that is none.
    fn likely_member(&self) -> Option<String> {
        if let Some(last) = self.last.lock().clone() {
            return Some(last);
        }
        let state = self.around.manager.snapshot();
        let record = state.group(self.key)?;
        let members = record.members.iter().filter_map(|node| state.node(*node));
        let at = self.around.env.random_below(record.members.len().max(1) as u64) as usize;
        members.map(|node| node.address.clone()).cycle().nth(at)
    }
}

/// Nodes that say nothing to this one, as consensus names them.
pub fn silent_members(around: &Surroundings) -> BTreeSet<consensus::NodeId> {
    let (silent, state) = ((around.silent)(), around.manager.snapshot());
    let silent = state.nodes().filter(|node| silent.contains(&node.id));
    silent.map(|node| consensus::NodeId::of_identity(&node.identity.0)).collect()
}
