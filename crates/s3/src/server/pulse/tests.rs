use std::time::Duration;

use futures_util::task::noop_waker_ref;

use super::*;
use crate::config::MinimumPace;

/// Four ticks are judged at once, and 1,000 bytes must move in them; silence is no matter here.
const TIMEOUTS: Timeouts = Timeouts {
    head: Duration::MAX,
    idle: Duration::MAX,
    stall: Duration::MAX,
    pace: MinimumPace { bytes_per_second: 1000, window: Duration::from_secs(1) },
    drain: Duration::MAX,
};

fn serving() -> (Arc<Pulse>, Registration) {
    let pulse = Pulse::new();
    let registration = pulse.register();
    registration.connection.serving(registration.now());
    (pulse, registration)
}

/// Ticks until the body is given up, of at most `limit`, when before each tick `bytes` came and the next ones are awaited.
fn given_up_after(limit: u32, bytes: usize) -> Option<u32> {
    let (pulse, registration) = serving();
    let connection = &registration.connection;
    (1..=limit).find(|_| {
        connection.body_received(bytes);
        assert!(!connection.body_awaited(registration.now(), noop_waker_ref()), "told once");
        pulse.beat(&TIMEOUTS);
        connection.body_awaited(registration.now(), noop_waker_ref())
    })
}

#[test]
fn a_body_that_trickles_is_given_up_after_a_window() {
    assert_eq!(given_up_after(100, 1), Some(4));
    assert_eq!(given_up_after(100, 249), Some(4));
    assert_eq!(given_up_after(100, 250), None);
}

#[test]
fn a_body_that_starts_fast_is_judged_again() {
    let (pulse, registration) = serving();
    let connection = &registration.connection;
    connection.body_received(1_000_000);
    let ticks = (1..=100).find(|_| {
        connection.body_awaited(registration.now(), noop_waker_ref());
        pulse.beat(&TIMEOUTS);
        connection.body_awaited(registration.now(), noop_waker_ref())
    });
    assert_eq!(ticks, Some(8), "the first window passes, the second does not");
}

#[test]
fn time_in_which_nobody_asks_for_the_body_does_not_count() {
    let (pulse, registration) = serving();
    let connection = &registration.connection;
    for _ in 0..50 {
        connection.body_awaited(registration.now(), noop_waker_ref());
        connection.body_received(1);
        pulse.beat(&TIMEOUTS);
    }
    assert!(!connection.body_awaited(registration.now(), noop_waker_ref()));
}

#[test]
fn every_request_has_its_grace() {
    let (pulse, registration) = serving();
    let connection = &registration.connection;
    for _ in 0..10 {
        for _ in 0..3 {
            assert!(!connection.body_awaited(registration.now(), noop_waker_ref()));
            pulse.beat(&TIMEOUTS);
        }
        connection.body_received(5);
        connection.answered(registration.now());
        connection.serving(registration.now());
    }
}

#[test]
fn an_answer_that_is_taken_too_slowly_is_cut() {
    let order_after = |ticks: u32, bytes: usize| {
        let (pulse, registration) = serving();
        for _ in 0..ticks {
            registration.connection.sent(bytes, registration.now());
            registration.connection.send_blocked(registration.now());
            pulse.beat(&TIMEOUTS);
        }
        registration.connection.poll_order(noop_waker_ref())
    };
    assert_eq!(order_after(3, 1), Order::Run);
    assert_eq!(order_after(4, 1), Order::Cut);
    assert_eq!(order_after(100, 250), Order::Run);
}

#[test]
fn an_answer_that_we_do_not_have_is_not_slow() {
    let (pulse, registration) = serving();
    for _ in 0..50 {
        registration.connection.send_blocked(registration.now());
        registration.connection.sent(1, registration.now());
        pulse.beat(&TIMEOUTS);
    }
    assert_eq!(registration.connection.poll_order(noop_waker_ref()), Order::Run);
}
