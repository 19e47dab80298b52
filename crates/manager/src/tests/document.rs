//! Compares `docs/format.md` with the code.

use std::fmt::Debug;

use env::Env;
use types::{BucketId, CellId, ClusterId, DeviceId, DeviceUuid, Epoch, Generation, NodeId, NodeIdentity};

use super::workload::random_command;
use crate::modules::KINDS;
use crate::{
    BucketEngine, BucketRecord, BucketState, CellRecord, ClusterRecord, Command, Credential, DeviceRecord, DeviceState,
    EtagMode, GroupKey, GroupKind, GroupRecord, ManifestRecord, NodeRecord, ReplicaTableRecord, ShardRecord, Snapshot,
    VolumeRecord,
};

const DOCUMENT: &str = include_str!("../../../../docs/format.md");
/// What `Debug` keeps to itself.
const HIDDEN: &str = "secret";

/// The rows of the table under a heading whose first cell begins with a number: that cell, the second, the rest.
fn rows(heading: &str) -> Vec<(String, String, String)> {
    let (_, section) = DOCUMENT.split_once(&format!("\n### {heading}\n")).expect("a section");
    let mut rows = Vec::new();
    for line in section.lines().take_while(|line| !line.starts_with('#')) {
        let cells: Vec<_> = line.split('|').map(str::trim).collect();
        let [_, number, name, rest, ..] = cells[..] else { continue };
        if number.starts_with(|first: char| first.is_ascii_digit()) {
            rows.push((number.to_owned(), name.trim_matches('`').to_owned(), rest.to_owned()));
        }
    }
    rows
}

/// The names between backticks, without those that [`Debug`] hides.
fn quoted(text: &str) -> Vec<String> {
    text.split('`').skip(1).step_by(2).filter(|name| *name != HIDDEN).map(str::to_owned).collect()
}

/// The names of a structure's fields in their order, which is the order in which they are encoded.
fn fields(record: &impl Debug) -> Vec<String> {
    let text = format!("{record:#?}");
    let depth = |line: &str| line.len() - line.trim_start().len();
    let lines =
        || text.lines().filter(|line| line.contains(": ") && line.trim_start().starts_with(|c: char| c.is_ascii_lowercase()));
    let Some(least) = lines().map(depth).min() else {
        // Those that hide something write themselves in one line.
        let one_line = text.split_once("{ ").map_or("", |(_, fields)| fields);
        return one_line.split(", ").filter_map(|field| field.split_once(": ")).map(|(name, _)| name.to_owned()).collect();
    };
    let names = lines().filter(|line| depth(line) == least).filter_map(|line| line.trim_start().split_once(": "));
    names.map(|(name, _)| name.to_owned()).filter(|name| name != HIDDEN).collect()
}

#[test]
fn the_document_shows_the_commands() {
    let shown = rows("Manager's commands");
    let names: Vec<_> = shown.iter().map(|(number, name, _)| (number.clone(), name.as_str())).collect();
    let of_module = |(module, (_, names)): (usize, &(&str, &'static [&'static str]))| {
        names.iter().enumerate().map(|(number, name)| (format!("{module}, {number}"), *name)).collect::<Vec<_>>()
    };
    let expected: Vec<_> = Command::NAMES.iter().enumerate().flat_map(of_module).collect();
    assert_eq!(names, expected);
    let env = Env::simulated(3);
    let mut seen = vec![false; shown.len()];
    while seen.contains(&false) {
        let command = random_command(&env);
        let bytes = command.encode();
        let number = format!("{}, {}", bytes[0], bytes[1]);
        let at = shown.iter().position(|(shown, _, _)| *shown == number).expect("a row");
        let (_, name, text) = &shown[at];
        assert!(format!("{command:?}").contains(&format!("({name}(")), "{command:?}");
        assert_eq!(quoted(text), fields(&command), "{name}");
        seen[at] = true;
    }
}

#[test]
fn the_document_shows_the_records() {
    let shown = rows("Manager's state");
    let mut names: Vec<_> = shown.iter().map(|(number, name, _)| (number.parse().unwrap(), name.as_str())).collect();
    assert_eq!(names.drain(..2).collect::<Vec<_>>(), [(1, "applied"), (2, "next number")]);
    let mut kinds = KINDS.to_vec();
    kinds.sort_unstable();
    assert_eq!(names, kinds);
    let check = |name: &str, expected: Vec<String>| {
        let (_, _, text) = shown.iter().find(|(_, shown, _)| shown == name).expect("a row");
        assert_eq!(quoted(text), expected, "{name}");
    };
    let (path, access_key, bytes) = ("path".to_owned(), "key".to_owned(), vec![1]);
    let (id, uuid, capacity_bytes) = (DeviceId(1), DeviceUuid([1; 16]), 1);
    let (owner, engine, etag, created_ms) = ("owner".to_owned(), BucketEngine::Log, EtagMode::Md5, 1);
    check("cluster", fields(&ClusterRecord { id: ClusterId([1; 16]), format_version: 1, created_ms }));
    check("device", fields(&DeviceRecord { id, uuid, path, state: DeviceState::Active, capacity_bytes, node: None }));
    let (name, policy, state) = ("name".to_owned(), None, BucketState::Active);
    check("bucket", fields(&BucketRecord { id: BucketId(1), name, created_ms, owner, engine, etag, policy, state }));
    let (secret, user) = ("secret".to_owned(), "user".to_owned());
    check("credential", fields(&Credential { access_key, secret, user, is_root: true }));
    check("manifest", fields(&ManifestRecord { epoch: Epoch(1), bytes: bytes.clone() }));
    let text = || "text".to_owned();
    let node = NodeRecord {
        id: NodeId(1),
        identity: NodeIdentity([1; 16]),
        name: text(),
        address: text(),
        admin_address: text(),
        s3_address: text(),
        host: text(),
        rack: text(),
        zone: text(),
        version: text(),
        joined_ms: 1,
    };
    check("node", fields(&node));
    check("cell", fields(&CellRecord::new(CellId(1), Generation(1))));
    let (members, hosts) = (Vec::new(), Vec::new());
    let key = GroupKey { kind: GroupKind(1), number: 1 };
    check("group", fields(&GroupRecord { key, founders: members.clone(), members }));
    check("shard", fields(&ShardRecord { id: 1, capacity: 1, hosts, is_open: true }));
    check("volume", fields(&VolumeRecord::new(DeviceId(1), 1)));
    check("image", fields(&super::images::record()));
    check("file volume", fields(&super::files::record(1, "home")));
    check("placement group", fields(&super::placements::record(&[1])));
    check("replica table", fields(&ReplicaTableRecord { generation: Generation(1), bytes }));
}

#[test]
fn the_document_shows_the_copy() {
    let copy = Snapshot::default().export();
    let shown = rows("Manager's copy");
    let at: Vec<_> = shown.iter().map(|(at, bytes, field)| (at.as_str(), bytes.as_str(), field.as_str())).collect();
    assert_eq!(at, [("0", "8", "`magic`"), ("8", "4", "`version`"), ("12", "4", "`checksum`"), ("16", "to the end", "`body`")]);
    assert_eq!((&copy[..8], &copy[8..12]), (&b"TRILMGR\0"[..], &1u32.to_le_bytes()[..]));
    let checksum = crc_fast::crc32_iscsi(&[&copy[8..12], &copy[16..]].concat());
    assert_eq!(copy[12..16], checksum.to_le_bytes());
}
