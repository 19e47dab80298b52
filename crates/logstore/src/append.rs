//! Appending records that no name leads to: chunks, nodes of their trees, blocks and indexes of runs.
//!
//! Nothing orders them and nobody waits for a turn; whatever names their places afterwards makes them reachable.

use crate::gather::{CopyResult, Gather, Gathered};
use crate::store::Inner;
use crate::write::failure;
use bytes::Bytes;
use device::{AppendClass, AppendDone, AppendError, Appended};
use engine::EngineError;
use format::record::{ChunkOwner, EntryName, Record, RecordFlags, RecordKind, WriteId};
use format::replicas::{Places, ReplicaDevices};
use parking_lot::Mutex;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, Waker};
use types::{Generation, KeyHash};

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

/// One record on its way to its targets.
pub(crate) struct LooseAppend {
    inner: Arc<Inner>,
    payload_bytes: u32,
    is_chunk: bool,
    generation: Generation,
    progress: Mutex<Progress>,
}

struct Progress {
    gather: Gather,
    frame_bytes: u32,
    outcome: Option<Result<Landed, EngineError>>,
    waker: Option<Waker>,
}

impl LooseAppend {
    pub fn start(inner: &Arc<Inner>, loose: LooseRecord, class: AppendClass, payload: Bytes) -> Arc<Self> {
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
        let append = Arc::new(LooseAppend {
            inner: inner.clone(),
            payload_bytes: payload.len() as u32,
            is_chunk: loose.chunk.is_some(),
            generation: record.generation,
            progress: Mutex::new(Progress { gather: Gather::new(&devices), frame_bytes: 0, outcome: None, waker: None }),
        });
        for (index, device) in devices.as_slice().iter().enumerate() {
            record.replica_index = index as u8;
            let done: Arc<dyn AppendDone> = append.clone();
            if let Err(error) = inner.targets.append(*device, class, &record, &[&payload], done, index as u64) {
                append.note(index, Err(failure(&error)), 0);
            }
        }
        append
    }

    pub fn payload_bytes(&self) -> u32 {
        self.payload_bytes
    }

    /// Waits until every copy is durable. After a failure also until appends go around the device that failed.
    pub async fn finished(&self) -> Result<Landed, EngineError> {
        let outcome = self.ended().await;
        if outcome.is_err() {
            self.inner.targets.failures_settled().await;
        }
        outcome
    }

    async fn ended(&self) -> Result<Landed, EngineError> {
        poll_fn(|context| {
            let mut progress = self.progress.lock();
            match &progress.outcome {
                Some(outcome) => Poll::Ready(outcome.clone()),
                None => {
                    progress.waker = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }

    fn note(&self, replica: usize, copy: CopyResult, frame_bytes: u32) {
        let waker = {
            let mut progress = self.progress.lock();
            progress.frame_bytes = progress.frame_bytes.max(frame_bytes);
            if !progress.gather.note(replica, copy) {
                return;
            }
            progress.outcome = Some(self.outcome(&progress));
            progress.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn outcome(&self, progress: &Progress) -> Result<Landed, EngineError> {
        match progress.gather.outcome(self.generation, None) {
            Gathered::Durable { places, .. } => {
                for place in places.as_slice() {
                    match self.is_chunk {
                        true => self.inner.targets.add_live_chunk(place, progress.frame_bytes as u64),
                        false => self.inner.targets.add_live(place, progress.frame_bytes as u64),
                    }
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

impl AppendDone for LooseAppend {
    fn appended(&self, token: u64, outcome: Result<Appended, AppendError>) {
        match outcome {
            Ok(appended) => self.note(token as usize, Ok((appended.place, appended.position)), appended.frame_bytes as u32),
            Err(error) => self.note(token as usize, Err(failure(&error)), 0),
        }
    }
}
