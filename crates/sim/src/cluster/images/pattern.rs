//! What blocks hold: every sector says which write it is of, and where it belongs.

/// Names a write; 0: zeros.
pub type Value = u64;
/// What each sector of a block holds: a write that was not acknowledged may have reached some of them.
pub type Sectors = [Value; SECTORS];

pub const BLOCK_BYTES: usize = 4096;
const SECTOR_BYTES: usize = 512;
const SECTORS: usize = BLOCK_BYTES / SECTOR_BYTES;
const WORDS: u64 = SECTOR_BYTES as u64 / 8;

fn word(value: Value, block: u32, number: u64) -> u64 {
    match number {
        0 => value,
        _ => (value ^ (u64::from(block) << 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(number),
    }
}

/// Adds a block of a write.
pub fn fill(bytes: &mut Vec<u8>, value: Value, block: u32) {
    for number in 0..WORDS * SECTORS as u64 {
        bytes.extend_from_slice(&word(value, block, number % WORDS).to_le_bytes());
    }
}

/// What a block holds; an error for bytes that no write put there.
pub fn read(bytes: &[u8], block: u32) -> Result<Sectors, String> {
    let mut sectors = Sectors::default();
    for (sector, bytes) in bytes.chunks_exact(SECTOR_BYTES).enumerate() {
        if bytes.iter().all(|byte| *byte == 0) {
            continue;
        }
        let words = bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap_or_default()));
        let value = words.clone().next().unwrap_or_default();
        if let Some((at, _)) = words.enumerate().find(|(at, found)| *found != word(value, block, *at as u64)) {
            return Err(format!(
                "sector {sector} of block {block} has foreign bytes at word {at}, and says it is of write {value}"
            ));
        }
        sectors[sector] = value;
    }
    Ok(sectors)
}
