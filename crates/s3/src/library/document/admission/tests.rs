use std::future::poll_fn;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::{Admission, Allowance, Room};
use crate::config::{MAX_DOCUMENTS_BYTES, MAX_UNVERIFIED_DOCUMENT_BYTES, MAX_XML_BODY_BYTES};
use crate::failure::{Failure, MAX_MESSAGE_LENGTH_EXCEEDED, REQUEST_TIMEOUT};

const LONG: Duration = Duration::from_secs(3600);

fn verified(room: &Room) -> Allowance {
    room.allowance(true)
}

fn look(admission: &mut Admission) -> Poll<Result<(), Failure>> {
    admission.poll_piece(&mut Context::from_waker(Waker::noop()))
}

fn is_let_in(admission: &mut Admission) -> bool {
    matches!(look(admission), Poll::Ready(Ok(())))
}

fn is_too_long(admission: &mut Admission) -> bool {
    matches!(look(admission), Poll::Ready(Err(failure)) if failure.code == MAX_MESSAGE_LENGTH_EXCEEDED)
}

#[tokio::test]
async fn who_may_bring_how_much() {
    let room = Room::new(LONG);
    let (small, large) = (MAX_UNVERIFIED_DOCUMENT_BYTES as u64, MAX_XML_BODY_BYTES as u64);
    assert!(is_let_in(&mut Admission::new(room.allowance(false), Some(small))));
    assert!(is_let_in(&mut Admission::new(room.allowance(false), None)), "counted while it comes");
    assert!(is_too_long(&mut Admission::new(room.allowance(false), Some(small + 1))));
    assert!(is_let_in(&mut Admission::new(verified(&room), Some(large))));
    assert!(is_too_long(&mut Admission::new(verified(&room), Some(large + 1))));
}

#[tokio::test]
async fn large_ones_wait_for_room() {
    let room = Room::new(LONG);
    let largest = MAX_XML_BODY_BYTES as u64;
    let mut inside = Vec::new();
    for _ in 0..MAX_DOCUMENTS_BYTES / MAX_XML_BODY_BYTES {
        let allowance = verified(&room);
        let mut document = Admission::new(allowance.clone(), Some(largest));
        assert!(is_let_in(&mut document));
        // The document has been read; its request is being answered.
        drop(document);
        inside.push(allowance);
    }
    let mut next = Admission::new(verified(&room), Some(MAX_UNVERIFIED_DOCUMENT_BYTES as u64 + 1));
    assert!(look(&mut next).is_pending(), "no room");
    assert!(is_let_in(&mut Admission::new(room.allowance(false), Some(9))), "small ones wait for nobody");
    inside.pop();
    assert!(poll_fn(|cx| next.poll_piece(cx)).await.is_ok());
    drop((next, inside));
    assert_eq!(room.bytes.available_permits(), MAX_DOCUMENTS_BYTES);
}

#[tokio::test]
async fn a_large_one_comes_in_a_while_or_not_at_all() {
    let mut document = Admission::new(verified(&Room::new(Duration::ZERO)), Some(MAX_XML_BODY_BYTES as u64));
    tokio::time::sleep(Duration::from_millis(2)).await;
    let failure = loop {
        match poll_fn(|cx| document.poll_piece(cx)).await {
            Ok(()) => tokio::time::sleep(Duration::from_millis(2)).await,
            Err(failure) => break failure,
        }
    };
    assert_eq!(failure.code, REQUEST_TIMEOUT);
}
