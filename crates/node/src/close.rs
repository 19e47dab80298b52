//! The end of a node in order.
//!
//! A node that stops is a part of its cluster until its voice in the manager has ended. One that leads the manager grants all leases: it lets another lead
//! before it looks after its devices, which may take long, or for ever on a disk that hangs. So do its subsystems with what they lead.
//! Nothing here is waited for without an end.

use crate::CELL;
use crate::node::{Inner, Node};
use device::Device;
use env::Env;
use futures_util::future::{join_all, select_all};
use manager::overseer::LEAST_HOSTS;
use manager::{MemberRole, member_id};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use target::limits::CONTROL_DEADLINE;
use types::NodeId;

/// How long another node may take to lead in this one's place. After that it is elected, which takes as long again.
const HAND_OVER_PATIENCE: Duration = Duration::from_secs(1);
/// How long the node's part of the manager may take to end. Its tasks have been told to by then.
const MEMBER_PATIENCE: Duration = Duration::from_secs(5);
/// How long the cell may take to write to the devices of other nodes only. After that this node is missed, which takes about as long.
const TABLE_PATIENCE: Duration = Duration::from_secs(2);
/// How long the last copy of the manager's state may take. The one before is at most a second old.
const NOTES_PATIENCE: Duration = Duration::from_secs(2);
/// Nothing is written to a device any more if nothing was for so long.
const QUIET: Duration = Duration::from_millis(300);
/// How often it is looked at whether this node leads no more, and whether its devices are written to.
const LOOK: Duration = Duration::from_millis(50);

impl Node {
    /// Ends the node's part in its cluster in order: it leaves the cell, its devices the table, it lets other nodes lead the manager and what its subsystems lead, falls silent, and
    /// seals its devices.
    pub async fn close(self: Arc<Node>, devices: &[Arc<Device>]) {
        let env = self.inner.env.clone();
        self.write_down().await;
        self.leave().await;
        self.inner.leave_table().await;
        self.inner.hand_over_lead().await;
        join_all(self.inner.subsystems.iter().map(|subsystem| subsystem.hand_over())).await;
        self.fall_silent().await;
        let (subsystems, notes) = (self.inner.subsystems.clone(), self.inner.notes.clone());
        // With it what writes to its devices.
        drop(self);
        let close = async |device: &Device| {
            join_all(subsystems.iter().map(|subsystem| subsystem.close_device(device.id()))).await;
        };
        join_all(devices.iter().map(|device| in_time(&env, device, close(device)))).await;
        join_all(devices.iter().map(|device| seal(&env, device))).await;
        tokio::select! {
            biased;
            () = notes.write() => {}
            () = env.sleep(NOTES_PATIENCE) => tracing::warn!("the manager's state was not copied to the devices in time"),
        }
    }

    /// A sole gateway writes a last checkpoint, so that the next start has little to walk. Other nodes would have the maps of a gateway that leaves
    /// them.
    async fn write_down(&self) {
        let Some(store) = self.store().filter(|_| self.inner.is_sole) else { return };
        let devices = self.inner.targets.iter().map(|target| target.device());
        let hangs = select_all_or_never(devices.map(|device| Box::pin(device.hung())));
        tokio::select! {
            biased;
            () = store.close() => {}
            () = hangs => tracing::warn!("a disk hangs: the next start walks the logs"),
        }
    }

    /// From here on nobody hears of this node.
    async fn fall_silent(&self) {
        self.tasks.lock().clear();
        tokio::select! {
            biased;
            () = self.shut_down() => {}
            () = self.inner.env.sleep(MEMBER_PATIENCE) => tracing::warn!("this node's part of the manager does not end in time"),
        }
    }
}

impl Inner {
    /// Waits until nothing is written to this node's devices: it has said that it leaves, and serves them meanwhile. Others have the new table a moment later than this
    /// node, and writes under way that began under the one before.
    async fn leave_table(&self) {
        if !self.can_be_spared() {
            return;
        }
        let until = self.env.now() + TABLE_PATIENCE;
        let appends = || self.targets.iter().map(|target| target.device().stats().appends.get()).sum::<u64>();
        let (mut before, mut quiet_since) = (appends(), self.env.now());
        while self.env.now() < until && self.env.now() - quiet_since < QUIET {
            self.env.sleep(LOOK).await;
            let now = appends();
            if now != before || self.can_be_spared() {
                (before, quiet_since) = (now, self.env.now());
            }
        }
    }

    /// Whether devices of this node are written to, and there are enough others, so that it need not be.
    fn can_be_spared(&self) -> bool {
        let state = self.manager.snapshot();
        let table = state.cell(CELL).and_then(|cell| cell.installed.as_ref()).map(|installed| &installed.table);
        let devices = table.into_iter().flat_map(|table| table.devices().iter().copied());
        let nodes: BTreeSet<NodeId> = devices.filter_map(|device| state.device(device)?.node).collect();
        nodes.contains(&self.id) && nodes.len() > LEAST_HOSTS
    }

    /// Lets another node lead the manager, if this one does: others would take it for the leader until it falls silent, and for an election after that.
    async fn hand_over_lead(&self) {
        if !self.manager.is_leader() {
            return;
        }
        let silent = self.vitals.get().silent_nodes;
        let state = self.manager.snapshot();
        let silent: BTreeSet<_> =
            state.nodes().filter(|node| silent.contains(&node.id)).map(|node| member_id(node.identity)).collect();
        let Some(replication) = self.manager.replication() else { return };
        let voters = replication.members.iter().filter(|member| member.role == MemberRole::Voter);
        let mut others = voters.map(|member| member.node).filter(|node| *node != replication.node && !silent.contains(node));
        let Some(next) = others.next() else { return };
        let leads_no_more = async {
            if let Err(error) = self.manager.transfer_leader(next).await {
                tracing::info!(%error, "the manager's lead was not handed over");
                return;
            }
            while self.manager.is_leader() {
                self.env.sleep(LOOK).await;
            }
            env::mark("node: the manager's lead was handed over");
        };
        tokio::select! {
            biased;
            () = leads_no_more => {}
            () = self.env.sleep(HAND_OVER_PATIENCE) => tracing::info!("no other node has taken the manager's lead yet"),
        }
    }
}

/// The end of the first of these; never, if there are none.
async fn select_all_or_never<F: Future<Output = ()> + Unpin>(works: impl Iterator<Item = F>) {
    let works: Vec<F> = works.collect();
    match works.is_empty() {
        true => std::future::pending().await,
        false => drop(select_all(works).await),
    }
}

/// A sealed log makes the next start quick, and is no more than that.
async fn seal(env: &Env, device: &Arc<Device>) {
    let failure = match in_time(env, device, device.seal()).await {
        Some(Ok(())) => return,
        Some(Err(error)) => error.to_string(),
        None => "its disk does not answer".to_owned(),
    };
    tracing::warn!(device = device.id().0, failure, "the device could not be sealed; the next start walks its log");
}

/// None if the disk under the device hangs, or the work takes too long.
async fn in_time<T>(env: &Env, device: &Device, work: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        done = work => Some(done),
        () = device.hung() => None,
        () = env.sleep(CONTROL_DEADLINE) => None,
    }
}
