use super::*;
use crate::limits::{FOLDER_SEGMENT_BYTES, MAX_LOG_SEGMENTS, MIN_LOG_SEGMENTS};

const MIB: u64 = 1024 * 1024;

fn bounds(most_segments: usize, longest_snapshot: u64) -> Bounds {
    Bounds { most_segments, useful_bytes: FOLDER_SEGMENT_BYTES - MIB, longest_snapshot }
}

#[test]
fn whatever_may_be_needed_is_rewritten_a_bounded_number_of_times() {
    for most_segments in MIN_LOG_SEGMENTS..=MAX_LOG_SEGMENTS {
        for longest in [0, MIB, 8 * MIB, 64 * MIB, 256 * MIB] {
            let bounds = bounds(most_segments, longest);
            for needed in 1..=(bounds.most_needed() / bounds.useful_bytes) as usize {
                let tidy_at = bounds.tidy_at(needed as u64 * bounds.useful_bytes);
                assert!(needed <= MAX_REWRITES * (tidy_at - needed), "{bounds:?}: {needed} of {tidy_at}");
                // Tidying up gets below it, and entries are not refused before.
                assert!(tidy_at >= needed + UNTIDY_SEGMENTS, "{bounds:?}: {needed} of {tidy_at}");
                assert!(tidy_at <= bounds.roomy(), "{bounds:?}: {needed} of {tidy_at}");
            }
        }
    }
}

#[test]
fn limits_of_a_log_in_a_folder() {
    let limits = |longest| {
        let bounds = bounds(MAX_LOG_SEGMENTS, longest);
        [bounds.most_needed(), Bounds::beside_favoured(bounds.most_needed()), Bounds::beside_favoured(bounds.most_grown())]
            .map(|most| most / MIB)
    };
    assert_eq!(limits(8 * MIB), [973, 729, 638]);
    assert_eq!(limits(256 * MIB), [637, 477, 381]);
    assert_eq!(bounds(MIN_LOG_SEGMENTS, 1).most_needed(), bounds(MIN_LOG_SEGMENTS, 1).useful_bytes);
}
