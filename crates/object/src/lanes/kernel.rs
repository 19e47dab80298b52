//! MD5's compression function (RFC 1321, section 3.4) over eight contents at once, where the processor has AVX2.
//!
//! Vectors hold one word of each content: `a` is the eight contents' `A`. Message words lie across, so every block is
//! transposed first, by 48 shuffles a block of eight.

use md5::block_api::compress;

/// Contents in one pass.
pub(super) const LANES: usize = 8;

/// Bytes of a block.
pub(super) const BLOCK_BYTES: usize = 64;

/// What MD5 keeps between blocks.
pub(super) type State = [u32; 4];

/// From here on, a pass over this many contents is faster than one after the other.
const MIN_LANES: usize = 2;

/// Advances each state by its run of whole blocks. The runs are equally long, and at most [`LANES`] of them.
pub(super) fn advance(states: &mut [State], runs: &[&[[u8; BLOCK_BYTES]]]) {
    assert_eq!(states.len(), runs.len(), "a run for each state");
    assert!(runs.len() <= LANES, "no more runs than lanes");
    #[cfg(target_arch = "x86_64")]
    if runs.len() >= MIN_LANES
        && let Some(simd) = pulp::x86::V3::try_new()
    {
        return vector::advance(simd, states, runs);
    }
    for (state, run) in states.iter_mut().zip(runs) {
        compress(state, run);
    }
}

#[cfg(target_arch = "x86_64")]
mod vector {
    use std::arch::x86_64::__m256i;
    use std::array;

    use pulp::x86::V3;

    use super::{BLOCK_BYTES, LANES, State};

    /// The integer parts of 2^32 × |sin(i + 1)| (RFC 1321, section 3.4).
    const SINES: [u32; 64] = [
        0xd76a_a478,
        0xe8c7_b756,
        0x2420_70db,
        0xc1bd_ceee,
        0xf57c_0faf,
        0x4787_c62a,
        0xa830_4613,
        0xfd46_9501,
        0x6980_98d8,
        0x8b44_f7af,
        0xffff_5bb1,
        0x895c_d7be,
        0x6b90_1122,
        0xfd98_7193,
        0xa679_438e,
        0x49b4_0821,
        0xf61e_2562,
        0xc040_b340,
        0x265e_5a51,
        0xe9b6_c7aa,
        0xd62f_105d,
        0x0244_1453,
        0xd8a1_e681,
        0xe7d3_fbc8,
        0x21e1_cde6,
        0xc337_07d6,
        0xf4d5_0d87,
        0x455a_14ed,
        0xa9e3_e905,
        0xfcef_a3f8,
        0x676f_02d9,
        0x8d2a_4c8a,
        0xfffa_3942,
        0x8771_f681,
        0x6d9d_6122,
        0xfde5_380c,
        0xa4be_ea44,
        0x4bde_cfa9,
        0xf6bb_4b60,
        0xbebf_bc70,
        0x289b_7ec6,
        0xeaa1_27fa,
        0xd4ef_3085,
        0x0488_1d05,
        0xd9d4_d039,
        0xe6db_99e5,
        0x1fa2_7cf8,
        0xc4ac_5665,
        0xf429_2244,
        0x432a_ff97,
        0xab94_23a7,
        0xfc93_a039,
        0x655b_59c3,
        0x8f0c_cc92,
        0xffef_f47d,
        0x8584_5dd1,
        0x6fa8_7e4f,
        0xfe2c_e6e0,
        0xa301_4314,
        0x4e08_11a1,
        0xf753_7e82,
        0xbd3a_f235,
        0x2ad7_d2bb,
        0xeb86_d391,
    ];

    pub(super) fn advance(simd: V3, states: &mut [State], runs: &[&[[u8; BLOCK_BYTES]]]) {
        // Lanes that are not used repeat the first run, and what comes out of them is dropped.
        let used = |lane: usize| if lane < runs.len() { lane } else { 0 };
        let lanes: [&[[u8; BLOCK_BYTES]]; LANES] = array::from_fn(|lane| runs[used(lane)]);
        let mut words: [[u32; LANES]; 4] = array::from_fn(|word| array::from_fn(|lane| states[used(lane)][word]));
        simd.vectorize(Pass { simd, words: &mut words, lanes });
        for (lane, state) in states.iter_mut().enumerate() {
            *state = array::from_fn(|word| words[word][lane]);
        }
    }

    struct Pass<'a> {
        simd: V3,
        words: &'a mut [[u32; LANES]; 4],
        lanes: [&'a [[u8; BLOCK_BYTES]]; LANES],
    }

    impl pulp::NullaryFnOnce for Pass<'_> {
        type Output = ();

        // Everything from here on must be inlined: only then it is compiled for AVX2.
        #[inline(always)]
        fn call(self) {
            let ops = Ops(self.simd);
            let mut state: [__m256i; 4] = self.words.map(pulp::cast);
            for at in 0..self.lanes[0].len() {
                let words = ops.words(self.lanes.map(|run| &run[at]));
                let next = ops.block(state, &words);
                for (word, next) in state.iter_mut().zip(next) {
                    *word = ops.add(*word, next);
                }
            }
            *self.words = state.map(pulp::cast);
        }
    }

    /// Four steps, with the roles of the four words in turn.
    macro_rules! steps {
        ($ops:ident, $function:ident, [$a:ident $b:ident $c:ident $d:ident], $words:ident[$round:literal][$factor:literal $offset:literal],
         [$r0:literal $r1:literal $r2:literal $r3:literal], $at:literal) => {
            steps!(@ $ops, $function, $a $b $c $d, $words[($at * $factor + $offset) % 16], 16 * $round + $at, $r0);
            steps!(@ $ops, $function, $d $a $b $c, $words[(($at + 1) * $factor + $offset) % 16], 16 * $round + $at + 1, $r1);
            steps!(@ $ops, $function, $c $d $a $b, $words[(($at + 2) * $factor + $offset) % 16], 16 * $round + $at + 2, $r2);
            steps!(@ $ops, $function, $b $c $d $a, $words[(($at + 3) * $factor + $offset) % 16], 16 * $round + $at + 3, $r3);
        };
        (@ $ops:ident, $function:ident, $a:ident $b:ident $c:ident $d:ident, $word:expr, $sine:expr, $rotation:literal) => {
            let sum = $ops.add($ops.add($a, $ops.add($word, $ops.splat(SINES[$sine]))), $ops.$function($b, $c, $d));
            $a = $ops.add($ops.rotate::<$rotation, { 32 - $rotation }>(sum), $b);
        };
    }

    macro_rules! round {
        ($ops:ident, $function:ident, $state:tt, $words:ident[$round:literal]$order:tt, $rotations:tt) => {
            steps!($ops, $function, $state, $words[$round]$order, $rotations, 0);
            steps!($ops, $function, $state, $words[$round]$order, $rotations, 4);
            steps!($ops, $function, $state, $words[$round]$order, $rotations, 8);
            steps!($ops, $function, $state, $words[$round]$order, $rotations, 12);
        };
    }

    /// Vector operations, by what they do.
    #[derive(Clone, Copy)]
    struct Ops(V3);

    impl Ops {
        /// The state after a block, before what it was is added. Rotations and the order of words: RFC 1321, section 3.4.
        #[inline(always)]
        fn block(self, state: [__m256i; 4], words: &[__m256i; 16]) -> [__m256i; 4] {
            let [mut a, mut b, mut c, mut d] = state;
            round!(self, f, [a b c d], words[0][1 0], [7 12 17 22]);
            round!(self, g, [a b c d], words[1][5 1], [5 9 14 20]);
            round!(self, h, [a b c d], words[2][3 5], [4 11 16 23]);
            round!(self, i, [a b c d], words[3][7 0], [6 10 15 21]);
            [a, b, c, d]
        }

        #[inline(always)]
        fn f(self, x: __m256i, y: __m256i, z: __m256i) -> __m256i {
            self.xor(z, self.and(x, self.xor(y, z)))
        }

        #[inline(always)]
        fn g(self, x: __m256i, y: __m256i, z: __m256i) -> __m256i {
            self.or(self.and(x, z), self.0.avx2._mm256_andnot_si256(z, y))
        }

        #[inline(always)]
        fn h(self, x: __m256i, y: __m256i, z: __m256i) -> __m256i {
            self.xor(x, self.xor(y, z))
        }

        #[inline(always)]
        fn i(self, x: __m256i, y: __m256i, z: __m256i) -> __m256i {
            self.xor(y, self.or(x, self.xor(z, self.splat(u32::MAX))))
        }

        #[inline(always)]
        fn add(self, x: __m256i, y: __m256i) -> __m256i {
            self.0.avx2._mm256_add_epi32(x, y)
        }

        #[inline(always)]
        fn and(self, x: __m256i, y: __m256i) -> __m256i {
            self.0.avx2._mm256_and_si256(x, y)
        }

        #[inline(always)]
        fn or(self, x: __m256i, y: __m256i) -> __m256i {
            self.0.avx2._mm256_or_si256(x, y)
        }

        #[inline(always)]
        fn xor(self, x: __m256i, y: __m256i) -> __m256i {
            self.0.avx2._mm256_xor_si256(x, y)
        }

        #[inline(always)]
        fn rotate<const LEFT: i32, const RIGHT: i32>(self, x: __m256i) -> __m256i {
            self.or(self.0.avx2._mm256_slli_epi32::<LEFT>(x), self.0.avx2._mm256_srli_epi32::<RIGHT>(x))
        }

        #[inline(always)]
        fn splat(self, word: u32) -> __m256i {
            self.0.avx._mm256_set1_epi32(word.cast_signed())
        }

        /// The blocks' words, one vector for each place in the block.
        #[inline(always)]
        fn words(self, blocks: [&[u8; BLOCK_BYTES]; LANES]) -> [__m256i; 16] {
            let halves: [[[u8; 32]; 2]; LANES] = blocks.map(|block| pulp::cast(*block));
            let low = self.transpose(halves.map(|half| pulp::cast(half[0])));
            let high = self.transpose(halves.map(|half| pulp::cast(half[1])));
            array::from_fn(|word| if word < 8 { low[word] } else { high[word - 8] })
        }

        /// Rows of eight words to columns.
        #[inline(always)]
        fn transpose(self, rows: [__m256i; 8]) -> [__m256i; 8] {
            let avx2 = self.0.avx2;
            let low: [__m256i; 4] = array::from_fn(|i| avx2._mm256_unpacklo_epi32(rows[2 * i], rows[2 * i + 1]));
            let high: [__m256i; 4] = array::from_fn(|i| avx2._mm256_unpackhi_epi32(rows[2 * i], rows[2 * i + 1]));
            // Columns 0 to 3 of a half's four rows in the low 128 bits, columns 4 to 7 in the high.
            let quads = |half: usize| {
                let (low, high) = ([low[half], low[half + 1]], [high[half], high[half + 1]]);
                [
                    avx2._mm256_unpacklo_epi64(low[0], low[1]),
                    avx2._mm256_unpackhi_epi64(low[0], low[1]),
                    avx2._mm256_unpacklo_epi64(high[0], high[1]),
                    avx2._mm256_unpackhi_epi64(high[0], high[1]),
                ]
            };
            let (upper, lower) = (quads(0), quads(2));
            array::from_fn(|column| match column {
                0..4 => avx2._mm256_permute2x128_si256::<0x20>(upper[column], lower[column]),
                _ => avx2._mm256_permute2x128_si256::<0x31>(upper[column - 4], lower[column - 4]),
            })
        }
    }
}
