//! Appending records that no name leads to: chunks, nodes of their trees, blocks and indexes of runs.
//!
//! Nothing orders them and nobody waits for a turn; whatever names their places afterwards makes them reachable.

use crate::gather::{CopyResult, Gather, Gathered};
use crate::store::Inner;
use crate::targets::LiveCount;
use crate::write::failure;
use bytes::Bytes;
use device::{AppendClass, AppendDone, AppendError, Appended};
use engine::{EngineError, Payload};
use format::record::{ChunkOwner, EntryName, Record, RecordFlags, RecordKind, WriteId};
use format::replicas::{Places, ReplicaDevices};
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, Waker};
use types::{DeviceId, Generation, KeyHash, ZoneIndex};

/// What such a record says of itself.
pub(crate) struct LooseRecord {
    pub kind: RecordKind,
    pub write: WriteId,
    pub hash: KeyHash,
    pub length: u64,
    pub chunk: Option<ChunkOwner>,
}

/// Where it landed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Landed {
    pub places: Places,
    pub frame_bytes: u32,
}

/// One record on its way to its targets. Dropped before it was told where it has landed, it is given up: it counts as live no longer, or will not
/// when it lands.
pub(crate) struct LooseAppend(Arc<OnItsWay>);

/// Frames that landed and that nothing names yet: they count as live. Dropped, they count no longer, unless they were [kept](Unnamed::keep).
pub(crate) struct Unnamed {
    inner: Arc<Inner>,
    count: LiveCount,
    bytes: BTreeMap<(DeviceId, ZoneIndex), u64>,
}

struct OnItsWay {
    inner: Arc<Inner>,
    payload_bytes: u32,
    count: LiveCount,
    generation: Generation,
    progress: Mutex<Progress>,
}

struct Progress {
    gather: Gather,
    /// For another try, until it is durable.
    payload: Payload,
    frame_bytes: u32,
    outcome: Option<Result<Landed, EngineError>>,
    /// Whoever waited knows the outcome, and answers for what landed.
    is_told: bool,
    is_given_up: bool,
    waker: Option<Waker>,
}

impl LooseAppend {
    pub fn start(inner: &Arc<Inner>, loose: LooseRecord, class: AppendClass, payload: Payload) -> Self {
        let table = inner.targets.table();
        let devices = ReplicaDevices::new(table.set_of(&loose.hash).devices()).expect("a replica set has one to three devices");
        let mut record = Record {
            kind: loose.kind,
            flags: RecordFlags::default(),
            write: loose.write,
            epoch: inner.epochs.present(),
            generation: table.generation(),
            order: None,
            replica_index: 0,
            replica_devices: devices,
            hash: loose.hash,
            length: loose.length,
            tree_height: 0,
            name: EntryName::default(),
            chunk: loose.chunk,
            attributes: Bytes::new(),
        };
        let append = Arc::new(OnItsWay {
            inner: inner.clone(),
            payload_bytes: payload.iter().map(Bytes::len).sum::<usize>() as u32,
            count: if loose.chunk.is_some() { LiveCount::Chunks } else { LiveCount::Records },
            generation: record.generation,
            progress: Mutex::new(Progress {
                gather: Gather::new(&devices),
                payload: payload.clone(),
                frame_bytes: 0,
                outcome: None,
                is_told: false,
                is_given_up: false,
                waker: None,
            }),
        });
        let pieces: SmallVec<[&[u8]; 16]> = payload.iter().map(Bytes::as_ref).collect();
        for (index, device) in devices.as_slice().iter().enumerate() {
            record.replica_index = index as u8;
            let done: Arc<dyn AppendDone> = append.clone();
            if let Err(error) = inner.targets.append(*device, class, &record, &pieces, done, index as u64) {
                append.note(index, Err(failure(&error)), 0);
            }
        }
        LooseAppend(append)
    }

    pub fn payload_bytes(&self) -> u32 {
        self.0.payload_bytes
    }

    /// What is written, for another try; empty once it is durable.
    pub fn payload(&self) -> Payload {
        self.0.progress.lock().payload.clone()
    }

    /// Waits until every copy is durable. After a failure also until appends go around the device that failed.
    pub async fn finished(&self) -> Result<Landed, EngineError> {
        let outcome = self.ended().await;
        if outcome.is_err() {
            self.0.inner.targets.failures_settled().await;
        }
        outcome
    }

    async fn ended(&self) -> Result<Landed, EngineError> {
        poll_fn(|context| {
            let mut progress = self.0.progress.lock();
            match progress.outcome.clone() {
                Some(outcome) => {
                    progress.is_told = true;
                    Poll::Ready(outcome)
                }
                None => {
                    progress.waker = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }
}

impl Drop for LooseAppend {
    fn drop(&mut self) {
        let mut progress = self.0.progress.lock();
        if progress.is_told {
            return;
        }
        progress.is_given_up = true;
        if let Some(Ok(landed)) = &progress.outcome {
            drop(Unnamed::of(&self.0.inner, self.0.count, landed));
        }
    }
}

impl OnItsWay {
    fn note(&self, replica: usize, copy: CopyResult, frame_bytes: u32) {
        let (waker, written) = {
            let mut progress = self.progress.lock();
            progress.frame_bytes = progress.frame_bytes.max(frame_bytes);
            if !progress.gather.note(replica, copy) {
                return;
            }
            let outcome = self.outcome(&progress);
            let written = if outcome.is_ok() { std::mem::take(&mut progress.payload) } else { Payload::new() };
            progress.outcome = Some(outcome);
            (progress.waker.take(), written)
        };
        // Uploads may wait for this memory, also while the client of this one is silent.
        drop(written);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn outcome(&self, progress: &Progress) -> Result<Landed, EngineError> {
        match progress.gather.outcome(self.generation, None) {
            Gathered::Durable { places, .. } => {
                if !progress.is_given_up {
                    let bytes = progress.frame_bytes as u64;
                    places.as_slice().iter().for_each(|place| self.inner.targets.add_live_to(self.count, place, bytes));
                }
                Ok(Landed { places, frame_bytes: progress.frame_bytes })
            }
            Gathered::Full { .. } => Err(EngineError::Full),
            Gathered::Unknown(reason) => {
                self.inner.targets.note_failure();
                Err(EngineError::Unavailable { reason })
            }
        }
    }
}

impl Unnamed {
    pub fn new(inner: &Arc<Inner>, count: LiveCount) -> Self {
        Unnamed { inner: inner.clone(), count, bytes: BTreeMap::new() }
    }

    fn of(inner: &Arc<Inner>, count: LiveCount, landed: &Landed) -> Self {
        let mut unnamed = Unnamed::new(inner, count);
        unnamed.add(landed);
        unnamed
    }

    pub fn add(&mut self, landed: &Landed) {
        for place in landed.places.as_slice() {
            *self.bytes.entry((place.device, place.zone)).or_default() += u64::from(landed.frame_bytes);
        }
    }

    pub fn absorb(&mut self, mut other: Unnamed) {
        for (zone, bytes) in std::mem::take(&mut other.bytes) {
            *self.bytes.entry(zone).or_default() += bytes;
        }
    }

    /// Something names them, or may: whoever drops that takes them out of the counts.
    pub fn keep(&mut self) {
        self.bytes.clear();
    }
}

impl Drop for Unnamed {
    fn drop(&mut self) {
        for (zone, bytes) in &self.bytes {
            self.inner.targets.remove_live_from(self.count, *zone, *bytes);
        }
    }
}

impl AppendDone for OnItsWay {
    fn appended(&self, token: u64, outcome: Result<Appended, AppendError>) {
        match outcome {
            Ok(appended) => self.note(token as usize, Ok((appended.place, appended.position)), appended.frame_bytes as u32),
            Err(error) => self.note(token as usize, Err(failure(&error)), 0),
        }
    }
}
