use std::time::Duration;

use bytes::Bytes;
use env::Env;

use super::*;
use crate::record::SnapshotSummary;

const GROUP: GroupId = GroupId(1);

fn name(bytes: &[u8]) -> SnapshotName {
    SnapshotName { summary: SnapshotSummary::default(), bytes: bytes.len() as u64, checksum: snapshot_checksum(bytes) }
}

#[tokio::test(start_paused = true)]
async fn pieces_are_put_together_and_a_sender_goes_on_where_it_was() {
    let inbox = Inbox::new(&Env::simulated(1));
    let whole = b"abcdefgh";
    assert_eq!(inbox.take(GROUP, name(whole), 0, b""), Ok(Received::Partly { bytes: 0 }));
    assert_eq!(inbox.take(GROUP, name(whole), 0, b"abc"), Ok(Received::Partly { bytes: 3 }));
    // Doubled, and ahead: not added.
    assert_eq!(inbox.take(GROUP, name(whole), 0, b"abc"), Ok(Received::Partly { bytes: 3 }));
    assert_eq!(inbox.take(GROUP, name(whole), 6, b"gh"), Ok(Received::Partly { bytes: 3 }));
    // A new attempt asks where to go on.
    assert_eq!(inbox.take(GROUP, name(whole), 0, b""), Ok(Received::Partly { bytes: 3 }));
    let received = inbox.take(GROUP, name(whole), 3, b"defgh").unwrap();
    assert_eq!(received, Received::Whole(Snapshot { summary: SnapshotSummary::default(), bytes: Bytes::from_static(whole) }));
}

#[tokio::test(start_paused = true)]
async fn another_snapshot_takes_the_place_and_a_wrong_one_is_refused() {
    let inbox = Inbox::new(&Env::simulated(1));
    inbox.take(GROUP, name(b"abcd"), 0, b"ab").unwrap();
    assert_eq!(inbox.take(GROUP, name(b"efgh"), 0, b"e"), Ok(Received::Partly { bytes: 1 }));
    assert!(matches!(inbox.take(GROUP, name(b"efgh"), 1, b"xxx"), Err(InboxError::Checksum { .. })));
    assert_eq!(inbox.take(GROUP, name(b"efgh"), 0, b""), Ok(Received::Partly { bytes: 0 }), "it begins anew");
}

#[tokio::test(start_paused = true)]
async fn limits_hold_and_what_nobody_continues_makes_room() {
    let env = Env::simulated(1);
    let inbox = Inbox::new(&env);
    let long = SnapshotName { bytes: MAX_SNAPSHOT_BYTES as u64 + 1, ..name(b"") };
    assert!(matches!(inbox.take(GROUP, long, 0, b""), Err(InboxError::Length { .. })));
    let piece = vec![0; SNAPSHOT_PIECE_BYTES + 1];
    assert!(matches!(inbox.take(GROUP, name(&piece), 0, &piece), Err(InboxError::Piece { .. })));
    for group in 0..MAX_INCOMING_SNAPSHOTS as u64 {
        inbox.take(GroupId(group), name(b"abcd"), 0, b"a").unwrap();
    }
    assert_eq!(inbox.take(GroupId(99), name(b"abcd"), 0, b"a"), Err(InboxError::Full));
    env.sleep(INCOMING_SNAPSHOT_LIMIT + Duration::from_secs(1)).await;
    assert_eq!(inbox.take(GroupId(99), name(b"abcd"), 0, b"a"), Ok(Received::Partly { bytes: 1 }));
}
