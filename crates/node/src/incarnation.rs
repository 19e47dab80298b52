//! One incarnation of the node's gateway: from its registration until it leaves the cell's view.
//!
//! ```text
//!   register ─► learner ──► a view with it ──► found │ join ──► serves ──► newer views: install; as leader: recover
//!                                                                  └─► to be removed, or forgotten: depose, register anew
//! ```

use crate::CELL;
use crate::directory::Gateways;
use crate::fences::{fences_of, writer};
use crate::manifests::CellManifests;
use crate::node::Inner;
use logstore::{CellView, LogStore, LogStoreConfig, MemberSetup, devices_to_wait_for};
use manager::{CellRecord, InstalledView, Registered};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use target::Writer;
use tokio::task::JoinHandle;
use topology::{ReplicaTable, WRITES_AFTER_LEASE_MS};
use types::{DeviceId, GatewayId, ViewNumber};

/// Pause between two incarnations, and before the manager is asked again.
const PAUSE: Duration = Duration::from_millis(300);
/// Pause before a recovery that failed under its view begins again.
const RECOVERY_PAUSE: Duration = Duration::from_millis(100);

/// Pause before a recovery looks again whether devices are back that it waits for.
const AWAITED_PAUSE: Duration = Duration::from_secs(2);
/// How often a founder that serves alone looks whether the devices that it missed are back, or what it decided is written down.
const AWAITED_LOOK: Duration = Duration::from_millis(500);

/// How long a founder waits for writes to end that it can't fence: the leases of all whose they may be had ended when the manager had the cell founded. A hundredth
/// more is more than clocks drift.
const WRITES_END: Duration = Duration::from_millis(WRITES_AFTER_LEASE_MS + WRITES_AFTER_LEASE_MS / 100);

/// What an incarnation is doing.
struct Life {
    registered: Registered,
    store: Option<LogStore>,
    /// Founded the cell without room to write down what it decided.
    is_unsettled: bool,
    installed: ViewNumber,
    /// Gets the maps of the cell.
    joining: Option<JoinHandle<bool>>,
    recovery: Option<(ViewNumber, JoinHandle<()>)>,
}

impl Drop for Life {
    fn drop(&mut self) {
        if let Some(store) = &self.store {
            store.depose();
        }
        self.joining.iter().for_each(JoinHandle::abort);
        self.recovery.iter().for_each(|(_, recovery)| recovery.abort());
    }
}

impl Inner {
    /// Runs one incarnation after the other, until the node leaves.
    pub(crate) async fn live(self: Arc<Self>) {
        while !self.is_leaving.load(Ordering::SeqCst) {
            match self.manager.register_gateway(CELL, self.id).await {
                Ok(registered) if self.is_leaving.load(Ordering::SeqCst) => {
                    // Who leaves did not know of it yet.
                    if let Err(error) = self.manager.leave_cell(CELL, registered.gateway).await {
                        tracing::warn!(%error, "the manager was not told that this gateway leaves");
                    }
                    return;
                }
                Ok(registered) => {
                    self.vitals.change(|present| {
                        (present.registered, present.store, present.founding_done) = (Some(registered), None, false);
                        present.lease = None;
                        // What the one before had no hold on keeps this one from joining no more.
                        present.unreachable_devices.clear();
                    });
                    let reason = self.live_once(registered).await;
                    tracing::info!(gateway = registered.gateway.0, reason, "this gateway is in the cell's view no more");
                    self.engine.clear();
                    self.vitals.change(|present| (present.registered, present.store) = (None, None));
                }
                Err(error) => tracing::warn!(%error, "the gateway can't be registered yet"),
            }
            self.env.sleep(PAUSE).await;
        }
    }

    async fn live_once(self: &Arc<Self>, registered: Registered) -> String {
        let mut life =
            Life { registered, store: None, is_unsettled: false, installed: ViewNumber(0), joining: None, recovery: None };
        let mut changes = self.manager.changes();
        loop {
            drop(changes.borrow_and_update());
            if let Err(reason) = self.follow(&mut life).await {
                return reason;
            }
            tokio::select! {
                biased;
                changed = changes.changed() => if changed.is_err() { return "the manager ended".to_owned() },
                joined = finished(&mut life.joining) => {
                    life.joining = None;
                    match (joined, &life.store) {
                        (true, Some(store)) => {
                            self.engine.set(store.clone());
                            self.vitals.news.notify_one();
                        }
                        _ => return "its cell's maps could not be read".to_owned(),
                    }
                }
                () = self.missing_are_back(life.store.as_ref()) => {
                    return "devices are back that the founding missed: everything is decided anew".to_owned();
                }
                () = self.is_written_down(life.store.as_ref().filter(|_| life.is_unsettled)) => {
                    env::mark("node: a founding that had no room is written down");
                    life.is_unsettled = false;
                    self.vitals.change(|present| present.founding_done = true);
                    self.vitals.news.notify_one();
                }
            }
        }
    }

    /// Returns when this gateway has founded its cell without devices that it can't decide everything without, and all of these have come
    /// back or were declared gone for good.
    async fn missing_are_back(&self, store: Option<&LogStore>) {
        let awaited = store.map(LogStore::waits_for).unwrap_or_default();
        let Some(store) = store.filter(|_| !awaited.is_empty()) else { return std::future::pending().await };
        loop {
            self.env.sleep(AWAITED_LOOK).await;
            let known = self.cell_devices();
            if awaited.iter().all(|device| store.has_target(*device) || !known.contains(device)) {
                return;
            }
        }
    }

    /// Returns when a checkpoint has what this founder decided.
    async fn is_written_down(&self, unsettled: Option<&LogStore>) {
        let Some(store) = unsettled else { return std::future::pending().await };
        while !store.has_settled() {
            self.env.sleep(AWAITED_LOOK).await;
        }
    }

    /// Does what the cell's record asks of this incarnation; an error ends it.
    async fn follow(self: &Arc<Self>, life: &mut Life) -> Result<(), String> {
        let me = life.registered.gateway;
        let Some(cell) = self.manager.snapshot().cell(CELL).cloned() else { return Ok(()) };
        if !cell.members.contains_key(&me) {
            return Err("it is not registered any more".to_owned());
        }
        if cell.removing.contains(&me) {
            return Err("it is to be removed".to_owned());
        }
        let Some(installed) = cell.installed.as_ref().filter(|installed| installed.view.contains(me)) else { return Ok(()) };
        let view = view_of(&cell, installed);
        let number = view.view.number();
        match &life.store {
            Some(store) if number > life.installed => store.install(view).await,
            Some(_) => {}
            None if installed.founding => {
                env::mark("node: founds the cell");
                let store = self.found(life.registered, &cell, view).await?;
                self.must_stay()?;
                // What the founder can't decide nobody else would know of: until a founding decides everything, nobody joins.
                let devices = store.waits_for();
                life.is_unsettled = devices.is_empty() && !store.has_settled();
                let is_done = devices.is_empty() && !life.is_unsettled;
                if life.is_unsettled {
                    // Who joins gets its maps from this gateway. If that ended first, nobody could tell which writes it knew of.
                    tracing::warn!(
                        "no room to write down what was decided: this gateway serves alone until something is deleted"
                    );
                } else if !is_done {
                    tracing::warn!(?devices, "not everything can be decided without these devices: this gateway serves alone");
                }
                self.vitals.change(|present| (present.store, present.founding_done) = (Some(store.clone()), is_done));
                self.engine.set(store.clone());
                life.store = Some(store);
            }
            None => {
                env::mark("node: joins the cell");
                let store = self.join(life.registered, view).await?;
                self.must_stay()?;
                self.vitals.change(|present| present.store = Some(store.clone()));
                let joining = store.clone();
                life.joining = Some(self.env.spawn(async move { joining.join().await.is_ok() }));
                life.store = Some(store);
            }
        }
        if number > life.installed {
            // A lease of this view is to be had.
            self.vitals.news.notify_one();
        }
        life.installed = number;
        self.recover_if_leader(life, &cell, installed);
        Ok(())
    }

    /// Who leaves deposes the store that there is: one that comes later would serve under a lease that nobody waits for.
    fn must_stay(&self) -> Result<(), String> {
        if self.is_leaving.load(Ordering::SeqCst) { Err("this node leaves".to_owned()) } else { Ok(()) }
    }

    /// Recovers everything from the devices: nobody lives who knows it.
    async fn found(self: &Arc<Self>, registered: Registered, cell: &CellRecord, view: CellView) -> Result<LogStore, String> {
        let writer = writer(self.id, registered.token);
        let (held, mut missing) = self.hold_all(writer).await;
        let (fenced, unfenced) = self.fence_and_drain_all(held, &fences_of(cell)).await;
        missing.extend(unfenced);
        if missing.iter().any(|device| view.table.devices().contains(device)) {
            // The manager took it for one that is there, and did not wait, as it does for others, until nobody's write is acknowledged there any more.
            env::mark("node: a founding waits for writes that it can't fence");
            tracing::warn!(
                ?missing,
                "a device that is there can't be fenced: the cell is founded when nobody acknowledges writes to it any more"
            );
            self.env.sleep(WRITES_END).await;
        }
        let (config, manifests, setup) = self.parts(registered, view);
        let found = LogStore::found(config, self.env.clone(), manifests, fenced, &missing, setup).await;
        let store = found.map_err(|error| error.to_string())?;
        self.env.spawn(self.clone().keep_holds(store.clone(), writer));
        Ok(store)
    }

    async fn join(self: &Arc<Self>, registered: Registered, view: CellView) -> Result<LogStore, String> {
        let writer = writer(self.id, registered.token);
        let (held, _) = self.hold_all(writer).await;
        let (config, manifests, setup) = self.parts(registered, view);
        let joining = LogStore::joining(config, self.env.clone(), manifests, held, setup).await;
        let store = joining.map_err(|error| error.to_string())?;
        self.env.spawn(self.clone().keep_holds(store.clone(), writer));
        Ok(store)
    }

    fn parts(&self, registered: Registered, first: CellView) -> (LogStoreConfig, Arc<CellManifests>, MemberSetup) {
        let gateway = registered.gateway;
        let config = LogStoreConfig { cell: CELL, gateway, ..self.config.clone() };
        let manifests = Arc::new(CellManifests { manager: self.manager.clone(), gateway, notes: self.notes.clone() });
        let directory = Arc::new(Gateways { manager: self.manager.clone(), callers: self.callers.clone() });
        (config, manifests, MemberSetup { directory, first, is_sole: self.is_sole })
    }

    /// As leader of the view: decides what removed gateways left, once for each view.
    fn recover_if_leader(self: &Arc<Self>, life: &mut Life, cell: &CellRecord, installed: &InstalledView) {
        let number = installed.view.number();
        let is_begun = life.recovery.as_ref().is_some_and(|(view, _)| *view == number);
        let Some(store) = life.store.clone() else { return };
        if installed.leader != life.registered.gateway || cell.undecided.is_empty() || is_begun {
            return;
        }
        if let Some((_, before)) = life.recovery.take() {
            env::mark("node: a recovery given up for another view's");
            before.abort();
        }
        let removed: BTreeSet<GatewayId> = cell.undecided.keys().copied().collect();
        let fences: Vec<_> = cell.undecided.values().map(|member| writer(member.node, cell.fence(member.node))).collect();
        let (devices, uncovered) = (installed.table.devices().to_vec(), uncovered_tables(cell, installed));
        let node = self.clone();
        let recovery = self.env.spawn(async move {
            // Until it succeeds, or another view ends this task.
            loop {
                if let Some(read) = node.fence_for_recovery(&devices, &uncovered, &fences).await {
                    match store.recover(&removed, &read).await {
                        Ok(()) => return,
                        Err(error) => tracing::warn!(%error, "recovering removed gateways is tried again"),
                    }
                }
                if store.is_deposed() {
                    return;
                }
                node.env.sleep(RECOVERY_PAUSE).await;
            }
        });
        life.recovery = Some((number, recovery));
    }

    /// Fences removed gateways at the devices of the table, and at others that alone may have copies of what they wrote under a former one.
    /// All that are fenced; none if not enough of them can be.
    async fn fence_for_recovery(
        &self,
        devices: &[DeviceId],
        uncovered: &[ReplicaTable],
        fences: &[Writer],
    ) -> Option<Vec<DeviceId>> {
        for device in devices {
            if let Err(error) = self.fence_and_drain(*device, fences).await {
                tracing::warn!(%error, "a device can't be fenced yet");
                env::mark("node: a device can't be fenced yet");
                return None;
            }
        }
        let mut fenced = devices.to_vec();
        let others: Vec<DeviceId> = self.cell_devices().into_iter().filter(|device| !devices.contains(device)).collect();
        for device in devices_to_wait_for(uncovered, &fenced, &others) {
            if self.fence_and_drain(device, fences).await.is_ok() {
                fenced.push(device);
            }
        }
        let missing: Vec<DeviceId> = others.into_iter().filter(|device| !fenced.contains(device)).collect();
        let awaited = devices_to_wait_for(uncovered, &fenced, &missing);
        if !awaited.is_empty() {
            tracing::warn!(
                ?awaited,
                "these devices alone may have what removed gateways wrote: recovery waits for one of them"
            );
            self.env.sleep(AWAITED_PAUSE).await;
            return None;
        }
        Some(fenced)
    }
}

/// The outcome of a task, if there is one.
async fn finished(task: &mut Option<JoinHandle<bool>>) -> bool {
    match task {
        Some(task) => task.await.unwrap_or(false),
        None => std::future::pending().await,
    }
}

fn view_of(cell: &CellRecord, installed: &InstalledView) -> CellView {
    CellView {
        view: installed.view.clone(),
        table: installed.table.clone(),
        undecided: cell.undecided.keys().copied().collect(),
        leader: installed.leader,
        uncovered: uncovered_tables(cell, installed),
    }
}

/// Tables by which writes may have gone that no checkpoint covers.
fn uncovered_tables(cell: &CellRecord, installed: &InstalledView) -> Vec<ReplicaTable> {
    cell.former_tables.iter().chain([&installed.table]).cloned().collect()
}
