//! What a well-behaved server sees, and what is reported of it.

use std::time::Duration;

use bench::s3::{self, execute};

use crate::options;
use crate::store::{Fault, Store};

#[test]
fn a_verified_mix_of_all_sizes_has_no_errors() {
    let store = Store::start(Fault::None);
    let line = "--mix put=2,get=4,head=1,list=1 --size 0,1,16,4K,5M --keys 60 -c 6 -t 2 -d 600ms \
                --prepare --verify --page-size 7";
    let report = execute(&options(store.address, line)).unwrap();
    assert_eq!((report.total.errors, report.wrong_data.len()), (0, 0), "{report}");
    for op in ["put", "get", "head", "list"] {
        assert!(report.ops[op].requests > 0, "no {op}: {report}");
    }
    let seen = store.seen();
    assert_eq!(seen.objects.len(), 60);
    let mut sizes: Vec<usize> = seen.objects.values().map(|object| object.len()).collect();
    sizes.sort_unstable();
    sizes.dedup();
    assert_eq!(sizes, [0, 1, 16, 4096, 5 << 20]);
    assert!(seen.proofs.is_empty(), "an anonymous run proves nothing");
}

#[test]
fn the_report_agrees_with_the_server() {
    let store = Store::start(Fault::None);
    let report = execute(&options(store.address, "--mix put --unique -c 4 -d 300ms")).unwrap();
    let seen = store.seen();
    // A request that begins as the window ends is answered, but belongs to no window.
    let beyond = seen.requests - report.total.requests;
    assert!(beyond <= 4, "{} requests reported, {} seen", report.total.requests, seen.requests);
    assert_eq!((seen.objects.len() as u64, seen.overwrites), (seen.requests, 0));
    let megabytes = report.total.mb_per_s * report.measured_s;
    assert!((megabytes - report.total.requests as f64 * 4096.0 / 1e6).abs() < 0.01, "{megabytes} MB");
    assert_eq!(seen.connections, 4);
}

#[test]
fn deletes_take_each_key_once_and_end_the_run() {
    let store = Store::start(Fault::None);
    let line = "--mix delete --keys 500 -c 7 -t 3 -d 60s --prepare";
    let report = execute(&options(store.address, line)).unwrap();
    assert_eq!((report.total.requests, report.total.errors), (500, 0));
    assert!(report.measured_s < 30.0, "the run ends with its keys, after {} s", report.measured_s);
    assert!(report.total.requests_per_s > 0.0);
    let seen = store.seen();
    assert_eq!((seen.missing_deletes, seen.objects.len()), (0, 0));
}

#[test]
fn a_mixed_run_never_reads_what_it_deletes() {
    let store = Store::start(Fault::None);
    let line = "--mix put=1,get=5,delete=4 --unique --keys 50 -c 8 -d 600ms --prepare --verify";
    let report = execute(&options(store.address, line)).unwrap();
    assert_eq!(report.total.errors, 0, "{report}");
    assert!(report.ops["delete"].requests > 50, "fresh keys are deleted too: {report}");
    assert_eq!(store.seen().missing_deletes, 0);
}

#[test]
fn listings_walk_all_pages_from_the_start_again() {
    let store = Store::start(Fault::None);
    let report = execute(&options(store.address, "--mix list --keys 25 --page-size 10 -c 1 -d 200ms --prepare")).unwrap();
    assert_eq!(report.total.errors, 0, "{report}");
    let seen = store.seen();
    let expected = [None, Some("bench/o-0000000009"), Some("bench/o-0000000019")];
    assert!(seen.tokens.len() > 3);
    for (index, token) in seen.tokens.iter().enumerate() {
        assert_eq!(token.as_deref(), expected[index % 3], "listing {index}");
    }
    let names = report.total.names_per_s * report.measured_s;
    let pages = seen.tokens.len() as f64;
    assert!((names - pages * 25.0 / 3.0).abs() <= 10.0, "{names} names on {pages} pages");
}

#[test]
fn every_way_of_signing_is_sent() {
    let key = "--access-key K --secret-key S --region eu-test-1";
    for (auth, mark) in [("header", "SignedHeaders=host;x-amz-content-sha256;x-amz-date"), ("presigned", "X-Amz-Signature=")] {
        let store = Store::start(Fault::None);
        let line = format!("--mix put=1,get=1,list=1,delete=1 --keys 50 -c 2 -d 200ms --prepare --auth {auth} {key}");
        let report = execute(&options(store.address, &line)).unwrap();
        assert_eq!(report.total.errors, 0, "{report}");
        let seen = store.seen();
        assert!(seen.proofs.len() > 100, "every key has its own signature, there are {}", seen.proofs.len());
        assert!(seen.proofs.iter().all(|proof| proof.contains(mark) && proof.contains("eu-test-1")));
    }
}

#[test]
fn preparing_and_cleaning_up_leave_nothing() {
    let store = Store::start(Fault::None);
    let prepared = execute(&options(store.address, "--mix get=1,delete=1 --keys 40 --prepare-only")).unwrap();
    assert_eq!((prepared.total.requests, store.seen().objects.len()), (0, 80));
    let line = "--mix get --keys 40 -c 2 -d 100ms --clean-up";
    execute(&options(store.address, line)).unwrap();
    let seen = store.seen();
    assert_eq!((seen.objects.len(), seen.missing_deletes), (40, 0), "the doomed keys stay");
}

#[test]
fn an_open_loop_keeps_its_rate() {
    let store = Store::start(Fault::None);
    for pace in ["--rate 500", "--rate 500 --poisson"] {
        let line = format!("--mix put --keys 10 -c 8 -t 2 -d 1s {pace}");
        let report = execute(&options(store.address, &line)).unwrap();
        let sent = report.total.requests + report.unsent;
        // Poisson: five standard deviations of a count of 500 are 112.
        assert!(sent.abs_diff(500) <= if pace.contains("poisson") { 112 } else { 2 }, "{pace}: {sent} requests");
        assert_eq!(report.total.errors, 0);
    }
}

#[test]
fn warm_up_is_left_out() {
    let store = Store::start(Fault::None);
    let mut args = options(store.address, "--mix put --keys 10 -c 2 --rate 200 -d 500ms");
    args.warm_up = Duration::from_millis(500);
    let report = execute(&args).unwrap();
    let seen = store.seen().requests;
    assert!(seen.abs_diff(200) <= 2, "{seen} requests in one second");
    assert!((report.total.requests + report.unsent).abs_diff(100) <= 2, "{report}");
}

#[test]
fn impossible_options_are_refused() {
    let store = Store::start(Fault::None);
    for (line, reason) in [
        ("--auth header", "--access-key"),
        ("--threads 4 -c 2", "more threads than connections"),
        ("--rate 0", "--rate"),
        ("--endpoint https://127.0.0.1:1 --mix get", "plain HTTP"),
    ] {
        let args = if line.starts_with("--endpoint") {
            let mut args = options(store.address, "--mix get");
            args.endpoint = "https://127.0.0.1:1".to_owned();
            args
        } else {
            let mut args = options(store.address, line);
            (args.access_key, args.secret_key) = (None, None);
            args
        };
        let error = s3::run(&args).unwrap_err();
        assert!(format!("{error:#}").contains(reason), "{line}: {error:#}");
    }
}
