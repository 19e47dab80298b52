//! A power cut at every write of a seeded workload. What was answered is there; of what was under way each sector is old or new; no bytes of
//! another blob show; no block is held by two blobs. And the proof that the test can fail: on a disk that lies about durability it does.

use std::collections::BTreeSet;
use std::time::Duration;

use device::SyncMode;
use disk::CompletionOrder;
use futures_util::future::join_all;
use model::choice::{Choose, Seeded};
use types::Token;

use super::ledger::{Act, BLOBS, Content, after, choose, id_of, judge};
use super::support::{BLOCKS, Rig, UNIT_BYTES, fill, holder, id, new, patient};
use crate::stores::{Admission, BlobAt, StoreError};

const ROUNDS: usize = 16;
/// Blobs that are asked about at once.
const AT_ONCE: usize = 3;

fn seeds() -> u64 {
    if std::env::var_os("TRILITH_SOAK").is_some() { 40 } else { 3 }
}

/// What is known of a blob.
#[derive(Clone, Default)]
struct Known {
    block: Option<u32>,
    now: Option<Content>,
    /// What it is if all took effect that was not answered.
    doubted: Option<Content>,
}

/// What was asked and answered until the cut, or to the end.
pub struct History {
    pub rig: Rig,
    known: Vec<Known>,
    pub mutations: u64,
}

pub async fn run(seed: u64, cut: Option<u64>, sync: SyncMode, is_liar: bool) -> History {
    let rig = Rig::with(seed, UNIT_BYTES, sync).await;
    rig.disk.set_ignores_flush(is_liar);
    rig.disk.set_order(CompletionOrder::Timed(Duration::from_millis(3)));
    let before = rig.disk.mutations();
    if let Some(cut) = cut {
        rig.disk.power_cut_after(cut);
    }
    let mut holders = [holder(3, 1), holder(4, 1)];
    for one in holders {
        rig.enter(one).await;
    }
    let mut seeded = Seeded::new(seed);
    let mut known = vec![Known::default(); BLOBS];
    for round in 0..ROUNDS {
        match seeded.below(6) {
            0 => drop(patient(rig.store.inner.return_vacant()).await),
            1 => {
                let one = &mut holders[seeded.below(2)];
                *one = Admission { token: Token(one.token.0 + 1), ..*one };
                drop(patient(rig.store.enter(*one)).await.map(|rows| rows.expect("enters")));
            }
            _ => {}
        }
        let acts = choose_acts(&mut seeded, &known, round as u64 + 1);
        let asking = acts.iter().map(|(blob, act)| patient(ask(&rig, holders[*blob / 3], *blob, known[*blob].block, act)));
        let answers = join_all(asking).await;
        for (answer, (blob, act)) in answers.into_iter().zip(acts) {
            let known = &mut known[blob];
            known.doubted = after(known.doubted.as_ref(), &act);
            if let Some(answer) = answer {
                let block = answer.unwrap_or_else(|error| panic!("{act:?}: {error}"));
                known.now = after(known.now.as_ref(), &act);
                known.block = block;
            }
        }
        if rig.disk.power_is_cut() {
            break;
        }
    }
    let mutations = rig.disk.mutations() - before;
    History { rig, known, mutations }
}

/// Different blobs at once, or different pieces of one.
fn choose_acts(seeded: &mut Seeded, known: &[Known], version: u64) -> Vec<(usize, Act)> {
    let first = seeded.below(BLOBS);
    if known[first].now.is_some() && seeded.percent(30) {
        return (0..4).map(|piece| (first, Act::Change(fill(id_of(first), piece..piece + 1, version)))).collect();
    }
    let blobs = (0..AT_ONCE).map(|more| (first + more) % BLOBS);
    blobs.map(|blob| (blob, choose(seeded, blob, known[blob].now.as_ref(), version))).collect()
}

/// The block of the blob after a request.
async fn ask(rig: &Rig, one: Admission, blob: usize, block: Option<u32>, act: &Act) -> Result<Option<u32>, StoreError> {
    let id = id_of(blob);
    match (block, act) {
        (None, Act::Change(change)) => rig.store.create(one, new(id), change.clone()).await.map(Some),
        (Some(block), Act::Change(change)) => {
            rig.store.change(one, BlobAt { block, id }, change.clone()).await.map(|()| Some(block))
        }
        (Some(block), Act::Free) => rig.store.free(one, BlobAt { block, id }).await.map(|()| None),
        (None, Act::Free) => unreachable!("only what is there is freed"),
    }
}

/// What is wrong after the cut; empty if all is well.
async fn wrong_after(history: &History) -> Vec<String> {
    let rig = history.rig.crash().await;
    let mut wrong = look(&rig, &history.known).await;
    if rig.store.stats().blocks_damaged > 0 {
        wrong.push("a header is lost".to_owned());
    }
    if wrong.is_empty() {
        // All other blocks can be used, and then every blob still has its own.
        let other = holder(9, 1);
        rig.enter(other).await;
        let used = rig.rows(3).len() + rig.rows(4).len();
        for index in 0..BLOCKS - used as u32 {
            rig.create(other, id(9, index), fill(id(9, index), 0..5, 99)).await;
        }
        let rig = rig.crash().await;
        wrong = look(&rig, &history.known).await;
    }
    wrong
}

async fn look(rig: &Rig, known: &[Known]) -> Vec<String> {
    let mut wrong = Vec::new();
    let rows: Vec<_> = [3, 4, 9].into_iter().flat_map(|image| rig.rows(image)).collect();
    let blocks: BTreeSet<u32> = rows.iter().map(|row| row.at.block).collect();
    if blocks.len() != rows.len() {
        wrong.push(format!("a block is held by two blobs: {rows:?}"));
    }
    for (blob, known) in known.iter().enumerate() {
        let row = rows.iter().find(|row| row.at.id == id_of(blob));
        let allowed: Vec<&Content> = [&known.now, &known.doubted].into_iter().flatten().collect();
        match row {
            Some(_) if allowed.is_empty() => wrong.push(format!("{} was freed, and is there", id_of(blob))),
            Some(row) => wrong.extend(judge(rig, row, &allowed).await),
            None if allowed.len() == 2 => wrong.push(format!("{} is gone", id_of(blob))),
            None => {}
        }
    }
    wrong
}

#[tokio::test(start_paused = true)]
async fn a_cut_at_any_write_leaves_what_was_answered_and_shows_no_other_bytes() {
    let mut cuts = 0;
    for seed in 0..seeds() {
        let whole = run(seed, None, SyncMode::Always, false).await;
        assert!(whole.mutations > 60, "seed {seed} writes {} times", whole.mutations);
        for cut in 0..whole.mutations {
            let history = run(seed, Some(cut), SyncMode::Always, false).await;
            let wrong = wrong_after(&history).await;
            assert!(wrong.is_empty(), "seed {seed}, cut {cut}: {wrong:#?}");
            cuts += 1;
        }
    }
    println!("{cuts} cuts");
}

#[tokio::test(start_paused = true)]
async fn a_disk_that_lies_about_durability_is_found_out() {
    let mut found = 0;
    for cut in (20..80).step_by(6) {
        let history = run(1, Some(cut), SyncMode::Always, true).await;
        let opened = patient(tokio::spawn(async move { wrong_after(&history).await })).await.expect("ends");
        // The device may even be lost.
        found += usize::from(opened.map_or(true, |wrong| !wrong.is_empty()));
    }
    assert!(found > 5, "a test that passes on such a disk tests nothing: {found}");
}
