use bytes::Bytes;
use futures_util::FutureExt;

use super::*;
use crate::ids::ExtentId;

fn change(what: ChangeWhat) -> Change {
    Change { extent: ExtentId { partition: 1, term: 1, number: 1 }, what }
}

fn overwrite(kib: usize) -> Change {
    change(ChangeWhat::Overwrite { offset: 0, data: Bytes::from(vec![0; kib * KIB]) })
}

#[test]
fn so_many_changes_are_under_way_and_what_gives_back_goes_past_them() {
    let works = Works::default();
    let mut under_way: Vec<Work<'_>> =
        (0..MAX_WORKS).map(|_| works.enter(&overwrite(1)).now_or_never().expect("room")).collect();
    assert!(works.enter(&overwrite(1)).now_or_never().is_none());
    let returns: Vec<Work<'_>> =
        (0..MAX_RETURNS).map(|_| works.enter(&change(ChangeWhat::Remove)).now_or_never().expect("room")).collect();
    assert!(works.enter(&change(ChangeWhat::Punch { offset: 0, len: 1 })).now_or_never().is_none());
    drop(returns);
    under_way.pop();
    assert!(works.enter(&overwrite(1)).now_or_never().is_some());
}

#[test]
fn so_many_bytes_are_under_way() {
    let works = Works::default();
    let half = works.enter(&overwrite(MAX_WORK_KIB / 2)).now_or_never().expect("room");
    assert!(works.enter(&overwrite(MAX_WORK_KIB / 2 + 1)).now_or_never().is_none());
    drop(half);
    assert!(works.enter(&overwrite(2 * MAX_WORK_KIB)).now_or_never().is_some(), "one that is too great goes alone");
}
