use super::*;
use proptest::prelude::*;

fn position(view: u64, opseq: u64) -> Position {
    Position { view: ViewNumber(view), opseq: OpSeq(opseq) }
}

fn decoded(bytes: &[u8]) -> Result<Message, DecodeError> {
    Message::decode(&Bytes::copy_from_slice(bytes))
}

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

#[test]
fn golden() {
    let id = ReportId { session: 11, number: 12 };
    let entry = Entry { position: position(4, 8), payload: Bytes::from_static(b"a") };
    let entry_bytes = [&[1, 0, 0, 0][..], &words(&[4, 8]), &[1, 0, 0, 0, b'a']].concat();
    let reported = Reported { views: vec![position(1, 2), position(3, 7)], loading: true, released: OpSeq(2) };
    let keep = Some(Keep { report: id, through: OpSeq(7) });
    let append = |keep| {
        let (after, entries) = (position(3, 7), vec![entry.clone()]);
        Body::Append { keep, after, entries, commit: OpSeq(6), trim: OpSeq(5) }
    };
    let cases: [(Body, u8, Vec<u8>); 9] = [
        (
            Body::Report { id, log: reported },
            1,
            [&words(&[11, 12])[..], &[1], &words(&[2]), &[2, 0, 0, 0], &words(&[1, 2, 3, 7])].concat(),
        ),
        (Body::Fetch { after: OpSeq(9) }, 2, words(&[9])),
        (Body::Fetched { entries: vec![entry.clone()] }, 3, entry_bytes.clone()),
        (append(None), 4, [&[0][..], &words(&[3, 7, 6, 5]), &entry_bytes].concat()),
        (append(keep), 4, [&[1][..], &words(&[11, 12, 7, 3, 7, 6, 5]), &entry_bytes].concat()),
        (Body::Ack { durable: OpSeq(8), released: OpSeq(5), commit: OpSeq(6) }, 5, words(&[8, 5, 6])),
        (Body::DumpOffer { report: id, dump: DumpId(2), at: position(3, 7) }, 6, words(&[11, 12, 2, 3, 7])),
        (Body::DumpWant { dump: DumpId(2), chunk: 3 }, 7, [&words(&[2])[..], &[3, 0, 0, 0]].concat()),
        (
            Body::DumpChunk { dump: DumpId(2), chunk: 3, last: true, bytes: Bytes::from_static(b"xyz") },
            8,
            [&words(&[2])[..], &[3, 0, 0, 0, 1], b"xyz"].concat(),
        ),
    ];
    for (body, kind, rest) in cases {
        let message = Message { group: GroupId(6), view: ViewNumber(4), body };
        let bytes = [&[1, kind, 0, 0, 6, 0, 0, 0][..], &words(&[4]), &rest].concat();
        assert_eq!(message.encode(), bytes, "{message:?}");
        assert_eq!(decoded(&bytes), Ok(message));
    }
}

#[test]
fn what_is_no_message_is_refused() {
    let message = |body| Message { group: GroupId(6), view: ViewNumber(4), body }.encode();
    let field = |bytes: &[u8]| decoded(bytes).expect_err("refused").field;
    let rows = |views: Vec<Position>| {
        message(Body::Report { id: ReportId::default(), log: Reported { views, loading: false, released: OpSeq(0) } })
    };
    assert_eq!(field(&rows(Vec::new())), "count", "a log has a base");
    assert_eq!(field(&rows(vec![position(3, 7), position(3, 7)])), "views");
    assert_eq!(field(&rows(vec![position(3, 7), position(2, 8)])), "views");
    let entry = Entry { position: position(4, 9), payload: Bytes::new() };
    let after = position(4, 7);
    let gap = Body::Append { keep: None, after, entries: vec![entry], commit: OpSeq(0), trim: OpSeq(0) };
    assert_eq!(field(&message(gap)), "position");
    let mut odd = message(Body::Append { keep: None, after, entries: Vec::new(), commit: OpSeq(0), trim: OpSeq(0) });
    odd[16] = 2;
    assert_eq!(field(&odd), "keeps");
    odd[1] = 9;
    assert_eq!(field(&odd), "kind");
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..160), kind in 1_u8..9) {
        let head = [1, kind, 0, 0];
        bytes.iter_mut().zip(head).for_each(|(byte, of_head)| *byte = of_head);
        if let Ok(message) = decoded(&bytes) {
            prop_assert_eq!(message.encode(), bytes);
        }
    }
}
