//! What the tests of the device share: small simulated devices, and frames whose content follows from a number.

use std::collections::BTreeMap;
use std::sync::Arc;

use disk::{SimDisk, SimOptions};
use env::Env;
use format::frame::{self, frame_bytes};
use futures_util::FutureExt;
use parking_lot::Mutex;
use types::{CellId, ClusterId, DeviceId};

use crate::{AppendClass, AppendDone, AppendError, Appended, Device, DeviceConfig, FormatOptions, LogVector, WalkEvent};

pub const CLUSTER: ClusterId = ClusterId([9; 16]);
pub const ZONE_BYTES: u64 = 64 * 1024;
pub const FIRST_ZONE: u64 = 8 * 1024 * 1024;

/// A deterministic generator (splitmix64), so that a seed replays.
pub struct Seeded(pub u64);

impl Seeded {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

/// Without prewriting: it would only add operations to what a test looks at.
pub fn quiet() -> DeviceConfig {
    DeviceConfig { prewrite_zones: 0, cluster: Some(CLUSTER), ..DeviceConfig::default() }
}

pub fn options() -> FormatOptions {
    FormatOptions {
        cluster: CLUSTER,
        device: DeviceId(7),
        cell: CellId(2),
        zone_bytes: Some(ZONE_BYTES),
        capacity_bytes: None,
        overwrite: false,
    }
}

/// An empty disk with room for so many zones, which grows like a file.
pub fn disk_with(env: &Env, seed: u64, zones: u64) -> SimDisk {
    let capacity_bytes = Some(FIRST_ZONE + zones * ZONE_BYTES);
    SimDisk::new(env, SimOptions { seed, capacity_bytes, ..SimOptions::default() })
}

/// The answer of a future on a disk that answers at once; none where it never will, because the power is cut.
pub fn now<F: Future>(future: F) -> Option<F::Output> {
    // Not counted against tokio's budget, which would make an answered future wait now and then.
    tokio::task::unconstrained(future).now_or_never()
}

pub fn format(disk: &SimDisk, env: &Env) {
    now(Device::format(disk, env, &options())).expect("the disk answers").expect("formats");
}

pub fn open(disk: &SimDisk, env: &Env, config: DeviceConfig) -> Device {
    now(Device::open(Arc::new(disk.clone()), env, config)).expect("the disk answers").expect("opens")
}

/// A fresh device on a fresh disk.
pub fn fresh(env: &Env, zones: u64) -> (SimDisk, Device) {
    let disk = disk_with(env, 1, zones);
    format(&disk, env);
    let device = open(&disk, env, quiet());
    (disk, device)
}

/// The payload of frame `number`.
pub fn payload(number: u64, len: usize) -> Vec<u8> {
    let mut seeded = Seeded(number);
    let mut bytes: Vec<u8> = (0..len.div_ceil(8)).flat_map(|_| seeded.next().to_le_bytes()).collect();
    bytes.truncate(len);
    bytes
}

/// A frame's number stands in its engine header.
pub fn number_of(engine_header: &[u8]) -> u64 {
    u64::from_le_bytes(engine_header.try_into().expect("eight bytes"))
}

/// Collects answers.
#[derive(Default)]
pub struct Answers {
    answers: Mutex<BTreeMap<u64, Result<Appended, AppendError>>>,
}

impl AppendDone for Answers {
    fn appended(&self, token: u64, result: Result<Appended, AppendError>) {
        let earlier = self.answers.lock().insert(token, result);
        assert!(earlier.is_none(), "append {token} is answered twice");
    }
}

impl Answers {
    pub fn get(&self, token: u64) -> Option<Result<Appended, AppendError>> {
        self.answers.lock().get(&token).cloned()
    }

    pub fn landed(&self) -> BTreeMap<u64, Appended> {
        self.answers.lock().iter().filter_map(|(token, result)| Some((*token, *result.as_ref().ok()?))).collect()
    }

    pub fn len(&self) -> usize {
        self.answers.lock().len()
    }
}

/// Appends frame `number`, which `answers` hears of under the same number.
pub fn append(device: &Device, class: AppendClass, number: u64, len: usize, answers: &Arc<Answers>) -> Result<(), AppendError> {
    let header = number.to_le_bytes();
    let compose = |slot: &mut [u8]| frame::compose(slot, 5, CellId(2), &header, &[&payload(number, len)]);
    device.append(class, frame_bytes(8, len), compose, answers.clone(), number)
}

/// Appends frame `number` and expects that it lands.
pub fn landed(device: &Device, class: AppendClass, number: u64, len: usize) -> Appended {
    let header = number.to_le_bytes();
    let compose = |slot: &mut [u8]| frame::compose(slot, 5, CellId(2), &header, &[&payload(number, len)]);
    now(device.append_wait(class, frame_bytes(8, len), compose)).expect("the disk answers").expect("appends")
}

/// Everything that a walk finds: frames by number with where they stand, and how much was damaged.
pub fn walked(device: &Device, from: &LogVector) -> (BTreeMap<u64, Appended>, Vec<String>) {
    let mut walk = device.walk(from, true);
    let mut found = BTreeMap::new();
    let mut damaged = Vec::new();
    while let Some(event) = now(walk.next()).expect("the disk answers") {
        match event {
            WalkEvent::Frame(frame) => {
                let number = number_of(frame.engine_header());
                assert_eq!(frame.payload(), payload(number, frame.payload().len()), "payload of frame {number}");
                let appended = Appended { place: frame.place, position: frame.position, frame_bytes: frame.bytes.len() };
                assert!(found.insert(number, appended).is_none(), "frame {number} is found twice");
            }
            other => damaged.push(format!("{other:?}")),
        }
    }
    (found, damaged)
}

/// Reads frame `number` where it landed and compares all of it.
pub fn check_read(device: &Device, number: u64, appended: &Appended) {
    let frame = now(device.read(appended.place, 200)).expect("the disk answers");
    let frame = frame.unwrap_or_else(|error| panic!("frame {number}: {error}"));
    assert_eq!(number_of(frame.engine_header()), number);
    assert_eq!(frame.payload(), payload(number, frame.payload().len()));
    assert_eq!(frame.bytes().len(), appended.frame_bytes);
}

/// The number of disk bytes before a place.
pub fn disk_offset(appended: &Appended) -> u64 {
    FIRST_ZONE + u64::from(appended.place.zone.0) * ZONE_BYTES + appended.place.offset.bytes()
}
