use super::{Admin, AdminServer};
use crate::{Sources, Surroundings, UploadsStatus};
use env::Env;
use manager::Manager;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

async fn get(server: &AdminServer, path: &str) -> String {
    ask(server, &format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")).await
}

/// All that the port says to these bytes.
async fn ask(server: &AdminServer, request: &str) -> String {
    let mut stream = TcpStream::connect(server.address()).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

async fn start() -> (Admin, AdminServer) {
    let admin = Admin::new(&Env::real_with_cores(1), "9.9.9");
    let server = AdminServer::start("127.0.0.1:0".parse().unwrap(), &admin).await.unwrap();
    (admin, server)
}

#[tokio::test]
async fn the_root_names_all_paths_to_people_and_to_browsers() {
    let (admin, server) = start().await;
    let plain = get(&server, "/").await;
    let (head, body) = plain.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200") && head.contains("content-type: text/plain"), "{head}");
    let html = ask(&server, "GET / HTTP/1.1\r\nHost: x\r\nAccept: text/html,*/*\r\nConnection: close\r\n\r\n").await;
    assert!(html.contains("content-type: text/html"), "{html}");
    admin.set_ready(true);
    for path in ["/status", "/metrics", "/health/live", "/health/ready", "/scrub"] {
        assert!(body.contains(path) && html.contains(&format!("<a href=\"{path}\">")), "{path}");
        assert!(!get(&server, path).await.starts_with("HTTP/1.1 404"), "{path}");
    }
}

/// Caught: a connection that ended without a word.
#[tokio::test]
async fn http2_is_told_that_it_is_not_spoken() {
    let (_admin, server) = start().await;
    let answer = ask(&server, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\u{4}\0\0\0\0\0").await;
    assert!(answer.starts_with("HTTP/1.1 505") && answer.contains("speaks HTTP/1.1"), "{answer}");
    assert_eq!(answer.lines().filter(|line| line.starts_with("HTTP/1.1 ")).count(), 1, "one answer: {answer}");
}

#[tokio::test]
async fn health_follows_readiness() {
    let (admin, server) = start().await;
    assert!(get(&server, "/health/live").await.starts_with("HTTP/1.1 200"));
    assert!(get(&server, "/health/ready").await.starts_with("HTTP/1.1 503"));
    admin.set_ready(true);
    assert!(get(&server, "/health/ready").await.starts_with("HTTP/1.1 200"));
    admin.set_ready(false);
    assert!(get(&server, "/health/ready").await.starts_with("HTTP/1.1 503"));
    assert!(get(&server, "/elsewhere").await.starts_with("HTTP/1.1 404"));
}

/// The roles of a node without an engine.
async fn out_of_the_cell(folder: &Path) -> Sources {
    Sources {
        manager: Arc::new(Manager::open(&Env::real_with_cores(1), folder).await.unwrap()),
        devices: Vec::new(),
        missing: Vec::new(),
        store: Arc::new(|| None),
        may_answer: Arc::new(|| false),
        subsystems: Vec::new(),
        uploads: Arc::new(UploadsStatus::default),
        surroundings: Arc::new(Surroundings::default),
        s3_address: Arc::default(),
        notices: Vec::new(),
    }
}

#[tokio::test]
async fn a_node_with_an_open_port_and_nothing_to_answer_from_is_not_ready() {
    let (folder, (admin, server)) = (tempfile::tempdir().unwrap(), start().await);
    let port = Arc::new(OnceLock::new());
    admin.attach(Sources { s3_address: port.clone(), ..out_of_the_cell(folder.path()).await });
    admin.set_ready(true);
    // It leaves S3 to others.
    assert!(get(&server, "/health/ready").await.starts_with("HTTP/1.1 200"));
    assert!(admin.status().ready);
    port.set("127.0.0.1:9000".parse().unwrap()).unwrap();
    let answer = get(&server, "/health/ready").await;
    assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("out of the cell's view"), "{answer}");
    assert!(get(&server, "/metrics").await.contains("trilith_process_ready_state 0"));
    let status = admin.status();
    assert!(!status.ready && status.warnings[0].what.contains("out of the cell's view"), "{:?}", status.warnings);
}

/// It leaves S3 to others, or had a place in the cell: it is no part of the cluster any more.
#[tokio::test]
async fn a_node_that_was_removed_is_not_ready() {
    let (folder, (admin, server)) = (tempfile::tempdir().unwrap(), start().await);
    let removed = Arc::new(AtomicBool::new(false));
    let was_removed = removed.clone();
    admin.attach(Sources {
        surroundings: Arc::new(move || Surroundings {
            was_removed: was_removed.load(Ordering::Relaxed),
            ..Surroundings::default()
        }),
        ..out_of_the_cell(folder.path()).await
    });
    admin.set_ready(true);
    assert!(get(&server, "/health/ready").await.starts_with("HTTP/1.1 200"));
    removed.store(true, Ordering::Relaxed);
    let answer = get(&server, "/health/ready").await;
    assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("was removed"), "{answer}");
    assert!(!admin.status().ready);
}

/// A gateway that is cut off has its engine all the same.
#[tokio::test]
async fn a_gateway_without_the_right_to_answer_is_not_ready() {
    let (folder, (admin, server)) = (tempfile::tempdir().unwrap(), start().await);
    let has_lease = Arc::new(AtomicBool::new(true));
    let may_answer = has_lease.clone();
    admin.attach(Sources {
        may_answer: Arc::new(move || may_answer.load(Ordering::Relaxed)),
        s3_address: Arc::new(OnceLock::from("127.0.0.1:9000".parse::<SocketAddr>().unwrap())),
        ..out_of_the_cell(folder.path()).await
    });
    admin.set_ready(true);
    assert!(get(&server, "/health/ready").await.starts_with("HTTP/1.1 200"));
    has_lease.store(false, Ordering::Relaxed);
    assert!(get(&server, "/health/ready").await.starts_with("HTTP/1.1 503"));
    assert!(!admin.status().ready);
}

#[tokio::test]
async fn a_starting_process_has_a_status_and_metrics() {
    let (admin, server) = start().await;
    let answer = get(&server, "/status").await;
    let body = answer.split_once("\r\n\r\n").unwrap().1;
    let status: crate::Status = serde_json::from_str(body).unwrap();
    assert_eq!((status.version.as_str(), status.ready), ("9.9.9", false));
    assert_eq!(status.warnings.len(), 1);
    admin.registry().counter("trilith_gateway_requests_total", "Requests", &[], || 12);
    let metrics = get(&server, "/metrics").await;
    assert!(metrics.contains("application/openmetrics-text"), "{metrics}");
    assert!(metrics.contains("trilith_process_ready_state 0"), "{metrics}");
    assert!(metrics.contains("trilith_gateway_requests_total 12"), "{metrics}");
}

#[tokio::test]
async fn nothing_is_scrubbed_before_there_is_an_engine() {
    let (_admin, server) = start().await;
    assert!(get(&server, "/scrub").await.starts_with("HTTP/1.1 503"));
}

#[tokio::test]
async fn a_taken_port_names_its_setting() {
    let (admin, server) = start().await;
    let error = AdminServer::start(server.address(), &admin).await.err().unwrap().to_string();
    assert!(error.contains("admin_addr") && error.contains(&server.address().to_string()), "{error}");
    server.stop();
}
