//! A power cut at every write of a seeded workload. What was answered is there; of what was under way each block is old or new, and an append is there
//! up to some byte. And the proof that the test can fail: on a disk that lies about durability it does.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use device::SyncMode;
use disk::CompletionOrder;
use futures_util::future::join_all;
use model::choice::{Choose, Seeded};

use super::support::{BLOCK, Rig, bytes, patient};
use crate::data::{DataError, DataPartition, Extents};
use crate::ids::ExtentId;

const ROUNDS: usize = 24;
const SLOTS: usize = 5;
/// Extents that are asked about at once.
const AT_ONCE: usize = 3;

fn seeds() -> u64 {
    if std::env::var_os("TRILITH_SOAK").is_some() { 40 } else { 3 }
}

#[derive(Clone, Debug)]
enum Act {
    /// With what it begins with.
    Create(Vec<u8>),
    Append(Vec<u8>),
    Overwrite(usize, Vec<u8>),
    Punch(usize, usize),
    Remove,
}

/// What is known of an extent.
#[derive(Clone, Debug, Default)]
struct Known {
    id: Option<ExtentId>,
    content: Vec<u8>,
    /// Blocks that were given back.
    gone: BTreeSet<usize>,
    /// What was not answered.
    pending: Vec<Act>,
    versions: Vec<u64>,
}

impl Known {
    fn apply(&mut self, act: &Act) {
        match act {
            Act::Create(data) | Act::Append(data) => self.content.extend(data),
            Act::Overwrite(offset, data) => self.content[*offset..offset + data.len()].copy_from_slice(data),
            Act::Punch(offset, len) => self.gone.extend(self.punched(*offset, *len)),
            Act::Remove => *self = Known::default(),
        }
    }

    fn punched(&self, offset: usize, len: usize) -> std::ops::Range<usize> {
        let end = (offset + len).min(self.content.len());
        let end_block = if end == self.content.len() { end.div_ceil(BLOCK) } else { end / BLOCK };
        offset.div_ceil(BLOCK)..end_block
    }

    fn has_open_tail(&self) -> bool {
        self.content.len().is_multiple_of(BLOCK) || !self.gone.contains(&(self.content.len() / BLOCK))
    }
}

struct History {
    rig: Rig,
    known: Vec<Known>,
    mutations: u64,
}

/// Lengths and offsets are whole words, so that each word is of one version.
fn choose(seeded: &mut Seeded, known: &mut Known, version: u64) -> Vec<Act> {
    let len = known.content.len();
    let words = |seeded: &mut Seeded, most: usize| (seeded.below(most / 8) + 1) * 8;
    if known.id.is_none() {
        known.versions.push(version);
        let first = if seeded.percent(30) { 0 } else { words(seeded, 3 * BLOCK) };
        return vec![Act::Create(bytes(version, 0, first))];
    }
    let kind = seeded.below(10);
    known.versions.push(version);
    match kind {
        0..4 if known.has_open_tail() => {
            let most = if seeded.percent(20) { 30 * BLOCK } else { 2 * BLOCK };
            let added = words(seeded, most);
            vec![Act::Append(bytes(version, len, added))]
        }
        4..7 if len >= 64 => {
            let offset = seeded.below(len / 8) * 8;
            let block = offset / BLOCK;
            let end = (offset + words(seeded, 3 * BLOCK)).min(len / 8 * 8);
            let spoilt = (block..end.div_ceil(BLOCK)).any(|block| known.gone.contains(&block));
            if spoilt || end <= offset {
                return Vec::new();
            }
            let mut acts = vec![Act::Overwrite(offset, bytes(version, offset, end - offset))];
            // Another one at once, elsewhere in the extent.
            let other = (block + 6) * BLOCK;
            if other + BLOCK <= len && !known.gone.contains(&(block + 6)) {
                acts.push(Act::Overwrite(other + 8, bytes(version, other + 8, BLOCK - 16)));
            }
            acts
        }
        7 | 8 if len > 0 => {
            let offset = seeded.below(len);
            vec![Act::Punch(offset, words(seeded, 6 * BLOCK))]
        }
        9 if seeded.percent(40) => vec![Act::Remove],
        _ => Vec::new(),
    }
}

async fn ask(rig: &Rig, id: Option<ExtentId>, len: usize, act: &Act) -> Result<Option<ExtentId>, DataError> {
    let store = &rig.store;
    if let Act::Create(data) = act {
        return store.create(Bytes::copy_from_slice(data)).await.map(Some);
    }
    let extent = id.expect("an extent is made first");
    match act {
        Act::Create(_) => unreachable!("it is made above"),
        Act::Append(data) => store.append(extent, len as u64, Bytes::copy_from_slice(data)).await,
        Act::Overwrite(offset, data) => store.overwrite(extent, *offset as u64, Bytes::copy_from_slice(data)).await,
        Act::Punch(offset, len) => store.punch(extent, *offset as u64, *len as u64).await,
        Act::Remove => store.remove(extent).await,
    }?;
    Ok(Some(extent))
}

async fn run(seed: u64, cut: Option<u64>, sync: SyncMode, is_liar: bool) -> History {
    let rig = Rig::with(seed, sync).await;
    rig.disk.set_ignores_flush(is_liar);
    rig.disk.set_order(CompletionOrder::Timed(Duration::from_millis(3)));
    let before = rig.disk.mutations();
    if let Some(cut) = cut {
        rig.disk.power_cut_after(cut);
    }
    let mut seeded = Seeded::new(seed);
    let mut known = vec![Known::default(); SLOTS];
    for round in 0..ROUNDS {
        match seeded.below(8) {
            0 => drop(patient(rig.store.inner.checkpoint()).await),
            1 => drop(patient(rig.store.inner.clone().maintain_once()).await),
            _ => {}
        }
        let first = seeded.below(SLOTS);
        let mut asked = Vec::new();
        for slot in (first..first + AT_ONCE).map(|slot| slot % SLOTS) {
            let acts = choose(&mut seeded, &mut known[slot], round as u64 + 1);
            asked.extend(acts.into_iter().map(|act| (slot, act)));
        }
        let asking = asked.iter().map(|(slot, act)| {
            let of = &known[*slot];
            patient(ask(&rig, of.id, of.content.len(), act))
        });
        let answers = join_all(asking).await;
        for (answer, (slot, act)) in answers.into_iter().zip(asked) {
            let known = &mut known[slot];
            match answer {
                Some(answer) => {
                    known.id = answer.unwrap_or_else(|error| panic!("seed {seed}, {act:?}: {error}"));
                    known.apply(&act);
                }
                None => known.pending.push(act),
            }
        }
        if rig.disk.power_is_cut() {
            break;
        }
    }
    let mutations = rig.disk.mutations() - before;
    History { rig, known, mutations }
}

/// What is wrong after the cut; empty if all is well.
async fn wrong_after(history: &History, fallen_back: &mut u64) -> Vec<String> {
    let rig = history.rig.crash().await;
    let (mut wrong, found) = look(&rig, &history.known).await;
    *fallen_back += rig.store.stats().blocks_fallen_back;
    if rig.store.stats().damaged_blocks > 0 {
        wrong.push("blocks are damaged".to_owned());
    }
    if wrong.is_empty() {
        // Other extents use the rest, and then every extent still has what was found.
        let other = rig.create().await;
        rig.append(other, 0, &bytes(99, 0, 1 << 20)).await;
        rig.maintain().await;
        let rig = rig.crash().await;
        rig.expect(other, 0, &bytes(99, 0, 1 << 20)).await;
        let (still_wrong, again) = look(&rig, &history.known).await;
        wrong = still_wrong;
        if found != again {
            wrong.push("it has changed since the first look".to_owned());
        }
    }
    wrong
}

type Found = Vec<Vec<Result<Bytes, DataError>>>;

async fn look(rig: &Rig, known: &[Known]) -> (Vec<String>, Found) {
    let mut wrong = Vec::new();
    let mut found = Vec::new();
    for (slot, known) in known.iter().enumerate() {
        let Some(id) = known.id else { continue };
        let blocks = blocks_of(rig, id).await;
        wrong.extend(judge(known, &blocks).map(|what| format!("slot {slot}: {what}")));
        found.push(blocks);
    }
    (wrong, found)
}

/// All blocks of an extent.
async fn blocks_of(rig: &Rig, id: ExtentId) -> Vec<Result<Bytes, DataError>> {
    let Some(row) = rig.store.extents(None, usize::MAX).into_iter().find(|row| row.extent == id) else {
        return vec![Err(DataError::NoExtent(id))];
    };
    let len = row.len as usize;
    let mut blocks = Vec::new();
    for offset in (0..len).step_by(BLOCK) {
        blocks.push(rig.read(id, offset, BLOCK.min(len - offset)).await);
    }
    blocks
}

fn judge(known: &Known, blocks: &[Result<Bytes, DataError>]) -> Option<String> {
    let is_pending = |wanted: fn(&Act) -> bool| known.pending.iter().any(wanted);
    if let [Err(DataError::NoExtent(_))] = blocks {
        return (!is_pending(|act| matches!(act, Act::Remove))).then(|| "it is gone".to_owned());
    }
    let mut longest = known.content.clone();
    let mut overwritten = known.content.clone();
    let mut maybe_gone = BTreeSet::new();
    for act in &known.pending {
        match act {
            Act::Append(data) => longest.extend(data),
            Act::Overwrite(offset, data) => overwritten[*offset..offset + data.len()].copy_from_slice(data),
            Act::Punch(offset, len) => maybe_gone.extend(known.punched(*offset, *len)),
            Act::Create(_) | Act::Remove => {}
        }
    }
    overwritten.extend(&longest[known.content.len()..]);
    let mut len = 0;
    for (number, block) in blocks.iter().enumerate() {
        let offset = number * BLOCK;
        match block {
            Ok(found) => {
                len = offset + found.len();
                let is_allowed = [&longest, &overwritten].iter().any(|one| one.get(offset..len) == Some(found));
                if known.gone.contains(&number) || !is_allowed {
                    return Some(format!("block {number} is not what it was, and not what it was to be"));
                }
            }
            Err(DataError::Punched { .. }) if known.gone.contains(&number) || maybe_gone.contains(&number) => {
                len = (offset + BLOCK).min(longest.len());
            }
            Err(error) => return Some(format!("block {number}: {error}")),
        }
    }
    (len < known.content.len()).then(|| format!("{len} bytes of {} are there", known.content.len()))
}

#[tokio::test(start_paused = true)]
async fn a_cut_at_any_write_leaves_what_was_answered() {
    let (mut cuts, mut fallen_back) = (0, 0);
    for seed in 0..seeds() {
        let whole = run(seed, None, SyncMode::Always, false).await;
        assert!(whole.mutations > 60, "seed {seed} writes {} times", whole.mutations);
        for cut in 0..whole.mutations {
            let history = run(seed, Some(cut), SyncMode::Always, false).await;
            let wrong = wrong_after(&history, &mut fallen_back).await;
            assert!(wrong.is_empty(), "seed {seed}, cut {cut}: {wrong:#?}");
            cuts += 1;
        }
    }
    println!("{cuts} cuts, after which {fallen_back} blocks were what they had been");
    assert!(fallen_back > 20, "{fallen_back} blocks fell back: the cuts miss the writes of content");
}

#[tokio::test(start_paused = true)]
async fn a_disk_that_lies_about_durability_is_found_out() {
    let mut found = 0;
    for cut in (30..110).step_by(8) {
        let history = run(1, Some(cut), SyncMode::Always, true).await;
        let opened = patient(tokio::spawn(async move { wrong_after(&history, &mut 0).await })).await.expect("ends");
        // The device may even be lost.
        found += usize::from(opened.map_or(true, |wrong| !wrong.is_empty()));
    }
    assert!(found > 4, "a test that passes on such a disk tests nothing: {found}");
}

/// In a mode in which answers do not wait for the medium a cut may lose what was answered. It damages nothing, and shows nothing of another extent.
#[tokio::test(start_paused = true)]
async fn a_cut_in_a_weak_mode_leaves_each_word_as_it_once_was() {
    let mut looked_at = 0;
    for seed in 0..2 {
        let mutations = run(seed, None, SyncMode::Off, false).await.mutations;
        for cut in (0..=mutations).step_by(2) {
            let history = run(seed, Some(cut), SyncMode::Off, false).await;
            let rig = history.rig.crash().await;
            for known in &history.known {
                let Some(id) = known.id else { continue };
                for (number, block) in blocks_of(&rig, id).await.into_iter().enumerate() {
                    let found = match block {
                        Ok(found) => found,
                        Err(DataError::NoExtent(_) | DataError::Punched { .. }) => continue,
                        Err(error) => panic!("seed {seed}, cut {cut}: {error}"),
                    };
                    for (word, at) in found.chunks(8).zip((number * BLOCK..).step_by(8)) {
                        let is_known = known.versions.iter().any(|version| bytes(*version, at, 8) == word);
                        assert!(is_known, "seed {seed}, cut {cut}: byte {at} of {id:?}");
                        looked_at += 1;
                    }
                }
            }
        }
    }
    assert!(looked_at > 10_000, "{looked_at} words");
}
