//! A group, as its users see it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use env::watch;
use parking_lot::RwLock;
use tokio::sync::Semaphore;

use crate::error::{MemberError, ProposeError, ReadError};
use crate::id::{GroupId, LogIndex, LogPosition, NodeId, Term};
use crate::limits::{MAX_ADDRESS_BYTES, MAX_COMMAND_BYTES, MAX_MEMBERS};
use crate::log::Purpose;
use crate::machine::StateMachine;
use crate::node::Node;
use crate::raft::Core;
use crate::record::RECORD_OVERHEAD_BYTES;

/// One replicated state machine, on this node.
pub struct Group<S> {
    pub(crate) node: Node,
    pub(crate) group: GroupId,
    pub(crate) core: Core,
    pub(crate) machine: Arc<RwLock<S>>,
    pub(crate) applied: watch::Receiver<Option<LogIndex>>,
    pub(crate) proposals: Arc<Semaphore>,
}

impl<S> Clone for Group<S> {
    fn clone(&self) -> Self {
        Group {
            node: self.node.clone(),
            group: self.group,
            core: self.core.clone(),
            machine: Arc::clone(&self.machine),
            applied: self.applied.clone(),
            proposals: Arc::clone(&self.proposals),
        }
    }
}

/// How a read makes sure that it sees everything that was acknowledged before it began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadMode {
    /// A quorum that has acknowledged this leader within [`crate::limits::READ_LEASE`] is proof enough, and costs no message. It counts on
    /// clocks whose rates differ by less than 1 part in 10. When the lease has run out, the leader asks.
    Lease,
    /// A quorum confirms for this read (or for those that wait with it) that this node leads. No clock is trusted.
    Confirmed,
}

/// What a group is doing, as far as this node knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupStatus {
    pub term: Term,
    pub leader: Option<NodeId>,
    pub is_leader: bool,
    pub last: Option<LogIndex>,
    pub applied: Option<LogPosition>,
    /// Covered by the newest snapshot.
    pub snapshot: Option<LogPosition>,
    /// Given up.
    pub purged: Option<LogPosition>,
    /// One set, or two while voters are being exchanged.
    pub voters: Vec<BTreeSet<NodeId>>,
    pub learners: BTreeSet<NodeId>,
    /// All members, and where they listen.
    pub addresses: BTreeMap<NodeId, String>,
    /// Why the group does not run any more on this node, if so.
    pub stopped: Option<String>,
}

impl<S: StateMachine> Group<S> {
    pub fn id(&self) -> GroupId {
        self.group
    }

    /// The node that this member of the group runs on.
    pub fn node(&self) -> NodeId {
        self.node.id()
    }

    /// Makes these nodes the group's first voters. Called once in a group's life, on one of them; doing it on all with the same
    /// members is safe, too.
    pub async fn initialize(&self, members: &BTreeMap<NodeId, String>) -> Result<(), MemberError> {
        check_member_count(members.len())?;
        for address in members.values() {
            check_address(address)?;
        }
        self.core.initialize(members.iter().map(|(node, address)| (node.0, address.clone())).collect()).await
    }

    /// Puts a command through the log and answers with its place and with what it did.
    ///
    /// A call that is dropped may still be carried out.
    pub async fn propose(&self, command: &S::Command) -> Result<(LogPosition, S::Reply), ProposeError> {
        let bytes = S::encode(command);
        if bytes.len() > MAX_COMMAND_BYTES {
            return Err(ProposeError::Length { found: bytes.len() });
        }
        let Ok(_permit) = self.proposals.try_acquire() else {
            return Err(ProposeError::Overloaded { group: self.group });
        };
        let purpose = if S::is_growth(command) { Purpose::Growth } else { Purpose::Command };
        let claim = self.node.inner.claim(&self.core, RECORD_OVERHEAD_BYTES + bytes.len(), purpose);
        let Some(_claim) = claim else { return Err(ProposeError::LogFull) };
        let (position, reply) = self.core.propose(Bytes::from(bytes)).await?;
        let reply = reply.into_inner().expect("a command's reply has its machine's type");
        Ok((position, reply))
    }

    /// Has commands answered when they and all before them outlive the process: a power cut may take the last ones (docs/rfd/0032). In force as long as this node is
    /// the only member, and its log has a tail. A change of members ends it.
    pub fn set_ordered(&self, is_wanted: bool) {
        self.core.set_ordered(is_wanted);
    }

    /// Whether that is in force.
    pub fn is_ordered(&self) -> bool {
        self.core.log().state().is_ordered()
    }

    /// Whether a command of so many bytes that makes the state longer would be taken now, as far as room in logs goes: this node's, and those of the other voters where this one leads.
    pub fn takes_growth(&self, bytes: usize) -> bool {
        self.node.inner.claim(&self.core, RECORD_OVERHEAD_BYTES + bytes, Purpose::Growth).is_some()
    }

    /// Reads the state as of now or later: linearizable with all proposals. Only at the leader.
    pub async fn read<T>(&self, mode: ReadMode, look: impl FnOnce(&S) -> T) -> Result<T, ReadError> {
        self.core.wait_for_read(mode == ReadMode::Lease).await?;
        Ok(self.look(look))
    }

    /// Looks at this member's state, which may be old.
    pub fn look<T>(&self, look: impl FnOnce(&S) -> T) -> T {
        look(&self.machine.read())
    }

    /// How far this member's state machine is: wakes whoever waits for a change.
    pub fn changes(&self) -> watch::Receiver<Option<LogIndex>> {
        self.applied.clone()
    }

    pub fn status(&self) -> GroupStatus {
        let status = self.core.status();
        let voters: Vec<BTreeSet<NodeId>> = status.membership.voters.into_iter().map(|set| set.into_iter().collect()).collect();
        let addresses: BTreeMap<NodeId, String> = status.membership.members.into_iter().collect();
        let learners = addresses.keys().copied().filter(|node| !voters.iter().any(|set| set.contains(node))).collect();
        GroupStatus {
            term: status.term,
            leader: status.leader,
            is_leader: status.is_leader,
            last: status.last,
            applied: status.applied,
            snapshot: status.snapshot,
            purged: status.purged,
            voters,
            learners,
            addresses,
            stopped: status.stopped,
        }
    }

    /// Adds a member without a vote and waits until it has caught up, for [`crate::limits::CATCH_UP_LIMIT`] at most. The group must run on
    /// its node.
    pub async fn add_learner(&self, node: NodeId, address: &str) -> Result<(), MemberError> {
        self.check_learner(node, address)?;
        self.core.add_learner(node, address.to_owned()).await
    }

    /// The same of a node that may be away: nobody waits for it.
    pub async fn add_absent_learner(&self, node: NodeId, address: &str) -> Result<(), MemberError> {
        self.check_learner(node, address)?;
        self.core.add_absent_learner(node, address.to_owned()).await
    }

    fn check_learner(&self, node: NodeId, address: &str) -> Result<(), MemberError> {
        check_address(address)?;
        let members = self.core.status().membership.members;
        let is_new = !members.iter().any(|(member, _)| *member == node);
        check_member_count(members.len() + usize::from(is_new))
    }

    /// Makes exactly these members voters, through a joint membership: until it is over, both the old and the new voters must agree.
    /// Each must be a voter or a learner by now. Former voters leave.
    ///
    /// This and the other exchanges of voters go on to their end when the call is dropped.
    pub async fn set_voters(&self, voters: &BTreeSet<NodeId>) -> Result<(), MemberError> {
        self.core.set_voters(voters.iter().map(|node| node.0).collect()).await
    }

    /// Makes a learner a voter; the other voters stay what they are, whoever they are by then.
    pub async fn add_voter(&self, node: NodeId) -> Result<(), MemberError> {
        self.core.add_voter(node).await
    }

    /// Gives the only member another address. Refused where there are others: they would go on calling it at the address before.
    pub async fn move_sole_member(&self, address: &str) -> Result<(), MemberError> {
        check_address(address)?;
        let members = self.core.status().membership.members;
        let [(node, _)] = members[..] else {
            return Err(MemberError::Refused {
                reason: format!("the group has {} members; only a sole one moves", members.len()),
            });
        };
        self.core.set_address(node, address.to_owned()).await
    }

    /// Takes one voter out of the group; the others stay.
    pub async fn remove_voter(&self, node: NodeId) -> Result<(), MemberError> {
        self.core.remove_voter(node).await
    }

    /// Takes learners out of the group.
    pub async fn remove_learners(&self, nodes: &BTreeSet<NodeId>) -> Result<(), MemberError> {
        self.core.remove_learners(nodes.iter().map(|node| node.0).collect()).await
    }

    /// Ends an exchange of voters that another leader began and left in the middle, if there is one. Every change of members does so first;
    /// the leader does it by itself after a while.
    pub async fn finish_exchange(&self) -> Result<(), MemberError> {
        self.core.finish_exchange().await
    }

    /// Asks another voter to lead. From here on this node neither reads nor writes for the group; whether the other took over shows in
    /// [`Group::status`].
    pub async fn transfer_leader(&self, to: NodeId) -> Result<(), ReadError> {
        self.core.transfer(to).await
    }

    /// Asks for a snapshot of this member; it is made later.
    pub async fn make_snapshot(&self) {
        self.core.make_snapshot().await;
    }
}

fn check_member_count(found: usize) -> Result<(), MemberError> {
    if found > MAX_MEMBERS {
        return Err(MemberError::TooMany { found });
    }
    Ok(())
}

fn check_address(address: &str) -> Result<(), MemberError> {
    if address.len() > MAX_ADDRESS_BYTES {
        return Err(MemberError::Address { found: address.len() });
    }
    Ok(())
}
