//! What stands in the slots when a data server begins.

use super::{FIRST_BYTE, State, Volume, Volumes};
use crate::cheetah::baseline::Layout;
use crate::cheetah::baseline::needle::{HEADER_BYTES, NeedleHeader, VolumeHeader, crc};
use disk::{AlignedBuf, BLOCK_BYTES, Disk, DiskExt, Durability, ReadMode};
use env::Env;
use hashbrown::HashMap;
use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// A volume without needles.
pub fn empty(slot: u32, header: VolumeHeader) -> Volume {
    Volume {
        slot,
        header,
        tail: FIRST_BYTE,
        tail_bytes: Vec::new(),
        set_aside: 0,
        is_open: false,
        is_writing: false,
        is_frozen: false,
        queue: VecDeque::new(),
        index: HashMap::new(),
        live_bytes: 0,
    }
}

impl Volumes {
    /// Finds the volumes, and their needles by reading all of them.
    pub async fn open(env: &Env, disk: Arc<dyn Disk>, layout: Layout) -> anyhow::Result<Arc<Volumes>> {
        let mut volumes: BTreeMap<u32, Volume> = BTreeMap::new();
        let mut free_slots = Vec::new();
        for slot in (0..layout.slots).rev() {
            let block = disk.read(layout.slot_start(slot), BLOCK_BYTES, ReadMode::Direct).await?;
            let Some(header) = VolumeHeader::decode(&block) else {
                free_slots.push(slot);
                continue;
            };
            let older = match volumes.get(&header.volume) {
                Some(other) if other.header.generation > header.generation => Some(slot),
                Some(other) => Some(other.slot),
                None => None,
            };
            if older != Some(slot) {
                volumes.insert(header.volume, empty(slot, header));
            }
            if let Some(older) = older {
                // A compaction was cut short before it gave the slot up.
                disk.write(layout.slot_start(older), AlignedBuf::zeroed(BLOCK_BYTES), Durability::Durable).await?;
                free_slots.push(older);
            }
        }
        for volume in volumes.values_mut() {
            let bytes = disk.read(layout.slot_start(volume.slot), layout.slot_bytes as usize, ReadMode::Direct).await?;
            walk(volume, &bytes);
        }
        let next_volume = volumes.keys().next_back().copied().unwrap_or(0);
        Ok(Arc::new(Volumes {
            env: env.clone(),
            disk,
            layout,
            state: Mutex::new(State { volumes, free_slots, next_volume, turn: 0 }),
            opening: tokio::sync::Mutex::default(),
            is_compacting: Default::default(),
            moved_bytes: Default::default(),
            changed: Default::default(),
        }))
    }
}

/// Takes the needles of a slot, up to the first that is not whole.
fn walk(volume: &mut Volume, bytes: &[u8]) {
    while let Some(rest) = bytes.get(volume.tail as usize..).filter(|rest| rest.len() >= HEADER_BYTES) {
        let Some(header) = NeedleHeader::decode(rest, volume.header.incarnation) else { break };
        let content = rest.get(HEADER_BYTES..HEADER_BYTES + header.length.unwrap_or(0) as usize);
        if content.is_none_or(|content| header.length.is_some() && crc(content) != header.sum) {
            break;
        }
        volume.note(volume.tail, header);
        volume.tail += header.space() as u64;
    }
    let block_start = volume.tail as usize / BLOCK_BYTES * BLOCK_BYTES;
    volume.tail_bytes = bytes[block_start..volume.tail as usize].to_vec();
}
