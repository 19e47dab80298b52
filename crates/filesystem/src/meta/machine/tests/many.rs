//! Figures of a tree with many files, on the consensus log and rows in folders, without mounts.
//!
//! `TRILITH_FILES=1000000 cargo test --release -p filesystem -- --ignored --nocapture many_files`

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use consensus::{Group, GroupId, LogPlace, Node, NodeId, ReadMode, SimulatedTransport};
use env::Env;
use futures_util::future::join_all;

use super::*;

const GROUP: GroupId = GroupId(7);
const CALLERS: u64 = 64;
const STEP: u64 = 100_000;

fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

fn folder_bytes(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    entries.map(|entry| if entry.path().is_dir() { folder_bytes(&entry.path()) } else { entry.metadata().unwrap().len() }).sum()
}

async fn start(env: &Env, transport: &SimulatedTransport, id: u64, folder: &Path) -> (Node, Group<Machine>) {
    let place = LogPlace::in_folder(env, folder).await.unwrap();
    let node = Node::open(env, NodeId(id), &place, transport.port(NodeId(id))).await.unwrap();
    transport.plug_in(NodeId(id), node.service());
    let group = node.start_group(GROUP, Machine::default()).await.unwrap();
    (node, group)
}

/// Makes small files with one piece of content each; the longest command.
async fn make(env: &Env, group: &Group<Machine>, caller: u64, numbers: std::ops::Range<u64>) -> Duration {
    let (session, mut longest) = (MetaSession(1 + caller), Duration::ZERO);
    for number in numbers {
        for step in 0..2 {
            let sequence = 2 * number + step + 1;
            let command = match step {
                0 => Command::Make { parent: Ino::ROOT, name: format!("file-{number:08}").into(), new: new(Kind::File) },
                _ => {
                    let name = format!("file-{number:08}").into();
                    let found = group.look(|tree| tree.query(&Query::Lookup { parent: Ino::ROOT, name }));
                    let Ok(Found::Inode(Attributes { ino, .. })) = found else { panic!("{found:?}") };
                    let keys = vec![key(0, number, 0, 1000)];
                    Command::Commit { ino, keys, least_size: 1000, kills_set_ids: false, expects: Expected::default() }
                }
            };
            let now = Time { seconds: 1_700_000_000 + number as i64, nanos: 123_456_789 };
            let envelope = Envelope { session, sequence, answered_below: sequence, now, locks_lost: 0, command };
            let began = env.now();
            group.propose(&envelope).await.unwrap().1.unwrap();
            longest = longest.max(env.now() - began);
        }
    }
    longest
}

async fn fill(env: &Env, group: &Group<Machine>, from: u64, to: u64) -> Duration {
    let share = (to - from) / CALLERS;
    let callers = (0..CALLERS).map(|caller| make(env, group, caller, from + caller * share..from + (caller + 1) * share));
    join_all(callers).await.into_iter().max().unwrap()
}

fn list(group: &Group<Machine>) -> usize {
    let (mut after, mut count) = (0, 0);
    loop {
        let found = group.look(|tree| tree.query(&Query::Directory { ino: Ino::ROOT, after, most: 4096 }));
        let Ok(Found::Entries(entries)) = found else { panic!("{found:?}") };
        let Some(last) = entries.last() else { return count };
        (after, count) = (last.cookie, count + entries.len());
    }
}

#[tokio::test]
#[ignore = "figures, no check"]
async fn many_files() {
    let files = std::env::var("TRILITH_FILES").map_or(STEP, |files| files.parse().unwrap());
    let (env, folders) = (Env::real(), [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()]);
    let transport = SimulatedTransport::new(&env);
    let (node, group) = start(&env, &transport, 1, folders[0].path()).await;
    group.initialize(&BTreeMap::from([(NodeId(1), "1".to_owned())])).await.unwrap();
    while group.read(ReadMode::Lease, |_| ()).await.is_err() {
        env.sleep(Duration::from_millis(10)).await;
    }
    for session in (0..CALLERS).map(|caller| MetaSession(1 + caller)) {
        let now = Time::default();
        let envelope = Envelope {
            session,
            sequence: 0,
            answered_below: 0,
            now,
            locks_lost: 0,
            command: Command::OpenSession { is_exclusive: false },
        };
        group.propose(&envelope).await.unwrap().1.unwrap();
    }
    let before = resident_bytes();
    for done in (0..files).step_by(STEP as usize) {
        let began = env.now();
        let longest = fill(&env, &group, done, done + STEP).await;
        let (took, count) = (env.now() - began, done + STEP);
        let rate = STEP as f64 / took.as_secs_f64();
        let each = (resident_bytes() - before) / count;
        let began = env.now();
        let listed = list(&group);
        let list_took = env.now() - began;
        println!(
            "{count} files: {rate:.0} a second (two commands each), longest command {longest:?}, {each} bytes a file resident; {listed} listed in {list_took:?}"
        );
    }
    env.sleep(Duration::from_secs(3)).await;
    println!("log and rows: {} bytes a file", folder_bytes(folders[0].path()) / files);
    transport.unplug(NodeId(1));
    node.shut_down().await;
    drop((node, group));
    println!("without the tree: {} MiB resident", resident_bytes() >> 20);
    let began = env.now();
    let (node, group) = start(&env, &transport, 1, folders[0].path()).await;
    while group.read(ReadMode::Lease, |_| ()).await.is_err() {
        env.sleep(Duration::from_millis(5)).await;
    }
    println!("a start serves after {:?}, {} MiB resident", env.now() - began, resident_bytes() >> 20);
    // A new member gets the tree while others make files.
    let (other, copy) = start(&env, &transport, 2, folders[1].path()).await;
    let began = env.now();
    let joined = async {
        let joined = group.add_learner(NodeId(2), "2").await;
        (joined, env.now() - began)
    };
    let (joined, longest) = tokio::join!(joined, fill(&env, &group, files, files + STEP / 10));
    joined.0.unwrap();
    println!(
        "a new member has the tree after {:?}; longest command meanwhile {longest:?}; {} MiB resident",
        joined.1,
        resident_bytes() >> 20
    );
    let inodes = |group: &Group<Machine>| group.look(|tree| tree.usage().inodes);
    while inodes(&copy) < inodes(&group) {
        env.sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(copy.status().learners, BTreeSet::from([NodeId(2)]));
    node.shut_down().await;
    other.shut_down().await;
}
