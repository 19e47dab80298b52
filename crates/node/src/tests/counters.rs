//! What a small PUT and a GET cost in a cell of three, counted: appends, device reads, messages between gateways, and what of it the manager
//! notices.

use super::cluster::Cluster;
use super::service::{get, put, simulate};
use engine::Condition;
use std::time::Duration;

/// Fewer than what makes a checkpoint, and what a zone holds.
const WRITES: u64 = 40;
/// Longer than anything that follows an acknowledgement, and than several heartbeats.
const SETTLING: Duration = Duration::from_secs(2);

/// What all nodes together have counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    appends: u64,
    /// Requests that write to the devices, those of them that are to be durable, and flushes.
    device_writes: u64,
    durable_device_writes: u64,
    device_flushes: u64,
    device_reads: u64,
    activations: u64,
    /// Requests to the disks of the manager's log.
    log_writes: u64,
    log_flushes: u64,
    proposals: u64,
    freshenings: u64,
    commands: u64,
    peer_items: u64,
    peer_batches: u64,
    slow_reads: u64,
}

impl Counts {
    fn of(cluster: &Cluster) -> Counts {
        let mut counts = Counts::default();
        for machine in &cluster.machines {
            let node = machine.node.as_ref().expect("all nodes run");
            let (data, log) = machine.disk_stats();
            let device = machine.device_stats();
            let store = node.store().expect("all nodes serve");
            counts.appends += device.appends.get();
            counts.activations += device.activations.get();
            counts.device_reads += device.reads.get();
            counts.device_writes += data.writes;
            counts.durable_device_writes += data.durable_writes;
            counts.device_flushes += data.flushes;
            counts.log_writes += log.writes;
            counts.log_flushes += log.flushes;
            let (proposals, freshenings) = node.manager().asked();
            counts.proposals += proposals;
            counts.freshenings += freshenings;
            counts.commands += node.manager().snapshot().applied().0;
            counts.peer_items += store.stats().peer_items.get();
            counts.peer_batches += store.stats().peer_batches.get();
            counts.slow_reads += store.stats().slow_reads.get();
        }
        counts
    }

    fn since(self, before: Counts) -> Counts {
        Counts {
            appends: self.appends - before.appends,
            device_writes: self.device_writes - before.device_writes,
            durable_device_writes: self.durable_device_writes - before.durable_device_writes,
            device_flushes: self.device_flushes - before.device_flushes,
            device_reads: self.device_reads - before.device_reads,
            activations: self.activations - before.activations,
            log_writes: self.log_writes - before.log_writes,
            log_flushes: self.log_flushes - before.log_flushes,
            proposals: self.proposals - before.proposals,
            freshenings: self.freshenings - before.freshenings,
            commands: self.commands - before.commands,
            peer_items: self.peer_items - before.peer_items,
            peer_batches: self.peer_batches - before.peer_batches,
            slow_reads: self.slow_reads - before.slow_reads,
        }
    }
}

/// A cluster in which every device has an open zone, and nothing is under way.
async fn settled(seed: u64) -> Cluster {
    let cluster = Cluster::start(seed).await;
    let engines = cluster.engines();
    put(&*engines[0], "first", 0, Condition::None).await.unwrap();
    tokio::time::sleep(SETTLING).await;
    cluster
}

#[test]
fn a_small_put_is_one_append_at_each_replica_and_nothing_else_is_written() {
    simulate(async {
        let cluster = settled(31).await;
        let engines = cluster.engines();
        let before = Counts::of(&cluster);
        for index in 0..WRITES {
            put(&*engines[index as usize % 3], &format!("key-{index}"), index, Condition::None).await.unwrap();
        }
        tokio::time::sleep(SETTLING).await;
        let spent = Counts::of(&cluster).since(before);
        assert_eq!(spent.activations, 0, "the open zones have room: nothing else writes to a device");
        assert_eq!(spent.appends, 3 * WRITES, "{spent:?}");
        assert_eq!((spent.device_writes, spent.durable_device_writes), (3 * WRITES, 3 * WRITES), "{spent:?}");
        assert_eq!(spent.device_flushes, 0, "{spent:?}");
        assert_eq!((spent.log_writes, spent.log_flushes), (0, 0), "the manager's log is idle: {spent:?}");
        assert_eq!((spent.proposals, spent.freshenings, spent.commands), (0, 0, 0), "the manager is idle: {spent:?}");
    });
}

#[test]
fn a_get_of_a_stable_key_is_at_most_one_device_read_and_no_message() {
    simulate(async {
        let cluster = settled(32).await;
        let engines = cluster.engines();
        for index in 0..WRITES {
            put(&*engines[index as usize % 3], &format!("key-{index}"), index, Condition::None).await.unwrap();
        }
        tokio::time::sleep(SETTLING).await;
        let before = Counts::of(&cluster);
        let mut reads = 0;
        for engine in &engines {
            for index in 0..WRITES {
                assert_eq!(get(&**engine, &format!("key-{index}")).await.unwrap(), Some(index));
                reads += 1;
            }
            assert_eq!(get(&**engine, "absent").await.unwrap(), None);
        }
        tokio::time::sleep(SETTLING).await;
        let spent = Counts::of(&cluster).since(before);
        assert_eq!(spent.device_reads, reads, "one for each that is there: {spent:?}");
        let rest = Counts { device_reads: 0, ..spent };
        assert_eq!(rest, Counts::default(), "a GET writes nothing, asks no gateway and not the manager");
    });
}

#[test]
fn a_get_of_a_key_in_flight_is_what_sends_messages() {
    simulate(async {
        let cluster = settled(33).await;
        let engines = cluster.engines();
        put(&*engines[0], "key", 0, Condition::None).await.unwrap();
        tokio::time::sleep(SETTLING).await;
        let before = Counts::of(&cluster);
        for round in 1..=WRITES {
            let writer = engines[0].clone();
            let writing = cluster.env.spawn(async move { put(&*writer, "key", round, Condition::None).await });
            while !writing.is_finished() {
                get(&*engines[1], "key").await.unwrap();
                tokio::time::sleep(Duration::from_micros(50)).await;
            }
            writing.await.unwrap().unwrap();
        }
        let spent = Counts::of(&cluster).since(before);
        // Or the two tests above would prove nothing.
        assert!(spent.slow_reads > 0 && spent.peer_items > WRITES * 4, "{spent:?}");
        assert_eq!((spent.proposals, spent.freshenings), (0, 0), "the manager is idle: {spent:?}");
    });
}
