use super::*;

/// Looks once a second, and says after how many of them the shard was closed, if it was.
fn closed_after(from_s: u64, seconds: u64, is_taken: impl Fn(u64) -> bool, patience: &mut CrowdedPatience) -> Option<u64> {
    let mut crowding = Crowding::default();
    let at = |second| Instant::from_nanos((from_s + second) * 1_000_000_000);
    (0..seconds).find(|second| crowding.hear(at(*second), is_taken(*second), patience))
}

#[test]
fn a_unit_that_takes_nothing_is_waited_for_longer_each_time() {
    let mut patience = CrowdedPatience::default();
    let mut waited = Vec::new();
    for _ in 0..8 {
        waited.extend(closed_after(0, 4_000, |_| false, &mut patience));
    }
    assert_eq!(waited, [60, 120, 240, 480, 960, 1_920, 3_600, 3_600]);
}

#[test]
fn a_unit_that_takes_something_now_and_then_stays() {
    let mut patience = CrowdedPatience::default();
    assert_eq!(closed_after(0, 3_600, |second| second % 60 == 59, &mut patience), None);
}

#[test]
fn who_took_registrations_for_long_is_given_no_more_time_than_the_first() {
    let mut patience = CrowdedPatience::default();
    assert_eq!(closed_after(0, 100, |_| false, &mut patience), Some(60));
    // Not for a moment in which there was room.
    assert_eq!(closed_after(100, 200, |second| second == 0, &mut patience), Some(121));
    assert_eq!(closed_after(300, 1_000, |second| second < 300, &mut patience), Some(360));
}
