//! Against the library that hashes one content at a time.

use bytes::Bytes;
use md5::{Digest as _, Md5};
use proptest::collection::vec;
use proptest::prelude::*;

use super::Md5Content;
use super::kernel::{BLOCK_BYTES, LANES, advance};

fn content(seed: u64, bytes: usize) -> Bytes {
    let mut word = seed;
    let next = || {
        word = word.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (word >> 33) as u8
    };
    std::iter::repeat_with(next).take(bytes).collect()
}

fn expected(content: &[u8]) -> [u8; 16] {
    Md5::digest(content).into()
}

/// Hashes a content in pieces that end at `cuts`.
async fn hash(content: Bytes, mut cuts: Vec<usize>) -> [u8; 16] {
    let mut md5 = Md5Content::new();
    let mut from = 0;
    cuts.sort_unstable();
    for cut in cuts.into_iter().map(|cut| cut % (content.len() + 1)).chain([content.len()]) {
        md5.update(content.slice(from.min(cut)..cut)).await;
        from = from.max(cut);
    }
    md5.finish().await
}

#[test]
fn every_number_of_lanes() {
    let contents: Vec<Bytes> = (0..LANES).map(|lane| content(lane as u64, 5 * BLOCK_BYTES)).collect();
    for used in 0..=LANES {
        // RFC 1321, section 3.3.
        let mut together = vec![[0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476]; used];
        let mut alone = together.clone();
        let runs: Vec<_> = contents[..used].iter().map(|content| content.as_chunks().0).collect();
        advance(&mut together, &runs);
        for (state, run) in alone.iter_mut().zip(runs) {
            advance(std::slice::from_mut(state), &[run]);
        }
        assert_eq!(together, alone, "{used} lanes");
    }
}

#[tokio::test]
async fn every_length_around_the_padding() {
    for bytes in 0..3 * BLOCK_BYTES {
        let content = content(bytes as u64, bytes);
        assert_eq!(hash(content.clone(), vec![bytes / 3]).await, expected(&content), "{bytes} bytes");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn contents_at_the_same_time(
        contents in vec((any::<u64>(), prop_oneof![0usize..300, 0usize..600_000], vec(any::<usize>(), 0..6)), 1..20),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let hashes = contents.iter().map(|(seed, bytes, cuts)| hash(content(*seed, *bytes), cuts.clone()));
        let hashes = runtime.block_on(futures_util::future::join_all(hashes));
        for ((seed, bytes, _), hash) in contents.iter().zip(hashes) {
            prop_assert_eq!(hash, expected(&content(*seed, *bytes)));
        }
    }
}

/// Tasks that move between threads stay in the queue where they began, and what is dropped in the middle holds up nobody.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn tasks_that_move_and_tasks_that_are_dropped() {
    let tasks: Vec<_> = (0..64)
        .map(|seed| {
            let content = content(seed, 300_000 + 1_000 * seed as usize);
            let task = tokio::spawn(hash(content.clone(), (0..40).map(|cut| cut * 7_919).collect()));
            if seed % 3 == 0 {
                task.abort();
            }
            (seed, content, task)
        })
        .collect();
    for (seed, content, task) in tasks {
        match task.await {
            Ok(hash) => assert_eq!(hash, expected(&content), "content {seed}"),
            Err(error) => assert!(error.is_cancelled() && seed % 3 == 0, "content {seed}: {error}"),
        }
    }
}
