use super::*;

fn position(view: u64, opseq: u64) -> Position {
    Position { view: ViewNumber(view), opseq: OpSeq(opseq) }
}

/// A log after `base` whose entries are of these views.
fn log(base: Position, views: &[u64]) -> Log {
    let mut log = Log::after(base);
    for view in views {
        let position = Position { view: ViewNumber(*view), opseq: log.last().opseq.next() };
        log.push(Entry { position, payload: Bytes::from(vec![*view as u8; 10]) });
    }
    log
}

#[test]
fn what_two_logs_share_ends_at_the_last_common_view() {
    let own = log(position(0, 0), &[1, 1, 2, 2, 4]);
    let shared = |views: &[u64]| own.shared_with(&log(position(0, 0), views).views());
    assert_eq!(shared(&[]), Some(OpSeq(0)), "an empty log is the beginning of each");
    assert_eq!(shared(&[1]), Some(OpSeq(1)));
    assert_eq!(shared(&[1, 1, 2, 2, 4]), Some(OpSeq(5)));
    assert_eq!(shared(&[1, 1, 2, 2, 4, 4]), Some(OpSeq(5)));
    assert_eq!(shared(&[1, 1, 1, 1]), Some(OpSeq(2)), "a former primary's suffix diverges");
    assert_eq!(shared(&[1, 1, 2, 3, 3]), Some(OpSeq(3)));
}

#[test]
fn what_is_given_up_is_not_shared() {
    let own = log(position(2, 10), &[2, 3]);
    let shared = |base, views: &[u64]| own.shared_with(&log(base, views).views());
    assert_eq!(shared(position(1, 4), &[1, 2]), None, "it ends before this log begins");
    assert_eq!(shared(position(1, 9), &[2]), Some(OpSeq(10)), "it ends at the base");
    assert_eq!(shared(position(1, 9), &[1]), None, "it diverges before the base");
    assert_eq!(shared(position(2, 11), &[3]), Some(OpSeq(12)));
    assert_eq!(shared(position(4, 20), &[]), None);
}

#[test]
fn views_name_the_base_and_the_last_entry_of_each_view() {
    assert_eq!(log(position(1, 4), &[]).views(), [position(1, 4)]);
    let views = log(position(1, 4), &[1, 1, 3]).views();
    assert_eq!(views, [position(1, 4), position(1, 6), position(3, 7)]);
}

#[test]
fn entries_are_counted_where_they_come_and_where_they_go() {
    let mut log = log(position(0, 0), &[1, 1, 2]);
    let each = 10 + ENTRY_OVERHEAD_BYTES;
    assert_eq!((log.len(), log.bytes()), (3, 3 * each));
    log.trim(OpSeq(1));
    assert_eq!((log.base(), log.len(), log.bytes()), (position(1, 1), 2, 2 * each));
    let removed = log.truncate_after(OpSeq(1));
    let removed: Vec<Position> = removed.iter().map(|entry| entry.position).collect();
    assert_eq!(removed, [position(2, 3), position(1, 2)], "the newest first");
    assert_eq!((log.last(), log.len(), log.bytes()), (position(1, 1), 0, 0));
    let limits = LogLimits { entries: 2, bytes: 2 * each };
    assert!(log.has_room(2, 2 * each, &limits) && !log.has_room(3, 0, &limits) && !log.has_room(1, 2 * each + 1, &limits));
}

#[test]
fn a_batch_ends_at_its_bounds() {
    let mut long = Log::default();
    for opseq in 1..=3 {
        long.push(Entry { position: position(1, opseq), payload: Bytes::from(vec![0; MAX_BATCH_BYTES / 2]) });
    }
    let count = |after: u64| long.batch_after(OpSeq(after)).map(|batch| batch.len());
    assert_eq!(count(0), Some(1), "two of them are too long with what counts besides");
    assert_eq!(count(3), Some(0));
    assert_eq!(count(4), None);
}
