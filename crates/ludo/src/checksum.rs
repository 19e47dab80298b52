//! CRC-32C (Castagnoli), eight bytes a step.

/// The polynomial with its bits reversed.
const POLYNOMIAL: u32 = 0x82f6_3b78;
const STEP: usize = 8;

/// `TABLES[k][b]`: what byte `b` does to the checksum when `k` more bytes follow it.
static TABLES: [[u32; 256]; STEP] = tables();

const fn tables() -> [[u32; 256]; STEP] {
    let mut tables = [[0; 256]; STEP];
    let mut byte = 0;
    while byte < 256 {
        let mut value = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            value = (value >> 1) ^ if value & 1 == 1 { POLYNOMIAL } else { 0 };
            bit += 1;
        }
        tables[0][byte] = value;
        byte += 1;
    }
    let mut further = 1;
    while further < STEP {
        byte = 0;
        while byte < 256 {
            let before = tables[further - 1][byte];
            tables[further][byte] = (before >> 8) ^ tables[0][(before & 0xff) as usize];
            byte += 1;
        }
        further += 1;
    }
    tables
}

pub fn crc32c(bytes: &[u8]) -> u32 {
    let mut value = u32::MAX;
    let mut steps = bytes.chunks_exact(STEP);
    for step in &mut steps {
        let word = u64::from_le_bytes(step.try_into().expect("eight bytes")) ^ u64::from(value);
        value = 0;
        for (index, byte) in word.to_le_bytes().into_iter().enumerate() {
            value ^= TABLES[STEP - 1 - index][usize::from(byte)];
        }
    }
    for byte in steps.remainder() {
        value = (value >> 8) ^ TABLES[0][usize::from(value as u8 ^ byte)];
    }
    !value
}

#[cfg(test)]
mod tests {
    #[test]
    fn of_known_bytes() {
        assert_eq!(super::crc32c(b"123456789"), 0xe306_9283, "the check value of the CRC catalogue");
        assert_eq!(super::crc32c(&[0; 32]), 0x8a91_36aa, "RFC 3720, appendix B.4");
    }
}
