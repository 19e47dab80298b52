//! Seeded randomness for workloads: the same seed gives the same requests.

/// One step of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): a bijection of 64 bits that mixes well.
pub fn mix64(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A small generator; not for secrets.
#[derive(Debug, Clone)]
pub struct Random {
    state: u64,
}

impl Random {
    /// The generator of stream `stream` under `seed`: workers use their own number as the stream.
    pub fn new(seed: u64, stream: u64) -> Self {
        Random { state: mix64(seed ^ mix64(stream)) }
    }

    /// 64 uniform bits.
    pub fn next_u64(&mut self) -> u64 {
        let bits = mix64(self.state);
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        bits
    }

    /// Uniform in `0..bound`. The bias of the multiplication is below `bound / 2^64`.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "a draw needs at least one outcome");
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// Uniform in `[0, 1)`, 53 bits.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }
}
