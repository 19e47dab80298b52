//! Stores in memory, as the documents of [`Stores`] say, with faults on demand.
//!
//! Bytes that were never written are [`GARBAGE`], so that reading what is not owned shows. Two overlapping changes at once are a
//! violation, and so is a read that overlaps a change, and a change that touches bytes of a piece without content: the twin panics.

pub(crate) mod world;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use env::Env;
use format::blob_header::BlobState;
use parking_lot::Mutex;
use types::{BlobId, DeviceId, ImageId, Pieces, Token};

use crate::stores::{Admission, Asked, BlobAt, BlobRow, BlobSums, Change, NewBlob, StoreError, Stores};

pub(crate) const GARBAGE: u8 = 0xEE;
const BLOCK: u32 = 4096;
/// How long a call to a dead device takes.
const DEAD_ANSWER: Duration = Duration::from_millis(50);

/// What goes wrong with one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// No answer; not carried out.
    Lost,
    /// Carried out; no answer.
    AnswerLost,
    /// No answer; carried out by the next session at the latest, or never.
    Late,
    /// The store has forgotten all tokens.
    Forgets,
    NoSpace,
    /// Failed, and not carried out.
    Failed,
    /// Failed, and carried out all the same.
    FailedLate,
}

/// What was called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Calls {
    pub(crate) enter: usize,
    pub(crate) create: usize,
    /// Bytes of content of each.
    pub(crate) change: Vec<usize>,
    pub(crate) read: usize,
    pub(crate) free: usize,
}

pub(crate) struct Twin {
    env: Env,
    inner: Arc<Mutex<Inner>>,
}

#[derive(Default)]
struct Inner {
    devices: BTreeMap<DeviceId, Device>,
    calls: Calls,
    /// For the next calls, one after the other; `None`: nothing goes wrong with that one.
    troubles: VecDeque<Option<Trouble>>,
    /// One of so many changes goes wrong; 0: none.
    trouble_rate: u64,
    /// Which troubles `trouble_rate` draws from.
    drawn: Vec<Trouble>,
    /// Longest time that a call takes.
    delay_ms: u64,
    /// So many reads to come get no answer.
    silent_reads: usize,
    /// Devices that do not answer.
    dead: BTreeSet<DeviceId>,
    /// Devices that were given up for good.
    given_up: BTreeSet<DeviceId>,
}

#[derive(Default)]
struct Device {
    capacity: usize,
    blobs: BTreeMap<u32, Blob>,
    admissions: BTreeMap<ImageId, (Token, u32)>,
    under_way: Vec<(u64, ImageId, BlobId, Range<u32>)>,
    late: Vec<Late>,
    last_call: u64,
}

struct Late {
    admission: Admission,
    call: u64,
    work: Work,
}

struct Blob {
    row: BlobRow,
    content: BTreeMap<u32, Bytes>,
}

#[derive(Clone, Debug)]
enum Work {
    Create(NewBlob, Change),
    Change(BlobAt, Change),
    Free(BlobAt),
    Complete(BlobAt),
}

impl Work {
    fn touches(&self) -> (BlobId, Range<u32>) {
        match self {
            Work::Create(blob, _) => (blob.id, 0..types::BLOB_BYTES),
            Work::Free(at) | Work::Complete(at) => (at.id, 0..types::BLOB_BYTES),
            Work::Change(at, change) => {
                let bits = change.filled | change.zeroed | change.dropped;
                let content = change.offset..change.offset + change.content.len() as u32;
                let runs = bits.runs().chain((!content.is_empty()).then_some(content));
                let hull = runs.reduce(|a, b| a.start.min(b.start)..a.end.max(b.end));
                // Without any it announces a holder.
                (at.id, hull.unwrap_or(0..0))
            }
        }
    }
}

impl Twin {
    pub(crate) fn new(env: &Env, devices: &[DeviceId], capacity: usize) -> Twin {
        let devices = devices.iter().map(|device| (*device, Device { capacity, ..Device::default() })).collect();
        Twin { env: env.clone(), inner: Arc::new(Mutex::new(Inner { devices, ..Inner::default() })) }
    }

    pub(crate) fn calls(&self) -> Calls {
        self.inner.lock().calls.clone()
    }

    pub(crate) fn forget_calls(&self) {
        self.inner.lock().calls = Calls::default();
    }

    pub(crate) fn trouble(&self, troubles: impl IntoIterator<Item = Option<Trouble>>) {
        self.inner.lock().troubles.extend(troubles);
    }

    /// One of `rate` calls goes wrong in one of these ways; 0: none.
    pub(crate) fn trouble_at_random(&self, rate: u64, drawn: &[Trouble]) {
        let mut inner = self.inner.lock();
        inner.trouble_rate = rate;
        inner.drawn = drawn.to_vec();
    }

    pub(crate) fn set_dead(&self, device: DeviceId, is_dead: bool) {
        let mut inner = self.inner.lock();
        if is_dead {
            inner.dead.insert(device)
        } else {
            inner.dead.remove(&device)
        };
    }

    pub(crate) fn give_up(&self, device: DeviceId) {
        let mut inner = self.inner.lock();
        inner.dead.insert(device);
        inner.given_up.insert(device);
        inner.devices.get_mut(&device).unwrap().blobs.clear();
    }

    pub(crate) fn is_given_up(&self, device: DeviceId) -> bool {
        self.inner.lock().given_up.contains(&device)
    }

    pub(crate) fn is_dead(&self, device: DeviceId) -> bool {
        self.inner.lock().dead.contains(&device)
    }

    /// All copies of each blob say the same.
    pub(crate) fn check_copies(&self, image: ImageId, count: usize) {
        let inner = self.inner.lock();
        let mut found: BTreeMap<BlobId, Vec<(DeviceId, &Blob)>> = BTreeMap::new();
        for (number, device) in &inner.devices {
            for blob in device.blobs.values().filter(|blob| blob.row.at.id.image == image) {
                found.entry(blob.row.at.id).or_default().push((*number, blob));
            }
        }
        for (id, copies) in found {
            assert_eq!(
                copies.len(),
                count,
                "copies of {id} on {:?}",
                copies.iter().map(|(device, _)| device).collect::<Vec<_>>()
            );
            let (first, one) = &copies[0];
            for (device, other) in &copies {
                assert_eq!(other.row.state, BlobState::Whole);
                assert_eq!((one.row.owned, one.row.data), (other.row.owned, other.row.data), "{id} on {first} and {device}");
                assert!(one.content == other.content, "{id} differs on {first} and {device}");
            }
        }
    }

    /// Nothing of the call is carried out.
    async fn check_alive(&self, device: DeviceId) -> Result<(), StoreError> {
        if !self.is_dead(device) {
            return Ok(());
        }
        self.env.sleep(DEAD_ANSWER).await;
        Err(StoreError::Silent("the device is dead".into()))
    }

    pub(crate) fn set_delay_ms(&self, delay_ms: u64) {
        self.inner.lock().delay_ms = delay_ms;
    }

    pub(crate) fn set_capacity(&self, device: DeviceId, capacity: usize) {
        self.inner.lock().devices.get_mut(&device).unwrap().capacity = capacity;
    }

    pub(crate) fn set_silent_reads(&self, count: usize) {
        self.inner.lock().silent_reads = count;
    }

    /// What the devices have of an image.
    pub(crate) fn rows(&self, image: ImageId) -> Vec<(DeviceId, Vec<BlobRow>)> {
        let inner = self.inner.lock();
        inner.devices.iter().map(|(number, device)| (*number, device.rows(image))).collect()
    }

    fn draw(&self, inner: &mut Inner) -> Option<Trouble> {
        if let Some(trouble) = inner.troubles.pop_front() {
            return trouble;
        }
        if inner.trouble_rate == 0 || self.env.random_below(inner.trouble_rate) > 0 {
            return None;
        }
        Some(inner.drawn[self.env.random_below(inner.drawn.len() as u64) as usize])
    }

    /// A call that changes something. It goes on if the answer is not waited for any more.
    fn work(&self, number: DeviceId, admission: Admission, work: Work) -> Asked<'_, u32> {
        Box::pin(async move {
            self.check_alive(number).await?;
            let (call, trouble, delay_ms) = {
                let mut inner = self.inner.lock();
                match &work {
                    Work::Create(..) => inner.calls.create += 1,
                    Work::Change(_, change) => inner.calls.change.push(change.content.len()),
                    Work::Free(_) => inner.calls.free += 1,
                    Work::Complete(_) => {}
                }
                let trouble = self.draw(&mut inner);
                let delay_ms = inner.delay_ms;
                let device = inner.devices.get_mut(&number).unwrap();
                device.some_late_work(&self.env);
                if trouble == Some(Trouble::Forgets) {
                    device.admissions.clear();
                }
                device.admit(&admission)?;
                match trouble {
                    Some(Trouble::Lost) => return Err(StoreError::Silent("the question was lost".into())),
                    Some(Trouble::NoSpace) if device.is_new(&work) => return Err(StoreError::NoSpace(number)),
                    Some(Trouble::Failed) => return Err(StoreError::Failed("injected".into())),
                    _ => {}
                }
                let call = device.begin(&work);
                if trouble == Some(Trouble::Late) {
                    device.late.push(Late { admission, call, work });
                    return Err(StoreError::Silent("the answer comes late".into()));
                }
                (call, trouble, delay_ms)
            };
            let inner = self.inner.clone();
            let finish = move || {
                let mut inner = inner.lock();
                let device = inner.devices.get_mut(&number).unwrap();
                device.end(call);
                device.carry_out(number, &admission, work)
            };
            let done = if delay_ms == 0 {
                finish()
            } else {
                let (env, wait) = (self.env.clone(), Duration::from_millis(self.env.random_below(delay_ms + 1)));
                let task = self.env.spawn(async move {
                    env.sleep(wait).await;
                    finish()
                });
                task.await.unwrap()
            };
            match trouble {
                Some(Trouble::AnswerLost) => Err(StoreError::Silent("the answer was lost".into())),
                Some(Trouble::FailedLate) => Err(StoreError::Failed("injected".into())),
                _ => done,
            }
        })
    }
}

impl Device {
    fn rows(&self, image: ImageId) -> Vec<BlobRow> {
        self.blobs.values().map(|blob| blob.row).filter(|row| row.at.id.image == image).collect()
    }

    /// A blob to be made that is not there yet.
    fn is_new(&self, work: &Work) -> bool {
        matches!(work, Work::Create(new, _) if self.blobs.values().all(|blob| blob.row.at.id != new.id))
    }

    fn admit(&self, admission: &Admission) -> Result<(), StoreError> {
        match self.admissions.get(&admission.image) {
            None => Err(StoreError::Unknown),
            Some(entered) if *entered == (admission.token, admission.session) => Ok(()),
            Some(_) => Err(StoreError::Superseded),
        }
    }

    fn begin(&mut self, work: &Work) -> u64 {
        let (id, range) = work.touches();
        let overlap =
            self.under_way.iter().find(|other| other.2 == id && other.3.start < range.end && range.start < other.3.end);
        assert!(overlap.is_none(), "{work:?} overlaps {overlap:?}");
        self.last_call += 1;
        self.under_way.push((self.last_call, id.image, id, range));
        self.last_call
    }

    /// A read by the holder overlaps no change that is under way.
    fn check_read(&self, id: BlobId, range: &Range<u32>) {
        let overlap =
            self.under_way.iter().find(|other| other.2 == id && other.3.start < range.end && range.start < other.3.end);
        assert!(overlap.is_none(), "a read of {range:?} of {id} overlaps {overlap:?}");
    }

    fn end(&mut self, call: u64) {
        self.under_way.retain(|other| other.0 != call);
    }

    /// What is late may happen at any time.
    fn some_late_work(&mut self, env: &Env) {
        for late in std::mem::take(&mut self.late) {
            if env.random_below(4) == 0 {
                self.do_late(late);
            } else {
                self.late.push(late);
            }
        }
    }

    fn end_late_work(&mut self, image: ImageId, env: &Env) {
        for late in std::mem::take(&mut self.late) {
            if late.admission.image != image {
                self.late.push(late);
            } else if env.random_below(2) == 0 {
                self.do_late(late);
            } else {
                self.end(late.call);
            }
        }
    }

    fn do_late(&mut self, late: Late) {
        self.end(late.call);
        let Late { admission, .. } = late;
        let is_free = matches!(late.work, Work::Free(_));
        if let Err(error) = self.carry_out(DeviceId(0), &admission, late.work) {
            // The device may be full by then; and a free that was sent twice finds nothing.
            assert!(matches!(error, StoreError::NoSpace(_)) || (is_free && error == StoreError::Absent), "{error}");
        }
    }

    fn blob(&mut self, at: BlobAt) -> Result<&mut Blob, StoreError> {
        self.blobs.get_mut(&at.block).filter(|blob| blob.row.at == at).ok_or(StoreError::Absent)
    }

    fn carry_out(&mut self, number: DeviceId, admission: &Admission, work: Work) -> Result<u32, StoreError> {
        match work {
            Work::Create(new, change) => {
                let there = self.blobs.values().find(|blob| blob.row.at.id == new.id).map(|blob| blob.row.at.block);
                let block = match there {
                    Some(block) => block,
                    None if self.blobs.len() >= self.capacity => return Err(StoreError::NoSpace(number)),
                    None => {
                        let block = (0..).find(|block| !self.blobs.contains_key(block)).unwrap();
                        let at = BlobAt { block, id: new.id };
                        let (token, epoch) = (admission.token, admission.epoch);
                        let (owned, data) = (Pieces::NONE, Pieces::NONE);
                        let row = BlobRow { at, state: new.state, token, epoch, owned, data, parent: new.parent };
                        self.blobs.insert(block, Blob { row, content: BTreeMap::new() });
                        block
                    }
                };
                self.blobs.get_mut(&block).unwrap().change(admission, change);
                Ok(block)
            }
            Work::Change(at, change) => {
                self.blob(at)?.change(admission, change);
                Ok(at.block)
            }
            Work::Complete(at) => {
                self.blob(at)?.row.state = BlobState::Whole;
                Ok(at.block)
            }
            Work::Free(at) => {
                self.blob(at)?;
                self.blobs.remove(&at.block);
                Ok(at.block)
            }
        }
    }
}

impl Blob {
    fn change(&mut self, admission: &Admission, change: Change) {
        self.row.token = admission.token;
        self.row.epoch = self.row.epoch.max(admission.epoch);
        let length = change.content.len() as u32;
        assert!(change.offset.is_multiple_of(BLOCK) && length.is_multiple_of(BLOCK), "content is blocks");
        let range = change.offset..change.offset + length;
        let row = &mut self.row;
        assert!(Pieces::within(range.clone()).covers(change.filled & !row.data), "new content covers its pieces");
        assert!((row.data | change.filled).covers(Pieces::touched(range.clone())), "content belongs to pieces that have some");
        let bits = [change.filled, change.zeroed, change.dropped];
        assert_eq!(
            bits.iter().map(|bits| bits.count()).sum::<u32>(),
            (bits[0] | bits[1] | bits[2]).count(),
            "one thing for a piece"
        );
        row.owned = (row.owned | change.filled | change.zeroed) & !change.dropped;
        row.data = (row.data | change.filled) & !change.zeroed & !change.dropped;
        for at in (0..length).step_by(BLOCK as usize) {
            self.content.insert(change.offset + at, change.content.slice(at as usize..(at + BLOCK) as usize));
        }
        // What has no content any more holds anything.
        let row = self.row;
        self.content.retain(|at, _| row.data.contains(at / types::PIECE_BYTES));
    }
}

impl Stores for Twin {
    fn enter(&self, device: DeviceId, admission: Admission) -> Asked<'_, Vec<BlobRow>> {
        Box::pin(async move {
            self.check_alive(device).await?;
            {
                let mut inner = self.inner.lock();
                inner.calls.enter += 1;
                let trouble = self.draw(&mut inner);
                let device = inner.devices.get_mut(&device).unwrap();
                if trouble == Some(Trouble::Lost) {
                    return Err(StoreError::Silent("the question was lost".into()));
                }
                let entered = (admission.token, admission.session);
                if device.admissions.get(&admission.image).is_some_and(|before| *before >= entered) {
                    return Err(StoreError::Superseded);
                }
                device.admissions.insert(admission.image, entered);
                device.end_late_work(admission.image, &self.env);
                if trouble == Some(Trouble::AnswerLost) {
                    return Err(StoreError::Silent("the answer was lost".into()));
                }
            }
            loop {
                {
                    let inner = self.inner.lock();
                    let device = &inner.devices[&device];
                    if !device.under_way.iter().any(|(_, image, ..)| *image == admission.image) {
                        return Ok(device.rows(admission.image));
                    }
                }
                self.env.sleep(Duration::from_millis(1)).await;
            }
        })
    }

    fn create(&self, device: DeviceId, admission: Admission, blob: NewBlob, change: Change) -> Asked<'_, u32> {
        self.work(device, admission, Work::Create(blob, change))
    }

    fn change(&self, device: DeviceId, admission: Admission, at: BlobAt, change: Change) -> Asked<'_, ()> {
        let work = self.work(device, admission, Work::Change(at, change));
        Box::pin(async { work.await.map(drop) })
    }

    fn complete(&self, device: DeviceId, admission: Admission, at: BlobAt) -> Asked<'_, ()> {
        let work = self.work(device, admission, Work::Complete(at));
        Box::pin(async { work.await.map(drop) })
    }

    fn sums(&self, device: DeviceId, admission: Admission, id: BlobId) -> Asked<'_, BlobSums> {
        Box::pin(async move {
            self.check_alive(device).await?;
            let mut inner = self.inner.lock();
            let device = inner.devices.get_mut(&device).unwrap();
            device.admit(&admission)?;
            device.check_read(id, &(0..types::BLOB_BYTES));
            let blob = device.blobs.values().find(|blob| blob.row.at.id == id).ok_or(StoreError::Absent)?;
            let blocks = blob.row.data.runs().flat_map(|run| run.step_by(BLOCK as usize));
            let sum = |at: u32| match blob.content.get(&at) {
                Some(content) => *blake3::hash(content).as_bytes().first_chunk().unwrap(),
                None => [GARBAGE; 16],
            };
            Ok(BlobSums { row: blob.row, sums: blocks.map(sum).collect() })
        })
    }

    fn read(&self, device: DeviceId, admission: Option<Admission>, at: BlobAt, offset: u32, length: u32) -> Asked<'_, Bytes> {
        assert!(offset.is_multiple_of(BLOCK) && length.is_multiple_of(BLOCK), "blocks are read");
        Box::pin(async move {
            self.check_alive(device).await?;
            let delay_ms = {
                let mut inner = self.inner.lock();
                inner.calls.read += 1;
                if inner.silent_reads > 0 {
                    inner.silent_reads -= 1;
                    return Err(StoreError::Silent("the question was lost".into()));
                }
                let device = inner.devices.get_mut(&device).unwrap();
                if let Some(admission) = admission {
                    device.admit(&admission)?;
                    device.check_read(at.id, &(offset..offset + length));
                }
                inner.delay_ms
            };
            if delay_ms > 0 {
                self.env.sleep(Duration::from_millis(self.env.random_below(delay_ms + 1))).await;
            }
            let mut inner = self.inner.lock();
            let device = inner.devices.get_mut(&device).unwrap();
            if let Some(admission) = admission
                && device.admit(&admission).is_ok()
            {
                device.check_read(at.id, &(offset..offset + length));
            }
            let blob = device.blob(at)?;
            let mut bytes = BytesMut::with_capacity(length as usize);
            for block in (offset..offset + length).step_by(BLOCK as usize) {
                match blob.content.get(&block) {
                    Some(content) => bytes.extend_from_slice(content),
                    None => bytes.resize(bytes.len() + BLOCK as usize, GARBAGE),
                }
            }
            Ok(bytes.freeze())
        })
    }

    fn free(&self, device: DeviceId, admission: Admission, at: BlobAt) -> Asked<'_, ()> {
        let work = self.work(device, admission, Work::Free(at));
        Box::pin(async { work.await.map(drop) })
    }

    fn flush(&self, _device: DeviceId) -> Asked<'_, ()> {
        Box::pin(std::future::ready(Ok(())))
    }
}
