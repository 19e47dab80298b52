//! Nodes that a cluster does not take: they are told why, and nothing has changed. Others that were let in by half.

use super::closing::lead_by;
use super::cluster::{Cluster, Machine, address};
use super::hanging::{node, write};
use super::service::simulate;
use crate::node::{register_node, take_part};
use crate::{Applicant, Node, NodeError, Role, Roles, inquire};
use bytes::Bytes;
use consensus::{BASE_BYTES, LinkWeather, LogPlace, Peer, SimulatedTransport, TaggedTransport, Transport};
use disk::{Fault, FaultRule, Operation, SimDisk, SimOptions};
use env::Env;
use manager::{MANAGER_GROUP, Manager, MemberRole, RegisterNode, ReplicatedOptions, member_id};
use net::{BoxFuture, CallError, Caller, Identity, RemoteCaller, Router, ServiceTag};
use std::sync::Arc;
use std::time::Duration;
use types::{ClusterId, NodeIdentity};
use wal::RegionStore;

impl Cluster {
    /// What node 0 says of a node that would like to take part.
    async fn judge(&self, change: impl FnOnce(&mut Applicant)) -> Result<(), String> {
        let identity = NodeIdentity([77; 16]);
        let own = Identity { cluster: ClusterId([9; 16]), node: identity };
        let caller = RemoteCaller::new(&self.env, Arc::new(self.network.clone()), &address(0), own);
        let mut applicant = Applicant::new(&self.env, identity, "node-7", &address(7));
        change(&mut applicant);
        inquire(&self.env, &caller, applicant.question()).await.unwrap()
    }
}

#[test]
fn who_does_not_fit_is_told_why() {
    simulate(async {
        let cluster = Cluster::start(43).await;
        cluster.judge(|_| {}).await.unwrap();
        let early = cluster.judge(|applicant| applicant.wall_clock_ms += 180_000).await.unwrap_err();
        assert!(early.contains("clock is 180 seconds ahead of"), "{early}");
        let late = cluster.judge(|applicant| applicant.wall_clock_ms -= 7_200_000).await.unwrap_err();
        assert!(late.contains("clock is 7200 seconds behind"), "{late}");
        let member = NodeIdentity([1; 16]);
        let back = |applicant: &mut Applicant| {
            (applicant.identity, applicant.name, applicant.address) = (member, "node-0".to_owned(), address(0));
            applicant.wall_clock_ms -= 7_200_000;
        };
        cluster.judge(back).await.expect("it takes part already");
        let named = cluster.judge(|applicant| applicant.name = "node-2".to_owned()).await.unwrap_err();
        assert!(named.contains("has the name node-2 already"), "{named}");
        let manager = cluster.machines[0].node.as_ref().unwrap().manager();
        manager.raise_format_version(format::FORMAT_VERSION + 1).await.unwrap();
        let old = cluster.judge(|_| {}).await.unwrap_err();
        assert!(old.contains("install a newer one"), "{old}");
        assert_eq!(manager.snapshot().nodes().count(), 3, "nothing has changed");
    });
}

const SEGMENT_BYTES: u64 = 4 * 1024 * 1024;
const SEGMENTS: usize = 16;

/// The manager's part of a node.
struct Member {
    disk: SimDisk,
    register: RegisterNode,
    running: Option<(consensus::Node, Manager)>,
}

impl Member {
    fn new(env: &Env, number: u8) -> Member {
        let size_bytes = BASE_BYTES + SEGMENT_BYTES * SEGMENTS as u64;
        let register = RegisterNode {
            identity: NodeIdentity([number + 1; 16]),
            name: format!("node-{number}"),
            address: address(usize::from(number)),
            s3_address: String::new(),
            admin_address: String::new(),
            host: String::new(),
            rack: String::new(),
            zone: String::new(),
            version: "test".to_owned(),
            joined_ms: 0,
        };
        Member { disk: SimDisk::new(env, SimOptions { size_bytes, ..SimOptions::default() }), register, running: None }
    }

    fn id(&self) -> consensus::NodeId {
        member_id(self.register.identity)
    }

    fn manager(&self) -> &Manager {
        &self.running.as_ref().expect("it runs").1
    }

    async fn start(&mut self, env: &Env, network: &SimulatedTransport) {
        let base = Arc::new(self.disk.clone());
        let segments = Arc::new(RegionStore::new(base.clone(), BASE_BYTES, SEGMENT_BYTES, SEGMENTS));
        let port = network.port(self.id());
        let tagged = |tag| -> Arc<dyn Transport> { Arc::new(TaggedTransport::new(port.clone(), tag)) };
        let place = LogPlace::new(segments, base, SEGMENTS);
        let node = consensus::Node::open(env, self.id(), &place, tagged(ServiceTag::CONSENSUS)).await.unwrap();
        let options = ReplicatedOptions { group: MANAGER_GROUP, transport: tagged(ServiceTag::MANAGER) };
        let manager = Manager::open_replicated(env, &node, options).await.unwrap();
        let router = Router::new().with(ServiceTag::CONSENSUS, node.service()).with(ServiceTag::MANAGER, manager.service());
        network.plug_in(self.id(), Arc::new(router));
        self.running = Some((node, manager));
    }

    async fn stop(&mut self, network: &SimulatedTransport) {
        network.unplug(self.id());
        let (node, _) = self.running.take().expect("it runs");
        node.shut_down().await;
        self.disk = self.disk.restart();
    }

    /// Writes to its log fail from here on.
    fn fail_log(&self) {
        self.disk.add_rule(FaultRule::always_in(0..u64::MAX, Operation::Write, Fault::Fail));
    }

    /// What a node does when it is a member; with a time after which it surely waits for somebody.
    async fn register(&self, env: &Env) -> Result<types::NodeId, NodeError> {
        let welcome = |_: &str| -> Arc<dyn Caller> { Arc::new(Welcome) };
        let registered = register_node(env, self.manager(), &self.register, &[], &welcome);
        tokio::time::timeout(Duration::from_secs(120), registered).await.expect("it is registered, or refused")
    }

    /// What a node does when it is opened; with a time after which it surely waits for somebody.
    async fn take_part(&self, env: &Env, via: &[String]) {
        self.try_to_take_part(env, MemberRole::Voter, via).await.unwrap();
    }

    async fn try_to_take_part(&self, env: &Env, role: MemberRole, via: &[String]) -> Result<(), NodeError> {
        let welcome = |_: &str| -> Arc<dyn Caller> { Arc::new(Welcome) };
        let taken = take_part(env, self.manager(), (self.id(), role), &self.register, via, &welcome);
        tokio::time::timeout(Duration::from_secs(120), taken).await.expect("it takes part")
    }
}

/// Finds every node fit.
struct Welcome;

impl Caller for Welcome {
    fn call(&self, _: Bytes, _: env::Instant) -> BoxFuture<'_, Result<Bytes, CallError>> {
        Box::pin(async { Ok(Bytes::new()) })
    }
}

#[test]
fn a_node_that_was_let_in_without_a_vote_asks_for_it() {
    simulate(async {
        let env = Env::simulated(51);
        let network = SimulatedTransport::new(&env);
        let (mut first, mut second) = (Member::new(&env, 0), Member::new(&env, 1));
        first.start(&env, &network).await;
        second.start(&env, &network).await;
        first.take_part(&env, &[]).await;
        // The first hears nothing of the second, and gives up.
        network.set_link(second.id(), first.id(), LinkWeather { is_cut: true, ..LinkWeather::default() });
        let failed = first.manager().add_member(second.id(), &second.register.address).await.unwrap_err();
        let role = |of: &Member| {
            let members = of.manager().replication().unwrap().members;
            members.into_iter().find(|member| member.node == second.id()).map(|member| member.role)
        };
        assert_eq!((role(&first), role(&second)), (Some(MemberRole::Learner), Some(MemberRole::Learner)), "{failed}");
        network.heal();
        second.take_part(&env, &[first.register.address.clone()]).await;
        assert_eq!((role(&first), role(&second)), (Some(MemberRole::Voter), Some(MemberRole::Voter)));
        // All stop, and it comes back alone: the vote stands in its log, and it asks nobody.
        second.stop(&network).await;
        first.stop(&network).await;
        second.start(&env, &network).await;
        second.take_part(&env, &[first.register.address.clone()]).await;
        second.stop(&network).await;
    });
}

#[test]
fn a_node_without_the_role_of_a_manager_gets_no_vote_and_keeps_one_that_it_has() {
    simulate(async {
        let env = Env::simulated(52);
        let network = SimulatedTransport::new(&env);
        let (mut first, mut second) = (Member::new(&env, 0), Member::new(&env, 1));
        first.start(&env, &network).await;
        second.start(&env, &network).await;
        let refused = first.try_to_take_part(&env, MemberRole::Learner, &[]).await.unwrap_err();
        assert!(matches!(refused, NodeError::NeedsManager), "nobody else has the role: {refused}");
        first.take_part(&env, &[]).await;
        let via = [first.register.address.clone()];
        let peer = Peer { node: first.id(), address: via[0].clone() };
        second.manager().join(&peer, &second.register.address, MemberRole::Learner).await.unwrap();
        second.try_to_take_part(&env, MemberRole::Learner, &via).await.unwrap();
        let has_vote = |of: &Member| of.manager().replication().unwrap().has_vote;
        assert!(!has_vote(&second));
        // Later it comes back alone, and asks nobody.
        second.stop(&network).await;
        first.stop(&network).await;
        second.start(&env, &network).await;
        let began = env.now();
        second.try_to_take_part(&env, MemberRole::Learner, &via).await.unwrap();
        assert!(env.now() - began < Duration::from_secs(1), "its log says what it is");
        // It gets the role; from then on it can't do without.
        first.start(&env, &network).await;
        second.take_part(&env, &via).await;
        assert!(has_vote(&second));
        let refused = second.try_to_take_part(&env, MemberRole::Learner, &via).await.unwrap_err();
        assert!(matches!(refused, NodeError::NeedsManager), "{refused}");
        second.stop(&network).await;
        first.stop(&network).await;
    });
}

/// Caught: it waited for ever for a leader that looked for it where it had been.
#[test]
fn a_voter_that_starts_at_another_address_is_told_what_to_do() {
    simulate(async {
        let env = Env::simulated(53);
        let network = SimulatedTransport::new(&env);
        let (mut first, mut second) = (Member::new(&env, 0), Member::new(&env, 1));
        first.start(&env, &network).await;
        second.start(&env, &network).await;
        first.take_part(&env, &[]).await;
        first.manager().add_member(second.id(), &second.register.address).await.unwrap();
        let via = [first.register.address.clone()];
        second.take_part(&env, &via).await;
        second.stop(&network).await;
        let former = std::mem::replace(&mut second.register.address, address(7));
        second.start(&env, &network).await;
        let refused = second.try_to_take_part(&env, MemberRole::Voter, &via).await.unwrap_err();
        assert!(matches!(&refused, NodeError::Moved { known, .. } if *known == former), "{refused}");
        second.register.address = former;
        second.take_part(&env, &via).await;
        second.stop(&network).await;
        first.stop(&network).await;
    });
}

/// Caught: they took it for a manager that does not answer yet.
#[test]
fn a_start_ends_with_its_log() {
    simulate(async {
        let env = Env::simulated(54);
        let network = SimulatedTransport::new(&env);
        let (mut first, mut second) = (Member::new(&env, 0), Member::new(&env, 1));
        first.start(&env, &network).await;
        second.start(&env, &network).await;
        first.take_part(&env, &[]).await;
        let via = [first.register.address.clone()];
        let peer = Peer { node: first.id(), address: via[0].clone() };
        second.manager().join(&peer, &second.register.address, MemberRole::Learner).await.unwrap();
        second.fail_log();
        first.register(&env).await.unwrap();
        env.sleep(Duration::from_secs(2)).await;
        let failed = second.try_to_take_part(&env, MemberRole::Voter, &via).await.unwrap_err();
        assert!(matches!(failed, NodeError::Stopped(_)), "{failed}");
        let failed = second.register(&env).await.unwrap_err();
        assert!(matches!(failed, NodeError::Stopped(_)), "{failed}");
        second.stop(&network).await;
        first.stop(&network).await;
    });
}

/// Nobody talks to it. Caught: it was registered again, under another number, and waited for ever without saying why.
#[test]
fn a_removed_node_that_is_started_again_is_told() {
    simulate(async {
        let mut cluster = Cluster::start(55).await;
        cluster.kill(2, false).await;
        cluster.remove(0, "node-2", true).await.unwrap();
        let nodes = |cluster: &Cluster| cluster.machines[0].node.as_ref().unwrap().manager().snapshot().nodes().count();
        let (env, network) = (cluster.env.clone(), cluster.network.clone());
        let opened = Node::open(&env, cluster.machines[2].options(&network));
        let refused = tokio::time::timeout(Duration::from_secs(60), opened).await.expect("it is told").err().unwrap();
        assert!(matches!(refused, NodeError::Removed), "{refused}");
        assert_eq!(nodes(&cluster), 2, "it is not registered again");
    });
}

/// A node that waits for a majority is told nothing by those that wait as well.
#[test]
fn a_node_that_waits_for_others_is_not_removed() {
    simulate(async {
        let mut cluster = Cluster::start(56).await;
        for number in [1, 2, 0] {
            cluster.kill(number, false).await;
        }
        let (env, network) = (cluster.env.clone(), cluster.network.clone());
        let opened = Node::open(&env, cluster.machines[2].options(&network));
        tokio::time::timeout(Duration::from_secs(60), opened).await.err().expect("it waits");
        tokio::time::sleep(Duration::from_millis(100)).await;
        cluster.restart_all(&[0, 1]).await;
        cluster.restart(2).await;
        cluster.all_serve().await;
    });
}

/// A start that is ended while it waits to be registered has a vote all the same: its log must be there at the next one.
#[test]
fn a_member_is_noted_before_it_is_registered() {
    simulate(async {
        let cluster = Cluster::start(57).await;
        let machine = Machine::new(&cluster.env, 3, Roles::all());
        let manager = cluster.machines[0].node.as_ref().unwrap().manager().clone();
        let me = member_id(NodeIdentity([4; 16]));
        let mut noted = None;
        let note = || {
            let members = manager.replication().unwrap().members;
            let is_voter = members.iter().any(|member| member.node == me && member.role == MemberRole::Voter);
            noted = Some((is_voter, manager.snapshot().nodes().count()));
            Err("the disk is full".to_owned())
        };
        let opened = Node::open_noting(&cluster.env, machine.options(&cluster.network), Box::new(note)).await;
        let refused = opened.err().expect("what can't be noted is not begun");
        assert!(refused.to_string().contains("the disk is full"), "{refused}");
        assert_eq!(noted, Some((true, 3)), "it has a vote, and no name yet");
    });
}

/// The group looks for it where it was, and who led when it stopped is dead, as is the node that it once joined through.
#[test]
fn a_learner_at_another_address_comes_back_though_the_leader_that_it_knew_is_dead() {
    simulate(async {
        let target = Roles::from_iter([Role::Target]);
        let mut cluster = Cluster::start_with(49, vec![Roles::all(), Roles::all(), Roles::all(), target]).await;
        lead_by(&cluster, node(&cluster, 0).manager()).await;
        cluster.env.sleep(Duration::from_secs(3)).await;
        cluster.kill(3, false).await;
        cluster.kill(0, false).await;
        write(&cluster, 1, "without it", 1).await;
        let mut options = cluster.machines[3].options(&cluster.network);
        options.register.address = address(9);
        options.network = Arc::new(cluster.network.at(&address(9)));
        let opening = Node::open(&cluster.env, options);
        let opened = tokio::time::timeout(Duration::from_secs(100), opening).await.expect("it takes part").unwrap();
        let known = node(&cluster, 1).manager().snapshot().node(opened.id()).cloned().unwrap();
        assert_eq!(known.address, address(9));
    });
}
