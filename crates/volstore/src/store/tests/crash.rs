//! A power cut at every write of a seeded workload. What was answered is there with its bytes; what was not is there as a whole, or not at all; each block has one owner.
//! And the proof that the test can fail: on a disk that lies about durability it does.

use std::collections::BTreeMap;
use std::time::Duration;

use ::engine::{CompletePart, Condition, EngineError, ObjectEngine, PartContent, UploadRef};
use bytes::Bytes;
use disk::{CompletionOrder, Fault, FaultRule, Operation};
use futures_util::future::join_all;
use model::choice::{Choose, Seeded};
use smallvec::smallvec;
use types::limits::MAX_SMALL_BYTES;

use super::support::{Rig, SMALL, SMALL_WITH_JOURNAL, attributes_of, bytes, key, patient, put};
use crate::interface::VolumeEngine;
use crate::limits::Shape;

const ROUNDS: usize = 10;
const NAMES: usize = 4;

fn seeds() -> u64 {
    if std::env::var_os("TRILITH_SOAK").is_some() { 40 } else { 2 }
}

#[derive(Clone, Debug)]
enum Act {
    Put { version: u64, len: usize },
    Parts { version: u64, lens: Vec<usize> },
    Delete,
}

impl Act {
    /// What is there when it has taken effect.
    fn content(&self) -> Option<Vec<u8>> {
        match self {
            Act::Put { version, len } => Some(bytes(*version, *len)),
            Act::Parts { version, lens } => {
                Some(lens.iter().enumerate().flat_map(|(at, len)| bytes(version * 100 + at as u64, *len)).collect())
            }
            Act::Delete => None,
        }
    }
}

/// What a name may be: what was answered last, or anything that was begun at the same time or since.
#[derive(Clone, Debug)]
struct Known {
    allowed: Vec<Option<Vec<u8>>>,
}

fn choose(seeded: &mut Seeded, version: u64) -> Act {
    match seeded.below(10) {
        0..5 => Act::Put { version, len: seeded.below(20_000) },
        5 => Act::Put { version, len: MAX_SMALL_BYTES + seeded.below(200_000) },
        6 | 7 => Act::Parts { version, lens: vec![seeded.below(9_000) + 1, seeded.below(9_000) + 1] },
        _ => Act::Delete,
    }
}

async fn carry_out(engine: &VolumeEngine, name: &str, act: &Act) -> Result<(), EngineError> {
    match act {
        Act::Put { version, len } => put(engine, name, bytes(*version, *len)).await,
        Act::Delete => engine.delete(&key(name), Condition::None).await,
        Act::Parts { version, lens } => {
            let upload = engine.create_upload(&key(name), attributes_of(b"")).await?;
            let upload = UploadRef { key: key(name), upload };
            let mut parts = Vec::new();
            for (at, len) in lens.iter().enumerate() {
                let content = PartContent::Whole(smallvec![Bytes::from(bytes(version * 100 + at as u64, *len))]);
                let part = engine.put_part(&upload, at as u16 + 1, attributes_of(b""), content).await?;
                parts.push(CompletePart { number: part.number, order: part.order });
            }
            engine.complete(&upload, parts, attributes_of(b""), Condition::None).await.map(drop)
        }
    }
}

/// What was begun in a round, and whether all of it was answered.
type Begun = (Vec<Option<Vec<u8>>>, bool);

struct History {
    rig: Rig,
    known: BTreeMap<String, Known>,
    mutations: u64,
}

async fn run(seed: u64, shape: Shape, cut: Option<u64>, is_liar: bool) -> History {
    let rig = Rig::of_shape(seed, 30, shape).await;
    let disk = &rig.disks[0];
    disk.set_ignores_flush(is_liar);
    disk.set_order(CompletionOrder::Timed(Duration::from_millis(3)));
    let before = disk.mutations();
    if let Some(cut) = cut {
        disk.power_cut_after(cut);
    }
    let mut seeded = Seeded::new(seed);
    let mut known: BTreeMap<String, Known> = BTreeMap::new();
    for round in 0..ROUNDS {
        match seeded.below(6) {
            0 => drop(patient(rig.store.inner.dump()).await),
            1 => drop(patient(rig.store.inner.clone().maintain_once()).await),
            _ => {}
        }
        // Two names at once; one of them twice.
        let first = seeded.below(NAMES);
        let acts: Vec<(String, Act)> = [first, (first + 1) % NAMES, first]
            .iter()
            .enumerate()
            .map(|(index, name)| (format!("{name}"), choose(&mut seeded, (round * 10 + index) as u64 + 1)))
            .collect();
        let engine = rig.engine();
        let answers = join_all(acts.iter().map(|(name, act)| patient(carry_out(&engine, name, act)))).await;
        let mut begun: BTreeMap<String, Begun> = BTreeMap::new();
        for (answer, (name, act)) in answers.into_iter().zip(acts) {
            let (contents, all_answered) = begun.entry(name).or_insert((Vec::new(), true));
            contents.push(act.content());
            match answer {
                Some(Ok(())) => {}
                // The power is gone.
                None | Some(Err(EngineError::Unavailable { .. })) => *all_answered = false,
                Some(Err(error)) => panic!("seed {seed}, {act:?}: {error}"),
            }
        }
        for (name, (contents, all_answered)) in begun {
            let known = known.entry(name).or_insert(Known { allowed: vec![None] });
            if all_answered {
                known.allowed.clear();
            }
            known.allowed.extend(contents);
        }
        if disk.power_is_cut() {
            break;
        }
    }
    let mutations = disk.mutations() - before;
    History { rig, known, mutations }
}

/// What is wrong after the cut; empty if all is well.
async fn wrong_after(history: &History, revoked: &mut u64) -> Vec<String> {
    let rig = history.rig.crash().await;
    let (mut wrong, found) = look(&rig, &history.known).await;
    *revoked += rig.store.stats().revoked;
    wrong.extend(rig.store.check().err());
    if wrong.is_empty() {
        // Others use the rest, and then every name still has what was found.
        for number in 0..12 {
            rig.put("other", bytes(number, 300_000)).await.expect("puts");
        }
        rig.dump().await;
        rig.maintain().await;
        let rig = rig.crash().await;
        let (still_wrong, again) = look(&rig, &history.known).await;
        wrong = still_wrong;
        wrong.extend(rig.store.check().err());
        rig.maintain().await;
        let (account, _) = rig.store.account();
        if account.unsettled > 0 || account.used != account.named + account.dump {
            wrong.push(format!("blocks have leaked: {account:?}"));
        }
        if found != again {
            wrong.push("it has changed since the first look".to_owned());
        }
        if rig.get("other").await.ok().flatten() != Some(bytes(11, 300_000)) {
            wrong.push("what was put later is not there".to_owned());
        }
    }
    wrong
}

async fn look(rig: &Rig, known: &BTreeMap<String, Known>) -> (Vec<String>, Vec<Option<Vec<u8>>>) {
    let (mut wrong, mut all) = (Vec::new(), Vec::new());
    for (name, known) in known {
        match rig.get(name).await {
            Ok(found) => {
                if !known.allowed.contains(&found) {
                    let lens: Vec<_> = known.allowed.iter().map(|one| one.as_ref().map(Vec::len)).collect();
                    wrong.push(format!("{name} has {:?} bytes, not as one of {lens:?}", found.as_ref().map(Vec::len)));
                }
                all.push(found);
            }
            Err(error) => wrong.push(format!("{name}: {error}")),
        }
    }
    (wrong, all)
}

#[tokio::test(start_paused = true)]
async fn a_cut_at_any_write_leaves_what_was_answered() {
    cut_at_every_write(SMALL).await;
}

#[tokio::test(start_paused = true)]
async fn a_cut_at_any_write_leaves_what_a_journal_has() {
    env::keep_marks();
    cut_at_every_write(SMALL_WITH_JOURNAL).await;
    let marks = env::take_marks();
    for what in ["a write was journaled", "a start has found small writes", "records of small writes were given up"] {
        assert!(marks.contains_key(&*format!("volume engine: {what}")), "not once: {what}; {marks:?}");
    }
}

async fn cut_at_every_write(shape: Shape) {
    let (mut cuts, mut revoked) = (0, 0);
    for seed in 0..seeds() {
        let whole = run(seed, shape, None, false).await;
        assert!(whole.mutations > 60, "seed {seed} writes {} times", whole.mutations);
        for cut in 0..whole.mutations {
            let history = run(seed, shape, Some(cut), false).await;
            let wrong = wrong_after(&history, &mut revoked).await;
            assert!(wrong.is_empty(), "seed {seed}, cut {cut}: {wrong:#?}");
            cuts += 1;
        }
    }
    println!("{cuts} cuts, after which {revoked} mutations were revoked");
    assert!(revoked > 10, "{revoked} were revoked: the cuts miss the writes of content");
}

#[tokio::test(start_paused = true)]
async fn a_disk_that_lies_about_durability_is_found_out() {
    let mut found = 0;
    for cut in (30..100).step_by(7) {
        let history = run(1, SMALL, Some(cut), true).await;
        let opened = patient(tokio::spawn(async move { wrong_after(&history, &mut 0).await })).await.expect("ends");
        // The device may even be lost.
        found += usize::from(opened.map_or(true, |wrong| !wrong.is_empty()));
    }
    assert!(found > 3, "a test that passes on such a disk tests nothing: {found}");
}

/// Caught: a condition on a name whose write had failed, which ended the process.
#[tokio::test(start_paused = true)]
async fn a_condition_on_a_name_whose_write_has_failed_is_refused() {
    let rig = Rig::new(1).await;
    rig.put("a", bytes(1, 9_000)).await.expect("puts");
    rig.disks[0].add_rule(FaultRule::always(Operation::Write, Fault::Fail));
    rig.put("a", bytes(2, 9_000)).await.expect_err("its bytes can't be written");
    let version = attributes_of(&bytes(3, 10));
    for strict in [false, true] {
        let engine = VolumeEngine::new(rig.store.clone(), strict);
        let condition = if strict { Condition::None } else { Condition::Absent };
        let put = engine.put(&key("a"), version.clone(), smallvec![bytes(3, 10).into()], condition).await;
        assert!(matches!(put, Err(EngineError::Unavailable { .. })), "{put:?}");
    }
    let deleted = rig.engine().delete(&key("a"), Condition::Absent).await;
    assert!(matches!(deleted, Err(EngineError::Unavailable { .. })), "{deleted:?}");
    let found = rig.get("a").await.expect("reads go on");
    assert_eq!(found, Some(bytes(1, 9_000)), "what was answered is there");
}
