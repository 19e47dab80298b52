use std::collections::BTreeSet;

use env::Instant;
use format::chunk_place::BlockPlace;
use types::DeviceId;

use super::Condemning;
use crate::limits::{CONDEMN_LOOK, LOST_LOOK, MAX_CONDEMN_TRIES, MAX_SOUGHT_BLOCKS};

fn blocks(numbers: std::ops::Range<u32>) -> BTreeSet<BlockPlace> {
    numbers.filter_map(|block| BlockPlace::new(DeviceId(1), block)).collect()
}

/// However many there are: rows of so many and no more are looked for.
#[test]
fn some_are_sought_at_a_time_until_all_are_decided() {
    let mut condemning = Condemning::default();
    let all = blocks(0..3 * MAX_SOUGHT_BLOCKS as u32);
    let (mut damaged, mut condemned) = (all.clone(), BTreeSet::new());
    let mut now = Instant::from_nanos(0);
    while condemned.len() < all.len() {
        condemning.choose(now, &damaged);
        let sought = condemning.sought().clone();
        assert!(sought.len() == MAX_SOUGHT_BLOCKS && sought.is_disjoint(&condemned), "{sought:?}");
        assert!(condemning.is_due(now));
        condemned.extend(condemning.decide(now, &BTreeSet::new()));
        assert!(!condemning.is_due(now), "its nodes have been asked");
        condemning.choose(now, &damaged);
        assert_eq!(condemning.sought(), &sought, "until their nodes have done it");
        damaged = damaged.difference(&condemned).copied().collect();
        now = now + CONDEMN_LOOK;
    }
    condemning.choose(now, &damaged);
    assert!(condemning.sought().is_empty() && !condemning.is_due(now));
}

#[test]
fn blocks_with_last_copies_make_way_for_others_and_are_looked_at_again() {
    let mut condemning = Condemning::default();
    let damaged = blocks(0..MAX_SOUGHT_BLOCKS as u32 + 1);
    let began = Instant::from_nanos(0);
    condemning.choose(began, &damaged);
    let first = condemning.sought().clone();
    assert_eq!(condemning.decide(began, &first), []);
    condemning.choose(began, &damaged);
    let second = condemning.sought().clone();
    assert_eq!((second.len(), second.is_disjoint(&first)), (1, true));
    assert_eq!(condemning.decide(began, &second), []);
    condemning.choose(began, &damaged);
    assert!(condemning.sought().is_empty(), "all have just been looked at");
    condemning.choose(began + LOST_LOOK, &damaged);
    assert_eq!(condemning.sought(), &first);
}

/// Its headers can't be written, or its node is away: the others waited for that for ever.
#[test]
fn blocks_that_are_not_condemned_make_way_for_others_and_are_tried_again() {
    let mut condemning = Condemning::default();
    let damaged = blocks(0..MAX_SOUGHT_BLOCKS as u32 + 1);
    let mut now = Instant::from_nanos(0);
    condemning.choose(now, &damaged);
    let first = condemning.sought().clone();
    for _ in 0..MAX_CONDEMN_TRIES {
        condemning.choose(now, &damaged);
        assert_eq!(condemning.decide(now, &BTreeSet::new()).len(), MAX_SOUGHT_BLOCKS);
        now = now + CONDEMN_LOOK;
    }
    condemning.choose(now, &damaged);
    assert_eq!(condemning.sought().len(), 1);
    assert!(condemning.sought().is_disjoint(&first) && condemning.is_due(now));
    condemning.choose(now, &first);
    assert!(condemning.sought().is_empty(), "it is condemned, and the others were tried a moment ago");
    condemning.choose(now + LOST_LOOK, &first);
    assert_eq!(condemning.sought(), &first);
}
