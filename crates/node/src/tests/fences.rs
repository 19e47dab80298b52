//! Fences that nodes load for their devices.

use super::cluster::Cluster;
use super::service::{put, simulate};
use engine::Condition;
use std::time::Duration;

/// A device without all fences does not come back into the cell: were a failed one waited for, those beside it never would.
#[test]
fn a_failed_device_does_not_keep_fences_from_the_others() {
    simulate(async {
        let mut cluster = Cluster::start(5).await;
        let node = cluster.machines[2].node.clone().unwrap();
        cluster.machines[2].fail_device();
        put(&*cluster.engines()[0], "key", 1, Condition::None).await.unwrap();
        cluster.kill(1, false).await;
        let begin = cluster.env.now();
        loop {
            let state = node.manager().snapshot();
            let cell = state.cell(crate::CELL).unwrap();
            if cell.view_members().len() == 2 && node.status().fences == cell.view_number() {
                break;
            }
            assert!(cluster.env.now() - begin < Duration::from_secs(60), "{:?} of {cell:?}", node.status());
            cluster.env.sleep(Duration::from_millis(100)).await;
        }
    });
}
