//! What a recovery leaves behind, for those who come after it.

use super::super::gate::Rule;
use super::{A_WHILE, CellRig, all_read, devices_of, get, put, put_if, removing};
use crate::LogStore;
use crate::index::Located;
use crate::relocate::Recopy;
use crate::tests::support::{key, simulate};
use engine::Condition;
use std::sync::Arc;
use tokio::task::JoinHandle;
use types::{DeviceId, KeyHash};

/// Names whose copies go to the devices in several orders.
const NAMES: [&str; 16] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p"];

fn newest(store: &LogStore, hash: &KeyHash) -> Located {
    store.inner.shard(hash).lock().index().newest(hash).expect("it is known")
}

/// Where the copies of an object stand.
fn stands_on(store: &LogStore, name: &str) -> Vec<DeviceId> {
    let known = newest(store, &LogStore::object_hash(&key(name)));
    known.places.as_slice().iter().map(|place| place.device).collect()
}

/// A name whose second copy a walk finds after its third.
fn with_its_second_copy_last(store: &LogStore) -> &'static str {
    let is_so = |name: &&str| matches!(devices_of(store, name)[..], [_, second, third] if second > third);
    NAMES.into_iter().find(is_so).expect("one of so many")
}

/// The recovery of the third gateway waits for its own checkpoint, which waits for a write of the leader's.
async fn recovering_without_its_checkpoint(rig: &Arc<CellRig>, leader: &LogStore) -> JoinHandle<()> {
    leader.inner.background.stop().await;
    let last = *devices_of(leader, "other").last().expect("it has devices");
    rig.gates.set(leader, last, Some(Rule::Mute));
    drop(rig.env.spawn(put_if(leader.clone(), "other", "under way", Condition::None)));
    rig.env.sleep(A_WHILE).await;
    rig.gates.set(leader, last, None);
    let removal = removing(rig, &[2]);
    rig.env.sleep(A_WHILE).await;
    assert!(leader.inner.checkpoints.try_lock().is_err(), "the checkpoint waits for the write");
    removal
}

/// A recovery makes missing copies, and everything dies before its checkpoint. Caught: copies that are numbered by how many there are. The third
/// device's had the number of the second's then, and who founded the cell anew named two copies on one device.
#[test]
fn a_recovered_write_stands_on_as_many_devices_after_everything_has_died() {
    simulate(async {
        for (has_third_landed, table) in [(true, &[1u32, 2, 3][..]), (false, &[])] {
            let rig = Arc::new(CellRig::new(201, 3).await);
            let [leader, _, removed] = &rig.gateways()[..] else { panic!("three gateways") };
            let name = with_its_second_copy_last(removed);
            let devices = devices_of(removed, name);
            rig.gates.set(removed, devices[1], Some(Rule::Hold));
            rig.gates.set(removed, devices[2], Some(if has_third_landed { Rule::Mute } else { Rule::Hold }));
            let write = rig.env.spawn(put_if(removed.clone(), name, "new", Condition::None));
            rig.env.sleep(A_WHILE).await;
            assert!(!write.is_finished());
            rig.kill(removed);
            match table {
                // The second device has left the table.
                [] => rig.change_table(&[devices[0].0, devices[2].0]),
                all => rig.change_table(all),
            }
            let removal = recovering_without_its_checkpoint(&rig, leader).await;
            assert_eq!(get(leader, name).await.as_deref(), Some("new"));
            removal.abort();
            let founder = rig.restart_all().await;
            assert_eq!(stands_on(&founder, name), devices, "third landed: {has_third_landed}");
            assert_eq!(get(&founder, name).await.as_deref(), Some("new"));
        }
    });
}

/// Logs of former versions may have two copies of a record on one device, with two numbers. Caught: places that name both.
#[test]
fn of_two_copies_on_one_device_one_counts() {
    simulate(async {
        let rig = CellRig::new(202, 1).await;
        let store = rig.gateways().remove(0);
        let name = with_its_second_copy_last(&store);
        put(&store, name, "content").await.unwrap();
        let known = newest(&store, &LogStore::object_hash(&key(name)));
        let frame = store.inner.read_copies(&known).await.unwrap().expect("it stands");
        let device = devices_of(&store, name)[1];
        let (record, payload, order) = (frame.record, frame.payload, Some(known.order));
        store.inner.recopy(Recopy { record, payload, order, replica: 2, device, moved: false }).await.unwrap();
        drop(store);
        let founder = rig.restart_all().await;
        let mut devices = stands_on(&founder, name);
        devices.sort_unstable();
        devices.dedup();
        assert_eq!(devices.len(), newest(&founder, &LogStore::object_hash(&key(name))).places.len(), "no device twice");
        rig.env.sleep(30 * A_WHILE).await;
        assert_eq!(stands_on(&founder, name).len(), 3, "what it lacked was made again");
        all_read(&rig, name, Some("content")).await;
    });
}
