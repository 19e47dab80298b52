use super::*;
use futures_util::task::noop_waker;

fn limits() -> Limits {
    Limits { shared_requests: 2, shared_bytes: 0, requests_per_connection: ALLOWANCE_REQUESTS + 8, ..Limits::default() }
}

fn take_requests(account: &mut Account, most: usize) -> usize {
    let waker = noop_waker();
    let mut cx = Context::from_waker(&waker);
    (0..most).take_while(|_| account.poll_request(&mut cx).is_ready()).count()
}

#[test]
fn an_allowance_can_not_be_used_up_by_others() {
    let pool = Pool::new(&limits());
    let (mut greedy, mut other) = (Account::new(&pool, &limits()), Account::new(&pool, &limits()));
    assert_eq!(take_requests(&mut greedy, 1000), ALLOWANCE_REQUESTS + 2, "the pool has two");
    assert_eq!(take_requests(&mut other, 1000), ALLOWANCE_REQUESTS);
    // Both wait for the pool now; the one that came first is served first.
    greedy.end_request();
    assert_eq!(take_requests(&mut other, 1000), 0);
    assert_eq!(take_requests(&mut greedy, 1000), 1);
    greedy.end_request();
    assert_eq!(take_requests(&mut other, 1000), 1);
    drop(greedy);
    assert_eq!(take_requests(&mut other, 1000), 1);
    drop(other);
    assert_eq!(pool.requests.available_permits(), 2);
}

#[test]
fn what_is_not_needed_any_more_keeps_no_place_in_the_queue() {
    let pool = Pool::new(&limits());
    let (mut first, mut second) = (Account::new(&pool, &limits()), Account::new(&pool, &limits()));
    assert_eq!(take_requests(&mut first, ALLOWANCE_REQUESTS), ALLOWANCE_REQUESTS);
    assert_eq!(take_requests(&mut second, 1000), ALLOWANCE_REQUESTS + 2);
    assert_eq!(take_requests(&mut first, 1), 0, "waits for the pool");
    // Its own request ends, so its allowance is enough.
    first.end_request();
    assert_eq!(take_requests(&mut first, 1), 1);
    second.end_request();
    assert_eq!(take_requests(&mut second, 1), 1, "the other one has its place back");
    assert_eq!(take_requests(&mut first, 1), 0);
    first.stop_waiting();
    second.end_request();
    second.end_request();
    assert_eq!(pool.requests.available_permits(), 2);
}

#[test]
fn a_connection_has_a_limit_of_its_own() {
    let limits = Limits { requests_per_connection: 3, ..Limits::default() };
    let pool = Pool::new(&limits);
    let mut account = Account::new(&pool, &limits);
    assert_eq!(take_requests(&mut account, 1000), 3);
    account.end_request();
    assert_eq!(take_requests(&mut account, 1000), 1);
}

#[test]
fn the_longest_request_fits_whatever_is_set() {
    let limits = Limits { bytes_per_connection: 1, shared_bytes: 1, ..Limits::default() };
    let pool = Pool::new(&limits);
    let mut account = Account::new(&pool, &limits);
    let waker = noop_waker();
    let mut cx = Context::from_waker(&waker);
    assert!(account.poll_bytes(&mut cx, MAX_PAYLOAD_BYTES).is_ready());
    assert!(account.poll_bytes(&mut cx, 1).is_pending());
    account.end_bytes(MAX_PAYLOAD_BYTES as usize);
    assert!(account.poll_bytes(&mut cx, 1).is_ready());
    drop(account);
    assert_eq!(pool.bytes.available_permits(), MAX_PAYLOAD_BYTES as usize);
}
