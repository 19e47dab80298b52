use super::*;
use crate::id::OpSeq;
use bytes::Bytes;

fn position(view: u64, opseq: u64) -> Position {
    Position { view: ViewNumber(view), opseq: OpSeq(opseq) }
}

fn entries(rows: &[(u64, u64)]) -> Change {
    let entry = |(view, opseq): &(u64, u64)| Entry { position: position(*view, *opseq), payload: Bytes::from_static(b"x") };
    Change::Entries(rows.iter().map(entry).collect())
}

fn replayed(changes: &[Change]) -> Result<Saved, ReplayError> {
    let mut replay = Replay::default();
    changes.iter().for_each(|change| replay.apply(change));
    replay.finish()
}

#[test]
fn records_add_up() {
    let history = [
        Change::Promise(ViewNumber(3)),
        entries(&[(1, 1), (1, 2), (1, 3)]),
        Change::Truncate(OpSeq(2)),
        entries(&[(2, 3)]),
        Change::Base(position(1, 1)),
        Change::Promise(ViewNumber(2)),
    ];
    let saved = replayed(&history).expect("no gap");
    assert_eq!((saved.promised, saved.loading), (ViewNumber(3), false));
    assert_eq!((saved.log.base(), saved.log.last(), saved.log.len()), (position(1, 1), position(2, 3), 2));
}

#[test]
fn what_is_said_again_changes_nothing() {
    let history =
        [Change::Promise(ViewNumber(3)), entries(&[(1, 1), (1, 2)]), Change::Base(position(1, 1)), entries(&[(2, 3)])];
    let again = [Change::Promise(ViewNumber(3)), Change::Base(position(1, 1)), entries(&[(1, 2), (2, 3)])];
    let once = replayed(&history).expect("no gap");
    assert_eq!(replayed(&[&history[..], &again].concat()), Ok(once.clone()));
    assert_eq!(replayed(&again), Ok(once.clone()), "it is all there is, when the segments before are gone");
    assert_eq!(replayed(&[&history[3..], &again].concat()), Ok(once), "or what is left of them begins in the middle");
}

#[test]
fn a_gap_that_stays_is_refused() {
    let gap = replayed(&[entries(&[(1, 1)]), entries(&[(1, 3)])]);
    assert_eq!(gap, Err(ReplayError { last: position(1, 1), found: position(1, 3) }));
    assert!(replayed(&[entries(&[(2, 1)]), entries(&[(1, 2)])]).is_err(), "views descend");
}

#[test]
fn a_dump_that_is_not_loaded_leaves_nothing() {
    let half = [entries(&[(1, 1), (1, 2)]), Change::Reset];
    let saved = replayed(&half).expect("no gap");
    assert!(saved.loading && saved.log == Log::default());
    let whole = replayed(&[&half[..], &[Change::Base(position(4, 9)), entries(&[(4, 10)])]].concat()).expect("no gap");
    assert_eq!((whole.loading, whole.log.base(), whole.log.last()), (false, position(4, 9), position(4, 10)));
}
