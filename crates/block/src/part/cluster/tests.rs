//! A holder's requests to the device of another node, through its service and the wire.

use super::super::blobs::BlobService;
use super::super::ways::CALLS_AT_ONCE;
use super::*;
use crate::store::tests::support::{Rig, fill, overwrite, stamped};
use crate::wire::{self, NodeUse, Request};
use format::blob_header::BlobState;
use futures_util::future::{join_all, pending};
use manager::{Manager, NewImage, NodeRecord, RegisterNode};
use net::{BoxFuture, CallError, Caller, LocalCaller, Refusal, Service};
use std::sync::atomic::{AtomicUsize, Ordering};
use types::{ImageEpoch, Layer, NodeId, NodeIdentity, Token};

/// Of the rig's device.
const THERE: DeviceId = DeviceId(7);

/// One other node with one device.
struct OneWay {
    caller: Arc<dyn Caller>,
    node: Arc<NodeRecord>,
    is_silent: bool,
}

impl Ways for OneWay {
    fn to_device(&self, device: DeviceId) -> Result<Arc<dyn Caller>, StoreError> {
        match device == THERE {
            true => Ok(self.caller.clone()),
            false => Err(StoreError::Failed(format!("device {device} is no part of the cluster any more"))),
        }
    }

    fn to_others(&self) -> Vec<(Arc<NodeRecord>, Arc<dyn Caller>)> {
        vec![(self.node.clone(), self.caller.clone())]
    }

    fn is_silent(&self, _: NodeId) -> bool {
        self.is_silent
    }
}

struct World {
    rig: Rig,
    manager: Arc<Manager>,
    stores: ClusterStores,
}

async fn node(manager: &Manager) -> Arc<NodeRecord> {
    let text = |text: &str| text.to_owned();
    let node = RegisterNode {
        identity: NodeIdentity([1; 16]),
        name: text("one"),
        address: text("10.0.0.1:9002"),
        admin_address: String::new(),
        s3_address: String::new(),
        host: text("one"),
        rack: String::new(),
        zone: String::new(),
        version: text("1"),
        joined_ms: 1,
    };
    manager.register_node(node).await.expect("a node")
}

/// A node without devices whose only way leads to `caller`.
async fn stores_over(env: &Env, manager: &Arc<Manager>, caller: Arc<dyn Caller>, is_silent: bool) -> ClusterStores {
    let ways = OneWay { caller, node: node(manager).await, is_silent };
    let nothing_here = Arc::new(LocalStores::new(manager.clone(), BTreeMap::new()));
    ClusterStores::new(env, nothing_here, Arc::new(ways))
}

async fn world(seed: u64) -> World {
    let rig = Rig::new(seed).await;
    let manager = Arc::new(Manager::open_in_memory(&rig.env).await.expect("a manager"));
    let there = LocalStores::new(manager.clone(), BTreeMap::from([(THERE, rig.store.clone())]));
    let caller = Arc::new(LocalCaller::new(&rig.env, Arc::new(BlobService(Arc::new(there)))));
    let stores = stores_over(&rig.env, &manager, caller, false).await;
    World { rig, manager, stores }
}

impl World {
    /// Makes an image and opens it on the only node.
    async fn opened(&self) -> Admission {
        let new = NewImage { name: "vm".to_owned(), size_bytes: 1 << 30, copies: 1, parent: None };
        let made = self.manager.create_image(new).await.expect("an image");
        let opened = self.manager.open_image(made.id, NodeId(1), None).await.expect("opens");
        Admission { image: made.id, token: opened.token, session: 1, epoch: opened.epoch }
    }
}

fn new(id: BlobId) -> NewBlob {
    NewBlob { id, state: BlobState::Partial, parent: None }
}

#[tokio::test(start_paused = true)]
async fn a_device_of_another_node_does_all_that_one_here_does() {
    let world = world(1).await;
    let holder = world.opened().await;
    let World { rig, stores, .. } = &world;
    let mine = BlobId { image: holder.image, index: 3, layer: Layer(0) };
    let early = stores.create(THERE, holder, new(mine), fill(mine, 0..2, 1)).await;
    assert_eq!(early, Err(StoreError::Unknown), "it has not entered");
    assert_eq!(stores.enter(THERE, holder).await, Ok(Vec::new()));
    let block = stores.create(THERE, holder, new(mine), fill(mine, 0..2, 1)).await.expect("there is space");
    let at = BlobAt { block, id: mine };
    stores.complete(THERE, holder, at).await.expect("completes");
    stores.change(THERE, holder, at, overwrite(mine, 4096, 8192, 2)).await.expect("changes");
    stores.flush(THERE).await.expect("flushes");
    let read = stores.read(THERE, Some(holder), at, 0, 16_384).await.expect("reads");
    let expected = [(0, 4096, 1), (4096, 8192, 2), (12_288, 4096, 1)];
    assert!(read == expected.map(|(at, len, version)| stamped(mine, at, len, version)).concat());
    let rows = rig.rows(holder.image.0);
    assert_eq!((rows.len(), rows[0].state), (1, BlobState::Whole));
    assert_eq!(stores.enter(THERE, holder).await.as_ref(), Ok(&rows));
    assert_eq!(stores.rows(THERE, holder.image).await.as_ref(), Ok(&rows));
    assert_eq!(stores.sums(THERE, holder, mine).await, rig.store.sums(holder, mine).await);
    let usage = stores.usage().await;
    assert_eq!(usage.images, BTreeMap::from([(holder.image, (u64::from(BLOB_BYTES), 2 * u64::from(PIECE_BYTES)))]));
    assert_eq!((usage.room_bytes > 0, usage.silent.len()), (true, 0));
    stores.free(THERE, holder, at).await.expect("frees");
    assert_eq!(stores.free(THERE, holder, at).await, Err(StoreError::Absent));
    assert_eq!(rig.rows(holder.image.0), []);
}

#[tokio::test(start_paused = true)]
async fn a_service_admits_only_tokens_that_the_manager_names_and_reads_of_others_only_what_has_ended() {
    let world = world(2).await;
    let holder = world.opened().await;
    let stores = &world.stores;
    let other = Admission { token: Token(holder.token.0 + 1), ..holder };
    assert_eq!(stores.enter(THERE, other).await, Err(StoreError::Unknown));
    stores.enter(THERE, holder).await.expect("enters");
    let mine = BlobId { image: holder.image, index: 0, layer: Layer(0) };
    let block = stores.create(THERE, holder, new(mine), fill(mine, 0..1, 1)).await.expect("there is space");
    let at = BlobAt { block, id: mine };
    assert!(matches!(stores.read(THERE, None, at, 0, 4096).await, Err(StoreError::Invalid(_))));
    world.manager.snapshot_image(holder.image, holder.token, "a", Layer(0)).await.expect("a snapshot");
    assert!(stores.read(THERE, None, at, 0, 4096).await.is_ok());
    let next = world.manager.open_image(holder.image, NodeId(1), Some(holder.token)).await.expect("another holder");
    assert_eq!(stores.enter(THERE, holder).await, Err(StoreError::Superseded), "by the manager's state");
    stores.enter_new(THERE, Admission { token: next.token, ..holder }).await.expect("enters");
    let late = stores.change(THERE, holder, at, overwrite(mine, 0, 4096, 2)).await;
    assert_eq!(late, Err(StoreError::Superseded));
}

/// Has more rows of an image than a page takes.
struct ManyRows(u32);

fn row(index: u32) -> BlobRow {
    let at = BlobAt { block: index, id: BlobId { image: ImageId(1), index, layer: Layer(0) } };
    let (owned, data) = Default::default();
    BlobRow { at, state: BlobState::Whole, token: Token(1), epoch: ImageEpoch(0), owned, data, parent: None }
}

impl Service for ManyRows {
    fn handle(&self, request: net::Request) -> BoxFuture<'_, Result<Bytes, Refusal>> {
        let Ok(Request::Device(_, ToDevice::Enter { after, .. } | ToDevice::Rows { after, .. })) =
            wire::decode_request(&request.payload)
        else {
            panic!("rows are asked for")
        };
        let first = after.map_or(0, |after| after.index + 1);
        let rows: Vec<BlobRow> = (first..self.0).take(MAX_PAGE_ROWS).map(row).collect();
        Box::pin(std::future::ready(Ok(wire::encode_answer(&Ok(rows)))))
    }
}

#[tokio::test(start_paused = true)]
async fn the_rows_of_a_large_image_come_in_pages() {
    let env = Env::simulated(3);
    let manager = Arc::new(Manager::open_in_memory(&env).await.expect("a manager"));
    let page = MAX_PAGE_ROWS as u32;
    for count in [0, 1, page - 1, page, page + 1, 2 * page] {
        let caller = Arc::new(LocalCaller::new(&env, Arc::new(ManyRows(count))));
        let stores = stores_over(&env, &manager, caller, false).await;
        let admission = Admission { image: ImageId(1), token: Token(1), session: 0, epoch: ImageEpoch(0) };
        for rows in [stores.enter(THERE, admission).await, stores.rows(THERE, ImageId(1)).await] {
            let rows = rows.expect("rows");
            assert!(rows.iter().map(|row| row.at.id.index).eq(0..count), "{count} rows");
        }
    }
}

/// Answers nothing, or does not take calls at all.
struct Nowhere {
    env: Env,
    takes_calls: bool,
    calls: AtomicUsize,
}

impl Caller for Nowhere {
    fn call(&self, _: Bytes, deadline: env::Instant) -> BoxFuture<'_, Result<Bytes, CallError>> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let (address, reason) = ("10.0.0.1".to_owned(), "nothing there".to_owned());
        if !self.takes_calls {
            return Box::pin(std::future::ready(Err(CallError::NotSent { address, reason })));
        }
        Box::pin(async move {
            tokio::select! {
                () = pending() => unreachable!("it never answers"),
                () = self.env.sleep_until(deadline) => Err(CallError::Unanswered { address, reason }),
            }
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_does_not_answer_in_time_is_silent_also_for_requests_that_wait_for_their_turn() {
    let env = Env::simulated(4);
    let manager = Arc::new(Manager::open_in_memory(&env).await.expect("a manager"));
    let nowhere = Arc::new(Nowhere { env: env.clone(), takes_calls: true, calls: AtomicUsize::new(0) });
    let stores = stores_over(&env, &manager, nowhere.clone(), false).await;
    let began = env.now();
    let answers = join_all((0..3 * CALLS_AT_ONCE).map(|_| stores.flush(THERE))).await;
    assert!(answers.iter().all(|answer| matches!(answer, Err(StoreError::Silent(_)))));
    assert_eq!(env.now() - began, REQUEST_PATIENCE, "all at once");
    assert_eq!(nowhere.calls.load(Ordering::Relaxed), CALLS_AT_ONCE);
    // Later ones are sent: the node may be back.
    assert!(matches!(stores.flush(THERE).await, Err(StoreError::Silent(_))));
    assert_eq!(nowhere.calls.load(Ordering::Relaxed), CALLS_AT_ONCE + 1);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_not_reached_is_silent_at_once_and_an_unknown_device_has_failed() {
    let env = Env::simulated(5);
    let manager = Arc::new(Manager::open_in_memory(&env).await.expect("a manager"));
    for is_silent in [false, true] {
        let nowhere = Arc::new(Nowhere { env: env.clone(), takes_calls: false, calls: AtomicUsize::new(0) });
        let stores = stores_over(&env, &manager, nowhere.clone(), is_silent).await;
        let began = env.now();
        assert!(matches!(stores.flush(THERE).await, Err(StoreError::Silent(_))));
        assert!(matches!(stores.flush(DeviceId(1)).await, Err(StoreError::Failed(_))));
        let usage = stores.usage().await;
        assert_eq!((usage.silent, usage.images.len()), (vec!["one".to_owned()], 0));
        assert_eq!(env.now(), began);
        let asked = if is_silent { 1 } else { 2 };
        assert_eq!(nowhere.calls.load(Ordering::Relaxed), asked, "a silent node is not asked what it has");
    }
}

#[test]
fn all_copies_count_in_the_usage() {
    let used = |blocks, pieces| NodeUse { image: ImageId(1), blocks, pieces };
    let mut usage = ClusterUsage::default();
    usage.add(Usage { room_bytes: 5, images: vec![used(1, 2)] });
    usage.add(Usage { room_bytes: u64::MAX, images: vec![used(2, 3)] });
    assert_eq!(usage.room_bytes, u64::MAX);
    assert_eq!(usage.images[&ImageId(1)], (3 * u64::from(BLOB_BYTES), 5 * u64::from(PIECE_BYTES)));
}
