use std::collections::HashSet;

use super::{Digest, Hasher};
use crate::table::ESCAPE;

/// Snapshots hold what these functions decided: a change of them is a new version of the format.
#[test]
fn golden_digests() {
    let hasher = Hasher::new(1);
    let key: Vec<u8> = (0..200).collect();
    let digests = [0, 1, 15, 16, 17, 20, 32, 40, 64, 65, 128, 129, 200].map(|length| hasher.digest(&key[..length]));
    let folded = digests.iter().fold(0, |sum: u64, digest| sum.rotate_left(7) ^ digest.x ^ digest.y.rotate_left(32));
    let digest = hasher.digest(b"abc");
    let nodes = digest.nodes([5 << 60 | 3, 3 << 50 | 1], [1_330, 1_000]);
    let derived = (digest.buckets(1_000), nodes, [3, 300].map(|seed| digest.slot(seed)), digest.fingerprint(16));
    assert_eq!((folded, derived), GOLDEN);
}

type Derived = ([u64; 2], [u64; 2], [usize; 2], u16);
const GOLDEN: (u64, Derived) = (12_573_620_577_966_567_987, ([91, 660], [871, 160], [3, 0], 14_684));

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
    for length in 1..=150 {
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

/// A name, and the key of a number.
type Family = (&'static str, fn(u64) -> Vec<u8>);

/// Keys that are not random: what hash functions fail on.
const FAMILIES: [Family; 6] = [
    ("numbers of 8 bytes", |number| number.to_le_bytes().to_vec()),
    ("numbers of 8 bytes, upper bits", |number| number.to_be_bytes().to_vec()),
    ("a shard and a number, 16 bytes", |number| [7_u64.to_le_bytes(), number.to_le_bytes()].concat()),
    ("text of 20 bytes", |number| format!("object-{number:013}").into_bytes()),
    ("40 bytes with few bits", |number| {
        (0..40).map(|at| if at % 2 == 0 { (number >> (at / 2)) as u8 & 1 } else { 0 }).collect()
    }),
    ("a number at the end of 90 bytes", |number| [&[0; 82][..], &number.to_le_bytes()].concat()),
];

#[test]
fn what_is_derived_is_spread_evenly() {
    // 1,024 cells: mean 1,023, deviation √2046 = 45; six of those on either side.
    let even = 750.0..1_300.0;
    let nodes =
        |digest: Digest| digest.nodes([0x9e37_79b9_7f4a_7c15, 0x7f4a_7c15_9e37_79b9], [32, 32]).map(|node| node as usize);
    let pairs: [(&str, &dyn Fn(Digest) -> usize); 11] = [
        ("both buckets", &|digest| (digest.bucket(0, 32) * 32 + digest.bucket(1, 32)) as usize),
        ("bucket and slot", &|digest| digest.bucket(0, 256) as usize * 4 + digest.slot(0)),
        ("other bucket and slot", &|digest| digest.bucket(1, 256) as usize * 4 + digest.slot(40)),
        ("slots of five seeds", &|digest| (0..5).fold(0, |cell, seed| cell * 4 + digest.slot(2 * seed))),
        ("slots of distant seeds", &|digest| [0, 21, 40, 62, 63].iter().fold(0, |cell, seed| cell * 4 + digest.slot(*seed))),
        ("bucket and fingerprint", &|digest| digest.bucket(1, 32) as usize * 32 + usize::from(digest.fingerprint(5))),
        ("slot and fingerprint", &|digest| digest.slot(1) * 256 + usize::from(digest.fingerprint(8))),
        ("both nodes", &|digest| nodes(digest)[0] * 32 + nodes(digest)[1]),
        ("bucket and first node", &|digest| digest.bucket(0, 32) as usize * 32 + nodes(digest)[0]),
        ("bucket and second node", &|digest| digest.bucket(0, 32) as usize * 32 + nodes(digest)[1]),
        ("node and slots", &|digest| nodes(digest)[0] * 32 + digest.slot(62) * 8 + digest.slot(9) * 2 + digest.slot(30) / 2),
    ];
    for (seed, (family, key)) in FAMILIES.iter().enumerate() {
        let hasher = Hasher::new(seed as u64);
        let digests: Vec<Digest> = (0..200_000).map(|number| hasher.digest(&key(number))).collect();
        for (name, cell) in pairs {
            let mut counts = vec![0; 1_024];
            digests.iter().for_each(|digest| counts[cell(*digest)] += 1);
            let found = chi_squared(&counts);
            assert!(even.contains(&found), "{family}, {name}: chi-squared {found}");
        }
    }
}

/// Every bit of a key turns every bit of its digest over half of the time.
#[test]
fn one_bit_of_a_key_changes_half_of_the_digest() {
    for (seed, (family, key)) in FAMILIES.iter().enumerate() {
        let hasher = Hasher::new(100 + seed as u64);
        let bits = key(0).len() * 8;
        let count = 4_000;
        for bit in (0..bits).step_by(5) {
            let mut turned = [0_u32; 128];
            for number in 0..count {
                let one = key(number * 31);
                let mut other = one.clone();
                other[bit / 8] ^= 1 << (bit % 8);
                let (one, other) = (hasher.digest(&one), hasher.digest(&other));
                let differ = u128::from(one.x ^ other.x) << 64 | u128::from(one.y ^ other.y);
                turned.iter_mut().enumerate().for_each(|(at, turned)| *turned += (differ >> at) as u32 & 1);
            }
            // Deviation √4000 / 2 = 32; six of those.
            for (at, turned) in turned.iter().enumerate() {
                assert!((1_810..2_190).contains(turned), "{family}: bit {bit} turns bit {at} {turned} times of {count}");
            }
        }
    }
}

#[test]
fn seeds_separate_as_often_as_chance() {
    let hasher = Hasher::new(5);
    let buckets = 40_000_u64;
    let digests = |bucket: u64| [0, 1, 2, 3].map(|index| hasher.digest(&(bucket * 4 + index).to_le_bytes()));
    let fails = |bucket: &u64| !(0..ESCAPE).any(|seed| crate::seeds::separates(seed, &digests(*bucket)));
    let failed = (0..buckets).filter(fails).count() as f64 / buckets as f64;
    // Seeds of random digests: 0.513%; deviation 0.036%.
    assert!((0.0040..0.0063).contains(&failed), "{failed} of full buckets find no seed of six bits");
}

#[test]
fn the_seed_found_is_the_first() {
    let hasher = Hasher::new(7);
    for bucket in 0..5_000_u64 {
        let digests: Vec<Digest> = (0..bucket % 5).map(|index| hasher.digest(&(bucket * 4 + index).to_le_bytes())).collect();
        let first = (0..=u16::MAX).find(|seed| crate::seeds::separates(*seed, &digests));
        let barred = (0..=u16::MAX).find(|seed| !crate::seeds::separates(*seed, &digests));
        assert_eq!(crate::seeds::find(barred.unwrap_or(0), &digests), first);
        let other = (40..=u16::MAX).find(|seed| crate::seeds::separates(*seed, &digests)).expect("there are many");
        assert_eq!(crate::seeds::find(other, &digests), Some(other), "the one preferred");
    }
}
