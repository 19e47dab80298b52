//! The walk of a zone log, over a device whose zones were damaged in every way that the input says.
//!
//! The input is a list of edits: bytes overwritten, blocks copied to where they do not belong, frames whose header fields were changed
//! and that were then sealed again with the device's own secret (a checksum is no reason to believe a length). Whatever they
//! are, the device opens and the walk ends without a panic. As long as nothing was sealed again, a frame that the walk
//! reports is the frame that was appended there, and every frame that no edit touched is reported: damage hides nothing behind
//! it.
#![no_main]

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use device::{AppendClass, Device, DeviceConfig, FormatOptions, LogVector, WalkEvent};
use disk::{AlignedBuf, DiskExt, Durability, SimDisk, SimOptions};
use env::Env;
use format::frame::{self, FIXED_HEADER_BYTES, Seal, frame_bytes};
use format::superblock::DeviceSecret;
use format::zone_header::{ZONE_DATA_START, frame_seed, zone_nonce};
use libfuzzer_sys::fuzz_target;
use types::limits::{BLOCK_BYTES, UNIT_BYTES};
use types::{CellId, ClusterId, DeviceId, DeviceUuid, Place, Position};

const CLUSTER: ClusterId = ClusterId([9; 16]);
const CELL: CellId = CellId(2);
const DEVICE: DeviceId = DeviceId(7);
const FIRST_ZONE: u64 = 8 * 1024 * 1024;
const ZONE_BYTES: u64 = 64 * 1024;
const ZONES: u64 = 10;
const REGION_BYTES: u64 = ZONES * ZONE_BYTES;
/// Payloads of the frames before the damage: more than one zone of them, from nothing to several blocks.
const PAYLOADS: [usize; 16] = [100, 4096, 0, 9000, 1, 4095, 4097, 20_000, 64, 12_000, 300, 8192, 7, 16_000, 5000, 2];
/// More edits than this prove nothing new and take long.
const EDITS_MAX: usize = 64;

struct Appended {
    place: Place,
    position: Position,
    payload: Vec<u8>,
    /// Where it lies on the disk.
    range: Range<u64>,
}

/// The device before the damage; made once.
struct Sound {
    appended: Vec<Appended>,
    /// Blocks that are not all zeros, by offset.
    blocks: Vec<(u64, Vec<u8>)>,
    uuid: DeviceUuid,
    secret: DeviceSecret,
}

static SOUND: OnceLock<Sound> = OnceLock::new();

fuzz_target!(|input: &[u8]| {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime without I/O");
    let sound = SOUND.get_or_init(|| runtime.block_on(make()));
    runtime.block_on(run(sound, input));
});

async fn run(sound: &Sound, input: &[u8]) {
    let env = Env::simulated(1);
    let disk = empty_disk(&env);
    for (offset, block) in &sound.blocks {
        disk.write(*offset, AlignedBuf::copy_of(block), Durability::Durable).await.expect("the simulated disk writes");
    }
    let mut damage = Damage { disk: disk.clone(), touched: Vec::new(), resealed: false };
    let mut rest = input;
    for _ in 0..EDITS_MAX {
        match damage.edit(rest, sound).await {
            Some(left) => rest = left,
            None => break,
        }
    }
    let found = walk(&open(&disk, &env).await).await;
    if damage.resealed {
        return;
    }
    for (position, payload) in &found {
        let original = sound.appended.iter().find(|frame| frame.position == *position).expect("a frame that nobody appended");
        assert!(original.payload == *payload, "other bytes than were appended");
    }
    for frame in &sound.appended {
        let is_touched = damage.touched.iter().any(|range| range.start < frame.range.end && frame.range.start < range.end);
        let is_reported = found.contains_key(&frame.position) || is_taken_for_unused(&disk, frame);
        assert!(is_touched || is_reported, "damage elsewhere hides the frame at {:?}", frame.place);
    }
}

/// A zone whose header area and first block of data are all zeros is taken for one that was never used: to read every such
/// zone to its end would make the first start of a large device slow.
fn is_taken_for_unused(disk: &SimDisk, frame: &Appended) -> bool {
    let zone = FIRST_ZONE + u64::from(frame.place.zone.0) * ZONE_BYTES;
    disk.peek(zone, ZONE_DATA_START as usize + BLOCK_BYTES).iter().all(|byte| *byte == 0)
}

fn empty_disk(env: &Env) -> SimDisk {
    let capacity_bytes = Some(FIRST_ZONE + REGION_BYTES);
    SimDisk::new(env, SimOptions { capacity_bytes, ..SimOptions::default() })
}

async fn open(disk: &SimDisk, env: &Env) -> Device {
    let config = DeviceConfig { prewrite_zones: 0, cluster: Some(CLUSTER), ..DeviceConfig::default() };
    Device::open(Arc::new(disk.clone()), env, config).await.expect("a device whose superblock is whole opens")
}

/// Formats a disk and appends the frames, in more than one zone.
async fn make() -> Sound {
    let env = Env::simulated(1);
    let disk = empty_disk(&env);
    let options = FormatOptions {
        cluster: CLUSTER,
        device: DEVICE,
        cell: CELL,
        zone_bytes: Some(ZONE_BYTES),
        capacity_bytes: None,
        overwrite: false,
    };
    Device::format(&disk, &env, &options).await.expect("formats");
    let device = open(&disk, &env).await;
    let mut appended = Vec::new();
    for (number, len) in PAYLOADS.into_iter().enumerate() {
        let payload = vec![number as u8 + 1; len];
        let header = [number as u8; 8];
        let compose = |slot: &mut [u8]| frame::compose(slot, 1, CELL, &header, &[&payload]);
        let bytes = frame_bytes(header.len(), len);
        let landed = device.append_wait(AppendClass::Data, bytes, compose).await.expect("appends");
        let start = disk_offset(landed.place);
        appended.push(Appended { place: landed.place, position: landed.position, payload, range: start..start + bytes as u64 });
    }
    let offsets = (0..FIRST_ZONE + REGION_BYTES).step_by(BLOCK_BYTES);
    let blocks = offsets.map(|offset| (offset, disk.peek(offset, BLOCK_BYTES)));
    let blocks = blocks.filter(|(_, block)| block.iter().any(|byte| *byte != 0)).collect();
    Sound { appended, blocks, uuid: device.uuid(), secret: device.secret() }
}

fn disk_offset(place: Place) -> u64 {
    FIRST_ZONE + u64::from(place.zone.0) * ZONE_BYTES + u64::from(place.offset.0) * UNIT_BYTES as u64
}

async fn walk(device: &Device) -> BTreeMap<Position, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut walk = device.walk(&LogVector::default(), true);
    while let Some(event) = walk.next().await {
        if let WalkEvent::Frame(frame) = event {
            found.insert(frame.position, frame.payload().to_vec());
        }
    }
    found
}

struct Damage {
    disk: SimDisk,
    touched: Vec<Range<u64>>,
    resealed: bool,
}

impl Damage {
    /// Carries out the edit at the start of `input`; returns what follows it.
    async fn edit<'a>(&mut self, input: &'a [u8], sound: &Sound) -> Option<&'a [u8]> {
        let (head, rest) = input.split_at_checked(4)?;
        let at = u64::from(u16::from_le_bytes([head[1], head[2]]));
        match head[0] % 4 {
            0 => {
                let (bytes, rest) = rest.split_at_checked(1 + usize::from(head[3] % 64))?;
                self.overwrite(FIRST_ZONE + (at * 16) % (REGION_BYTES - 64), bytes).await;
                Some(rest)
            }
            1 => {
                let block = self.disk.peek(FIRST_ZONE + block_offset(u64::from(head[3])), BLOCK_BYTES);
                self.overwrite(FIRST_ZONE + block_offset(at), &block).await;
                Some(rest)
            }
            2 => {
                self.overwrite(FIRST_ZONE + block_offset(at), &[head[3]; BLOCK_BYTES]).await;
                Some(rest)
            }
            _ => {
                let (value, rest) = rest.split_at_checked(4)?;
                let frame = &sound.appended[usize::from(head[3]) % sound.appended.len()];
                self.reseal(frame, (at as usize) % (FIXED_HEADER_BYTES - 4), value, sound).await;
                Some(rest)
            }
        }
    }

    async fn overwrite(&mut self, offset: u64, bytes: &[u8]) {
        let start = offset / BLOCK_BYTES as u64 * BLOCK_BYTES as u64;
        let end = (offset + bytes.len() as u64).next_multiple_of(BLOCK_BYTES as u64).min(FIRST_ZONE + REGION_BYTES);
        let mut blocks = self.disk.peek(start, (end - start) as usize);
        let within = (offset - start) as usize;
        let len = bytes.len().min(blocks.len() - within);
        blocks[within..within + len].copy_from_slice(&bytes[..len]);
        self.disk.write(start, AlignedBuf::copy_of(&blocks), Durability::Durable).await.expect("the simulated disk writes");
        self.touched.push(offset..offset + len as u64);
    }

    /// Changes four bytes of a frame's fixed header and makes its checksum right again.
    async fn reseal(&mut self, frame: &Appended, at: usize, value: &[u8], sound: &Sound) {
        let zone_end = FIRST_ZONE + (u64::from(frame.place.zone.0) + 1) * ZONE_BYTES;
        let mut bytes = self.disk.peek(frame.range.start, (zone_end - frame.range.start) as usize);
        bytes[at..at + 4].copy_from_slice(value);
        bytes[4..8].copy_from_slice(&frame::FRAME_MAGIC);
        let header_bytes = u32::from_le_bytes([bytes[16], bytes[17], bytes[18], bytes[19]]) as usize;
        if !(FIXED_HEADER_BYTES..=bytes.len()).contains(&header_bytes) {
            return;
        }
        let nonce = zone_nonce(&sound.secret, frame.place.zone, frame.position.activation);
        let seal = Seal {
            device: DEVICE,
            seed: frame_seed(sound.uuid, &nonce),
            activation: frame.position.activation,
            offset: frame.position.offset,
        };
        frame::seal(&mut bytes, &seal);
        self.resealed = true;
        self.overwrite(frame.range.start, &bytes[..header_bytes]).await;
    }
}

fn block_offset(number: u64) -> u64 {
    number * BLOCK_BYTES as u64 % REGION_BYTES
}
