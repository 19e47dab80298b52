//! Servers that misbehave: every fault has its own line in the report.

use std::time::Duration;

use bench::s3::{self, execute};

use crate::options;
use crate::store::{Fault, Store};

/// Objects written while the store behaves, then read while it does not.
fn report_of(fault: Fault, line: &str) -> (s3::report::Report, Store) {
    let store = Store::start(fault);
    let report = execute(&options(store.address, line)).unwrap();
    (report, store)
}

#[test]
fn a_flipped_byte_is_found_and_fails_the_run() {
    for offset in [0, 100, 4095] {
        let store = Store::start(Fault::FlipByte(offset));
        let args = options(store.address, "--mix get --keys 5 -c 2 -d 100ms --prepare --verify");
        let report = execute(&args).unwrap();
        assert_eq!(report.total.requests, 0);
        assert_eq!(report.errors["get: verify: wrong byte"], report.total.errors);
        assert!(report.wrong_data[0].contains(&format!("byte {offset} is")), "{:?}", report.wrong_data);
        assert!(report.wrong_data[0].starts_with("get bench/o-000000000"), "{:?}", report.wrong_data);
        assert!(format!("{:#}", s3::run(&args).unwrap_err()).contains("wrong data"));
    }
}

#[test]
fn a_body_of_another_length_is_found() {
    let store = Store::start(Fault::None);
    execute(&options(store.address, "--mix get --size 100 --keys 5 --prepare-only")).unwrap();
    let report = execute(&options(store.address, "--mix get=1,head=1 --size 101 --keys 5 -c 2 -d 100ms --verify")).unwrap();
    assert_eq!(report.errors["head: verify: wrong length"], report.ops["head"].errors);
    assert_eq!(report.total.requests, 0);
}

#[test]
fn refusals_are_counted_by_status_and_code() {
    let store = Store::start(Fault::Refuse(4));
    let report = execute(&options(store.address, "--mix put --keys 5 -c 1 -d 200ms")).unwrap();
    let (good, refused) = (report.total.requests, report.errors["put: 503 SlowDown"]);
    assert_eq!(refused, (good + refused) / 4);
    assert_eq!(report.total.errors, refused);
    assert_eq!(report.reconnects, 0, "an error leaves the connection usable");
    let expected = execute(&options(store.address, "--mix put --keys 5 -c 1 -d 100ms --expect 503")).unwrap();
    assert_eq!(expected.total.errors, 0);
}

#[test]
fn a_missing_key_is_an_error_unless_expected() {
    let (report, store) = report_of(Fault::None, "--mix get --keys 5 -c 2 -d 100ms");
    assert_eq!(report.errors["get: 404 NoSuchKey"], report.total.errors);
    let args = options(store.address, "--mix get=1,head=1 --keys 5 -c 2 -d 100ms --verify --expect 404");
    let expected = execute(&args).unwrap();
    assert_eq!((expected.total.errors, expected.wrong_data.len()), (0, 0), "{expected}");
}

#[test]
fn a_server_that_closes_after_each_answer_costs_connections_only() {
    let (report, store) = report_of(Fault::Close, "--mix put --keys 5 -c 3 -d 100ms");
    assert_eq!(report.total.errors, 0, "{report}");
    assert!(report.total.requests > 3);
    // A request that begins as the window ends closes its connection too, but belongs to no window.
    let beyond = report.reconnects - report.total.requests;
    assert!(beyond <= 3, "{} reconnects for {} requests", report.reconnects, report.total.requests);
    let opened = report.reconnects + 3;
    assert_eq!(store.connections(opened), opened);
}

#[test]
fn an_answer_that_is_not_one_is_an_error() {
    for (answer, kind) in [
        ("HTTP/1.1 200 OK\r\nContent-Length: 4096\r\n\r\nnot so many", "get: connection closed within a response"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi and more", "get: bytes after the response"),
        ("220 mail server ready\r\n\r\n", "get: malformed status line"),
    ] {
        let (report, _) = report_of(Fault::Raw(answer), "--mix get --keys 5 -c 2 -d 150ms");
        assert_eq!(report.total.requests, 0);
        // The request is never read, so the close may arrive as a reset.
        let known = [kind, "get: connection: connection reset"];
        assert!(report.errors.keys().all(|found| known.contains(&found.as_str())), "{:?}", report.errors);
        assert!(report.errors.get(kind).is_some_and(|count| *count > 0), "{kind}: {:?}", report.errors);
    }
}

#[test]
fn a_refusal_before_the_body_has_left_is_heard() {
    let refusal = "HTTP/1.1 403 Forbidden\r\nContent-Length: 40\r\n\r\n<Error><Code>AccessDenied</Code></Error>";
    let (report, _) = report_of(Fault::Raw(refusal), "--mix put --size 16M --keys 5 -c 2 -d 300ms");
    assert_eq!(report.total.requests, 0);
    assert!(report.errors["put: 403 AccessDenied"] > 0, "{report}");
}

#[test]
fn silence_ends_in_a_timeout() {
    let (report, _) = report_of(Fault::Silent, "--mix get --keys 5 -c 3 -d 100ms --timeout 300ms");
    assert_eq!(report.errors["get: timeout"], 3);
    assert_eq!(report.total.requests, 0);
}

#[test]
fn a_dead_endpoint_is_named() {
    let address = {
        let store = Store::start(Fault::None);
        store.address
    };
    let error = execute(&options(address, "--mix get -d 100ms")).unwrap_err();
    assert!(format!("{error:#}").contains(&address.to_string()), "{error:#}");
}

#[test]
fn a_listing_out_of_order_is_wrong_data() {
    let (report, _) = report_of(Fault::Reverse, "--mix list --keys 5 -c 1 -d 100ms --prepare");
    assert_eq!(report.errors["list: verify: bad listing"], report.total.errors);
    assert!(!report.wrong_data.is_empty());
}

#[test]
fn a_failed_preparation_fails_the_run() {
    let store = Store::start(Fault::Refuse(10));
    let error = execute(&options(store.address, "--mix get --keys 50 -d 100ms --prepare")).unwrap_err();
    assert!(format!("{error:#}").contains("503 SlowDown"), "{error:#}");
}

#[test]
fn an_open_loop_charges_a_stall_to_every_request_it_delays() {
    let stall = Fault::StallOnce(100, Duration::from_millis(400));
    let (open, _) = report_of(stall, "--mix put --keys 5 -c 1 --rate 400 -d 1500ms");
    let (closed, _) = report_of(stall, "--mix put --keys 5 -c 1 -d 1500ms");
    // About 160 of 600 requests come due during the stall and wait 200 ms on average; the closed loop sees one of them.
    assert!(open.total.latency_ms.p90 > 100.0, "{open}");
    assert!(closed.total.latency_ms.p99 < 100.0, "{closed}");
    assert!(open.total.latency_ms.max > 350.0 && closed.total.latency_ms.max > 350.0);
    assert_eq!(open.total.requests + open.unsent, 600, "{open}");
}
