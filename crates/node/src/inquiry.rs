//! Whether a node would be taken, asked before it becomes a member of the manager: a member that is refused afterwards and ends would count
//! for quorums.
//!
//! ```text
//!   question   version 2 | format version u32 | wall clock in ms u64 | identity 16 | bytes of the name u16 | name | address
//!   answer     empty: it would be taken; else the reason why not
//! ```
//!
//! And whether a node that takes part by its own log is a member still:
//!
//! ```text
//!   question   version 255 | identity 16
//!   answer     0: it is no member; 1: it is
//! ```
//!
//! And whether it has a device (`placed`), and what others should know of it, which is more than that it is there (`ping`):
//!
//! ```text
//!   question   version 254
//!   answer     identity 16 | wall clock in ms u64 | parts of the index that it has to look through for what lacks copies u32
//! ```

use crate::error::NodeError;
use crate::placed::Haves;
use bytes::{BufMut, Bytes, BytesMut};
use env::Env;
use futures_util::future::join_all;
use manager::{Manager, RegisterNode, Snapshot, member_id};
use net::{BoxFuture, CallError, Caller, Refusal, Request, Service, ServiceTag};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use types::NodeIdentity;

/// How long a member may take to answer.
const INQUIRY_PATIENCE: Duration = Duration::from_secs(12);
/// How long a node may take to say who it is.
const WHO_PATIENCE: Duration = Duration::from_secs(1);
const IDENTITY_BYTES: usize = 16;
/// The version that is written; 2: the formats and the clock of who asks; 1: the first.
const INQUIRY_VERSION: u8 = 2;
/// The version of the question whether a node is a member. No version of the other one comes so far.
const MEMBERSHIP_VERSION: u8 = 255;
/// The version of the question what others should know of a node.
const SAYING_VERSION: u8 = 254;
/// How long a member may take to say so: it asks whoever leads.
const MEMBERSHIP_PATIENCE: Duration = Duration::from_secs(3);
/// How often members have to say that this node is none of them...
const DENIALS: u32 = 2;
/// ... and how long after each other: who answers hears the leader, and has by then what was decided before.
const DENIAL_PAUSE: Duration = Duration::from_secs(1);
/// How far the clock of a node that comes may be from that of a member. Clients' signatures are judged by it, objects are dated by it.
const MAX_CLOCK_OFFSET: Duration = Duration::from_secs(60);

/// A node that would like to take part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applicant {
    /// The durable formats that it knows.
    pub format_version: u32,
    pub wall_clock_ms: u64,
    pub identity: NodeIdentity,
    pub name: String,
    pub address: String,
}

/// Says who this node is to whoever asks nothing, and answers inquiries.
pub(crate) struct Here {
    pub env: Env,
    pub manager: Arc<Manager>,
    pub identity: NodeIdentity,
    pub told: Told,
}

/// What others are told of a node that ask for it.
#[derive(Clone, Default)]
pub(crate) struct Told {
    pub repair_left: Arc<AtomicU32>,
    pub haves: Arc<Haves>,
}

/// What a node says of itself to whoever asks it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Saying {
    pub wall_clock_ms: u64,
    /// Of a node whose gateway leads the cell.
    pub repair_left: u32,
}

impl Saying {
    /// The question for it, to be put to a node's [`ServiceTag::PINGS`].
    pub fn question() -> Bytes {
        Bytes::from_static(&[SAYING_VERSION])
    }

    fn encode(self, identity: NodeIdentity) -> Bytes {
        let mut answer = BytesMut::new();
        answer.put_slice(&identity.0);
        answer.put_u64_le(self.wall_clock_ms);
        answer.put_u32_le(self.repair_left);
        answer.freeze()
    }

    /// None of an answer that is none.
    pub fn decode(mut answer: &[u8]) -> Option<Saying> {
        answer.split_off(..IDENTITY_BYTES)?;
        let wall_clock_ms = u64::from_le_bytes(*answer.split_off(..8)?.first_chunk()?);
        let repair_left = u32::from_le_bytes(*answer.split_off(..4)?.first_chunk()?);
        answer.is_empty().then_some(Saying { wall_clock_ms, repair_left })
    }
}

impl Service for Here {
    fn handle(&self, request: Request) -> BoxFuture<'_, Result<Bytes, Refusal>> {
        Box::pin(async move {
            if request.payload.is_empty() {
                return Ok(Bytes::copy_from_slice(&self.identity.0));
            }
            if request.payload[..] == [SAYING_VERSION] {
                let repair_left = self.told.repair_left.load(Ordering::Relaxed);
                return Ok(Saying { wall_clock_ms: self.env.wall_clock_ms(), repair_left }.encode(self.identity));
            }
            if let Some(answer) = self.told.haves.answer(&request.payload) {
                return Ok(answer);
            }
            if let [MEMBERSHIP_VERSION, identity @ ..] = &request.payload[..] {
                let identity = NodeIdentity(identity.try_into().map_err(|_| Refusal::new("not an identity"))?);
                self.manager.fresh().await.map_err(Refusal::new)?;
                return Ok(Bytes::from(vec![u8::from(self.is_member(identity))]));
            }
            let applicant = Applicant::decode(&request.payload).ok_or_else(|| Refusal::new("not an inquiry"))?;
            self.manager.fresh().await.map_err(Refusal::new)?;
            let reason = applicant.unfit_for(&self.manager.snapshot(), self.env.wall_clock_ms());
            Ok(Bytes::from(reason.unwrap_or_default()))
        })
    }
}

impl Here {
    /// Whether a node is a member of the manager.
    fn is_member(&self, identity: NodeIdentity) -> bool {
        let members = self.manager.replication().map(|replication| replication.members).unwrap_or_default();
        members.iter().any(|member| member.node == member_id(identity))
    }
}

/// Whether a member of the manager says that this node is none. Members are looked for where this node's log has them, and at
/// `via`. One that can't tell says nothing: it hears no leader either, or is older than the question.
pub(crate) async fn was_removed(
    env: &Env,
    manager: &Manager,
    register: &RegisterNode,
    via: &[String],
    to: &impl Fn(&str) -> Arc<dyn Caller>,
) -> bool {
    let mut others = manager.other_members(&register.address);
    others.extend(via.iter().filter(|address| **address != register.address).cloned());
    is_denied(env, &others, ServiceTag::PINGS.mark(&membership_question(register.identity)), to).await
}

/// Whether a node is a member, asked of a member's [`ServiceTag::PINGS`].
pub(crate) fn membership_question(identity: NodeIdentity) -> Bytes {
    Bytes::from([&[MEMBERSHIP_VERSION], &identity.0[..]].concat())
}

/// Whether these say no to that: one does and none says yes, and again after a while. A member may lag by the very change that took the node in, or let it
/// out: what it answers is not believed then, and where two disagree they are asked until they don't.
pub(crate) async fn is_denied(
    env: &Env,
    others: &BTreeSet<String>,
    question: Bytes,
    to: &impl Fn(&str) -> Arc<dyn Caller>,
) -> bool {
    let callers: Vec<_> = others.iter().map(|address| to(address)).collect();
    let mut denials = 0;
    loop {
        let until = env.now() + MEMBERSHIP_PATIENCE;
        let answers = join_all(callers.iter().map(|caller| caller.call(question.clone(), until))).await;
        let said: BTreeSet<u8> = answers.into_iter().flatten().filter_map(|answer| answer.first().copied()).collect();
        match (said.contains(&0), said.contains(&1)) {
            (false, _) => return false,
            (true, false) => denials += 1,
            (true, true) => denials = 0,
        }
        if denials == DENIALS {
            return true;
        }
        env.sleep(DENIAL_PAUSE).await;
    }
}

impl Applicant {
    /// As this program and this machine's clock have it.
    pub fn new(env: &Env, identity: NodeIdentity, name: &str, address: &str) -> Applicant {
        let (name, address) = (name.to_owned(), address.to_owned());
        Applicant { format_version: format::FORMAT_VERSION, wall_clock_ms: env.wall_clock_ms(), identity, name, address }
    }

    /// The question about it, for any member of its cluster.
    pub fn question(&self) -> Bytes {
        let mut question = BytesMut::new();
        question.put_u8(INQUIRY_VERSION);
        question.put_u32_le(self.format_version);
        question.put_u64_le(self.wall_clock_ms);
        question.put_slice(&self.identity.0);
        question.put_u16_le(u16::try_from(self.name.len()).unwrap_or(u16::MAX));
        question.put_slice(self.name.as_bytes());
        question.put_slice(self.address.as_bytes());
        ServiceTag::PINGS.mark(&question)
    }

    fn decode(mut question: &[u8]) -> Option<Applicant> {
        let [INQUIRY_VERSION] = question.split_off(..1)? else { return None };
        let format_version = u32::from_le_bytes(*question.split_off(..4)?.first_chunk()?);
        let wall_clock_ms = u64::from_le_bytes(*question.split_off(..8)?.first_chunk()?);
        let identity = NodeIdentity(*question.split_off(..IDENTITY_BYTES)?.first_chunk()?);
        let name_bytes = usize::from(u16::from_le_bytes(*question.split_off(..2)?.first_chunk()?));
        let name = str::from_utf8(question.split_off(..name_bytes)?).ok()?.to_owned();
        let address = str::from_utf8(question).ok()?.to_owned();
        Some(Applicant { format_version, wall_clock_ms, identity, name, address })
    }

    /// Why it can't take part; nothing if it can. `now_ms` is the clock of who judges.
    fn unfit_for(&self, state: &Snapshot, now_ms: u64) -> Option<String> {
        let (name, address) = (&self.name, &self.address);
        let others = || state.nodes().filter(|node| node.identity != self.identity);
        if let Some(cluster) = state.cluster().filter(|cluster| cluster.format_version > self.format_version) {
            let newer = manager::ClusterError::Newer { found: cluster.format_version, known: self.format_version };
            return Some(newer.to_string());
        }
        let offset = Duration::from_millis(self.wall_clock_ms.abs_diff(now_ms));
        // One that takes part already comes back: its clock does no harm that it did not do before.
        let is_new = state.nodes().all(|node| node.identity != self.identity);
        if is_new && offset > MAX_CLOCK_OFFSET {
            let way = if self.wall_clock_ms > now_ms { "ahead of" } else { "behind" };
            let seconds = offset.as_secs();
            return Some(format!(
                "its clock is {seconds} seconds {way} that of the cluster; set it, best with NTP on all nodes, and try again"
            ));
        }
        if let Some(node) = others().find(|node| node.name == *name) {
            return Some(format!("node {} has the name {name} already; give this one another with --name", node.id));
        }
        let taken = others().find(|node| node.address == *address)?;
        Some(format!("node {} has the cluster address {address} already; give this one another with --cluster-addr", taken.id))
    }
}

/// Asks a member. An outer error: it can't tell.
pub fn inquire<'a>(
    env: &'a Env,
    member: &'a dyn Caller,
    question: Bytes,
) -> BoxFuture<'a, Result<Result<(), String>, CallError>> {
    Box::pin(async move {
        let answer = member.call(question, env.now() + INQUIRY_PATIENCE).await?;
        Ok(verdict(&answer))
    })
}

/// What an answer says that is empty if all is well, and else the reason why not.
pub(crate) fn verdict(answer: &[u8]) -> Result<(), String> {
    match answer.is_empty() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(answer).into_owned()),
    }
}

/// Whether a node with this identity answers there. `caller` leads to the node, not to one of its services.
pub fn answers_as<'a>(env: &'a Env, caller: &'a dyn Caller, identity: NodeIdentity) -> BoxFuture<'a, bool> {
    Box::pin(async move {
        let answer = caller.call(crate::ping(), env.now() + WHO_PATIENCE).await;
        answer.is_ok_and(|answer| answer == identity.0[..])
    })
}

/// Refuses to go on if another process answers with this node's identity where the manager says that the node is.
pub(crate) async fn refuse_twin(
    env: &Env,
    manager: &Manager,
    register: &RegisterNode,
    to: &impl Fn(&str) -> Arc<dyn Caller>,
) -> Result<(), NodeError> {
    let known = manager.snapshot().nodes().find(|node| node.identity == register.identity).cloned();
    match known.filter(|known| known.address != register.address) {
        Some(known) if answers_as(env, &*to(&known.address), register.identity).await => {
            Err(NodeError::Twin { address: known.address.clone() })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applicant() -> Applicant {
        let (name, address) = ("a".to_owned(), "127.0.0.1:9002".to_owned());
        Applicant { format_version: 3, wall_clock_ms: 1_700_000_000_000, identity: NodeIdentity([7; 16]), name, address }
    }

    #[test]
    fn questions_come_back_and_short_ones_are_refused() {
        let marked = applicant().question();
        let question = &marked[ServiceTag::PINGS.mark(&[]).len()..];
        assert_eq!(Applicant::decode(question), Some(applicant()));
        for bytes in 0..1 + 4 + 8 + 16 + 2 + 1 {
            assert_eq!(Applicant::decode(&question[..bytes]), None, "{bytes}");
        }
    }

    #[test]
    fn sayings_come_back_and_others_are_none() {
        let saying = Saying { wall_clock_ms: 1_700_000_000_000, repair_left: 257 };
        let answer = saying.encode(NodeIdentity([7; 16]));
        assert_eq!(Saying::decode(&answer), Some(saying));
        for bytes in 0..answer.len() {
            assert_eq!(Saying::decode(&answer[..bytes]), None, "{bytes}");
        }
        assert_eq!(Saying::decode(&[&answer[..], &[0]].concat()), None);
    }

    #[test]
    fn a_clock_that_is_far_off_is_unfit_either_way() {
        let (state, of) = (Snapshot::default(), applicant());
        let unfit = |now_ms| of.unfit_for(&state, now_ms);
        assert_eq!(unfit(of.wall_clock_ms + 60_000), None);
        assert_eq!(unfit(of.wall_clock_ms - 60_000), None);
        assert!(unfit(of.wall_clock_ms + 180_000).unwrap().starts_with("its clock is 180 seconds behind that of the cluster"));
        assert!(unfit(of.wall_clock_ms - 61_000).unwrap().starts_with("its clock is 61 seconds ahead of that of the cluster"));
    }
}
