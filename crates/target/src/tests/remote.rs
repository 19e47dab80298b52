//! A target behind a network: as the one in this process, and safe where the network fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use device::{AppendClass, AppendError, Appended, LogVector, PieceOfFrame, ZoneState, ZoneStream};
use disk::{CompletionOrder, Disk, SimDisk};
use env::{Env, Instant};
use format::frame::{self, frame_bytes};
use net::{BoxFuture, CallError, Caller, Identity, Network, RemoteCaller, Service, SimulatedNetwork};
use parking_lot::Mutex;
use types::{CellId, ClusterId, DeviceId, ErrorKind, NodeIdentity, Place, Token, ZoneIndex};

use super::{Answers, GATEWAY, fresh, open_as};
use crate::limits::{APPEND_DEADLINE, MAX_APPENDS_QUEUED, MAX_BATCHES_IN_FLIGHT, STATE_INTERVAL};
use crate::wire::{AppendAnswers, AppendPart, Ask, Fault, Request, decode_answer};
use crate::{
    Begin, LocalTarget, LogAppend, LogEvent, LogTarget, ReadFailure, RemoteTarget, Target, TargetControl, TargetService,
    WalkRange, Writer, append_wait,
};

const DEVICE: DeviceId = DeviceId(1);
pub(super) const ADDRESS: &str = "target";
pub(super) const CLUSTER: Identity = Identity { cluster: ClusterId([1; 16]), node: NodeIdentity([1; 16]) };

pub(super) fn writer(token: u64) -> Writer {
    Writer { key: GATEWAY, token: Token(token) }
}

struct Rig {
    env: Env,
    disk: SimDisk,
    target: Arc<Target>,
    network: SimulatedNetwork,
}

impl Rig {
    async fn new(seed: u64) -> Rig {
        Rig::with_pages_of(seed, 1 << 16).await
    }

    async fn with_pages_of(seed: u64, page_bytes: usize) -> Rig {
        let env = Env::simulated(seed);
        let (disk, target) = fresh(&env).await;
        Rig::serving(env, disk, target, page_bytes).await
    }

    async fn serving(env: Env, disk: SimDisk, target: Target, page_bytes: usize) -> Rig {
        let (network, target) = (SimulatedNetwork::new(&env), Arc::new(target));
        let service = TargetService::new(&env, vec![target.clone()]).with_pages_of(page_bytes);
        let listener = network.listen(ADDRESS).await.expect("listens");
        env.spawn(net::serve(env.clone(), listener, Arc::new(service), CLUSTER));
        Rig { env, disk, target, network }
    }

    fn caller(&self) -> Arc<dyn Caller> {
        Arc::new(RemoteCaller::new(&self.env, Arc::new(self.network.clone()), ADDRESS, CLUSTER))
    }

    async fn remote(&self, token: u64) -> RemoteTarget {
        RemoteTarget::connect(&self.env, self.caller(), DEVICE, writer(token)).await.expect("connects")
    }

    fn local(&self, token: u64) -> LocalTarget {
        LocalTarget::new(self.target.clone(), writer(token))
    }

    fn control(&self) -> TargetControl {
        TargetControl::new(&self.env, self.caller(), DEVICE)
    }

    async fn tags(&self) -> Vec<u64> {
        super::walked(&self.target).await
    }
}

fn payload(tag: u64, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|index| (tag as usize * 31 + index) as u8).collect()
}

fn compose(tag: u64, payload: &[u8]) -> impl FnMut(&mut [u8]) {
    move |slot: &mut [u8]| frame::compose(slot, 1, CellId(1), &tag.to_le_bytes(), &[payload])
}

pub(super) async fn append(
    target: &dyn LogTarget,
    class: AppendClass,
    tag: u64,
    bytes: usize,
) -> Result<Appended, AppendError> {
    let payload = payload(tag, bytes);
    let appended = append_wait(target, class, frame_bytes(8, bytes), &mut compose(tag, &payload));
    appended.await
}

fn start(target: &dyn LogTarget, answers: &Arc<Answers>, tag: u64) -> Result<(), AppendError> {
    let payload = payload(tag, 100);
    let append = LogAppend { class: AppendClass::Data, frame_bytes: frame_bytes(8, 100), done: answers.clone(), tag };
    target.append(append, &mut compose(tag, &payload))
}

/// All that a walk finds, as text: to be compared.
async fn walk(target: &dyn LogTarget, range: WalkRange, verify_payload: bool) -> Vec<String> {
    let mut walk = target.walk(range, verify_payload);
    let mut events = Vec::new();
    while let Some(event) = walk.next().await.expect("walks") {
        events.push(format!("{event:?}"));
    }
    events
}

fn kind_of(error: &AppendError) -> ErrorKind {
    error.kind()
}

async fn until(env: &Env, what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..1000 {
        if is_so() {
            return;
        }
        env.sleep(Duration::from_millis(10)).await;
    }
    panic!("never: {what}");
}

#[tokio::test(start_paused = true)]
async fn a_remote_target_is_as_a_local_one() {
    let rig = Rig::new(1).await;
    let (remote, local) = (rig.remote(1).await, rig.local(1));
    let mut placed = Vec::new();
    for (tag, (class, bytes)) in
        (0..).zip(AppendClass::ALL.into_iter().flat_map(|class| [0, 100, 5000, 40_000].map(|bytes| (class, bytes))))
    {
        let appended = append(&remote, class, tag, bytes).await.expect("appends");
        assert_eq!(appended.frame_bytes, frame_bytes(8, bytes));
        placed.push((tag, bytes, appended));
    }
    for (tag, bytes, appended) in &placed {
        for expected_bytes in [0, appended.frame_bytes] {
            let read = remote.read(appended.place, expected_bytes).await.expect("reads");
            assert_eq!(read, local.read(appended.place, expected_bytes).await.expect("reads"));
            assert_eq!((&read.engine_header[..], &read.payload[..]), (&tag.to_le_bytes()[..], &payload(*tag, *bytes)[..]));
        }
        let wanted = PieceOfFrame { engine_header_bytes: 8, payload_bytes: *bytes, range: bytes / 3..bytes / 2 };
        let piece = remote.read_piece(appended.place, wanted.clone()).await.expect("reads");
        assert_eq!(piece, local.read_piece(appended.place, wanted).await.expect("reads"));
        assert_eq!(piece.piece, payload(*tag, *bytes)[bytes / 3..bytes / 2]);
        assert!(remote.try_read(appended.place, &mut vec![0; appended.frame_bytes]).is_none());
        assert!(local.try_read(appended.place, &mut vec![0; appended.frame_bytes]).is_some());
    }
    assert_eq!(remote.log_floor().await, local.log_floor().await);
    assert_eq!(walk(&remote, WalkRange::From(LogVector::START), true).await.len(), placed.len());
    rig.env.sleep(STATE_INTERVAL * 2).await;
    assert_eq!((remote.zones(), remote.usage(), remote.is_writable()), (local.zones(), local.usage(), true));
    for stream in [ZoneStream::Ordered, ZoneStream::Relocated, ZoneStream::Meta] {
        assert_eq!(remote.open_room(stream), local.open_room(stream));
    }
}

#[tokio::test(start_paused = true)]
async fn a_reset_from_afar_is_of_one_activation_and_known_when_it_has_ended() {
    let rig = Rig::new(2).await;
    let remote = rig.remote(1).await;
    let appended = append(&remote, AppendClass::Data, 1, 100).await.expect("appends");
    let zone = appended.place.zone;
    let info = |remote: &RemoteTarget| remote.zones()[zone.0 as usize];
    let early = remote.reset(zone, appended.position.activation).await.expect_err("it is open");
    assert_eq!(early.kind, ErrorKind::Conflict, "{early}");
    remote.finish_open_zones().await.expect("finishes");
    assert_eq!(info(&remote).state, Some(ZoneState::Finished));
    let other = types::Activation(appended.position.activation.0 + 1);
    let wrong = remote.reset(zone, other).await.expect_err("another activation");
    assert_eq!(wrong.kind, ErrorKind::Conflict, "{wrong}");
    remote.reset(zone, info(&remote).activation).await.expect("resets");
    assert_eq!(info(&remote).state, Some(ZoneState::Free));
    assert_eq!(remote.read(appended.place, 0).await, Err(ReadFailure::Moved));
    let nowhere = Place { zone: ZoneIndex(99), ..appended.place };
    assert!(matches!(remote.read(nowhere, 0).await, Err(ReadFailure::Unavailable(_))));
    assert!(walk(&remote, WalkRange::Zone(zone), true).await.is_empty());
    assert!(remote.reset(ZoneIndex(99), other).await.is_err());
    remote.finish_reserved_zone().await.expect("there is none, which is fine");
}

/// Pages of one event and pages of many; zones of all streams, damage and bad blocks among them.
#[tokio::test(start_paused = true)]
async fn a_walk_in_pages_finds_what_a_walk_finds() {
    for page_bytes in [1, 500, 1 << 20] {
        let rig = Rig::with_pages_of(3, page_bytes).await;
        let (remote, local) = (rig.remote(1).await, rig.local(1));
        let mut floors = vec![LogVector::START];
        for tag in 0..48 {
            let class = [AppendClass::Data, AppendClass::Relocation, AppendClass::Data, AppendClass::Meta][tag as usize % 4];
            let appended = append(&local, class, tag, 6000).await.expect("appends");
            let at = format::superblock::FIRST_REGION_BYTE + u64::from(appended.place.zone.0) * 65536;
            let at = at + appended.place.offset.bytes();
            match tag % 10 {
                3 => rig.disk.corrupt_at_rest(at, 64),
                6 => rig.disk.corrupt_at_rest(at + 5000, 64),
                9 => floors.push(local.log_floor().await.expect("is here")),
                _ => {}
            }
        }
        let zones = local.zones();
        assert!(zones.iter().filter(|zone| zone.written_bytes > 0).count() > 7, "{zones:?}");
        for verify_payload in [true, false] {
            for floor in &floors {
                let range = WalkRange::From(*floor);
                assert_eq!(walk(&remote, range, verify_payload).await, walk(&local, range, verify_payload).await);
            }
            for zone in &zones {
                let range = WalkRange::Zone(zone.zone);
                assert_eq!(walk(&remote, range, verify_payload).await, walk(&local, range, verify_payload).await);
            }
        }
        let all = walk(&remote, WalkRange::From(LogVector::START), true).await;
        assert_eq!((all.len(), all.iter().filter(|event| event.contains("Damaged")).count()), (48, 10));
    }
}

/// What comes to the log while a walk is under way, in zones that were not open when it began, is none of its business.
#[tokio::test(start_paused = true)]
async fn a_walk_ends_though_the_log_grows() {
    let rig = Rig::with_pages_of(4, 1).await;
    let (remote, local) = (rig.remote(1).await, rig.local(1));
    append(&local, AppendClass::Data, 0, 100).await.expect("appends");
    let mut walk = remote.walk(WalkRange::From(LogVector::START), true);
    let (mut found, mut tag) = (0, 1);
    while let Some(event) = walk.next().await.expect("walks") {
        assert!(matches!(event, LogEvent::Frame(_)));
        found += 1;
        assert!(found < 30, "the walk runs after the log");
        for _ in 0..4 {
            append(&local, AppendClass::Data, tag, 15_000).await.unwrap_or_else(|error| panic!("{tag}: {error}"));
            tag += 1;
        }
        if tag > 30 {
            break;
        }
    }
    assert!(found < 6, "{found} frames of one zone");
}

#[tokio::test(start_paused = true)]
async fn a_fenced_writer_neither_appends_nor_resets_from_afar() {
    let rig = Rig::new(5).await;
    let deposed = rig.remote(5).await;
    let appended = append(&deposed, AppendClass::Data, 1, 100).await.expect("no fence yet");
    deposed.finish_open_zones().await.expect("no fence yet");
    rig.control().fence_and_drain(&[writer(6)]).await.expect("fences");
    let refused = append(&deposed, AppendClass::Data, 2, 100).await.expect_err("fenced");
    assert!(matches!(kind_of(&refused), ErrorKind::Denied) && refused.is_certain(), "{refused}");
    // One that begins now finds no session at all.
    let refused = append(&rig.remote(5).await, AppendClass::Data, 2, 100).await.expect_err("fenced");
    assert!(matches!(kind_of(&refused), ErrorKind::Denied) && refused.is_certain(), "{refused}");
    let (zone, activation) = (appended.place.zone, appended.position.activation);
    for outcome in [
        deposed.reset(zone, activation).await,
        deposed.finish_open_zones().await,
        deposed.finish_reserved_zone().await,
        rig.local(5).reset(zone, activation).await,
        rig.local(5).finish_open_zones().await,
    ] {
        assert_eq!(outcome.expect_err("fenced").kind, ErrorKind::Denied);
    }
    assert_eq!(kind_of(&append(&rig.local(5), AppendClass::Data, 3, 100).await.expect_err("fenced")), ErrorKind::Denied);
    assert_eq!(deposed.read(appended.place, 0).await.expect("reads are not fenced").payload, payload(1, 100));
    let older = rig.control().raise_fence(writer(4)).await.expect_err("older");
    assert_eq!(older.kind, ErrorKind::Denied, "{older}");
    let present = rig.remote(6).await;
    append(&present, AppendClass::Data, 7, 100).await.expect("the new token");
    present.reset(zone, activation).await.expect("the new token");
    assert_eq!(rig.tags().await, [7]);
}

#[tokio::test(start_paused = true)]
async fn a_target_of_a_cluster_waits_for_its_fences() {
    let env = Env::simulated(6);
    let (disk, target) = fresh(&env).await;
    drop(target);
    let target = open_as(&disk.restart(), &env, Begin::WithFences).await;
    let rig = Rig::serving(env, disk, target, 1000).await;
    let remote = rig.remote(5).await;
    for target in [&remote as &dyn LogTarget, &rig.local(5)] {
        let early = append(target, AppendClass::Data, 1, 100).await.expect_err("not loaded");
        assert!(early.is_certain() && early.to_string().contains("not loaded"), "{early}");
        assert_eq!(target.finish_open_zones().await.expect_err("not loaded").kind, ErrorKind::Unavailable);
        assert_eq!(
            target.reset(ZoneIndex(0), types::Activation(0)).await.expect_err("not loaded").kind,
            ErrorKind::Unavailable
        );
    }
    rig.control().load_fences(vec![writer(5)]).await.expect("loads");
    append(&remote, AppendClass::Data, 2, 100).await.expect("loaded");
    assert_eq!(kind_of(&append(&rig.local(4), AppendClass::Data, 3, 100).await.expect_err("fenced")), ErrorKind::Denied);
    rig.control().fence_and_drain(&[writer(5)]).await.expect("drains");
    assert_eq!(rig.tags().await, [2]);
}

#[tokio::test(start_paused = true)]
async fn a_lost_connection_gives_one_completion_of_unknown_outcome_and_the_next_append_comes_after() {
    let rig = Rig::new(7).await;
    let remote = rig.remote(1).await;
    let answers = Arc::new(Answers::default());
    append(&remote, AppendClass::Data, 0, 100).await.expect("appends");
    rig.disk.set_order(CompletionOrder::Stepped);
    (1..=5).for_each(|tag| start(&remote, &answers, tag).expect("starts"));
    rig.env.sleep(Duration::from_millis(100)).await;
    assert!(answers.0.lock().is_empty(), "the disk has not answered");
    rig.network.interrupt(ADDRESS);
    until(&rig.env, "all are answered", || answers.0.lock().len() == 5).await;
    for (tag, outcome) in answers.0.lock().iter() {
        let error = outcome.as_ref().expect_err("no answer came");
        assert!(matches!(error, AppendError::Unanswered { .. }) && !error.is_certain(), "{tag}: {error}");
    }
    // What comes next waits until what is under way has ended; else it would be placed before what waits for its batch, being large.
    let resume = async {
        rig.env.sleep(Duration::from_millis(500)).await;
        rig.disk.set_order(CompletionOrder::Inline);
        rig.disk.run_until_idle();
    };
    let (next, ()) = tokio::join!(append(&remote, AppendClass::Data, 6, 20_000), resume);
    next.expect("appends");
    let tags = rig.tags().await;
    assert_eq!(tags.last(), Some(&6), "{tags:?}");
    assert!(remote.is_writable());
}

/// Hands requests on, but keeps appends back when it is told to: as a network that delivers late.
struct Late {
    service: TargetService,
    holds: AtomicBool,
    held: Mutex<Vec<Bytes>>,
}

impl Caller for Late {
    fn call(&self, payload: Bytes, deadline: Instant) -> BoxFuture<'_, Result<Bytes, CallError>> {
        Box::pin(async move {
            let is_append = payload[4] == 1;
            if is_append && self.holds.load(Ordering::SeqCst) {
                self.held.lock().push(payload);
                return Err(CallError::Unanswered { address: ADDRESS.to_owned(), reason: "late".to_owned() });
            }
            let answer = self.service.handle(net::Request { payload, deadline }).await;
            answer.map_err(|refusal| CallError::Refused { address: ADDRESS.to_owned(), refusal })
        })
    }
}

impl Late {
    fn new(rig: &Rig) -> Arc<Late> {
        let service = TargetService::new(&rig.env, vec![rig.target.clone()]);
        Arc::new(Late { service, holds: AtomicBool::default(), held: Mutex::default() })
    }

    /// The held appends arrive now.
    async fn deliver(&self, env: &Env) {
        let held = std::mem::take(&mut *self.held.lock());
        for payload in held {
            let answer = self.service.handle(net::Request { payload, deadline: env.now() + APPEND_DEADLINE }).await;
            let answer = decode_answer::<AppendAnswers>(answer.expect("an answer")).expect("decodes");
            let landed = answer.is_ok_and(|answers| answers.iter().any(Result::is_ok));
            assert!(!landed, "a late append was carried out");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_late_append_never_lands_after_its_writers_next_one() {
    let rig = Rig::new(8).await;
    let late = Late::new(&rig);
    let remote = RemoteTarget::connect(&rig.env, late.clone(), DEVICE, writer(1)).await.expect("connects");
    append(&remote, AppendClass::Data, 1, 100).await.expect("appends");
    late.holds.store(true, Ordering::SeqCst);
    let lost = append(&remote, AppendClass::Data, 2, 100).await.expect_err("no answer");
    assert!(!lost.is_certain(), "{lost}");
    late.holds.store(false, Ordering::SeqCst);
    append(&remote, AppendClass::Data, 3, 100).await.expect("appends");
    late.deliver(&rig.env).await;
    assert_eq!(rig.tags().await, [1, 3]);
}

/// Nor once its writer has asked whether anything is under way; what is queued meanwhile goes on under the next session.
#[tokio::test(start_paused = true)]
async fn a_late_append_never_lands_after_its_writer_has_settled() {
    let rig = Rig::new(18).await;
    let late = Late::new(&rig);
    let remote = RemoteTarget::connect(&rig.env, late.clone(), DEVICE, writer(1)).await.expect("connects");
    append(&remote, AppendClass::Data, 1, 100).await.expect("appends");
    late.holds.store(true, Ordering::SeqCst);
    append(&remote, AppendClass::Data, 2, 100).await.expect_err("no answer");
    late.holds.store(false, Ordering::SeqCst);
    remote.settle().await.expect("settles");
    late.deliver(&rig.env).await;
    assert_eq!(rig.tags().await, [1]);
    append(&remote, AppendClass::Data, 3, 100).await.expect("appends");
    remote.settle().await.expect("settles");
    append(&remote, AppendClass::Data, 4, 100).await.expect("appends");
    assert_eq!(rig.tags().await, [1, 3, 4]);
}

#[tokio::test(start_paused = true)]
async fn a_late_append_never_lands_after_a_fence_and_a_drain() {
    let rig = Rig::new(9).await;
    let late = Late::new(&rig);
    let remote = RemoteTarget::connect(&rig.env, late.clone(), DEVICE, writer(1)).await.expect("connects");
    append(&remote, AppendClass::Data, 1, 100).await.expect("appends");
    late.holds.store(true, Ordering::SeqCst);
    append(&remote, AppendClass::Data, 2, 100).await.expect_err("no answer");
    rig.control().fence_and_drain(&[writer(2)]).await.expect("fences");
    late.deliver(&rig.env).await;
    assert_eq!(rig.tags().await, [1]);

    // On a slow network it is the same: what is on its way when the fence is raised is refused on arrival.
    let slow = rig.remote(2).await;
    append(&slow, AppendClass::Data, 3, 100).await.expect("appends");
    rig.network.delay(ADDRESS, Duration::from_millis(500));
    let answers = Arc::new(Answers::default());
    start(&slow, &answers, 4).expect("starts");
    rig.env.sleep(Duration::from_millis(100)).await;
    rig.target.fence_and_drain(&[(GATEWAY, Token(3))]).await.expect("fences");
    until(&rig.env, "it is answered", || !answers.0.lock().is_empty()).await;
    assert_eq!(kind_of(answers.0.lock()[&4].as_ref().expect_err("fenced")), ErrorKind::Denied);
    assert_eq!(rig.tags().await, [1, 3]);
}

/// More appends than a connection has calls wait their turn; more than the queue holds are refused at once.
#[tokio::test(start_paused = true)]
async fn a_burst_is_queued_and_the_queue_has_an_end() {
    let rig = Rig::new(10).await;
    let remote = rig.remote(1).await;
    let answers = Arc::new(Answers::default());
    rig.disk.set_order(CompletionOrder::Timed(Duration::from_millis(1)));
    let burst = MAX_APPENDS_QUEUED as u64;
    (0..burst).for_each(|tag| start(&remote, &answers, tag).expect("the queue takes it"));
    let refused = start(&remote, &answers, burst).expect_err("the queue is full");
    assert!(matches!(refused, AppendError::Busy { .. }), "{refused}");
    until(&rig.env, "all are answered", || answers.0.lock().len() as u64 == burst).await;
    assert!(answers.0.lock().values().all(Result::is_ok));
    assert_eq!(rig.tags().await.len() as u64, burst);
}

#[tokio::test(start_paused = true)]
async fn appends_to_a_target_out_of_reach_are_refused_by_their_deadline() {
    let rig = Rig::new(11).await;
    let remote = rig.remote(1).await;
    rig.network.cut(ADDRESS);
    let begin = rig.env.now();
    let refused = append(&remote, AppendClass::Data, 1, 100).await.expect_err("nobody is there");
    assert!(refused.is_certain(), "{refused}");
    assert!(rig.env.now() - begin <= APPEND_DEADLINE + Duration::from_millis(10));
    assert!(remote.log_floor().await.is_err());
    assert!(remote.walk(WalkRange::From(LogVector::START), true).next().await.is_err());
    assert!(matches!(remote.read(Place { device: DEVICE, ..Place::default() }, 0).await, Err(ReadFailure::Unavailable(_))));
    assert!(remote.is_writable(), "nothing is known against the device");
    let caller = rig.caller();
    assert!(RemoteTarget::connect(&rig.env, caller, DEVICE, writer(1)).await.is_err(), "it is missing");
    rig.network.mend(ADDRESS);
    append(&remote, AppendClass::Data, 2, 100).await.expect("it is back");
    assert_eq!(rig.tags().await, [2]);
}

/// Nobody waits for ever: what is queued is certainly not there, what is on its way may be.
#[tokio::test(start_paused = true)]
async fn a_hold_that_is_given_up_answers_everything_once() {
    let rig = Rig::new(12).await;
    let remote = rig.remote(1).await;
    let answers = Arc::new(Answers::default());
    append(&remote, AppendClass::Data, 0, 100).await.expect("appends");
    rig.disk.set_order(CompletionOrder::Stepped);
    // Each is on its way before the next one comes, so that they don't go together.
    for tag in 1..=300 {
        start(&remote, &answers, tag).expect("starts");
        rig.env.sleep(Duration::from_millis(1)).await;
    }
    drop(remote);
    until(&rig.env, "all are answered", || answers.0.lock().len() == 300).await;
    let certain = answers.0.lock().values().filter(|outcome| outcome.as_ref().expect_err("given up").is_certain()).count();
    assert_eq!(certain, 300 - MAX_BATCHES_IN_FLIGHT);
}

/// A target that comes back knows no session: nothing of that is seen by who writes.
#[tokio::test(start_paused = true)]
async fn a_target_that_was_started_anew_goes_on() {
    let env = Env::simulated(13);
    let (disk, target) = fresh(&env).await;
    let network = SimulatedNetwork::new(&env);
    let serve = |target: Target, listener| {
        let service = TargetService::new(&env, vec![Arc::new(target)]);
        env.spawn(net::serve(env.clone(), listener, Arc::new(service), CLUSTER))
    };
    let first = serve(target, network.listen(ADDRESS).await.expect("listens"));
    let caller = Arc::new(RemoteCaller::new(&env, Arc::new(network.clone()), ADDRESS, CLUSTER));
    let remote = RemoteTarget::connect(&env, caller, DEVICE, writer(1)).await.expect("connects");
    append(&remote, AppendClass::Data, 1, 100).await.expect("appends");
    first.abort();
    drop(first.await);
    network.interrupt(ADDRESS);
    let disk = disk.restart();
    disk.set_order(CompletionOrder::Inline);
    drop(serve(open_as(&disk, &env, Begin::AtOnce).await, network.listen(ADDRESS).await.expect("listens")));
    append(&remote, AppendClass::Data, 2, 100).await.expect("appends");
}

#[tokio::test(start_paused = true)]
async fn a_failed_disk_is_known_afar() {
    let rig = Rig::new(14).await;
    let remote = rig.remote(1).await;
    append(&remote, AppendClass::Data, 1, 100).await.expect("appends");
    rig.disk.add_rule(disk::FaultRule::next(disk::Operation::Write, disk::Fault::Fail));
    let failed = append(&remote, AppendClass::Data, 2, 100).await.expect_err("the disk fails");
    assert!(!failed.is_certain(), "{failed}");
    until(&rig.env, "it is known", || !remote.is_writable()).await;
    let poisoned = append(&remote, AppendClass::Data, 3, 100).await.expect_err("poisoned");
    assert!(poisoned.is_certain() && kind_of(&poisoned) == ErrorKind::Unavailable, "{poisoned}");
    assert!(rig.disk.stats().failures > 0);
}

/// What a disk can't read is lost there, as what it reads wrong is; what can't be asked for is not.
#[tokio::test(start_paused = true)]
async fn what_a_disk_cant_read_is_told_from_a_target_out_of_reach() {
    let rig = Rig::new(16).await;
    let (remote, local) = (rig.remote(1).await, rig.local(1));
    let place = append(&remote, AppendClass::Data, 1, 100).await.expect("appends").place;
    rig.disk.add_rule(disk::FaultRule::always_in(0..u64::MAX, disk::Operation::Read, disk::Fault::Fail));
    for target in [&remote as &dyn LogTarget, &local] {
        let failure = target.read(place, 200).await.expect_err("the disk fails");
        assert!(matches!(&failure, ReadFailure::Unreadable(_)) && failure.is_damage(), "{failure:?}");
    }
    rig.disk.clear_faults();
    rig.network.cut(ADDRESS);
    let failure = remote.read(place, 200).await.expect_err("nobody is there");
    assert!(matches!(&failure, ReadFailure::Unavailable(_)) && !failure.is_damage(), "{failure:?}");
}

/// Bytes that are no frame, or not one frame, don't reach the device, and an unknown device is no reason to panic.
#[tokio::test(start_paused = true)]
async fn what_is_no_frame_is_refused() {
    let rig = Rig::new(15).await;
    let remote = rig.remote(1).await;
    append(&remote, AppendClass::Data, 1, 100).await.expect("appends");
    let caller = rig.caller();
    let deadline = rig.env.now() + APPEND_DEADLINE;
    let mut good = vec![0; frame_bytes(8, 100)];
    compose(9, &payload(9, 100))(&mut good);
    let not_sealed = good.clone();
    frame::seal(&mut good, &crate::NOWHERE);
    let begin = Request { device: DEVICE, ask: Ask::OpenSession { writer: writer(1) } }.encode();
    let session = caller.call(begin, deadline).await.expect("an answer");
    let session = decode_answer::<u64>(session).expect("decodes").expect("begins");
    let cases =
        [Vec::new(), vec![0; 63], vec![7; 128], not_sealed, good[..good.len() - 64].to_vec(), [&good[..], &[0; 64]].concat()];
    for frame in cases {
        let parts = vec![AppendPart { class: AppendClass::Data, frame: frame.into() }];
        let request = Request { device: DEVICE, ask: Ask::Append { writer: writer(1), session, parts } }.encode();
        let answer = caller.call(request, deadline).await.expect("an answer");
        let answers = decode_answer::<AppendAnswers>(answer).expect("decodes").expect("the session is the present one");
        let [Err(failure)] = &answers[..] else { panic!("no frame: {answers:?}") };
        assert_eq!(failure.fault, Fault::Refused(ErrorKind::Invalid));
    }
    for request in [Bytes::new(), Bytes::from_static(b"not a request at all")] {
        let refused = caller.call(request, deadline).await.expect_err("no request");
        assert!(matches!(refused, CallError::Refused { .. }), "{refused}");
    }
    let unknown = RemoteTarget::connect(&rig.env, caller, DeviceId(77), writer(1)).await;
    assert!(unknown.is_err_and(|error| error.reason.contains("not served here")));
    assert_eq!(rig.tags().await, [1]);
}
