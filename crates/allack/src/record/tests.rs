use super::*;
use proptest::prelude::*;

fn position(view: u64, opseq: u64) -> Position {
    Position { view: ViewNumber(view), opseq: OpSeq(opseq) }
}

fn decoded(bytes: &[u8]) -> Result<Record, DecodeError> {
    Record::decode(&Bytes::copy_from_slice(bytes))
}

#[test]
fn golden() {
    let record = |change| Record { group: GroupId(0x0102), change };
    let payload = Bytes::from_static(b"ab");
    let entry = |view, opseq, payload: &Bytes| Entry { position: position(view, opseq), payload: payload.clone() };
    let entries = vec![entry(3, 7, &payload), entry(4, 8, &Bytes::new())];
    let cases: [(Change, &[u8]); 5] = [
        (Change::Promise(ViewNumber(5)), &[1, 1, 0, 0, 2, 1, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0]),
        (
            Change::Entries(entries),
            &[
                1, 2, 0, 0, 2, 1, 0, 0, 2, 0, 0, 0, // two entries
                3, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, b'a', b'b', // 3.7
                4, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, // 4.8
            ],
        ),
        (Change::Truncate(OpSeq(6)), &[1, 3, 0, 0, 2, 1, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0]),
        (Change::Base(position(3, 6)), &[1, 4, 0, 0, 2, 1, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0]),
        (Change::Reset, &[1, 5, 0, 0, 2, 1, 0, 0]),
    ];
    for (change, bytes) in cases {
        assert_eq!(record(change.clone()).encode(), bytes);
        assert_eq!(decoded(bytes), Ok(record(change)));
    }
}

#[test]
fn what_is_no_record_is_refused() {
    let entry = |opseq| Entry { position: position(3, opseq), payload: Bytes::from_static(b"ab") };
    let good = Record { group: GroupId(1), change: Change::Entries(vec![entry(7), entry(8)]) }.encode();
    let fault = |at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        let error = decoded(&bytes).expect_err("refused");
        (error.field, error.offset)
    };
    assert_eq!(fault(0, 2), ("version", 0));
    assert_eq!(fault(1, 6), ("kind", 1));
    assert_eq!(fault(2, 1), ("reserved", 2));
    assert_eq!(fault(8, 3), ("count", 8), "more than there are bytes for");
    assert_eq!(fault(9, 255), ("count", 8), "more than a record holds");
    assert_eq!(fault(19, 255), ("view", 12), "beyond all numbers");
    assert_eq!(fault(20, 8), ("position", 34), "the next one does not follow");
    assert_eq!(fault(30, 16), ("length", 28), "longer than an entry may be");
    assert!(decoded(&good[..good.len() - 1]).is_err());
    assert_eq!(decoded(&[good, vec![0]].concat()).expect_err("refused").field, "end");
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..96), kind in 1_u8..6) {
        let head = [1, kind, 0, 0];
        bytes.iter_mut().zip(head).for_each(|(byte, of_head)| *byte = of_head);
        if let Ok(record) = decoded(&bytes) {
            prop_assert_eq!(record.encode(), bytes);
        }
    }
}
