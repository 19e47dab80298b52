//! What a node with blocks says of its own accord.

use std::sync::Arc;
use std::time::Duration;

use device::limits::HANG_TIME;
use disk::{Fault, FaultRule, Operation};
use env::Instant;
use parking_lot::Mutex;
use types::{DeviceId, NodeId};

use super::support::Rig;
use crate::block_service::BlockService;
use crate::host_service::HostService;
use crate::limits::{CLOSED_REPORT_ROUNDS, NODE_SILENCE, REPORT_INTERVAL};
use crate::message::NodeAnswer;
use crate::played::{Played, map_of_nodes};
use crate::protocol::{ChunkMap, NodeReport, UnitAnswer, UnitRequest};
use crate::reach::Reach;
use crate::reporting::Reporting;
use crate::storage_node::tests::rig::{done, id, live, put};
use crate::wire::{decode, encode};

/// The node's only device, as its reports name it.
const DEVICE: DeviceId = DeviceId(1);

type Reports = Arc<Mutex<Vec<(Instant, NodeReport)>>>;

/// A node that reports; a look at the manager takes so long.
fn reports_of(rig: &Rig, map: ChunkMap, refresh_takes: Duration) -> Reports {
    let reports = Reports::default();
    let (noted, env) = (reports.clone(), rig.env.clone());
    let answer = move |_, _, payload: &_| {
        if let Ok(UnitRequest::Report(report)) = decode(payload) {
            noted.lock().push((env.now(), report));
        }
        encode(&UnitAnswer::Done)
    };
    let mut played = Played::new(&rig.env, map, Box::new(answer));
    played.refresh_takes = refresh_takes;
    let reach: Arc<dyn Reach> = Arc::new(Arc::new(played));
    let (env, contact) = (rig.env.clone(), Arc::default());
    let stores = [(DEVICE, rig.store.clone())].into();
    let blocks = Arc::new(BlockService::new(&env, reach.clone(), stores, Arc::clone(&contact)));
    let hosts = Arc::new(HostService::new(&env, reach.clone()));
    rig.env.spawn(Reporting { env, me: NodeId(1), reach, hosts, blocks, contact }.run());
    reports
}

/// What the last report says of devices that take no writes.
fn stuck(reports: &Reports) -> Vec<DeviceId> {
    reports.lock().last().expect("a report").1.stuck.clone()
}

/// The units went on without the manager, and took all nodes for dead: puts were refused, and lost copies done without.
#[tokio::test(start_paused = true)]
async fn nodes_report_while_the_manager_does_not_answer() {
    let rig = Rig::new(1).await;
    let began = rig.env.now();
    let reports = reports_of(&rig, map_of_nodes(2, &[0], &[0]), Duration::from_secs(10));
    rig.env.sleep(3 * NODE_SILENCE).await;
    let times: Vec<Instant> = reports.lock().iter().map(|(at, _)| *at).collect();
    let times = [vec![began], times, vec![rig.env.now()]].concat();
    let longest = times.windows(2).map(|pair| pair[1] - pair[0]).max().expect("two at least");
    assert!(longest < NODE_SILENCE / 2, "{longest:?} between two reports");
}

/// Puts waited for it, each until its client asked for other places, and got the same ones.
#[tokio::test(start_paused = true)]
async fn a_device_whose_disk_hangs_is_named_until_it_answers() {
    let rig = Rig::new(2).await;
    let reports = reports_of(&rig, map_of_nodes(2, &[0], &[0]), Duration::ZERO);
    assert_eq!(rig.ask(0, id(1), put(100, "before")).await, done(live(0)));
    rig.disk.hang();
    let store = rig.store.clone();
    let hanging = rig.env.spawn(async move { store.handle(0, id(2), put(100, "meanwhile")).await });
    rig.env.sleep(HANG_TIME - REPORT_INTERVAL).await;
    assert_eq!(stuck(&reports), [], "it is slow, for all that is known");
    rig.env.sleep(4 * REPORT_INTERVAL).await;
    assert_eq!(stuck(&reports), [DEVICE]);
    assert!(rig.disk.let_go() > 0);
    assert_eq!(hanging.await.expect("it ends"), done(live(0)));
    rig.env.sleep(2 * REPORT_INTERVAL).await;
    assert_eq!(stuck(&reports), []);
}

/// To closed shards, which are told of little, too.
#[tokio::test(start_paused = true)]
async fn a_device_with_a_failed_write_is_named_at_once_and_then_when_it_is_its_turn() {
    let rig = Rig::new(3).await;
    let mut map = map_of_nodes(2, &[0], &[0]);
    map.shards[0].is_open = false;
    let reports = reports_of(&rig, map, Duration::ZERO);
    let round = REPORT_INTERVAL * CLOSED_REPORT_ROUNDS;
    rig.env.sleep(round + REPORT_INTERVAL).await;
    assert_eq!(stuck(&reports), []);
    rig.disk.add_rule(FaultRule::next(Operation::Write, Fault::Fail));
    assert!(matches!(rig.ask(0, id(1), put(100, "content")).await, NodeAnswer::Refused(_)));
    let before = reports.lock().len();
    rig.env.sleep(3 * REPORT_INTERVAL).await;
    assert_eq!((stuck(&reports), reports.lock().len() - before), (vec![DEVICE], 1));
    rig.env.sleep(4 * round).await;
    assert_eq!((stuck(&reports), reports.lock().len() - before), (vec![DEVICE], 5), "it is news once");
}

/// A node was started again without a disk that had died. Caught: reports that name devices which are open alone: the dead one had the most free blocks, and came
/// first for every put.
#[tokio::test(start_paused = true)]
async fn a_device_that_could_not_be_opened_is_named() {
    let rig = Rig::new(4).await;
    let (mut map, absent) = (map_of_nodes(2, &[0], &[0]), DeviceId(7));
    map.devices.push((absent, NodeId(1)));
    let reports = reports_of(&rig, map, Duration::ZERO);
    rig.env.sleep(4 * REPORT_INTERVAL).await;
    assert_eq!(stuck(&reports), [absent]);
}
