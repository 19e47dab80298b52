//! What a client makes of a map alone.

use std::sync::Arc;

use bytes::Bytes;
use env::Env;
use format::chunk_block::{ChunkVersion, Era};
use format::chunk_id::{ChunkId, ChunkNonce, ChunkNumber, ShardId};
use format::chunk_place::{BlockPlace, ChunkPlaces};
use parking_lot::Mutex;
use types::{DeviceId, NodeId};

use super::ways::Ways;
use super::{ChunkClient, ChunkError};
use crate::deliveries::Deliveries;
use crate::limits::{CLIENT_PATIENCE, LOOK_AROUND_INTERVAL, MAX_TRIES};
use crate::maintenance::Refusal;
use crate::message::{Change, Found, LiveCopy, Mark, NodeAnswer, NodeRequest};
use crate::played::{Played, map_of_nodes};
use crate::protocol::{BLOCKS, BlockRequest, ChunkMap, HostAnswer, HostRequest, UNITS, UnitAnswer, UnitRequest};
use crate::wire::{decode, encode};

/// A cluster whose unit answers registrations, commits and revocations so, by how many there were before, and whose other answers are good.
fn unit_of_answers(
    env: &Env,
    register: impl Fn(u32) -> UnitAnswer + Send + Sync + 'static,
    commit: impl Fn(u32) -> UnitAnswer + Send + Sync + 'static,
    revoke: impl Fn(u32) -> UnitAnswer + Send + Sync + 'static,
    asked: Arc<Mutex<Vec<Asked>>>,
) -> Arc<Played> {
    let count = |asked: &Mutex<Vec<Asked>>, one: Asked| {
        let mut asked = asked.lock();
        asked.push(one);
        asked.iter().filter(|other| other.what == one.what).count() as u32 - 1
    };
    let answer = move |_, service, payload: &Bytes| {
        if service == BLOCKS {
            let BlockRequest::Direct(to) = decode(payload).expect("a request") else { panic!("a direct one") };
            return encode(&match to.request {
                NodeRequest::Query => NodeAnswer::Live(LiveCopy {
                    version: ChunkVersion { counter: 0, writer: 0 },
                    era: Era::first(1),
                    capacity: 100,
                    is_settled: true,
                    content: None,
                }),
                NodeRequest::Write { change: Change::End, .. } => {
                    count(&asked, Asked { what: What::Delete, id: to.id });
                    NodeAnswer::Done(Some(Mark::Dead))
                }
                _ => NodeAnswer::Done(None),
            });
        }
        if service != UNITS {
            return encode(&HostAnswer::NotRouted);
        }
        encode(&match decode(payload).expect("a request") {
            UnitRequest::Register { .. } => register(count(&asked, Asked { what: What::Register, id: ChunkId::default() })),
            UnitRequest::Commit(id) => commit(count(&asked, Asked { what: What::Commit, id })),
            UnitRequest::Revoke(id) => revoke(count(&asked, Asked { what: What::Revoke, id })),
            UnitRequest::Find(_) => UnitAnswer::Found(Found::Known { places: one_place(), wanted: 1 }),
            other => panic!("{other:?}"),
        })
    };
    Arc::new(Played::new(env, map_of_nodes(2, &[1], &[0]), Box::new(answer)))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Asked {
    what: What,
    id: ChunkId,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Register,
    Commit,
    Revoke,
    Delete,
}

fn one_place() -> ChunkPlaces {
    ChunkPlaces::new(&[BlockPlace::new(DeviceId(1), 0).expect("a place")]).expect("one")
}

fn numbered(number: u32) -> ChunkId {
    ChunkId { shard: ShardId(1), number: ChunkNumber(u64::from(number)), nonce: ChunkNonce(1) }
}

fn registered(number: u32) -> UnitAnswer {
    UnitAnswer::Registered { id: numbered(number), places: one_place() }
}

/// The manager elects a leader, which takes longer than a registration waits: the put was refused for good.
#[tokio::test(start_paused = true)]
async fn a_put_waits_for_space_that_has_been_asked_for() {
    let (env, asked) = (Env::simulated(1), Arc::default());
    let register = |turn| if turn < 3 { UnitAnswer::Refused(Refusal::NoPlacesYet) } else { registered(turn) };
    let cluster = unit_of_answers(&env, register, |_| UnitAnswer::Done, committed, asked);
    assert_eq!(client(&env, cluster).put(Bytes::from_static(b"content"), 1).await, Ok(numbered(3)));
}

/// It was put again under another id, and the first chunk stayed for ever: nobody knew its id.
#[tokio::test(start_paused = true)]
async fn a_chunk_whose_commit_nobody_answered_for_is_taken_back() {
    let (env, asked) = (Env::simulated(1), Arc::new(Mutex::new(Vec::new())));
    // What the unit says does not tell whether it was committed: it was.
    let commit = |turn| if turn < MAX_TRIES { UnitAnswer::Unknown } else { UnitAnswer::Done };
    let cluster = unit_of_answers(&env, registered, commit, committed, asked.clone());
    let client = client(&env, cluster);
    let id = client.put(Bytes::from_static(b"content"), 1).await.expect("it is stored");
    client.finish().await;
    assert_eq!(id, numbered(1));
    assert_eq!(deleted(&asked), [numbered(0)]);
}

/// The message was sent again: the first one had been taken, and the answer was that of the second.
#[tokio::test(start_paused = true)]
async fn a_chunk_is_taken_back_whose_commit_met_a_busy_unit_at_last() {
    let (env, asked) = (Env::simulated(1), Arc::new(Mutex::new(Vec::new())));
    let busy = UnitAnswer::Refused(Refusal::Busy);
    let commit = move |turn| [UnitAnswer::Unknown, busy, UnitAnswer::Done][(turn as usize).min(2)];
    // And goes on to be so for a while.
    let revoke = |turn| if turn < 3 { UnitAnswer::Refused(Refusal::Busy) } else { committed(turn) };
    let cluster = unit_of_answers(&env, registered, commit, revoke, asked.clone());
    let client = client(&env, cluster);
    let id = client.put(Bytes::from_static(b"content"), 1).await.expect("it is stored");
    client.finish().await;
    assert_eq!((id, deleted(&asked)), (numbered(1), vec![numbered(0)]));
}

fn deleted(asked: &Mutex<Vec<Asked>>) -> Vec<ChunkId> {
    asked.lock().iter().filter(|asked| asked.what == What::Delete).map(|asked| asked.id).collect()
}

/// What a unit says to who revokes a chunk that there is.
fn committed(_: u32) -> UnitAnswer {
    UnitAnswer::Refused(Refusal::NotPending)
}

fn client(env: &Env, cluster: Arc<Played>) -> ChunkClient {
    ChunkClient::new(env, Arc::new(cluster), Deliveries::new(env), "nowhere:1".to_owned())
}

/// "Not found" would tell whoever asks that it was deleted.
#[tokio::test(start_paused = true)]
async fn a_shard_that_was_given_a_number_and_is_not_known_is_lost_and_not_empty() {
    let env = Env::simulated(1);
    let map = ChunkMap { next_shard: 3, ..ChunkMap::default() };
    for (shard, is_fresh, expected) in [
        (2, true, ChunkError::ShardLost),
        (3, true, ChunkError::NotFound),
        (2, false, ChunkError::Unavailable),
        (3, false, ChunkError::Unavailable),
    ] {
        let nobody = Box::new(|_, _, _: &_| unreachable!("there are no nodes"));
        let mut cluster = Played::new(&env, map.clone(), nobody);
        cluster.is_fresh = is_fresh;
        let client = client(&env, Arc::new(cluster));
        let id = ChunkId { shard: ShardId(shard), number: ChunkNumber(0), nonce: ChunkNonce(1) };
        assert_eq!(client.get(id).await, Err(expected.clone()), "shard {shard}");
        assert_eq!(client.delete(id).await, Err(expected), "shard {shard}");
    }
}

/// A client that goes on for long meets hosts that are gone, and others that have taken their places.
#[tokio::test(start_paused = true)]
async fn lookup_hosts_that_are_silent_are_passed_by_and_others_are_heard_of() {
    const SILENT: NodeId = NodeId(1);
    let (env, shard) = (Env::simulated(1), ShardId(1));
    let forwarded = Box::new(|_, _, _: &_| encode(&HostAnswer::Forwarded));
    let played = Arc::new(Played::new(&env, map_of_nodes(4, &[], &[0, 1, 2]), forwarded));
    let ways = Ways::new(&env, Arc::new(played.clone()));
    let request = HostRequest::Locate(ChunkId::default());
    played.silence(SILENT);
    let began = env.now();
    for number in 0..30 {
        assert!(ways.route(shard, number, &request).await);
    }
    assert_eq!(env.now() - began, CLIENT_PATIENCE);
    assert_eq!(ways.silent_nodes(), [SILENT]);
    // Its node was removed.
    *played.truth.lock() = Arc::new(map_of_nodes(4, &[], &[0, 3, 2]));
    env.sleep(LOOK_AROUND_INTERVAL).await;
    ways.look_around().await;
    played.take_asked();
    for number in 0..30 {
        assert!(ways.route(shard, number, &request).await);
    }
    let asked = played.take_asked();
    assert_eq!([0, 1, 2, 3].map(|node| asked.iter().filter(|asked| **asked == NodeId(node)).count()), [10, 0, 10, 10]);
}

#[tokio::test(start_paused = true)]
async fn a_map_is_asked_for_seldom() {
    let env = Env::simulated(1);
    let played = Arc::new(Played::new(&env, map_of_nodes(2, &[], &[0]), Box::new(|_, _, _| unreachable!("nobody is asked"))));
    let ways = Ways::new(&env, Arc::new(played.clone()));
    let hosts = |ways: &Ways| ways.map().shards[0].hosts.clone();
    ways.look_around().await;
    *played.truth.lock() = Arc::new(map_of_nodes(2, &[], &[1]));
    ways.look_around().await;
    assert_eq!(hosts(&ways), [NodeId(0)]);
    env.sleep(LOOK_AROUND_INTERVAL).await;
    ways.look_around().await;
    assert_eq!(hosts(&ways), [NodeId(1)]);
}
