use super::*;

fn to(unique: u64, device: usize) -> ReturnAddress {
    ReturnAddress { unique, device }
}

#[test]
fn a_request_is_answered_where_it_was_read() {
    let mut table = InFlight::new(8, 4);
    assert_eq!(table.admit(RequestId(2), to(2, 3), false), Admission::New);
    assert_eq!(table.len(), 1);
    assert_eq!(table.finish(RequestId(2)), Some(to(2, 3)));
    assert_eq!(table.finish(RequestId(2)), None, "once");
    assert_eq!(table.len(), 0);
}

#[test]
fn a_second_sending_is_not_served_again_and_is_answered_where_it_was_read_last() {
    let mut table = InFlight::new(8, 4);
    assert_eq!(table.admit(RequestId(2), to(2, 0), true), Admission::New);
    assert!(table.interrupt(RequestId(2)));
    let resent = to(2 | 1 << 63, 1);
    assert_eq!(table.admit(RequestId(2), resent, true), Admission::Again);
    assert!(table.is_interrupted(RequestId(2)), "it stays interrupted");
    assert_eq!(table.finish(RequestId(2)), Some(resent));
}

#[test]
fn an_interrupt_needs_its_request() {
    let mut table = InFlight::new(8, 4);
    assert!(!table.interrupt(RequestId(2)), "not read yet");
    assert_eq!(table.admit(RequestId(2), to(2, 0), false), Admission::New);
    assert!(!table.is_interrupted(RequestId(2)), "the early one went back to the kernel");
    assert!(table.interrupt(RequestId(2)) && table.is_interrupted(RequestId(2)));
    table.finish(RequestId(2));
    assert!(!table.interrupt(RequestId(2)), "answered already");
}

#[test]
fn beyond_the_limit_requests_wait_and_can_be_interrupted() {
    let mut table = InFlight::new(1, 1);
    assert_eq!(table.admit(RequestId(2), to(2, 0), false), Admission::New);
    assert_eq!(table.admit(RequestId(4), to(4, 1), false), Admission::NewWhenThereIsRoom);
    assert!(!table.has_room());
    assert!(table.interrupt(RequestId(4)));
    table.finish(RequestId(2));
    assert!(table.has_room());
}

#[test]
fn waits_for_locks_have_a_limit_of_their_own() {
    let mut table = InFlight::new(8, 1);
    assert_eq!(table.admit(RequestId(2), to(2, 0), true), Admission::New);
    assert_eq!(table.admit(RequestId(4), to(4, 0), true), Admission::TooManyWait);
    assert_eq!(table.finish(RequestId(4)), None, "it is not under way");
    assert_eq!(table.admit(RequestId(6), to(6, 0), false), Admission::New, "unlocking goes on");
    table.finish(RequestId(2));
    assert_eq!(table.admit(RequestId(4), to(4, 0), true), Admission::New);
}
