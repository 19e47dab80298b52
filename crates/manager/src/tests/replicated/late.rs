//! Proposals that get there after their proposers gave them up, or before what has to come first.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use env::Env;
use net::Request;
use types::{CellId, Generation};

use super::cluster::Cluster;
use crate::limits::PROPOSE_DEADLINE;
use crate::replicated::{Answer, Ask, Content, Proposal, ProposalId, decode, encode};
use crate::tests::nodes::node;
use crate::{ManagerError, ProposeError};

const CELL: CellId = CellId(0);

/// Caught: it was carried out after what had been proposed in its place, and undid that.
#[tokio::test(start_paused = true)]
async fn what_was_given_up_takes_no_effect_after_what_came_later() {
    let env = Env::simulated(61);
    let mut cluster = Cluster::of_three(&env).await;
    let (leader, proposer) = (cluster.leader().await, cluster.follower().await);
    let held_back = cluster.hold_back(leader);
    let failed = cluster.manager(proposer).begin_start(CELL).await.unwrap_err();
    assert!(matches!(failed, ManagerError::Failed(ProposeError::Unknown { .. })), "{failed}");
    held_back.ends();
    assert_eq!(cluster.manager(proposer).begin_start(CELL).await.unwrap(), 1);
    assert!(held_back.deliver(env.now() + PROPOSE_DEADLINE).await > 0);
    assert_eq!(cluster.manager(proposer).begin_start(CELL).await.unwrap(), 2);
    assert_eq!(cluster.settled().await.starts(CELL), 2);
    cluster.shut_down().await;
}

/// Caught: the registration of a process that had been killed ended the gateway of the one that had come after it.
#[tokio::test(start_paused = true)]
async fn a_late_registration_ends_no_gateway_that_lives() {
    let env = Env::simulated(62);
    let mut cluster = Cluster::of_three(&env).await;
    let (leader, proposer) = (cluster.leader().await, cluster.follower().await);
    let id = cluster.manager(proposer).register_node(node(1)).await.unwrap().id;
    cluster.manager(proposer).create_cell(CELL, Generation(0)).await.unwrap();
    let first = cluster.manager(proposer).register_gateway(CELL, id).await.unwrap();
    let held_back = cluster.hold_back(leader);
    let manager = cluster.manager(proposer).clone();
    let registering = env.spawn(async move { manager.register_gateway(CELL, id).await });
    env.sleep(Duration::from_millis(100)).await;
    cluster.crash(proposer).await;
    registering.abort();
    held_back.ends();
    cluster.start(proposer).await;
    cluster.manager(proposer).fresh().await.unwrap();
    let lives = cluster.manager(proposer).register_gateway(CELL, id).await.unwrap();
    assert_ne!(lives.gateway, first.gateway);
    assert!(held_back.deliver(env.now() + PROPOSE_DEADLINE).await > 0);
    let state = cluster.settled().await;
    let cell = state.cell(CELL).unwrap();
    assert_eq!((cell.members.keys().collect::<Vec<_>>(), &cell.ended), (vec![&lives.gateway], &BTreeSet::new()));
    cluster.shut_down().await;
}

/// Caught: a last piece was put into the log unseen where the first was not carried out yet, and a command that nobody knows stopped every member.
#[tokio::test(start_paused = true)]
async fn a_last_piece_is_not_taken_before_what_it_completes() {
    let env = Env::simulated(63);
    let mut cluster = Cluster::of_three(&env).await;
    let leader = cluster.leader().await;
    let service = cluster.manager(leader).service();
    let piece = async |offset, is_last| {
        let content = Content::Piece { offset, bytes: Bytes::from_static(&[0xff; 8]), is_last };
        let proposal = Proposal { id: ProposalId { proposer: 7, serial: 1 }, oldest: 1, content };
        let payload = encode(&Ask::Propose(proposal.encode()));
        let answer = service.handle(Request { payload, deadline: env.now() + PROPOSE_DEADLINE }).await.unwrap();
        decode::<Answer>(&answer).unwrap()
    };
    let (first, last) = tokio::join!(piece(0, false), piece(8, true));
    assert_eq!((first, last), (Answer::Proposed { is_in_place: true }, Answer::Proposed { is_in_place: false }));
    assert!(matches!(piece(8, true).await, Answer::Refused { .. }), "now it can be looked at");
    for id in cluster.ids() {
        assert_eq!(cluster.replicated(id).status().stopped, None);
    }
    cluster.manager(leader).take_token().await.unwrap();
    cluster.shut_down().await;
}
