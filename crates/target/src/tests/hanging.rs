//! A target of this process whose disk hangs: a writer of a cell waits for nothing without an end, and one that is alone waits.

use std::sync::Arc;
use std::time::Duration;

use device::AppendClass;
use disk::{Disk, FaultOdds, SimDisk};
use env::Env;
use net::{Network, RemoteCaller, SimulatedNetwork};
use types::{Activation, DeviceId, ErrorKind, Token, ZoneIndex};

use super::remote::{ADDRESS, CLUSTER, append, writer};
use super::{GATEWAY, fresh, fresh_as, open_as};
use crate::limits::{CALL_DEADLINE, READ_DEADLINE, WALK_DEADLINE};
use crate::{Begin, FenceKey, LocalTarget, LogTarget, ReadFailure, RemoteTarget, TargetService, WalkRange, Writer};

const MEMBER: Writer = Writer { key: GATEWAY, token: Token(1) };
const MOMENT: Duration = Duration::from_secs(1);

/// A target with a frame, whose disk hangs, held by this writer. The disk owes an answer.
async fn hung(writer: Writer) -> (SimDisk, LocalTarget, ZoneIndex, Activation) {
    let env = Env::simulated(1);
    let (disk, target) = fresh(&env).await;
    let target = match writer == Writer::ALONE {
        true => LocalTarget::alone(target.device().clone(), &env),
        false => LocalTarget::new(Arc::new(target), writer),
    };
    let zone = append(&target, AppendClass::Data, 1, 100).await.expect("appends").place.zone;
    target.finish_open_zones().await.expect("finishes");
    append(&target, AppendClass::Meta, 2, 100).await.expect("appends");
    disk.set_odds(FaultOdds { cache_miss: 1_000_000, ..FaultOdds::default() });
    let activation = target.zones()[zone.0 as usize].activation;
    disk.hang();
    (disk, target, zone, activation)
}

#[tokio::test(start_paused = true)]
async fn a_member_of_a_cell_does_not_wait_for_ever() {
    let (disk, target, zone, activation) = hung(MEMBER).await;
    assert!(target.is_writable(), "nobody has asked the disk yet");
    let ending = async {
        let mut walk = target.walk(WalkRange::Zone(zone), false);
        walk.next().await.expect_err("the disk hangs").kind
    };
    assert_eq!(tokio::time::timeout(WALK_DEADLINE + MOMENT, ending).await.expect("a walk ends"), ErrorKind::Unavailable);
    assert!(!target.is_writable(), "its disk hangs");
    for call in [target.reset(zone, activation), target.finish_open_zones(), target.settle()] {
        let ended = tokio::time::timeout(CALL_DEADLINE + MOMENT, call).await.expect("a call ends");
        assert_eq!(ended.expect_err("the disk hangs").kind, ErrorKind::Unavailable);
    }
    target.finish_reserved_zone().await.expect("there is none");
    disk.let_go();
    // What was begun has gone on.
    tokio::time::timeout(MOMENT, target.settle()).await.expect("nothing is under way").expect("settles");
    assert!(target.is_writable());
    assert_eq!(target.zones()[zone.0 as usize].state, Some(device::ZoneState::Free), "the reset is through");
}

/// A founding raised those of all nodes that ever were one after the other, each with a write of its own.
#[tokio::test(start_paused = true)]
async fn fences_that_wait_together_are_durable_together() {
    let env = Env::simulated(2);
    let (disk, target) = fresh(&env).await;
    let target = Arc::new(target);
    let fence = |scope: u64| FenceKey { scope, ..GATEWAY };
    let before = disk.stats().durable_writes;
    disk.hang();
    let raise = |scope| {
        let target = target.clone();
        env.spawn(async move { target.raise_fence(fence(scope), Token(7)).await })
    };
    let raising: Vec<_> = (0..100).map(raise).collect();
    env.sleep(MOMENT).await;
    assert!(raising.iter().all(|raise| !raise.is_finished()), "none is durable");
    disk.let_go();
    for raise in raising {
        raise.await.expect("ends").expect("raises");
    }
    assert_eq!(disk.stats().durable_writes - before, 2, "that of the first, and one for all others");
    // Whoever comes later does not rely on what others have written before.
    target.raise_fence(fence(0), Token(7)).await.expect("raises");
    assert_eq!(disk.stats().durable_writes - before, 3);
    drop(target);
    let target = open_as(&disk.restart(), &env, Begin::WithFences).await;
    assert!((0..100).all(|scope| target.fence(fence(scope)) == Some(Token(7))));
}

#[tokio::test(start_paused = true)]
async fn who_is_alone_waits() {
    let (disk, target, zone, activation) = hung(Writer::ALONE).await;
    let patience = WALK_DEADLINE * 10;
    {
        let mut walk = target.walk(WalkRange::Zone(zone), false);
        assert!(tokio::time::timeout(patience, walk.next()).await.is_err(), "nobody else could answer");
    }
    assert!(target.is_writable(), "nor take its place");
    let resetting = target.reset(zone, activation);
    let letting_go = async {
        tokio::time::sleep(patience).await;
        disk.let_go()
    };
    let (reset, held) = tokio::join!(resetting, letting_go);
    assert!(reset.is_ok() && held > 0, "{reset:?}, {held}");
}

/// Reads of a disk that hangs held every call of the connection to its node, and appends to the disks beside it were not sent in time.
#[tokio::test(start_paused = true)]
async fn reads_of_a_disk_that_hangs_leave_the_connection_to_the_disks_beside_it() {
    let env = Env::simulated(3);
    let ((disk, hung), (_, healthy)) = (fresh_as(&env, DeviceId(1)).await, fresh_as(&env, DeviceId(2)).await);
    let network = SimulatedNetwork::new(&env);
    let service = TargetService::new(&env, vec![Arc::new(hung), Arc::new(healthy)]);
    let listener = network.listen(ADDRESS).await.expect("listens");
    env.spawn(net::serve(env.clone(), listener, Arc::new(service), CLUSTER));
    let caller = Arc::new(RemoteCaller::new(&env, Arc::new(network), ADDRESS, CLUSTER));
    let connect = async |device| RemoteTarget::connect(&env, caller.clone(), device, writer(1)).await.expect("connects");
    let (hung, healthy) = (Arc::new(connect(DeviceId(1)).await), connect(DeviceId(2)).await);
    let place = append(&*hung, AppendClass::Data, 1, 100).await.expect("appends").place;
    disk.set_odds(FaultOdds { cache_miss: 1_000_000, ..FaultOdds::default() });
    disk.hang();
    let begun = env.now();
    let read = |_| {
        let (hung, env) = (hung.clone(), env.clone());
        env.spawn(async move { hung.read(place, 200).await })
    };
    let reads: Vec<_> = (0..300).map(read).collect();
    env.sleep(MOMENT / 10).await;
    let appended = tokio::time::timeout(MOMENT, append(&healthy, AppendClass::Data, 2, 100)).await;
    appended.expect("waits for no read").expect("appends");
    for read in reads {
        let failure = read.await.expect("ends").expect_err("the disk hangs");
        assert!(matches!(failure, ReadFailure::Unavailable(_)), "{failure:?}");
    }
    assert!(env.now() - begun < READ_DEADLINE + MOMENT, "those without a turn fail with the others");
    disk.let_go();
    hung.read(place, 200).await.expect("turns were given back");
}
