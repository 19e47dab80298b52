//! `trilith bench s3` against a server of its own: the report that scripts read.

use crate::cluster::fixture::own_addresses;
use crate::server::{Home, PASSWORD, Server, USER, program, text};
use serde_json::Value;
use std::net::Ipv4Addr;
use std::path::PathBuf;

/// One run with the given options; what it printed, and whether it succeeded.
fn run(server: &Server, options: &[&str]) -> (String, bool) {
    let mut command = server.command(&["bench", "s3", "--endpoint", &server.s3, "--bucket", "load"]);
    command.args(["--connections", "2", "--duration", "2s", "--warm-up", "0s"]).args(options);
    let output = command.output().unwrap();
    (text(&output.stdout), output.status.success())
}

/// The names in an object, in order.
fn fields(value: &Value) -> Vec<&str> {
    value.as_object().expect("an object").keys().map(String::as_str).collect()
}

fn count(value: &Value, name: &str) -> u64 {
    value[name].as_u64().unwrap_or_else(|| panic!("no number {name} in {value}"))
}

#[test]
fn the_report_for_scripts_holds_what_the_run_was_and_did() {
    let home = Home::new();
    let server = home.serve(&[]);
    let signed = ["--auth", "header", "--access-key", USER, "--secret-key", PASSWORD];
    let load = ["--create-bucket", "--prepare", "--keys", "20", "--mix", "get=60,put=40", "--size", "2K", "--verify", "--json"];
    let (printed, succeeded) = run(&server, &[&signed[..], &load].concat());
    assert!(succeeded, "{printed}");
    let report: Value = serde_json::from_str(&printed).expect("JSON and nothing else");
    let expected = ["client_cores", "errors", "measured_s", "ops", "reconnects", "setup", "total", "unsent", "wrong_data"];
    assert_eq!(fields(&report), expected);
    let setup = &report["setup"];
    assert_eq!((count(setup, "keys"), count(setup, "connections"), count(setup, "threads")), (20, 2, 1));
    assert_eq!((&setup["auth"], &setup["verify"], &setup["rate"]), (&"header".into(), &true.into(), &Value::Null));
    assert!(report["measured_s"].as_f64().unwrap() > 0.0);
    assert_eq!((fields(&report["ops"]), fields(&report["errors"])), (vec!["get", "put"], vec![]));
    let total = &report["total"];
    for row in [total, &report["ops"]["get"], &report["ops"]["put"]] {
        assert_eq!(fields(row), ["errors", "latency_ms", "mb_per_s", "names_per_s", "requests", "requests_per_s"]);
        assert!(count(row, "requests") > 0 && count(row, "errors") == 0, "{row}");
        let latency = ["p50", "p90", "p99", "p99_9", "max"].map(|name| row["latency_ms"][name].as_f64().expect(name));
        assert!(latency[0] > 0.0 && latency.is_sorted(), "{row}");
        assert!(row["latency_ms"]["mean"].as_f64().unwrap() <= latency[4], "{row}");
    }
    let of = |op: &str| count(&report["ops"][op], "requests");
    assert_eq!(count(total, "requests"), of("get") + of("put"));
    assert_eq!(server.run(&["object", "ls", "--recursive", "load"]).lines().count(), 20, "the prepared keys and no others");
}

#[test]
fn a_run_in_which_nothing_succeeds_reports_why_and_fails() {
    let home = Home::new();
    let server = home.serve(&["--default-buckets", "load"]);
    let (printed, succeeded) = run(&server, &["--keys", "5", "--json"]);
    assert!(!succeeded, "nobody may read without a signature: {printed}");
    let report: Value = serde_json::from_str(&printed).expect("the report comes all the same");
    assert_eq!(count(&report["total"], "requests"), 0);
    let errors = report["errors"].as_object().expect("errors by kind");
    assert!(errors.keys().all(|kind| kind.contains("403")) && !errors.is_empty(), "{printed}");
    assert_eq!(errors.values().filter_map(Value::as_u64).sum::<u64>(), count(&report["total"], "errors"));
}

/// As little as shows that both forms of the index are served, sealed and measured.
#[test]
fn the_two_forms_of_the_index_are_measured_in_turn() {
    let home = Home::new();
    let (work, out) = (home.path("work"), home.path("out"));
    // Single servers have addresses from the sixteenth on.
    let own: Ipv4Addr = own_addresses().parse().unwrap();
    let address = Ipv4Addr::from_bits(own.to_bits() - 16).to_string();
    let mut command = program();
    command.args(["bench", "zstore", "--only", "index", "--quick", "-d", "100ms", "--first-addr", &address]);
    let output = command.arg("--work").arg(&work).arg("--out").arg(&out).output().unwrap();
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    let report = std::fs::read_to_string(out.join("index.md")).unwrap();
    assert!(report.contains("| ludo / full |") && report.contains("2000 objects"), "{report}");
    let rows = std::fs::read_to_string(out.join("index.csv")).unwrap();
    for connections in ["16", "64", "192"] {
        for system in ["full", "ludo", "full-again"] {
            assert_eq!(rows.matches(&format!("{connections},0,{system},")).count(), 1, "{rows}");
        }
    }
    assert!(std::fs::read_dir(&work).unwrap().next().is_none(), "what was made is removed");
}

/// Experiments that start clusters, as short as they can be. Each leaves a file, with more than so many rows.
fn experiments(home: &Home, bench: &str, only: &str, expected: &[(&str, usize)]) -> PathBuf {
    let (out, first) = (home.path("out"), own_addresses());
    let mut command = program();
    command.args(["bench", bench, "--quick", "--only", only, "--first-addr", &first]);
    let output = command.arg("--out").arg(&out).arg("--work").arg(home.path("work")).output().unwrap();
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    for (name, rows) in expected {
        let table = std::fs::read_to_string(out.join(format!("{name}.csv"))).unwrap();
        assert!(table.lines().count() > *rows, "{name}: {table}");
        assert!(std::fs::read_to_string(out.join(format!("{name}.md"))).unwrap().contains("Provisional"));
    }
    out
}

#[test]
fn experiments_with_latencies_know_where_every_chunk_is() {
    let home = Home::new();
    let out = experiments(&home, "smash", "latency", &[("latency-4k", 1000)]);
    let latencies = std::fs::read_to_string(out.join("latency-4k.md")).unwrap();
    for way in ["one lookup unit", "two lookup units", "CRUSH", "MapX"] {
        assert!(latencies.contains(&format!("| delete | uniform | {way} |")), "{way}: {latencies}");
    }
    assert!(latencies.contains("CRUSH 40 of 40"), "the map says where every chunk is: {latencies}");
}

#[test]
fn experiments_with_six_nodes_move_nothing_to_one_that_comes() {
    let home = Home::new();
    let out = experiments(&home, "smash", "failure,addition,scale", &[("failure", 10), ("addition", 1), ("scale", 1000)]);
    let addition = std::fs::read_to_string(out.join("addition.md")).unwrap();
    assert!(addition.contains("| bytes moved between nodes | 0 |"), "{addition}");
}

#[test]
fn requests_go_on_when_the_primary_of_placement_groups_is_killed() {
    let home = Home::new();
    let out = experiments(&home, "cheetah", "crash", &[("fig15", 20)]);
    let report = std::fs::read_to_string(out.join("fig15.md")).unwrap();
    for what in ["puts", "gets"] {
        let row = report.lines().find(|line| line.contains(&format!("| {what} |"))).expect("a row");
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let again_after_s: f64 = cells[6].parse().unwrap_or_else(|_| panic!("they go on again: {row}"));
        assert!(again_after_s < 30.0, "{row}");
    }
}
