use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use device::{AppendClass, AppendDone, AppendError, Appended, Device, DeviceConfig, FormatOptions, LogVector, WalkEvent};
use disk::{CompletionOrder, SimDisk, SimOptions};
use env::{Env, Instant};
use format::frame::{self, frame_bytes};
use parking_lot::Mutex;
use types::{CellId, ClusterId, DeviceId, Token};

use crate::{AppendCall, AppendRefused, Begin, FenceError, FenceKey, FenceKind, Target};

mod hanging;
mod remote;
mod wire;

pub(crate) const GATEWAY: FenceKey = FenceKey { kind: FenceKind::Gateway, scope: 1 };

#[derive(Default)]
pub(crate) struct Answers(pub(crate) Mutex<BTreeMap<u64, Result<Appended, AppendError>>>);

impl AppendDone for Answers {
    fn appended(&self, tag: u64, result: Result<Appended, AppendError>) {
        assert!(self.0.lock().insert(tag, result).is_none(), "append {tag} is answered twice");
    }
}

async fn open(disk: &SimDisk, env: &Env) -> Target {
    open_as(disk, env, Begin::AtOnce).await
}

pub(crate) async fn open_as(disk: &SimDisk, env: &Env, begin: Begin) -> Target {
    let config = DeviceConfig { prewrite_zones: 0, ..DeviceConfig::default() };
    let device = Device::open(Arc::new(disk.clone()), env, config).await.expect("opens");
    Target::open(Arc::new(device), env, begin).await.expect("opens")
}

pub(crate) async fn fresh(env: &Env) -> (SimDisk, Target) {
    fresh_as(env, DeviceId(1)).await
}

pub(crate) async fn fresh_as(env: &Env, device: DeviceId) -> (SimDisk, Target) {
    let capacity_bytes = Some((8 << 20) + 16 * 65536);
    let disk = SimDisk::new(env, SimOptions { capacity_bytes, ..SimOptions::default() });
    let options = FormatOptions {
        cluster: ClusterId([1; 16]),
        device,
        cell: CellId(1),
        zone_bytes: Some(65536),
        capacity_bytes: None,
        overwrite: false,
    };
    Device::format(&disk, env, &options).await.expect("formats");
    let target = open(&disk, env).await;
    (disk, target)
}

fn append(
    target: &Target,
    answers: &Arc<Answers>,
    tag: u64,
    token: u64,
    deadline: Option<Instant>,
) -> Result<(), AppendRefused> {
    let call = AppendCall {
        class: AppendClass::Data,
        frame_bytes: frame_bytes(8, 100),
        writer: GATEWAY,
        token: Token(token),
        deadline,
        done: answers.clone(),
        tag,
    };
    target.append(call, |slot| frame::compose(slot, 1, CellId(1), &tag.to_le_bytes(), &[&[7; 100]]))
}

async fn walked(target: &Target) -> Vec<u64> {
    let mut walk = target.walk(&LogVector::START, true);
    let mut tags = Vec::new();
    while let Some(event) = walk.next().await {
        let WalkEvent::Frame(frame) = event else { panic!("{event:?}") };
        tags.push(u64::from_le_bytes(frame.engine_header().try_into().expect("eight bytes")));
    }
    tags
}

#[tokio::test(start_paused = true)]
async fn a_fence_refuses_older_tokens_and_outlives_the_process() {
    let env = Env::simulated(1);
    let (disk, target) = fresh(&env).await;
    let answers = Arc::new(Answers::default());
    append(&target, &answers, 1, 5, None).expect("no fence yet");
    target.raise_fence(GATEWAY, Token(6)).await.expect("raises");
    let refused = append(&target, &answers, 2, 5, None).expect_err("fenced");
    assert!(matches!(refused, AppendRefused::Fenced { fence: Token(6), .. }), "{refused}");
    append(&target, &answers, 3, 6, None).expect("the new token");
    let older = target.raise_fence(GATEWAY, Token(5)).await.expect_err("older");
    assert!(matches!(older, FenceError::Older { .. }), "{older}");

    drop(target);
    let survivor = disk.crash();
    let target = open(&survivor, &env).await;
    assert_eq!(target.fence(GATEWAY), Some(Token(6)));
    assert!(append(&target, &answers, 4, 5, None).is_err());
    let other = FenceKey { kind: FenceKind::Gateway, scope: 2 };
    target.load_fences(&[(GATEWAY, Token(3)), (other, Token(9))]).await.expect("loads");
    assert_eq!((target.fence(GATEWAY), target.fence(other)), (Some(Token(6)), Some(Token(9))));
    assert_eq!(walked(&target).await, [1, 3]);
}

#[tokio::test(start_paused = true)]
async fn a_raise_is_durable_before_it_is_acknowledged() {
    for cut_after in 0..4 {
        let env = Env::simulated(cut_after);
        let (disk, target) = fresh(&env).await;
        target.raise_fence(GATEWAY, Token(6)).await.expect("raises");
        disk.power_cut_after(cut_after);
        let raise = target.raise_fence(GATEWAY, Token(7));
        let acknowledged = tokio::time::timeout(Duration::from_secs(1), raise).await.is_ok();
        drop(target);
        let target = open(&disk.crash(), &env).await;
        let fence = target.fence(GATEWAY).expect("the one before at least");
        assert!(fence == Token(7) || (fence == Token(6) && !acknowledged), "cut {cut_after}: {fence}, {acknowledged}");
    }
}

#[tokio::test(start_paused = true)]
async fn after_fence_and_drain_nothing_of_the_old_token_lands() {
    let env = Env::simulated(3);
    let (disk, target) = fresh(&env).await;
    let target = Arc::new(target);
    let answers = Arc::new(Answers::default());
    append(&target, &answers, 1, 5, None).expect("starts");
    disk.set_order(CompletionOrder::Timed(Duration::from_millis(10)));
    for tag in 2..30 {
        append(&target, &answers, tag, 5, None).expect("starts");
    }
    let answered_at_once = answers.0.lock().len();
    assert!(answered_at_once < 29, "some are in flight: {answered_at_once}");
    target.fence_and_drain(&[(GATEWAY, Token(6))]).await.expect("fences");
    assert_eq!(answers.0.lock().len(), 29, "all that was admitted is answered");
    assert!(append(&target, &answers, 30, 5, None).is_err());
    let first = walked(&target).await;
    assert_eq!(first.len(), 29);
    append(&target, &answers, 31, 6, None).expect("the new token writes on");
    target.drain().await;
    assert_eq!(walked(&target).await.len(), 30);
}

#[tokio::test(start_paused = true)]
async fn deadlines_are_checked_at_admission_and_before_submission() {
    let env = Env::simulated(4);
    let (disk, target) = fresh(&env).await;
    let answers = Arc::new(Answers::default());
    append(&target, &answers, 0, 1, None).expect("starts");
    let refused = append(&target, &answers, 1, 1, Some(env.now())).expect_err("past");
    assert!(matches!(refused, AppendRefused::DeadlinePassed), "{refused}");
    disk.set_order(CompletionOrder::Stepped);
    append(&target, &answers, 2, 1, None).expect("starts");
    append(&target, &answers, 3, 1, Some(env.now() + Duration::from_millis(5))).expect("starts");
    tokio::time::advance(Duration::from_millis(10)).await;
    disk.run_until_idle();
    let late = answers.0.lock()[&3].clone().expect_err("late");
    assert!(matches!(late, AppendError::DeadlinePassed), "{late}");
    assert!(answers.0.lock()[&2].is_ok());
}

#[tokio::test(start_paused = true)]
async fn closing_answers_everything_and_the_next_start_finds_it() {
    let env = Env::simulated(5);
    let (disk, target) = fresh(&env).await;
    let answers = Arc::new(Answers::default());
    disk.set_order(CompletionOrder::Timed(Duration::from_millis(3)));
    for tag in 0..20 {
        append(&target, &answers, tag, 1, None).expect("starts");
    }
    target.close().await.expect("closes");
    assert_eq!(answers.0.lock().values().filter(|answer| answer.is_ok()).count(), 20);
    assert!(append(&target, &answers, 21, 1, None).is_err());
    drop(target);
    let next = disk.crash();
    next.set_order(CompletionOrder::Inline);
    assert_eq!(walked(&open(&next, &env).await).await.len(), 20);
}
