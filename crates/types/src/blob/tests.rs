use super::{BLOB_BYTES, PIECE_BYTES, Pieces};

#[test]
fn a_range_touches_its_pieces_and_has_some_as_a_whole() {
    assert_eq!(Pieces::touched(0..1), Pieces(1));
    assert_eq!(Pieces::touched(PIECE_BYTES - 1..PIECE_BYTES + 1), Pieces(3));
    assert_eq!(Pieces::touched(5..5), Pieces::NONE);
    assert_eq!(Pieces::touched(0..BLOB_BYTES), Pieces::ALL);
    assert_eq!(Pieces::within(1..3 * PIECE_BYTES), Pieces(6));
    assert_eq!(Pieces::within(1..PIECE_BYTES), Pieces::NONE);
    assert_eq!(Pieces::within(0..BLOB_BYTES), Pieces::ALL);
}

#[test]
fn runs_stand_side_by_side() {
    let runs: Vec<_> = Pieces(0b1110_0101).runs().map(|run| run.start / PIECE_BYTES..run.end / PIECE_BYTES).collect();
    assert_eq!(runs, [0..1, 2..3, 5..8]);
    assert_eq!(Pieces::ALL.runs().collect::<Vec<_>>(), vec![0..BLOB_BYTES]);
    assert_eq!(Pieces::NONE.runs().count(), 0);
}

#[test]
fn sets_are_compared_and_joined() {
    let (some, more) = (Pieces(0b0101), Pieces(0b1101));
    assert!(more.covers(some) && !some.covers(more));
    assert_eq!(some | Pieces(0b1000), more);
    assert_eq!(more & !some, Pieces(0b1000));
    assert_eq!(more.count(), 3);
    assert!(more.contains(3) && !some.contains(3));
}
