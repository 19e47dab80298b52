//! Keys, values, clocks and rows.
//!
//! Time is the thread's own time on a core, so that other work on the machine does not count as such. What it does to the
//! caches, it still does.

/// Seconds that this thread has spent on a core.
fn thread_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Keys that are looked up in one pass: enough to leave the caches where the structure does.
const QUERIES_MAX: u64 = 2_000_000;
/// A rate is the best of this many passes: other work on the machine only ever slows one down.
const PASSES: usize = 10;

#[derive(Clone, Copy)]
pub struct Case {
    pub keys: u64,
    pub key_bytes: usize,
    pub value_bits: u32,
    pub fingerprint_bits: u32,
}

pub trait Value: ludo::PackedValue {
    fn of(number: u64, bits: u32) -> Self;
}

impl Value for u64 {
    fn of(number: u64, bits: u32) -> Self {
        mix(number ^ 0x55) >> (64 - bits)
    }
}

impl Value for u128 {
    fn of(number: u64, bits: u32) -> Self {
        (u128::from(mix(number)) << 64 | u128::from(mix(!number))) >> (128 - bits)
    }
}

/// A bijection of 64-bit numbers that looks random.
pub fn mix(number: u64) -> u64 {
    let mut x = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

pub fn key<const BYTES: usize>(number: u64) -> [u8; BYTES] {
    let mut key = [0; BYTES];
    for (index, part) in key.chunks_mut(8).enumerate() {
        part.copy_from_slice(&mix(number ^ (index as u64) << 56).to_le_bytes()[..part.len()]);
    }
    key
}

/// Numbers of random keys that are present.
pub fn queries(case: &Case) -> Vec<u64> {
    let count = case.keys.min(QUERIES_MAX);
    (0..count).map(|index| ((u128::from(mix(!index)) * u128::from(case.keys)) >> 64) as u64).collect()
}

/// Million operations a second of the best of several passes.
pub fn best_rate(operations: u64, mut pass: impl FnMut()) -> f64 {
    let seconds = (0..PASSES).map(|_| seconds(&mut pass).1).fold(f64::INFINITY, f64::min);
    operations as f64 / seconds / 1e6
}

pub fn seconds<R>(run: impl FnOnce() -> R) -> (R, f64) {
    let start = thread_seconds();
    let result = run();
    (result, thread_seconds() - start)
}

/// One structure's figures; what does not apply is NaN.
pub struct Row {
    pub name: &'static str,
    pub bits_a_key: f64,
    pub single: f64,
    pub batched: f64,
    pub inserts: f64,
    pub seconds: f64,
    pub note: String,
}

impl Row {
    pub fn print_head() {
        println!(
            "| structure | keys | key B | value bits | bits/key | get M/s | batched M/s | inserts M/s | made in s | note |"
        );
        println!("|---|---|---|---|---|---|---|---|---|---|");
    }

    pub fn print(&self, case: &Case) {
        let figure = |value: f64| if value.is_nan() { "–".to_owned() } else { format!("{value:.2}") };
        println!(
            "| {} | {} | {} | {} + {} | {} | {} | {} | {} | {} | {} |",
            self.name,
            case.keys,
            case.key_bytes,
            case.value_bits,
            case.fingerprint_bits,
            figure(self.bits_a_key),
            figure(self.single),
            figure(self.batched),
            figure(self.inserts),
            figure(self.seconds),
            self.note
        );
    }
}
