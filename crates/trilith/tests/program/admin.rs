//! The admin port of a running server, and the command that reads it.

use crate::http::Connection;
use crate::server::{Home, Server, program, text};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

fn get(server: &Server, path: &str) -> crate::http::Answer {
    Connection::open(&server.admin).unwrap().get(path).unwrap()
}

/// The value of a metric's line.
pub fn metric(server: &Server, series: &str) -> f64 {
    let text = get(server, "/metrics").text();
    let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {series} in\n{text}")).parse().unwrap()
}

/// All files below a folder, with what is in them.
fn contents(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(contents(&path));
        } else {
            let bytes = std::fs::read(&path).unwrap();
            found.insert(path, bytes);
        }
    }
    found
}

/// How often a server is looked at until it has written nothing of its own meanwhile.
const TRIES: u32 = 20;

#[test]
fn health_status_and_metrics_follow_what_happens() {
    let home = Home::new();
    let server = home.serve(&[]);
    assert_eq!(get(&server, "/health/live").status, 200);
    assert_eq!(get(&server, "/health/ready").status, 200);
    server.make_open_bucket("bucket");
    let before = metric(&server, "trilith_gateway_writes_total");
    let appends = metric(&server, "trilith_target_appends_total{device=\"0\"}");
    let mut s3 = Connection::open(&server.s3).unwrap();
    // What a start has left to write comes in between at times, and not always.
    let manager = || contents(&home.data().join("consensus"));
    let mut puts = 0;
    let leaves_manager_alone = (0..TRIES).any(|_| {
        let before = manager();
        assert!(!before.is_empty());
        for index in 0..5 {
            assert_eq!(s3.ask("PUT", &format!("/bucket/{index}"), &[], b"12345").unwrap().status, 200);
        }
        puts += 5;
        before == manager()
    });
    assert!(leaves_manager_alone, "a small put touches nothing of the manager's");
    assert_eq!(metric(&server, "trilith_gateway_writes_total"), before + f64::from(puts));
    let appended = metric(&server, "trilith_target_appends_total{device=\"0\"}");
    assert_eq!(appended, appends + f64::from(puts), "one append a small put");
    assert_eq!(metric(&server, "trilith_manager_buckets"), 1.0);
    assert_eq!(metric(&server, "trilith_target_read_only_state{device=\"0\"}"), 0.0);
    let status: serde_json::Value = serde_json::from_slice(&get(&server, "/status").body).unwrap();
    assert_eq!(status["ready"], true);
    assert_eq!(status["buckets"], 1);
    assert_eq!(status["s3_address"], server.s3.as_str());
    assert_eq!(status["cluster"].as_str().map(str::len), Some(32));
    assert_eq!(status["engine"]["keys"], 5);
    let device = &status["devices"][0];
    assert_eq!(device["state"], "active");
    assert!(device["free_bytes"].as_u64().unwrap() < device["capacity_bytes"].as_u64().unwrap());
    assert_eq!(status["warnings"], serde_json::json!([]));
    assert!(!get(&server, "/status").text().contains(crate::server::PASSWORD));
}

#[test]
fn the_status_command_tells_people_and_programs() {
    let home = Home::new();
    let server = home.serve(&["--sync", "batch:5"]);
    let told = server.run(&["status"]);
    assert!(told.contains("ready, up") && told.contains("device-0.trilith") && told.contains("active"), "{told}");
    assert!(told.contains("note: sync=batch:5"), "a choice with consequences is told and no error: {told}");
    let json: serde_json::Value = serde_json::from_str(&server.run(&["status", "--json"])).unwrap();
    assert_eq!(json["ready"], true);
    let admin = server.admin.clone();
    assert!(server.fail(&["status", "--admin", &server.s3]).contains("is no admin port"));
    server.stop();
    let output = program().args(["status", "--admin", &admin]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("cannot reach a server"), "{}", text(&output.stderr));
}

#[test]
fn a_taken_admin_port_is_named_with_its_setting() {
    let home = Home::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let output = home.serve_to_the_end(&["--admin-addr", &address]);
    assert_eq!(output.status.code(), Some(1));
    let error = text(&output.stderr);
    assert!(error.contains(&address) && error.contains("admin_addr"), "{error}");
}
