//! Chunks by the command line: stored, fetched, changed, moved and removed, while nodes end and come back.

use super::fixture::{Cluster, await_some};
use crate::devices::flip_bytes;
use crate::server::{program, text};
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

/// Until the chunk store has a shard, or a unit another leader.
const PATIENCE: Duration = Duration::from_secs(60);

/// `trilith chunk` beside a node.
fn chunk(cluster: &Cluster, node: usize, arguments: &[&str]) -> Command {
    let mut command = program();
    command.arg("chunk").args(arguments).arg("--data").arg(cluster.data(node));
    command
}

fn ask(cluster: &Cluster, node: usize, arguments: &[&str]) -> Output {
    chunk(cluster, node, arguments).output().unwrap()
}

/// What a command prints that must succeed.
pub fn run(cluster: &Cluster, node: usize, arguments: &[&str]) -> Vec<u8> {
    let output = ask(cluster, node, arguments);
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    output.stdout
}

fn complaint(cluster: &Cluster, node: usize, arguments: &[&str]) -> String {
    let output = ask(cluster, node, arguments);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {}", text(&output.stdout));
    text(&output.stderr)
}

fn file(cluster: &Cluster, name: &str, bytes: &[u8]) -> String {
    let path = cluster.home.path(name);
    std::fs::write(&path, bytes).unwrap();
    path.display().to_string()
}

/// Puts a file as soon as there is somebody who takes it.
pub fn put(cluster: &Cluster, node: usize, path: &str) -> String {
    await_some(PATIENCE, "a chunk that is stored", || {
        let output = ask(cluster, node, &["put", path]);
        output.status.success().then(|| text(&output.stdout).trim().to_owned())
    })
}

/// Numbers of the devices with copies.
pub fn devices(cluster: &Cluster, id: &str) -> Vec<String> {
    let shown = text(&run(cluster, 0, &["locate", id]));
    let copies = shown.lines().filter(|line| line.starts_with("copy"));
    let device = |line: &str| Some(line.split_once("device ")?.1.split_once(',')?.0.to_owned());
    copies.map(|line| device(line).expect("a device")).collect()
}

#[test]
fn chunks_live_as_long_as_they_should() {
    let mut cluster = Cluster::of_three_without_scrubs(true);
    let (old, new) = (vec![b'o'; 300_001], vec![b'n'; 200_000]);
    let (old_file, new_file) = (file(&cluster, "old", &old), file(&cluster, "new", &new));
    let id = put(&cluster, 0, &old_file);
    assert_eq!(run(&cluster, 1, &["get", &id]), old);
    run(&cluster, 2, &["modify", &id, &new_file]);
    (0..3).for_each(|node| assert_eq!(run(&cluster, node, &["get", &id]), new, "node {node}"));
    // A node whose space was not known yet has a copy in a moment.
    await_some(PATIENCE, "three copies", || (devices(&cluster, &id).len() == 3).then_some(()));
    refusals(&cluster, &id);

    let others: Vec<String> = (0..10).map(|_| put(&cluster, 1, &old_file)).collect();
    for node in 0..3 {
        cluster.kill(node);
        let beside = (node + 1) % 3;
        assert_eq!(run(&cluster, beside, &["get", &id]), new, "without node {node}");
        others.iter().for_each(|other| assert_eq!(run(&cluster, beside, &["get", other]), old, "without node {node}"));
        cluster.spawn(node);
        cluster.settle();
        // Writes need all copies: they go on when the node is back.
        run(&cluster, beside, &["modify", &id, &new_file]);
    }
    // By now the unit, which the first node began alone, has its other members: it has a leader without any one of them.
    last_copies_are_not_given_up(&mut cluster, &old_file);
    a_scrub_that_is_asked_for_heals_a_chunk(&mut cluster);
    run(&cluster, 0, &["rm", &id, &others[0]]);
    for gone in [&id, &others[0]] {
        assert!(complaint(&cluster, 1, &["get", gone]).contains("no such chunk"));
    }
    cluster.kill_all(&[0, 1, 2]);
    (0..3).for_each(|node| cluster.spawn(node));
    cluster.settle();
    let again = put(&cluster, 2, &old_file);
    for kept in others[1..].iter().chain([&again]) {
        assert_eq!(run(&cluster, 0, &["get", kept]), old);
    }
    assert!(complaint(&cluster, 2, &["get", &id]).contains("no such chunk"));
}

/// A byte of a copy changes on one of three disks.
fn a_scrub_that_is_asked_for_heals_a_chunk(cluster: &mut Cluster) {
    const NODE: usize = 2;
    let content: Vec<u8> = (0..20_000u32).map(|at| (at * 11 + at / 241) as u8).collect();
    let id = put(cluster, 0, &file(cluster, "marked", &content));
    cluster.kill(NODE);
    assert!(!flip_bytes(&cluster.data(NODE).join("device-0.trilith"), &content[..500]).is_empty());
    cluster.spawn(NODE);
    cluster.settle();
    let scrub = || {
        let output = program().args(["device", "scrub", "--wait", "--admin", &cluster.admin(NODE)]).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let told = scrub();
    let counts: Vec<&str> = told.lines().nth(1).expect("the device").split_whitespace().collect();
    // Damaged copies, made again, left.
    assert_eq!(counts[4..], ["1", "1", "0"], "{told}");
    assert!(told.contains("All is well again."), "{told}");
    assert!(scrub().contains("All is well."));
    assert_eq!(run(cluster, NODE, &["get", &id]), content);
}

/// A device that is away may come back with them.
fn last_copies_are_not_given_up(cluster: &mut Cluster, path: &str) {
    let alone = text(&run(cluster, 0, &["put", path, "--copies", "1"])).trim().to_owned();
    let device = devices(cluster, &alone).pop().expect("one copy");
    let number: u64 = device.parse().expect("a number");
    let is_own = |node: &usize| cluster.status(*node).is_some_and(|status| status["devices"][0]["device"] == number);
    let node = (0..3).find(is_own).expect("a node that serves it");
    let beside = (node + 1) % 3;
    cluster.kill(node);
    cluster.await_away(&[node]);
    let forgotten = await_some(PATIENCE, "an answer about the chunks", || {
        let output = program().args(["device", "forget", &device, "--data"]).arg(cluster.data(beside)).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{}", text(&output.stdout));
        let complaint = text(&output.stderr);
        // The unit may have lost its leader with the node, and the cell may recover its gateway.
        let is_early = complaint.contains("no leader") || complaint.contains("is being recovered");
        (!is_early).then_some(complaint)
    });
    assert!(forgotten.contains("1 chunks have their last sound copies on device"), "{forgotten}");
    cluster.spawn(node);
    cluster.settle();
    run(cluster, beside, &["get", &alone]);
}

/// What can't be done is refused, with the reason, and changes nothing.
fn refusals(cluster: &Cluster, id: &str) {
    let (empty, long) = (file(cluster, "empty", b""), file(cluster, "long", &vec![b'l'; 400_000]));
    let huge = file(cluster, "huge", &vec![b'h'; (4 << 20) + 1]);
    assert!(complaint(cluster, 0, &["put", &empty]).contains("no bytes"));
    assert!(complaint(cluster, 0, &["put", &huge]).contains("too many bytes"));
    assert!(complaint(cluster, 0, &["modify", id, &long]).contains("longer than was registered"));
    let (place, nonce) = id.rsplit_once('.').unwrap();
    // Somebody who guesses, and shards and numbers that there are not.
    let guessed = format!("{place}.{:016x}", u64::from_str_radix(nonce, 16).unwrap() ^ 1);
    for alien in [&guessed, "1.ffff.0000000000000001", "77.0.0000000000000001"] {
        assert!(complaint(cluster, 0, &["get", alien]).contains("no such chunk"), "{alien}");
        assert!(complaint(cluster, 1, &["rm", alien]).contains("no such chunk"), "{alien}");
        assert!(complaint(cluster, 1, &["modify", alien, &long]).contains("no such chunk"), "{alien}");
        assert!(complaint(cluster, 2, &["relocate", alien, "--from", "0"]).contains("no such chunk"), "{alien}");
    }
    // With three nodes of one device each there is no other place for a copy.
    let device = &devices(cluster, id)[0];
    assert!(complaint(cluster, 0, &["relocate", id, "--from", device]).contains("not enough hosts"));
    let nowhere = Path::new("/nonexistent/folder");
    let output = program().args(["chunk", "get", id, "--data"]).arg(nowhere).output().unwrap();
    assert!(text(&output.stderr).contains("no node's data folder"), "{}", text(&output.stderr));
}
