//! More nodes than a cell has gateways: the others serve devices and chunks, and wait for a place.

use super::fixture::{await_some, own_addresses};
use crate::http::Connection;
use crate::server::{Home, PATIENCE, program, text};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs::File;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

/// Until all nodes are there, or another one has a place.
const DEV_PATIENCE: Duration = Duration::from_secs(90);
const NODES: usize = 6;

/// `trilith cluster dev`. Its nodes end with it.
struct Dev {
    process: Child,
    first: String,
}

impl Drop for Dev {
    fn drop(&mut self) {
        // It may have ended already.
        _ = kill_process(Pid::from_child(&self.process), Signal::TERM);
        drop(self.process.wait());
    }
}

impl Dev {
    fn at(&self, node: usize, port: u16) -> String {
        let (net, host) = self.first.rsplit_once('.').unwrap();
        format!("{net}.{}:{port}", host.parse::<usize>().unwrap() + node)
    }

    fn status(&self, node: usize) -> Option<Value> {
        let answer = Connection::open(&self.at(node, 9001)).ok()?.get("/status").ok()?;
        serde_json::from_slice(&answer.body).ok()
    }

    /// What a node says of another one.
    fn says(&self, by: usize, of: usize, what: &str) -> bool {
        let status = self.status(by).unwrap_or_default();
        let nodes = status["cell"]["nodes"].as_array().cloned().unwrap_or_default();
        nodes.iter().any(|node| node["name"] == format!("node-{}", of + 1) && node[what] == true)
    }
}

#[test]
fn a_sixth_node_serves_chunks_and_waits_for_a_place() {
    let home = Home::new();
    let data = home.path("dev");
    let first = own_addresses();
    let mut dev = program();
    dev.args(["cluster", "dev", "--nodes", "6", "--device-size", "1GiB", "--first-addr", &first]);
    let said = File::create(home.path("said")).unwrap();
    let process = dev.arg("--data").arg(&data).stdout(said).stderr(Stdio::null()).spawn().unwrap();
    let dev = Dev { process, first };
    let waiting = await_some(DEV_PATIENCE, "five gateways, and a node that waits", || {
        let cell = dev.status(0)?["cell"].clone();
        let is_whole = cell["gateways"] == 5 && cell["nodes"].as_array()?.len() == NODES;
        is_whole.then(|| (0..NODES).find(|node| dev.says(0, *node, "waits"))).flatten()
    });
    waits(&dev, &data, waiting);
    assert!(std::fs::read_to_string(home.path("said")).unwrap().contains("5 of them serve S3"));
    serves_chunks(&home, &data, waiting);
    takes_a_place(&dev, &data, waiting);
}

fn waits(dev: &Dev, data: &Path, waiting: usize) {
    let status =
        await_some(PATIENCE, "the waiting node's status", || dev.status(waiting).filter(|status| !status["cell"].is_null()));
    assert_eq!((&status["ready"], &status["s3_address"]), (&false.into(), &Value::Null));
    assert!(status["warnings"][0]["what"].as_str().unwrap().contains("waits for a place"), "{status}");
    assert_eq!(Connection::open(&dev.at(waiting, 9001)).unwrap().get("/health/ready").unwrap().status, 503);
    assert!(Connection::open(&dev.at(waiting, 9000)).is_err(), "the S3 port opens when there is a place");
    await_some(PATIENCE, "the reason in the waiting node's log", || {
        let log = std::fs::read_to_string(data.join(format!("node-{}/trilith.log", waiting + 1))).unwrap();
        log.contains("as many gateways as it may have").then_some(())
    });
    // Nothing is wrong, as a person sees it.
    await_some(PATIENCE, "a status without complaint", || {
        let output = program().args(["cluster", "status", "--admin", &dev.at(0, 9001)]).output().unwrap();
        let table = text(&output.stdout);
        let is_named = table.lines().any(|line| line.contains(&format!("node-{} ", waiting + 1)) && line.contains("waits"));
        (output.status.success() && is_named).then_some(())
    });
}

/// A chunk is put beside the waiting node, which is asked first, and read beside another one.
fn serves_chunks(home: &Home, data: &Path, waiting: usize) {
    let file = home.path("chunk");
    std::fs::write(&file, b"as good as any").unwrap();
    let folder = |node: usize| data.join(format!("node-{}", node + 1));
    let chunk = |words: &[&str], node| program().arg("chunk").args(words).arg("--data").arg(folder(node)).output().unwrap();
    let put = || {
        let output = chunk(&["put", &file.display().to_string()], waiting);
        output.status.success().then(|| text(&output.stdout).trim().to_owned())
    };
    let id = await_some(DEV_PATIENCE, "a chunk that is stored", put);
    let other = (waiting + 1) % NODES;
    assert_eq!(chunk(&["get", &id], other).stdout, b"as good as any");
    let shown = text(&program().args(["chunk", "locate", &id, "--data"]).arg(folder(other)).output().unwrap().stdout);
    assert_eq!(shown.lines().filter(|line| line.starts_with("copy") && line.contains("version 0")).count(), 3, "{shown}");
}

/// A gateway dies: the waiting one comes in, and its S3 port opens.
fn takes_a_place(dev: &Dev, data: &Path, waiting: usize) {
    let victim = (waiting + 1) % NODES;
    let pid = std::fs::read_to_string(data.join(format!("node-{}/trilith.pid", victim + 1))).unwrap();
    kill_process(Pid::from_raw(pid.trim().parse().unwrap()).unwrap(), Signal::KILL).unwrap();
    await_some(DEV_PATIENCE, "the sixth node's gateway", || {
        let status = dev.status(waiting)?;
        (status["ready"] == true && Connection::open(&dev.at(waiting, 9000)).is_ok()).then_some(())
    });
    await_some(PATIENCE, "a word of the dead one", || {
        let by = waiting;
        let is_away = !dev.says(by, victim, "serves") && !dev.says(by, victim, "waits");
        (is_away && dev.says(by, waiting, "serves")).then_some(())
    });
}
