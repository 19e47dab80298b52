//! Merging: the whole is what one worker would have counted.

use std::time::Duration;

use super::super::content::Mismatch;
use super::super::mix::Op;
use super::super::tally::{FAILURE_KINDS_LIMIT, Failure, Tally, WRONG_DATA_EXAMPLES_LIMIT};
use crate::random::Random;

#[test]
fn merged_histograms_equal_one_histogram() {
    let mut random = Random::new(7, 0);
    let mut one = Tally::new();
    let mut parts = [Tally::new(), Tally::new(), Tally::new()];
    for _ in 0..20_000 {
        // From a microsecond to about ten seconds, evenly in the logarithm.
        let latency = Duration::from_nanos((1_000.0 * 10f64.powf(random.unit() * 7.0)) as u64);
        let op = Op::ALL[random.below(Op::ALL.len() as u64) as usize];
        one.success(op, latency, 4096, 3);
        parts[random.below(3) as usize].success(op, latency, 4096, 3);
    }
    let mut merged = Tally::new();
    for part in &parts {
        merged.merge(part);
    }
    assert_eq!(merged.requests(), 20_000);
    for op in Op::ALL {
        let (left, right) = (&one.ops[op.index()], &merged.ops[op.index()]);
        assert_eq!((left.requests, left.bytes, left.names), (right.requests, right.bytes, right.names));
        assert_eq!(left.latency_ns, right.latency_ns);
    }
}

#[test]
fn quantiles_are_within_a_thousandth() {
    let mut tally = Tally::new();
    for microseconds in 1..=10_000 {
        tally.success(Op::Get, Duration::from_micros(microseconds), 0, 0);
    }
    let histogram = &tally.ops[Op::Get.index()].latency_ns;
    for (quantile, expected_us) in [(0.5, 5_000.0), (0.9, 9_000.0), (0.99, 9_900.0), (0.999, 9_990.0), (1.0, 10_000.0)] {
        let found_us = histogram.value_at_quantile(quantile) as f64 / 1e3;
        assert!((found_us / expected_us - 1.0).abs() < 0.001, "quantile {quantile}: {found_us} µs");
    }
}

#[test]
fn failures_merge_by_kind_and_never_enter_the_latencies() {
    let denied = Failure::Status { status: 403, code: "AccessDenied".to_owned() };
    let (mut left, mut right) = (Tally::new(), Tally::new());
    left.failure(Op::Get, &denied, String::new);
    right.failure(Op::Get, &denied, String::new);
    right.failure(Op::Put, &Failure::Timeout, String::new);
    right.connect_failure(std::io::ErrorKind::ConnectionRefused);
    left.merge(&right);
    assert_eq!(left.failures["get: 403 AccessDenied"], 2);
    assert_eq!(left.failures["put: timeout"], 1);
    assert_eq!(left.failures["connect: connection refused"], 1);
    assert_eq!((left.errors(), left.requests()), (4, 0));
    assert!(left.wrong_data.is_empty());
    assert_eq!(left.ops[Op::Get.index()].latency_ns.len(), 0);
}

#[test]
fn kinds_and_examples_have_limits() {
    let mut tally = Tally::new();
    for status in 0..2 * FAILURE_KINDS_LIMIT as u16 {
        tally.failure(Op::Get, &Failure::Status { status, code: String::new() }, String::new);
    }
    assert_eq!(tally.failures.len(), FAILURE_KINDS_LIMIT + 1);
    assert_eq!(tally.failures["others"], FAILURE_KINDS_LIMIT as u64);
    let mismatch = Failure::WrongByte(Mismatch { offset: 9, expected: 1, found: 2 });
    for index in 0..2 * WRONG_DATA_EXAMPLES_LIMIT {
        tally.failure(Op::Get, &mismatch, || format!("key-{index}"));
    }
    assert_eq!(tally.wrong_data.len(), WRONG_DATA_EXAMPLES_LIMIT);
    assert_eq!(tally.wrong_data[0], "get key-0: byte 9 is 0x02, expected 0x01");
    let other = tally.clone();
    tally.merge(&other);
    assert_eq!(tally.wrong_data.len(), WRONG_DATA_EXAMPLES_LIMIT);
}
