//! Cases and places; then a short run on a real file.

use std::collections::HashSet;
use std::path::Path;
use std::time::Duration;

use disk::Durability;

use super::load::Places;
use super::{Access, Case, DiskArgs, Pattern, SMALLEST_SIZE_BYTES, execute, standard_cases};

fn args(file: &Path, only: &[&str]) -> DiskArgs {
    DiskArgs {
        file: file.to_owned(),
        overwrite: false,
        size: SMALLEST_SIZE_BYTES,
        duration: Duration::from_millis(30),
        only: only.iter().map(|part| (*part).to_owned()).collect(),
        cached: false,
        threads: false,
        seed: 1,
        json: false,
    }
}

#[test]
fn case_names_are_distinct_and_cover_the_table() {
    let names: Vec<String> = standard_cases().iter().map(Case::name).collect();
    assert_eq!(names.iter().collect::<HashSet<_>>().len(), names.len());
    for depth in [1, 16, 64] {
        for kind in ["write-4k", "write-4k-durable", "read-4k"] {
            assert!(names.contains(&format!("{kind}-qd{depth}")), "{kind} at {depth}");
        }
    }
    assert!(names.contains(&"append-4k-durable-qd1".to_owned()) && names.contains(&"grow-4k-durable-qd1".to_owned()));
}

#[test]
fn places_lie_within_the_size() {
    let case = |pattern| Case { access: Access::Read, pattern, request_bytes: 4096, depth: 1 };
    let size = 10 * 4096 + 100;
    let mut random = Places::new(case(Pattern::Random), size, 3);
    let seen: HashSet<u64> = (0..1_000).filter_map(|_| random.next_place()).collect();
    assert_eq!(seen, (0..10).map(|slot| slot * 4096).collect());
    let mut sequential = Places::new(case(Pattern::Sequential), size, 3);
    let order: Vec<Option<u64>> = (0..11).map(|_| sequential.next_place()).collect();
    assert_eq!((order[0], order[9], order[10]), (Some(0), Some(9 * 4096), Some(0)));
    let mut growing = Places::new(case(Pattern::Growing), size, 3);
    assert_eq!((0..20).filter_map(|_| growing.next_place()).count(), 10);
}

#[test]
fn all_cases_run_on_a_new_file_and_leave_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk");
    for threads in [false, true] {
        let mut args = args(&path, &[]);
        args.threads = threads;
        let report = execute(&args).unwrap();
        let names: Vec<String> = report.cases.iter().map(|case| case.name.clone()).collect();
        assert_eq!(names, standard_cases().iter().map(Case::name).collect::<Vec<String>>());
        for case in &report.cases {
            assert!(case.requests > 0 && case.requests_per_s > 0.0 && case.latency_ms.max > 0.0, "{report}");
        }
        assert!(!(threads && report.ring));
        assert!(!path.exists());
    }
}

#[test]
fn an_existing_file_is_safe_unless_said() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("precious");
    std::fs::write(&path, b"precious").unwrap();
    let mut args = args(&path, &["write-4k-durable-qd1"]);
    let error = execute(&args).unwrap_err();
    assert!(error.to_string().contains("--overwrite"), "{error}");
    assert_eq!(std::fs::read(&path).unwrap(), b"precious");
    args.overwrite = true;
    let report = execute(&args).unwrap();
    // "qd1" is also the start of "qd16".
    assert_eq!(report.cases.len(), 2);
    assert_eq!(std::fs::metadata(&path).unwrap().len(), SMALLEST_SIZE_BYTES, "what was there before stays");
}

#[test]
fn impossible_options_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk");
    let error = execute(&args(&path, &["nonsense"])).unwrap_err();
    assert!(error.to_string().contains("write-4k-qd1"), "{error}");
    let mut small = args(&path, &[]);
    small.size = 4096;
    assert!(execute(&small).unwrap_err().to_string().contains("--size"));
    assert!(!path.exists());
    assert_eq!(Access::Write(Durability::Durable), standard_cases()[0].access);
}
