use format::chunk_command::{ChunkCommand, ClientCall, CopyOf, Registration, Relocation};
use format::chunk_id::{ChunkId, ChunkNonce, ShardId};
use format::chunk_place::{BlockPlace, ChunkPlaces};
use proptest::collection::vec;
use proptest::prelude::*;
use types::DeviceId;

use super::uses::put_uses;
use super::{FORMER_VERSION, IMAGE_VERSION, ImageError};
use crate::maintenance::{Answer, MaintenanceUnit};

const DEVICES: u32 = 4;
const BLOCKS: u32 = 4;
const CHUNK_BYTES: u32 = 300_000;
const CAPACITY: u64 = 12;

fn place(device: u32, block: u32) -> BlockPlace {
    BlockPlace::new(DeviceId(device), block).expect("a place")
}

/// A unit after these steps. A step is a kind of command and what it is about; those that the unit refuses change nothing.
fn unit_after(steps: &[(u8, u32)]) -> MaintenanceUnit {
    let mut unit = MaintenanceUnit::new(ShardId(7), CAPACITY);
    for device in 0..DEVICES {
        unit.apply(&ChunkCommand::Grant { device: DeviceId(device), first_block: 0, blocks: BLOCKS });
    }
    let mut ids: Vec<ChunkId> = Vec::new();
    for (kind, about) in steps {
        let (device, block) = (about % DEVICES, about / DEVICES % BLOCKS);
        let id = ids.get(*about as usize % ids.len().max(1)).copied().unwrap_or_default();
        let places = unit.places_of(id);
        let copies = || places.iter().flat_map(ChunkPlaces::iter).map(|place| CopyOf { id, place }).collect();
        let (from, to) = (places.and_then(|places| places.iter().next()).unwrap_or(place(0, 0)), place(device, block));
        let command = match kind % 9 {
            0 | 1 => {
                let call = ClientCall { session: 1, request: ids.len() as u32 };
                let places =
                    ChunkPlaces::new(&[place(device, block), place((device + 1) % DEVICES, block)]).expect("two places");
                let nonce = ChunkNonce(u64::from(*about));
                ChunkCommand::Register(Registration {
                    call,
                    nonce,
                    bytes: CHUNK_BYTES,
                    places,
                    wanted: 2 + (about % 2) as u8,
                    deadline_ms: 1 + u64::from(*about),
                })
            }
            2 => ChunkCommand::Commit(id),
            3 => ChunkCommand::Freed(vec![id]),
            4 => {
                let (from, to) = ((about % 3 > 0).then_some(from), (about % 5 > 0).then_some(to));
                ChunkCommand::Relocate(Relocation { id, from, to, is_lost: about % 2 == 0 })
            }
            5 => ChunkCommand::Moved { id, relocation: u64::from(*about) % 8 },
            6 => ChunkCommand::Erased(copies()),
            7 => ChunkCommand::Seal,
            _ => ChunkCommand::Release { device: DeviceId(device), first_block: 0, blocks: BLOCKS },
        };
        if let Ok(Answer::Registered { id, .. }) = unit.apply(&command).answer {
            ids.push(id);
        }
    }
    unit
}

fn steps() -> impl Strategy<Value = Vec<(u8, u32)>> {
    vec((any::<u8>(), 0_u32..64), 0..60)
}

/// Nothing panics, and what is understood is a state that survives.
fn is_refused_or_survives(bytes: &[u8]) {
    if let Ok(unit) = MaintenanceUnit::from_image(bytes) {
        assert_eq!(MaintenanceUnit::from_image(&unit.to_image()).as_ref(), Ok(&unit));
    }
}

proptest! {
    #[test]
    fn a_state_survives(steps in steps()) {
        let unit = unit_after(&steps);
        let mut image = unit.to_image();
        prop_assert_eq!(MaintenanceUnit::from_image(&image), Ok(unit.clone()));
        // Nothing is in pages: the two are the same then.
        image[0] = FORMER_VERSION;
        prop_assert_eq!(MaintenanceUnit::from_image(&image), Ok(unit));
    }

    #[test]
    fn a_damaged_image_is_refused_or_another_state(steps in steps(), damage in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4)) {
        let mut image = unit_after(&steps).to_image();
        for (at, byte) in damage {
            let at = at.index(image.len());
            image[at] ^= byte;
        }
        is_refused_or_survives(&image);
    }

    #[test]
    fn an_image_that_was_cut_is_refused(steps in steps(), at: prop::sample::Index) {
        let image = unit_after(&steps).to_image();
        prop_assert!(MaintenanceUnit::from_image(&image[..at.index(image.len())]).is_err());
    }

    #[test]
    fn any_bytes_are_refused_or_a_state(bytes in vec(any::<u8>(), 0..200)) {
        is_refused_or_survives(&[&[IMAGE_VERSION], bytes.as_slice()].concat());
    }
}

#[test]
fn counts_that_the_bytes_cant_hold_are_refused() {
    let mut image = MaintenanceUnit::new(ShardId(7), CAPACITY).to_image();
    let grants = image.len() - 7 * size_of::<u64>();
    image[grants..grants + 8].copy_from_slice(&u64::MAX.to_le_bytes());
    assert!(matches!(MaintenanceUnit::from_image(&image), Err(ImageError::Record(_) | ImageError::Impossible(_))));
}

/// It was taken, and written again without what it said of the block.
#[test]
fn blocks_that_hold_rows_of_pages_without_pages_are_refused() {
    let unit = unit_after(&[(0, 0), (2, 0)]);
    let (mut image, mut nothing) = (unit.to_image(), Vec::new());
    put_uses(&mut nothing, &[]);
    assert!(image.ends_with(&nothing));
    image.truncate(image.len() - nothing.len());
    put_uses(&mut image, &[(place(1, 1), 0, 1)]);
    let refused = MaintenanceUnit::from_image(&image);
    assert_eq!(refused, Err(ImageError::Impossible("blocks that hold rows of pages, of which there are none")));
}
