use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::id::{COUNT_LIMIT, LogIndex};

fn position(term: u64, index: u64) -> LogPosition {
    LogPosition { term: Term(term), index: LogIndex(index) }
}

fn membership() -> Membership {
    Membership {
        voters: vec![vec![NodeId(1), NodeId(2)]],
        members: vec![(NodeId(1), "a:1".to_owned()), (NodeId(2), "b:2".to_owned())],
    }
}

fn golden(change: Change, expected: &[u8]) {
    let record = Record { group: GroupId(300), change };
    let encoded = record.encode();
    assert_eq!(encoded, expected);
    assert_eq!(Record::decode(&encoded), Ok(record));
}

#[test]
fn golden_bytes_of_every_change() {
    golden(Change::Vote(Vote { term: Term(5), node: NodeId(2), committed: true }), &[1, 0xac, 2, 0, 5, 2, 1]);
    let entries = vec![
        Entry { position: position(5, 0), content: Content::Blank },
        Entry { position: position(5, 1), content: Content::Command(Blob(Bytes::from_static(b"xyz"))) },
        Entry { position: position(5, 2), content: Content::Membership(membership()) },
    ];
    let mut expected = vec![1, 0xac, 2, 1, 1, 4, 9, 3, 5, 0, 0, 5, 1, 1, 3, b'x', b'y', b'z', 5, 2, 2];
    expected.extend([1, 2, 1, 2, 2, 1, 3, b'a', b':', b'1', 2, 3, b'b', b':', b'2']);
    golden(Change::Entries { committed: Some(position(4, 9)), entries }, &expected);
    golden(Change::Truncate { last: None }, &[1, 0xac, 2, 2, 0]);
    golden(Change::Purge { last: position(7, 128) }, &[1, 0xac, 2, 3, 7, 0x80, 1]);
    let summary = SnapshotSummary { last: Some(position(7, 128)), membership_at: None, membership: Membership::default() };
    let begin = Change::SnapshotBegin { number: 3, summary, bytes: 6, checksum: 1 };
    golden(begin, &[1, 0xac, 2, 4, 3, 1, 7, 0x80, 1, 0, 0, 0, 6, 1]);
    let piece = Blob(Bytes::from_static(b"pq"));
    golden(Change::SnapshotPiece { number: 3, offset: 4, piece }, &[1, 0xac, 2, 5, 3, 4, 2, b'p', b'q']);
    golden(Change::SnapshotEnd { number: 3 }, &[1, 0xac, 2, 6, 3]);
    golden(Change::Remove, &[1, 0xac, 2, 7]);
    golden(Change::Mark, &[1, 0xac, 2, 8]);
}

#[test]
fn what_is_no_record_is_refused_by_name() {
    assert_eq!(Record::decode(&[]), Err(RecordError::Empty));
    assert_eq!(Record::decode(&[2, 0, 8]), Err(RecordError::Version { found: 2 }));
    assert_eq!(Record::decode(&[1, 0, 8, 0]), Err(RecordError::TrailingBytes { count: 1 }));
    assert!(matches!(Record::decode(&[1, 0, 200]), Err(RecordError::Content(_))));
}

/// Counted on from, they would overflow or begin again at zero.
#[test]
fn counts_beyond_their_limit_are_refused() {
    let summary = || SnapshotSummary { last: Some(position(7, 128)), membership_at: None, membership: Membership::default() };
    for (count, is_taken) in [(COUNT_LIMIT - 1, true), (COUNT_LIMIT, false), (u64::MAX, false)] {
        let changes = [
            Change::Vote(Vote { term: Term(count), node: NodeId(u64::MAX), committed: true }),
            Change::Purge { last: position(1, count) },
            Change::Truncate { last: Some(position(count, 1)) },
            Change::SnapshotBegin { number: count, summary: summary(), bytes: 6, checksum: u64::MAX },
        ];
        for change in changes {
            let record = Record { group: GroupId(u64::MAX), change };
            let decoded = Record::decode(&record.encode());
            assert!(decoded == Ok(record) || matches!(decoded, Err(RecordError::Content(_))), "{decoded:?}");
            assert_eq!(decoded.is_ok(), is_taken, "{decoded:?}");
        }
    }
}

proptest! {
    #[test]
    fn no_bytes_make_the_decoder_panic(bytes: Vec<u8>) {
        if let Ok(record) = Record::decode(&bytes) {
            prop_assert_eq!(Record::decode(&record.encode()), Ok(record));
        }
    }

    #[test]
    fn an_entry_counts_for_at_least_what_it_takes(length in 0_usize..5000, term: u64, index: u64) {
        let content = Content::Command(Blob(Bytes::from(vec![7; length])));
        let entry = Entry { position: LogPosition { term: Term(term), index: LogIndex(index) }, content };
        prop_assert!(postcard::to_allocvec(&entry).unwrap().len() <= entry.bytes());
    }
}
