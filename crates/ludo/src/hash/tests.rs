use std::collections::HashSet;

use super::{Digest, Hasher};

/// Snapshots hold what these functions decided: a change of them is a new version of the format.
#[test]
fn golden_digests() {
    let hasher = Hasher::new(1);
    let key: Vec<u8> = (0..40).collect();
    let digests = [0, 1, 15, 16, 17, 20, 32, 40].map(|length| hasher.digest(&key[..length]));
    let folded = digests.iter().fold(0, |sum: u64, digest| sum.rotate_left(7) ^ digest.x ^ digest.y.rotate_left(32));
    let digest = hasher.digest(b"abc");
    let derived = (digest.buckets(1_000), digest.nodes(5, 1_330, 1_000), digest.slot(3), digest.fingerprint(16));
    assert_eq!((folded, derived), GOLDEN);
}

type Derived = ([u64; 2], [u64; 2], usize, u16);
const GOLDEN: (u64, Derived) = (9_958_328_104_069_131_370, ([274, 860], [963, 1_649], 1, 35_544));

#[test]
fn prefixes_and_padding_differ() {
    let hasher = Hasher::new(2);
    let zeros = [0; 100];
    let digests: HashSet<Digest> = (0..=100).map(|length| hasher.digest(&zeros[..length])).collect();
    assert_eq!(digests.len(), 101, "keys of zeros differ by their length");
}

#[test]
fn every_byte_matters() {
    let hasher = Hasher::new(3);
    for length in 1..=70 {
        let key = vec![7; length];
        for position in 0..length {
            let mut other = key.clone();
            other[position] ^= 0x80;
            let (one, two) = (hasher.digest(&key), hasher.digest(&other));
            assert!(one.x != two.x && one.y != two.y, "byte {position} of {length}");
        }
    }
}

/// Chi-squared of counts against an even spread; its mean is one less than the number of cells.
fn chi_squared(counts: &[u32]) -> f64 {
    let expected = counts.iter().sum::<u32>() as f64 / counts.len() as f64;
    counts.iter().map(|count| (f64::from(*count) - expected).powi(2) / expected).sum()
}

#[test]
fn what_is_derived_is_spread_evenly() {
    let hasher = Hasher::new(4);
    // 1,024 cells: mean 1,023, deviation √2046 = 45; six of those on either side.
    let even = 750.0..1_300.0;
    let count = |cell: &dyn Fn(Digest) -> usize| {
        let mut counts = vec![0; 1_024];
        (0..200_000_u64).for_each(|number| counts[cell(hasher.digest(&number.to_le_bytes()))] += 1);
        chi_squared(&counts)
    };
    let pairs: [(&str, &dyn Fn(Digest) -> usize); 6] = [
        ("both buckets", &|digest| (digest.bucket(0, 32) * 32 + digest.bucket(1, 32)) as usize),
        ("bucket and slot", &|digest| digest.bucket(0, 256) as usize * 4 + digest.slot(0)),
        ("slots of five seeds", &|digest| (0..5).fold(0, |cell, seed| cell * 4 + digest.slot(seed))),
        ("bucket and fingerprint", &|digest| digest.bucket(1, 32) as usize * 32 + usize::from(digest.fingerprint(5))),
        ("slot and fingerprint", &|digest| digest.slot(1) * 256 + usize::from(digest.fingerprint(8))),
        ("both nodes", &|digest| {
            let [a, b] = digest.nodes(9, 32, 32);
            (a * 32 + b - 32) as usize
        }),
    ];
    for (name, cell) in pairs {
        let found = count(cell);
        assert!(even.contains(&found), "{name}: chi-squared {found}");
    }
}

#[test]
fn seeds_separate_as_often_as_chance() {
    let hasher = Hasher::new(5);
    let buckets = 40_000_u64;
    let digests = |bucket: u64| [0, 1, 2, 3].map(|index| hasher.digest(&(bucket * 4 + index).to_le_bytes()));
    let fails = |bucket: &u64| !(0..31).any(|seed| crate::seeds::separates(seed, &digests(*bucket)));
    let failed = (0..buckets).filter(fails).count() as f64 / buckets as f64;
    // (1 - 4!/4⁴)³¹ = 4.73%; deviation 0.11%.
    assert!((0.043..0.052).contains(&failed), "{failed} of full buckets find no seed of five bits");
}

#[test]
fn short_seeds_are_seeds() {
    let hasher = Hasher::new(6);
    for number in 0..1_000_u64 {
        let digest = hasher.digest(&number.to_le_bytes());
        (0..32).for_each(|seed| assert_eq!(digest.slot_of_short(seed), digest.slot(seed), "seed {seed}"));
    }
}
