//! `trilith cluster dev`: a cluster on one machine, as README shows it.

use super::fixture::await_some;
use crate::http::Connection;
use crate::server::{Home, PATIENCE, program, text};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use std::fs::File;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

/// Until all nodes serve.
const DEV_PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn a_cluster_to_try_runs_and_stops_as_one() {
    let home = Home::new();
    let data = home.path("dev");
    let mut dev = program();
    let first = super::fixture::own_address();
    dev.args(["cluster", "dev", "--nodes", "3", "--device-size", "1GiB", "--first-addr", &first, "--data"]).arg(&data);
    // The environment of who serves here otherwise: the keys hold, what is each node's own does not.
    dev.env("TRILITH_ROOT_USER", "somebody")
        .env("TRILITH_ROOT_PASSWORD", "a-long-secret")
        .env("TRILITH_S3_ADDR", format!("{first}:9100"));
    let said = home.path("said");
    let mut child = dev.stdout(File::create(&said).unwrap()).stderr(Stdio::piped()).spawn().unwrap();
    let said = || std::fs::read_to_string(&said).unwrap();
    let octets: Vec<u8> = first.split('.').map(|octet| octet.parse().unwrap()).collect();
    let at = |node: u8, port: u16| format!("{}.{}.{}.{}:{port}", octets[0], octets[1], octets[2], octets[3] + node);
    for node in 0..3 {
        await_some(DEV_PATIENCE, "a node to serve", || {
            let answer = Connection::open(&at(node, 9001)).ok()?.get("/status").ok()?;
            let status: serde_json::Value = serde_json::from_slice(&answer.body).ok()?;
            (status["ready"] == true && status["cell"]["gateways"] == 3).then_some(())
        });
    }
    assert!(said().contains("access key somebody"), "{}", said());
    let mut client = program();
    client.args(["bucket", "ls", "--endpoint", &format!("http://{}", at(1, 9000)), "--access-key", "somebody"]);
    let listed = client.args(["--secret-key", "a-long-secret"]).output().unwrap();
    assert!(listed.status.success(), "{}", text(&listed.stderr));
    let pids: Vec<Pid> = (1..=3)
        .map(|node| {
            let text = std::fs::read_to_string(data.join(format!("node-{node}/trilith.pid"))).unwrap();
            Pid::from_raw(text.trim().parse().unwrap()).unwrap()
        })
        .collect();
    // One ends; the others are not touched by that.
    kill_process(pids[2], Signal::KILL).unwrap();
    await_some(PATIENCE, "a word of it", || said().contains("node 3 ended").then_some(()));
    let dev = Pid::from_raw(child.id() as i32).unwrap();
    kill_process(dev, Signal::INT).unwrap();
    await_some(PATIENCE, "the end of all nodes", || child.try_wait().unwrap());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}{}", said(), text(&output.stderr));
    let said = said();
    for what in ["A cluster of 3 nodes", &at(0, 9000), &at(2, 9001), "access key", "secret key", "node 3 ended", "stopping"] {
        assert!(said.contains(what), "{what}: {said}");
    }
    for pid in pids {
        assert!(test_kill_process(pid).is_err(), "{pid:?} runs");
    }
}

/// What can't be started leaves nothing that runs.
#[test]
fn nodes_end_with_the_attempt_to_start_them() {
    let home = Home::new();
    let data = home.path("dev");
    std::fs::create_dir(&data).unwrap();
    std::fs::write(data.join("node-2"), b"no folder").unwrap();
    let first = super::fixture::own_address();
    let mut dev = program();
    dev.args(["cluster", "dev", "--nodes", "2", "--device-size", "1GiB", "--first-addr", &first, "--data"]).arg(&data);
    let output = dev.output().unwrap();
    let running = serving_below(&data);
    for pid in &running {
        kill_process(*pid, Signal::KILL).unwrap();
    }
    assert!(output.status.code() == Some(1) && text(&output.stderr).contains("node-2"), "{}", text(&output.stderr));
    assert!(data.join("node-1/trilith.log").exists() && running.is_empty(), "{running:?} run");
}

/// Processes that were started for a folder below this one.
fn serving_below(folder: &Path) -> Vec<Pid> {
    let folder = folder.to_str().unwrap();
    let entries = std::fs::read_dir("/proc").unwrap().map_while(Result::ok);
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    // It may have ended meanwhile.
    let words = |number: &i32| std::fs::read_to_string(format!("/proc/{number}/cmdline")).unwrap_or_default();
    numbers.filter(|number| words(number).split('\0').any(|word| word.starts_with(folder))).filter_map(Pid::from_raw).collect()
}
