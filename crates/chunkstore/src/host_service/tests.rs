use std::sync::Arc;

use bytes::Bytes;
use env::Env;
use format::chunk_block::BLOCK_DATA_BYTES;
use format::chunk_command::{ChunkCommand, ClientCall, Registration};
use format::chunk_id::{ChunkId, ChunkNonce, ShardId};
use format::chunk_place::{BlockPlace, ChunkPlaces};
use types::{DeviceId, NodeId};

use super::HostService;
use crate::limits::{BREAKER_WAIT, FORWARD_PATIENCE};
use crate::maintenance::{Answer, MaintenanceUnit};
use crate::played::{Played, map_of_nodes};
use crate::protocol::{HostAnswer, ReplyTo};
use crate::publisher::{Begins, Publisher};

const NODES: u32 = 3;
const SILENT: NodeId = NodeId(1);

/// A unit with one chunk, on all nodes.
fn unit() -> (MaintenanceUnit, ChunkId) {
    let mut unit = MaintenanceUnit::new(ShardId(1), 8);
    for device in (0..NODES).map(DeviceId) {
        unit.apply(&ChunkCommand::Grant { device, first_block: 0, blocks: 1 }).answer.expect("granted");
    }
    let places: Vec<BlockPlace> = (0..NODES).filter_map(|device| BlockPlace::new(DeviceId(device), 0)).collect();
    let places = ChunkPlaces::new(&places).expect("three");
    let call = ClientCall { session: 1, request: 1 };
    let registration = Registration { call, nonce: ChunkNonce(7), bytes: BLOCK_DATA_BYTES, places, wanted: 1, deadline_ms: 1 };
    let Ok(Answer::Registered { id, .. }) = unit.apply(&ChunkCommand::Register(registration)).answer else {
        panic!("registered");
    };
    unit.apply(&ChunkCommand::Commit(id)).answer.expect("committed");
    (unit, id)
}

/// A read that goes to a node that is away takes as long as that node is waited for: not every third one.
#[tokio::test(start_paused = true)]
async fn a_copy_whose_node_did_not_take_a_read_is_passed_by() {
    let env = Env::simulated(3);
    let played = Arc::new(Played::new(&env, map_of_nodes(NODES, &[], &[]), Box::new(|_, _, _| Bytes::new())));
    let service = HostService::new(&env, Arc::new(played.clone()));
    let (unit, id) = unit();
    service.receive(&Publisher::new(&unit, unit.index(), Begins::with(1), 1).expect("a table").snapshot()).expect("taken");
    played.silence(SILENT);
    let route = async || {
        let reply = ReplyTo { address: "client:1".to_owned(), token: 1 };
        assert_eq!(service.route(id, true, reply).await, HostAnswer::Forwarded);
    };
    let began = env.now();
    for _ in 0..100 {
        route().await;
    }
    assert_eq!(env.now() - began, FORWARD_PATIENCE, "one of a hundred waits");
    let asked = played.take_asked();
    assert_eq!(asked.iter().filter(|node| **node == SILENT).count(), 1);
    // When it is back it gets its share again.
    played.silent.lock().clear();
    env.sleep(BREAKER_WAIT).await;
    for _ in 0..100 {
        route().await;
    }
    let asked = played.take_asked();
    assert_eq!(asked.len(), 100);
    assert!(asked.iter().filter(|node| **node == SILENT).count() > 10, "{asked:?}");
}
