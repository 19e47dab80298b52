//! Random operations against the engine and the oracle in memory: every answer must be the same.

use std::sync::Arc;

use bytes::Bytes;
use types::limits::{BLOCK_BYTES, CHUNK_BYTES, MAX_SMALL_BYTES};

use super::Engine;
use super::model_outcome::{shown, shown_committed, shown_page, shown_parts, shown_seen};
use super::random::{Draw, seeds};
use super::support::{BUCKET, attributes, get, key, list, put_as, put_part, tag};
use crate::condition::{Condition, ETagMatch};
use crate::memory::MemoryEngine;
use crate::traits::ObjectEngine;
use crate::upload::{CompletePart, UploadQuery, UploadRef};

/// Operations of one sequence.
const OPERATIONS: usize = 300;
/// Sequences, before the soak factor.
const SEQUENCES: u64 = 4;
/// Operations between restarts, at most.
const OPERATIONS_BETWEEN_RESTARTS: usize = 60;
/// Uploads that a sequence opens, so that it also completes some.
const MAX_UPLOADS: usize = 12;

const KEYS: &[&str] = &["a", "a/", "a/b", "a/b/c", "b", "\u{e9}"];
const LENGTHS: &[usize] = &[0, 1, 100, BLOCK_BYTES - 1, BLOCK_BYTES, 20_000, MAX_SMALL_BYTES];
const LARGE_LENGTHS: &[usize] = &[MAX_SMALL_BYTES + 1, CHUNK_BYTES, CHUNK_BYTES + 1, 2 * CHUNK_BYTES + 4097];

/// The same history on two engines.
struct Model {
    seed: u64,
    oracle: Engine,
    /// Counts writes; each write's tag, time and bytes come from its number.
    writes: u64,
    uploads: Vec<UploadPair>,
}

/// One upload on both engines: ids and orders are each engine's own.
struct UploadPair {
    subject: UploadRef,
    oracle: UploadRef,
    /// Every part ever written, stale ones too.
    parts: Vec<(CompletePart, CompletePart)>,
}

pub(super) async fn random_operations(engine: Engine) {
    for seed in seeds(SEQUENCES) {
        let mut model = Model::new(seed);
        let mut draw = Draw::new(seed);
        for step in 0..OPERATIONS {
            model.step(&engine, &mut draw, step).await;
        }
        model.compare_all(&engine).await;
        model.clear(&engine).await;
    }
}

pub(super) async fn random_operations_with_restarts<E, F, R>(factory: &F, restart: &R)
where
    E: ObjectEngine,
    F: AsyncFn() -> Arc<E>,
    R: AsyncFn(Arc<E>) -> Arc<E>,
{
    for seed in seeds(SEQUENCES) {
        let mut subject = factory().await;
        let mut model = Model::new(seed);
        let mut draw = Draw::new(seed);
        let mut step = 0;
        while step < OPERATIONS {
            let engine: Engine = subject.clone();
            for _ in 0..draw.below(OPERATIONS_BETWEEN_RESTARTS) + 1 {
                model.step(&engine, &mut draw, step).await;
                step += 1;
            }
            drop(engine);
            subject = restart(subject).await;
            let engine: Engine = subject.clone();
            model.compare_all(&engine).await;
        }
    }
}

impl Model {
    fn new(seed: u64) -> Self {
        Model { seed, oracle: Arc::new(MemoryEngine::new()), writes: 0, uploads: Vec::new() }
    }

    async fn step(&mut self, subject: &Engine, draw: &mut Draw, step: usize) {
        let at = format!("seed {}, step {step}", self.seed);
        match draw.below(20) {
            0..5 => self.put(subject, draw, &at).await,
            5..8 => self.delete(subject, draw, &at).await,
            8..11 => self.get(subject, draw, &at).await,
            11..13 => self.list(subject, draw, &at).await,
            13 => self.create_upload(subject, draw).await,
            14..17 => self.put_part(subject, draw, &at).await,
            17 => self.complete(subject, draw, &at).await,
            18 => self.abort_or_look(subject, draw, &at).await,
            _ => self.list_uploads(subject, &at).await,
        }
    }

    fn next_number(&mut self) -> u64 {
        self.writes += 1;
        self.seed * 1_000_000 + self.writes
    }

    fn length(draw: &mut Draw) -> usize {
        if draw.below(6) == 0 { draw.pick(LARGE_LENGTHS) } else { draw.pick(LENGTHS) }
    }

    /// A condition that holds about half of the time.
    async fn condition(&self, draw: &mut Draw, name: &crate::ObjectKey) -> Condition {
        let present = self.oracle.info(name).await.ok().map(|info| info.attributes.etag);
        let present = present.unwrap_or_else(|| tag(self.writes));
        let other = tag(self.seed * 1_000_000 + draw.below(self.writes as usize + 1) as u64);
        match draw.below(12) {
            0 => Condition::Absent,
            1 => Condition::Match(ETagMatch::Any),
            2 => Condition::Match(ETagMatch::OneOf(vec![present])),
            3 => Condition::Match(ETagMatch::OneOf(vec![other])),
            4 => Condition::NoneMatch(vec![present]),
            5 => Condition::NoneMatch(vec![other]),
            _ => Condition::None,
        }
    }

    async fn put(&mut self, subject: &Engine, draw: &mut Draw, at: &str) {
        let name = key(draw.pick(KEYS));
        let (length, number) = (Self::length(draw), self.next_number());
        let condition = self.condition(draw, &name).await;
        let expected = put_as(&self.oracle, &name, number, length, condition.clone()).await;
        let found = put_as(subject, &name, number, length, condition.clone()).await;
        let what = format!("{at}: put {:?}, {length} bytes, {condition:?}", name.as_str());
        assert_eq!(shown(found, shown_committed), shown(expected, shown_committed), "{what}");
    }

    async fn delete(&mut self, subject: &Engine, draw: &mut Draw, at: &str) {
        let name = key(draw.pick(KEYS));
        let condition = self.condition(draw, &name).await;
        let expected = self.oracle.delete(&name, condition.clone()).await;
        let found = subject.delete(&name, condition.clone()).await;
        let what = format!("{at}: delete {:?}, {condition:?}", name.as_str());
        let done = |()| String::new();
        assert_eq!(shown(found, done), shown(expected, done), "{what}");
    }

    async fn get(&mut self, subject: &Engine, draw: &mut Draw, at: &str) {
        self.compare_object(subject, draw.pick(KEYS), at).await;
    }

    async fn compare_object(&self, subject: &Engine, name: &str, at: &str) {
        let name = key(name);
        let expected = shown(get(&self.oracle, &name).await, shown_seen);
        let found = shown(get(subject, &name).await, shown_seen);
        assert_eq!(found, expected, "{at}: get {:?}", name.as_str());
        let length = |info: crate::ObjectInfo| info.length.to_string();
        let expected = shown(self.oracle.info(&name).await, length);
        assert_eq!(shown(subject.info(&name).await, length), expected, "{at}: info {:?}", name.as_str());
    }

    async fn list(&mut self, subject: &Engine, draw: &mut Draw, at: &str) {
        let prefix = draw.pick(&["", "a", "a/", "b", "x"]);
        let start_after = draw.pick(&["", "", "a", "a/", "a/b/", "b"]);
        let delimiter = draw.pick(&["", "/", "b"]);
        let max_items = draw.below(5) + 1;
        let expected = list(&self.oracle, prefix, start_after, delimiter, max_items).await;
        let found = list(subject, prefix, start_after, delimiter, max_items).await;
        let what = format!("{at}: list {prefix:?} after {start_after:?} by {delimiter:?}, {max_items} items");
        assert_eq!(shown_page(&found), shown_page(&expected), "{what}");
    }

    async fn create_upload(&mut self, subject: &Engine, draw: &mut Draw) {
        if self.uploads.len() == MAX_UPLOADS {
            return;
        }
        let name = key(draw.pick(KEYS));
        let number = self.next_number();
        let oracle = super::support::open_upload(&self.oracle, &name, number).await;
        let subject = super::support::open_upload(subject, &name, number).await;
        self.uploads.push(UploadPair { subject, oracle, parts: Vec::new() });
    }

    async fn put_part(&mut self, subject: &Engine, draw: &mut Draw, at: &str) {
        let Some(index) = self.pick_upload(draw) else { return };
        let (number, length, part) = (self.next_number(), Self::length(draw), draw.below(4) as u16 + 1);
        let pair = &mut self.uploads[index];
        let expected = put_part(&self.oracle, &pair.oracle, part, number, length).await;
        let found = put_part(subject, &pair.subject, part, number, length).await;
        if let (Ok(expected), Ok(found)) = (&expected, &found) {
            pair.parts.push((super::support::named(found), super::support::named(expected)));
        }
        let length_of = |info: crate::PartInfo| format!("{} {}", info.number, info.length);
        assert_eq!(shown(found, length_of), shown(expected, length_of), "{at}: part {part} of upload {index}");
    }

    fn pick_upload(&self, draw: &mut Draw) -> Option<usize> {
        (!self.uploads.is_empty()).then(|| draw.below(self.uploads.len()))
    }

    async fn complete(&mut self, subject: &Engine, draw: &mut Draw, at: &str) {
        let Some(index) = self.pick_upload(draw) else { return };
        let number = self.next_number();
        let condition = self.condition(draw, &self.uploads[index].oracle.key).await;
        let pair = &self.uploads[index];
        // Mostly the newest of each part, sometimes whatever was written under a number.
        let takes_newest = draw.below(4) > 0;
        let mut chosen: Vec<&(CompletePart, CompletePart)> = Vec::new();
        for part in 1..=4 {
            let written: Vec<_> = pair.parts.iter().filter(|(subject, _)| subject.number == part).collect();
            match written.last() {
                Some(newest) if takes_newest => chosen.push(newest),
                Some(_) => chosen.push(written[draw.below(written.len())]),
                None => {}
            }
        }
        if chosen.is_empty() {
            return;
        }
        let found_parts = chosen.iter().map(|(subject, _)| *subject).collect();
        let expected_parts = chosen.iter().map(|(_, oracle)| *oracle).collect();
        let expected = self.oracle.complete(&pair.oracle, expected_parts, attributes(number), condition.clone()).await;
        let found = subject.complete(&pair.subject, found_parts, attributes(number), condition.clone()).await;
        let what = format!("{at}: complete upload {index}, {condition:?}");
        assert_eq!(shown(found, shown_committed), shown(expected, shown_committed), "{what}");
    }

    async fn abort_or_look(&mut self, subject: &Engine, draw: &mut Draw, at: &str) {
        let Some(index) = self.pick_upload(draw) else { return };
        let pair = &self.uploads[index];
        if draw.below(2) == 0 {
            let nothing = |()| String::new();
            let expected = shown(self.oracle.abort(&pair.oracle).await, nothing);
            assert_eq!(shown(subject.abort(&pair.subject).await, nothing), expected, "{at}: abort upload {index}");
        }
        self.compare_upload(subject, index, at).await;
    }

    async fn compare_upload(&self, subject: &Engine, index: usize, at: &str) {
        let pair = &self.uploads[index];
        let expected = shown(self.oracle.parts(&pair.oracle, 0, 100).await, shown_parts);
        let found = shown(subject.parts(&pair.subject, 0, 100).await, shown_parts);
        assert_eq!(found, expected, "{at}: parts of upload {index}");
    }

    async fn list_uploads(&mut self, subject: &Engine, at: &str) {
        let query = UploadQuery { bucket: BUCKET, prefix: Bytes::new(), after: None, delimiter: Bytes::new(), max_items: 1000 };
        let expected = self.oracle.uploads(&query).await.expect("the oracle lists");
        let found = subject.uploads(&query).await.expect("uploads are listed");
        // Uploads of one key are in the order of their ids, which are each engine's own: compared by when they were opened.
        let sorted = |page: crate::UploadPage| {
            let mut shown: Vec<_> = page.uploads.into_iter().map(|upload| (upload.key, upload.initiated_ms)).collect();
            assert!(shown.is_sorted_by_key(|(key, _)| key.clone()), "{at}: uploads are listed by key");
            shown.sort();
            (shown, page.truncated)
        };
        assert_eq!(sorted(found), sorted(expected), "{at}: uploads");
    }

    async fn compare_all(&mut self, subject: &Engine) {
        let at = format!("seed {}, all after {} writes", self.seed, self.writes);
        for name in KEYS {
            self.compare_object(subject, name, &at).await;
        }
        for index in 0..self.uploads.len() {
            self.compare_upload(subject, index, &at).await;
        }
        self.list_uploads(subject, &at).await;
        let expected = list(&self.oracle, "", "", "", 1000).await;
        assert_eq!(shown_page(&list(subject, "", "", "", 1000).await), shown_page(&expected), "{at}");
        let is_empty = self.oracle.is_empty(BUCKET).await.expect("the oracle knows");
        assert_eq!(subject.is_empty(BUCKET).await.expect("emptiness"), is_empty, "{at}");
    }

    /// Leaves an empty bucket to the next sequence.
    async fn clear(&mut self, subject: &Engine) {
        for name in KEYS {
            subject.delete(&key(name), Condition::None).await.expect("a blind delete succeeds");
        }
        for pair in &self.uploads {
            // Most of them have ended already.
            if subject.upload(&pair.subject).await.is_ok() {
                subject.abort(&pair.subject).await.expect("an open upload can be aborted");
            }
        }
        assert!(subject.is_empty(BUCKET).await.expect("emptiness"), "seed {}: nothing is left", self.seed);
    }
}
