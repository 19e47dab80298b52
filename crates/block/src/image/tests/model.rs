//! Random operations against plain bytes: one vector for each view.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use proptest::prelude::*;
use types::{BLOB_BYTES, DeviceId, ImageId, PIECE_BYTES};

use crate::image::twin::Trouble;
use crate::image::twin::world::{DEVICE, FIRST, FOURTH, Loss, OTHER, THIRD, World, read};
use crate::image::{Image, ImageError, ImageErrorKind};

const SECTOR: u64 = 512;
const BLOB: u64 = BLOB_BYTES as u64;
const PIECE: u64 = PIECE_BYTES as u64;
const MAX_SIZE: u64 = 2 * BLOB + 9 * PIECE + 3 * SECTOR;
const MAX_IMAGES: usize = 3;

/// Where and how much; taken relative to the image's size then.
#[derive(Clone, Copy, Debug)]
struct Spot {
    anchor: u64,
    before: u64,
    sectors: u64,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Write(Spot),
    GivenUp(Spot),
    Zeros(Spot, bool),
    Trim(Spot),
    Snapshot,
    Remove(usize),
    Rollback(usize),
    Resize(Spot),
    Reopen,
    Clone(usize),
    LoseAnswer,
    /// Of several copies: a device that died comes back, and another one dies.
    Kill(usize),
    /// What the holder does by itself.
    Keep,
    Flatten,
}

fn spot() -> impl Strategy<Value = Spot> {
    let sectors = prop_oneof![4 => 1u64..40, 2 => 100u64..600, 1 => 8000u64..9000];
    (0u64..6, 0u64..200, sectors).prop_map(|(anchor, before, sectors)| Spot { anchor, before, sectors })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => spot().prop_map(Step::Write),
        1 => spot().prop_map(Step::GivenUp),
        3 => (spot(), any::<bool>()).prop_map(|(spot, keeps)| Step::Zeros(spot, keeps)),
        3 => spot().prop_map(Step::Trim),
        3 => Just(Step::Snapshot),
        2 => any::<usize>().prop_map(Step::Remove),
        1 => any::<usize>().prop_map(Step::Rollback),
        1 => spot().prop_map(Step::Resize),
        2 => Just(Step::Reopen),
        1 => any::<usize>().prop_map(Step::Clone),
        1 => Just(Step::LoseAnswer),
        2 => any::<usize>().prop_map(Step::Kill),
        2 => Just(Step::Keep),
        1 => Just(Step::Flatten),
    ]
}

/// An image with what it shall read as.
struct Modelled {
    id: ImageId,
    image: Image,
    now: Vec<u8>,
    snapshots: BTreeMap<String, Vec<u8>>,
    /// Snapshots that clones stand on.
    pinned: Vec<String>,
}

struct Model {
    world: World,
    images: Vec<Modelled>,
    last_stamp: u64,
    copies: usize,
    dead: Option<DeviceId>,
}

impl Spot {
    fn range(self, size: u64) -> std::ops::Range<u64> {
        let anchor = [0, PIECE, BLOB - PIECE, BLOB, 2 * BLOB, size][self.anchor as usize].min(size - SECTOR);
        let start = anchor.saturating_sub(self.before * SECTOR) / SECTOR * SECTOR;
        start..(start + self.sectors * SECTOR).min(size)
    }
}

impl Model {
    async fn new(seed: u64, size: u64, copies: usize) -> Model {
        let world = World::with_copies(seed, size, 40 * copies, copies);
        let image = world.open(FIRST).await.unwrap();
        let now = vec![0; size as usize];
        let first = Modelled { id: FIRST, image, now, snapshots: BTreeMap::new(), pinned: Vec::new() };
        Model { world, images: vec![first], last_stamp: 0, copies, dead: None }
    }

    fn stamp(&mut self) -> u64 {
        self.last_stamp += 1;
        self.last_stamp
    }

    async fn step(&mut self, at: usize, step: Step) {
        let at = at % self.images.len();
        let stamp = self.stamp();
        let byte = (stamp % 251) as u8 + 1;
        let name = format!("s{stamp}");
        let modelled = &mut self.images[at];
        let size = modelled.now.len() as u64;
        match step {
            Step::Write(spot) => {
                let range = spot.range(size);
                let done = modelled.image.write(range.start, Bytes::from(vec![byte; (range.end - range.start) as usize])).await;
                modelled.expect(done, range, byte, false).await;
            }
            Step::GivenUp(spot) => {
                let range = spot.range(size);
                let write = modelled.image.write(range.start, Bytes::from(vec![byte; (range.end - range.start) as usize]));
                self.world.stores.set_delay_ms(10);
                let done = tokio::time::timeout(Duration::from_millis(5), write).await;
                self.world.stores.set_delay_ms(0);
                let done = done.unwrap_or_else(|_| Err(ImageError::io("given up")));
                modelled.expect(done, range, byte, false).await;
            }
            Step::Zeros(spot, keeps) => {
                let range = spot.range(size);
                let done = modelled.image.write_zeros(range.start, range.end - range.start, keeps).await;
                modelled.expect(done, range, 0, false).await;
            }
            Step::Trim(spot) => {
                let range = spot.range(size);
                let done = modelled.image.trim(range.start, range.end - range.start).await;
                modelled.expect(done, range, 0, true).await;
            }
            Step::Snapshot => {
                modelled.image.snapshot(&name).await.unwrap();
                modelled.snapshots.insert(name, modelled.now.clone());
            }
            Step::Remove(which) => {
                let free: Vec<&String> = modelled.snapshots.keys().filter(|name| !modelled.pinned.contains(name)).collect();
                if let Some(name) = pick(&free, which).map(|name| name.to_string()) {
                    only_io(modelled.image.remove_snapshot(&name).await);
                    modelled.snapshots.remove(&name);
                }
            }
            Step::Rollback(which) => {
                let names: Vec<String> = modelled.snapshots.keys().cloned().collect();
                if let Some(name) = pick(&names, which) {
                    only_io(modelled.image.rollback(name).await);
                    modelled.now = modelled.snapshots[name].clone();
                }
            }
            Step::Resize(spot) => modelled.resize(spot).await,
            Step::Reopen => {
                let id = modelled.id;
                modelled.image = self.world.open(id).await.unwrap();
                only_io(modelled.image.tidy().await);
            }
            Step::Clone(which) => self.clone_of(at, which).await,
            Step::LoseAnswer => self.world.records.lose([Loss::Answer, Loss::Question]),
            Step::Kill(which) if self.copies > 2 => self.kill(which).await,
            Step::Kill(_) => {}
            Step::Flatten => self.flatten(at).await,
            Step::Keep => drop(self.images[at].image.keep_once().await),
        }
        assert_eq!(self.images[at].image.locks.entries(), 0);
    }

    async fn flatten(&mut self, at: usize) {
        let modelled = &self.images[at];
        let view = self.world.records.view(modelled.id);
        let flattened = modelled.image.flatten().await;
        if view.parent.is_none() || !view.snapshots.is_empty() {
            assert_eq!(flattened.unwrap_err().kind, ImageErrorKind::Invalid);
            return;
        }
        if flattened.is_ok() {
            assert_eq!(self.world.records.view(modelled.id).parent, None);
        }
        only_io(flattened);
        modelled.check_window(0..modelled.now.len() as u64).await;
    }

    /// One after the other: a device dies only when all others have everything.
    async fn kill(&mut self, which: usize) {
        if !self.revive().await {
            return;
        }
        let devices = [DEVICE, OTHER, THIRD, FOURTH];
        let device = devices[which % devices.len()];
        self.world.stores.set_dead(device, true);
        self.dead = Some(device);
    }

    /// Whether all devices are in sync then.
    async fn revive(&mut self) -> bool {
        if let Some(device) = self.dead.take() {
            self.world.stores.set_dead(device, false);
        }
        let mut is_whole = true;
        for modelled in &self.images {
            is_whole &= modelled.image.keep_once().await.is_ok();
            let view = self.world.records.view(modelled.id);
            is_whole &= view.out.is_empty() && modelled.image.is_settled() && usize::from(view.redundancy.hosts) == self.copies;
        }
        is_whole
    }

    async fn clone_of(&mut self, at: usize, which: usize) {
        let names: Vec<String> = self.images[at].snapshots.keys().cloned().collect();
        let Some(name) = pick(&names, which).filter(|_| self.images.len() < MAX_IMAGES) else { return };
        let id = ImageId(self.images.len() as u64 + 1);
        let now = self.images[at].snapshots[name].clone();
        self.world.add(id, now.len() as u64, Some(self.world.layer(self.images[at].id, name)));
        self.images[at].pinned.push(name.clone());
        let image = self.world.open(id).await.unwrap();
        self.images.push(Modelled { id, image, now, snapshots: BTreeMap::new(), pinned: Vec::new() });
    }

    /// All views are right, the map is what the devices have, and nothing is kept that no view needs.
    async fn check(&mut self) {
        assert!(self.revive().await, "nothing is left out");
        for modelled in &self.images {
            modelled.image.tidy().await.unwrap();
            self.world.stores.check_copies(modelled.id, self.copies);
        }
        for modelled in &self.images {
            modelled.check_window(0..modelled.now.len() as u64).await;
            for (name, bytes) in &modelled.snapshots {
                let seen = self.world.read_layer(self.world.layer(modelled.id, name), bytes.len() as u64).await;
                same(&seen, bytes, 0, name);
            }
            let rows: usize = self.world.stores.rows(modelled.id).iter().map(|(_, rows)| rows.len()).sum();
            assert_eq!(modelled.image.usage().blocks, rows as u64);
            let views = 1 + modelled.snapshots.len();
            assert!(rows <= 3 * views * self.copies, "{rows} blobs for {views} views of three parts");
            let reopened = self.world.open(modelled.id).await.unwrap();
            assert_eq!(reopened.usage(), modelled.image.usage());
            let length = modelled.now.len() as u32;
            same(&read(&reopened, 0, length).await, &modelled.now, 0, "reopened");
        }
    }
}

impl Modelled {
    /// Takes over what an operation did that filled a range with a byte. One that failed may have done so for any sector.
    async fn expect(&mut self, done: Result<(), ImageError>, range: std::ops::Range<u64>, byte: u8, is_trim: bool) {
        let size = self.now.len() as u64;
        let mut cleared = range.clone();
        if is_trim {
            // Whole pieces only; the image's end is the end of its last piece.
            let end = if range.end == size { range.end.next_multiple_of(PIECE) } else { range.end };
            cleared = range.start.next_multiple_of(PIECE).min(size)..(end / PIECE * PIECE).min(size);
        }
        let mut new = self.now.clone();
        if !cleared.is_empty() {
            new[cleared.start as usize..cleared.end as usize].fill(byte);
        }
        if done.is_err() {
            only_io(done);
            let seen = read(&self.image, range.start, (range.end - range.start) as u32).await;
            for (at, sector) in seen.chunks(SECTOR as usize).enumerate() {
                let start = range.start as usize + at * SECTOR as usize;
                let bytes = start..start + SECTOR as usize;
                assert!(sector == &self.now[bytes.clone()] || sector == &new[bytes.clone()], "neither old nor new at {start}");
                new[bytes].copy_from_slice(sector);
            }
        }
        self.now = new;
        let start = range.start.saturating_sub(16 * SECTOR);
        self.check_window(start..(range.end + 16 * SECTOR).min(size)).await;
        let extents = self.image.status(range.start, range.end - range.start, 100).await.unwrap();
        self.check_status(range.start, &extents);
    }

    fn check_status(&self, mut at: u64, extents: &[crate::image::Extent]) {
        for extent in extents {
            let bytes = &self.now[at as usize..(at + extent.length) as usize];
            assert!(!extent.is_zero || bytes.iter().all(|byte| *byte == 0), "{extent:?} at {at} is not zero");
            assert!(!extent.is_hole || extent.is_zero, "a hole reads as zeros");
            at += extent.length;
        }
    }

    async fn resize(&mut self, spot: Spot) {
        let size = self.now.len() as u64;
        let new_size = (spot.range(MAX_SIZE).start + SECTOR).min(MAX_SIZE);
        match self.image.resize(new_size, true).await {
            Ok(()) => self.now.resize(new_size as usize, 0),
            // Nothing was cut off, but any of it may be gone.
            failed => self.expect(failed, new_size..size, 0, false).await,
        }
        assert_eq!(self.image.size(), self.now.len() as u64);
    }

    async fn check_window(&self, range: std::ops::Range<u64>) {
        let seen = read(&self.image, range.start, (range.end - range.start) as u32).await;
        same(&seen, &self.now[range.start as usize..range.end as usize], range.start, "now");
    }
}

fn same(seen: &[u8], expected: &[u8], start: u64, what: &str) {
    if let Some(at) = seen.iter().zip(expected).position(|(a, b)| a != b) {
        panic!("{what}: byte {} is {}, not {}", start + at as u64, seen[at], expected[at]);
    }
    assert_eq!(seen.len(), expected.len());
}

fn only_io(done: Result<(), ImageError>) {
    if let Err(error) = done {
        assert_eq!(error.kind, ImageErrorKind::Io, "{error}");
    }
}

fn pick<T>(list: &[T], which: usize) -> Option<&T> {
    if list.is_empty() { None } else { list.get(which % list.len()) }
}

fn run(seed: u64, size: u64, steps: Vec<(usize, Step)>, troubles: &[Trouble]) {
    run_with(1, seed, size, steps, troubles);
}

fn run_with(copies: usize, seed: u64, size: u64, steps: Vec<(usize, Step)>, troubles: &[Trouble]) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let mut model = Model::new(seed, size * SECTOR, copies).await;
        if !troubles.is_empty() {
            model.world.stores.trouble_at_random(6, troubles);
        }
        for (at, step) in steps {
            model.step(at, step).await;
        }
        model.world.stores.trouble_at_random(0, &[]);
        model.check().await;
    });
}

const LOST_ANSWERS: [Trouble; 5] = [Trouble::Lost, Trouble::AnswerLost, Trouble::Late, Trouble::Forgets, Trouble::NoSpace];

/// Caught: a write that was given up between two questions left a blob of an image with one copy, which the next holder took for content.
#[test]
fn what_a_write_has_begun_that_was_given_up_between_two_questions_is_freed() {
    let spot = |anchor, before, sectors| Spot { anchor, before, sectors };
    let steps = vec![
        (0, Step::Write(spot(2, 0, 8000))),
        (2, Step::Zeros(spot(1, 122, 8473), false)),
        (3, Step::Snapshot),
        (0, Step::Reopen),
        (0, Step::Resize(spot(0, 195, 1))),
        (0, Step::Write(spot(2, 170, 33))),
        (1, Step::Clone(10_074_631_705_735_836_105)),
        (5, Step::GivenUp(spot(2, 187, 8244))),
    ];
    run(16_391_654_402_232_490_747, 8480, steps, &LOST_ANSWERS);
}

fn steps() -> impl Strategy<Value = Vec<(usize, Step)>> {
    proptest::collection::vec((0usize..6, step()), 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn an_image_is_its_model(seed: u64, size in 1..MAX_SIZE / SECTOR, steps in steps()) {
        run(seed, size, steps, &[]);
    }

    #[test]
    fn an_image_is_its_model_when_answers_are_lost(seed: u64, size in 1..MAX_SIZE / SECTOR, steps in steps()) {
        run(seed, size, steps, &LOST_ANSWERS);
    }

    #[test]
    fn an_image_is_its_model_when_devices_fail(seed: u64, size in 1..MAX_SIZE / SECTOR, steps in steps()) {
        run(seed, size, steps, &[Trouble::Failed, Trouble::FailedLate, Trouble::Late, Trouble::AnswerLost, Trouble::NoSpace]);
    }

    #[test]
    fn an_image_with_copies_is_its_model(seed: u64, size in 1..MAX_SIZE / SECTOR, steps in steps()) {
        run_with(3, seed, size, steps, &[]);
    }

    #[test]
    fn an_image_with_copies_is_its_model_when_answers_are_lost(seed: u64, size in 1..MAX_SIZE / SECTOR, steps in steps()) {
        run_with(3, seed, size, steps, &[Trouble::Lost, Trouble::AnswerLost, Trouble::Late, Trouble::Forgets]);
    }
}
