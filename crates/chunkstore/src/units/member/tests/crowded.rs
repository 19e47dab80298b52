//! A unit whose node's consensus log is filled by others.

use std::time::Duration;

use bytes::Bytes;
use consensus::{FrozenState, GroupId, Keeping, LogIndex, MachineError, ProposeError, StateMachine, Whole};

use super::{OWN, Rig, SHARD, node};
use crate::limits::{CROWDED_PATIENCE, LEADER_TICK, STOCK_AGE};
use crate::maintenance::Refusal;
use crate::protocol::{UnitAnswer, UnitRequest};
use crate::units::leading::fixture::report;

/// As long as what was proposed.
#[derive(Default)]
struct Ballast(Vec<u8>);

impl StateMachine for Ballast {
    type Command = Vec<u8>;
    type Reply = ();

    fn encode(command: &Vec<u8>) -> Vec<u8> {
        command.clone()
    }

    fn decode(bytes: &[u8]) -> Result<Vec<u8>, MachineError> {
        Ok(bytes.to_vec())
    }

    fn is_growth(_: &Vec<u8>) -> bool {
        true
    }

    fn apply(&mut self, _: LogIndex, command: Vec<u8>) -> Result<(), MachineError> {
        self.0.extend(command);
        Ok(())
    }

    fn keeping(&mut self) -> Keeping<'_> {
        Keeping::Whole(self)
    }
}

impl Whole for Ballast {
    fn snapshot(&self) -> FrozenState {
        let bytes = self.0.clone();
        Box::new(move || bytes)
    }

    fn restore(&mut self, snapshot: &[u8]) -> Result<(), MachineError> {
        self.0 = snapshot.to_vec();
        Ok(())
    }
}

/// Fills the log until nothing more is taken, for longer than snapshots take.
async fn fill(rig: &Rig) {
    let id = consensus::NodeId::of_identity(&node(OWN).identity.0);
    let mut groups = Vec::new();
    for group in (20..24).map(GroupId) {
        let group = rig.node.start_group(group, Ballast::default()).await.expect("a group");
        group.initialize(&[(id, node(OWN).address)].into()).await.expect("it is new");
        rig.wait(|_| group.status().is_leader).await;
        groups.push(group);
    }
    for bytes in [50_000, 1_000, 50] {
        let mut refused = 0;
        for group in groups.iter().cycle() {
            match group.propose(&vec![7; bytes]).await {
                Ok(_) => refused = 0,
                Err(ProposeError::LogFull) => {
                    refused += 1;
                    rig.env.sleep(Duration::from_millis(200)).await;
                }
                Err(error) => panic!("{error}"),
            }
            if refused == 25 {
                break;
            }
        }
    }
}

/// All puts waited for it: it was closed only if it was full, or did not answer.
#[tokio::test(start_paused = true)]
async fn a_shard_for_which_a_consensus_log_has_no_room_is_closed() {
    let mut rig = Rig::over(81, super::CAPACITY, &[OWN], Box::new(|_, _, _| Bytes::new())).await;
    rig.volume(1, 64).await;
    rig.wait(|rig| rig.room(super::place(1, 0)).is_some()).await;
    let is_open = |rig: &Rig| rig.manager.snapshot().shard(SHARD.0).expect("it was opened").is_open;
    rig.env.sleep(2 * CROWDED_PATIENCE).await;
    assert!(is_open(&rig), "there is room");
    fill(&rig).await;
    assert!(is_open(&rig));
    let report = UnitRequest::Report(report(OWN.0, Vec::new(), Vec::new()));
    assert_eq!(rig.member.answer(report).await, UnitAnswer::Done);
    rig.env.sleep(STOCK_AGE + LEADER_TICK).await;
    assert_eq!(rig.register(100).await, UnitAnswer::Refused(Refusal::Busy));
    rig.env.sleep(CROWDED_PATIENCE + 2 * STOCK_AGE).await;
    assert!(!is_open(&rig));
    rig.env.sleep(STOCK_AGE + LEADER_TICK).await;
    assert_eq!(rig.register(100).await, UnitAnswer::Refused(Refusal::Sealed));
}
