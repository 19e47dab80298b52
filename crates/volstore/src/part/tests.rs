//! What is left of a node when its runtime has ended.

use std::sync::{Arc, Weak};
use std::time::Duration;

use device::{Device, DeviceConfig};
use disk::{CompletionOrder, Disk, SimDisk, SimOptions};
use env::Env;
use manager::{BucketEngine, EtagMode, Manager, NewBucket};

use super::{Objects, test_node};
use crate::members::{Group, Members};
use crate::store::test_support::{OWNER, bytes, format_options, put};

/// The log takes 80 of them, each group some.
const ZONES: u64 = 320;

type Left = (Weak<Members>, Vec<Weak<Group>>, Weak<dyn Disk>);

#[test]
fn a_node_whose_tasks_have_ended_lets_its_devices_go() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let (members, groups, disk): Left = runtime.block_on(async {
        let env = Env::real_with_cores(1);
        let disk = SimDisk::new(&env, SimOptions::default());
        Device::format(&disk, &env, &format_options(1, ZONES)).await.expect("formats");
        let config = DeviceConfig { prewrite_zones: 0, ..DeviceConfig::default() };
        let sim = disk.clone();
        let disk: Arc<dyn Disk> = Arc::new(disk);
        let device = Device::open(disk.clone(), &env, config).await.expect("the device opens");
        let manager = Arc::new(Manager::open_in_memory(&env).await.expect("a manager in memory"));
        let node = manager.register_node(test_node(1)).await.expect("registers").id;
        let (name, owner) = ("box".to_owned(), "alice".to_owned());
        let bucket = NewBucket { name, owner, engine: BucketEngine::Volume, etag: EtagMode::Md5 };
        manager.create_bucket(bucket).await.expect("a bucket is made");
        let objects = Objects::serve_alone(&env, manager, node, vec![device.volume(OWNER)]);
        let engine = crate::gateway::Gateway::new(objects.place().clone(), false);
        for name in 0..20 {
            put(&engine, &format!("{name}"), bytes(name, 5000)).await.expect("puts");
        }
        // These are under way at the end.
        sim.set_order(CompletionOrder::Timed(Duration::from_secs(9)));
        for name in 20..40 {
            let engine = engine.clone();
            drop(env.spawn(async move { put(&engine, &format!("{name}"), bytes(name, 5000)).await }));
        }
        env.sleep(Duration::from_millis(50)).await;
        let members = objects.place().members().expect("it is a member").clone();
        (Arc::downgrade(&members), members.groups().iter().map(Arc::downgrade).collect(), Arc::downgrade(&disk))
    });
    drop(runtime);
    let held: Vec<usize> = groups.iter().map(Weak::strong_count).collect();
    assert_eq!((members.strong_count(), held.iter().sum::<usize>()), (0, 0), "groups are held by {held:?}");
    assert_eq!(disk.strong_count(), 0, "the disk is held");
}
