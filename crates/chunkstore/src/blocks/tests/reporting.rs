//! What a node with blocks says of its own accord.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use types::{DeviceId, NodeId};

use super::support::Rig;
use crate::block_service::BlockService;
use crate::host_service::HostService;
use crate::limits::NODE_SILENCE;
use crate::played::{Played, map_of_nodes};
use crate::protocol::{UnitAnswer, UnitRequest};
use crate::reach::Reach;
use crate::reporting::Reporting;
use crate::wire::{decode, encode};

/// The units went on without the manager, and took all nodes for dead: puts were refused, and lost copies done without.
#[tokio::test(start_paused = true)]
async fn nodes_report_while_the_manager_does_not_answer() {
    let rig = Rig::new(1).await;
    let reports = Arc::new(Mutex::new(Vec::new()));
    let (noted, env) = (reports.clone(), rig.env.clone());
    let answer = move |_, _, payload: &_| {
        if let Ok(UnitRequest::Report(_)) = decode(payload) {
            noted.lock().push(env.now());
        }
        encode(&UnitAnswer::Done)
    };
    let mut played = Played::new(&rig.env, map_of_nodes(2, &[0], &[0]), Box::new(answer));
    played.refresh_takes = Duration::from_secs(10);
    let reach: Arc<dyn Reach> = Arc::new(Arc::new(played));
    let (env, contact) = (rig.env.clone(), Arc::default());
    let stores = [(DeviceId(1), rig.store.clone())].into();
    let blocks = Arc::new(BlockService::new(&env, reach.clone(), stores, Arc::clone(&contact)));
    let hosts = Arc::new(HostService::new(&env, reach.clone()));
    let began = env.now();
    env.spawn(Reporting { env: env.clone(), me: NodeId(1), reach, hosts, blocks, contact }.run());
    env.sleep(3 * NODE_SILENCE).await;
    let times = [vec![began], reports.lock().clone(), vec![env.now()]].concat();
    let longest = times.windows(2).map(|pair| pair[1] - pair[0]).max().expect("two at least");
    assert!(longest < NODE_SILENCE / 2, "{longest:?} between two reports");
}
