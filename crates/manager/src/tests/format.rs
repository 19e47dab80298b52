//! The durable bytes, so that a change of them is seen.

use std::ops::ControlFlow;
use std::sync::Arc;

use kv::{Batch, Kv, KvRead, MemoryKv};
use types::{BucketId, CellId, DeviceUuid, Epoch};

use crate::command::CommandError;
use crate::limits::NUMBER_LIMIT;
use crate::{
    AddCredential, AddDevice, BeginStart, BucketEngine, Command, CommandIndex, CreateBucket, DecodeExportError, EtagMode,
    IMPORT_SKIPPED_COMMANDS, ImpossibleNumber, InstallManifest, LoadError, MarkBucketDeleting, SetConfig, Snapshot, TakeToken,
    apply, table,
};

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

/// A state's copy as version 2 or 3 wrote it: without shards and volumes, of which it has none. Its numbers are small.
pub(super) fn former_copy(version: u32, state: &Snapshot) -> Vec<u8> {
    let newest = state.export();
    let (base, lists) = newest[16..].split_at(newest.len() - 16 - 2);
    assert_eq!(lists, [0, 0], "no shards, no volumes");
    let (before, after) = base.split_at(5);
    assert_eq!(before[4], 1, "the next shard, behind the last command and three other numbers");
    let body = [&before[..4], after].concat();
    // Version 2 ends before the tables of former views of its last cell, of which there are none.
    let body = if version == 2 { &body[..body.len() - 1] } else { &body };
    let checksum = crc_fast::crc32_iscsi(&[&version.to_le_bytes()[..], body].concat());
    [&newest[..8], &version.to_le_bytes(), &checksum.to_le_bytes(), body].concat()
}

fn create() -> Command {
    let (name, owner) = ("abc".to_owned(), "me".to_owned());
    CreateBucket { name, owner, engine: BucketEngine::Volume, etag: EtagMode::Fast, created_ms: 300 }.into()
}

#[test]
fn golden_commands() {
    let golden: [(Command, &str); 6] = [
        (create(), "010603616263026d650101ac02"),
        (MarkBucketDeleting { name: "abc".to_owned(), id: BucketId(1) }.into(), "01070361626301"),
        (InstallManifest { cell: CellId(2), expected: Epoch(0), epoch: Epoch(3), bytes: vec![9] }.into(), "010e0200030109"),
        (TakeToken {}.into(), "0110"),
        (SetConfig { key: "k".to_owned(), value: None }.into(), "0111016b00"),
        (BeginStart { cell: CellId(2) }.into(), "011202"),
    ];
    for (command, bytes) in golden {
        assert_eq!(hex(&command.encode()), bytes, "{command:?}");
    }
}

#[test]
fn a_golden_copy() {
    let credential = AddCredential { access_key: "KEY".to_owned(), secret: "12345678".to_owned(), user: "u".to_owned() };
    let mut state = Snapshot::default();
    apply(CommandIndex(1), &create(), &mut state);
    apply(CommandIndex(2), &credential.into(), &mut state);
    for index in 3..6 {
        apply(CommandIndex(index), &BeginStart { cell: CellId(2) }.into(), &mut state);
    }
    let body = [
        "05",       // applied
        "02000101", // next bucket, device, node and shard
        "00",       // no cluster
        "00",       // no devices
        "010103616263ac02026d6501010000",
        "01034b4559083132333435363738017500",
        "00",     // no manifests
        "00",     // no table
        "00",     // no configuration
        "010203", // three starts of cell 2
        "00",     // no nodes
        "00",     // no cells
        "00",     // no shards
        "00",     // no volumes
    ];
    let copy = hex(&state.export());
    assert_eq!(&copy[..24], "5452494c4d47520004000000");
    assert_eq!(&copy[32..], body.concat());
}

/// A copy as version 1 wrote it, with a device.
#[test]
fn a_copy_of_the_former_version_is_read() {
    let body = [
        "05",   // applied
        "0201", // next bucket and device
        "00",   // no cluster
        &format!("0100{}092f6465762f666976650001", "05".repeat(16)),
        "010103616263ac02026d6501010000",
        "01034b4559083132333435363738017500",
        "00",     // no manifests
        "00",     // no table
        "00",     // no configuration
        "010203", // three starts of cell 2
    ];
    let body = unhex(&body.concat());
    let checksum = crc_fast::crc32_iscsi(&[&1u32.to_le_bytes()[..], &body].concat());
    let copy = [&b"TRILMGR\0"[..], &1u32.to_le_bytes(), &checksum.to_le_bytes(), &body].concat();
    let state = Snapshot::from_export(&copy).unwrap();
    let device = state.devices().next().unwrap();
    assert_eq!((device.path.as_str(), device.capacity_bytes, device.node), ("/dev/five", 1, None));
    assert_eq!((state.starts(CellId(2)), state.next.node), (3, 1));
    assert_eq!((state.nodes().count(), state.cells().count(), state.buckets().len()), (0, 0, 1));
    assert_eq!(Snapshot::from_export(&state.export()).unwrap(), state);
}

/// Next ids and a device as version 1 of the records wrote them.
#[test]
fn records_of_the_former_version_are_read() {
    let device = format!("0100{}092f6465762f666976650001", "05".repeat(16));
    let load = |version: &str| {
        let kv = MemoryKv::new();
        let mut batch = Batch::new();
        batch.put(unhex("01"), unhex("0107"));
        batch.put(unhex("02"), unhex("010901"));
        batch.put(unhex("0400000000"), unhex(&format!("{version}{}", &device[2..])));
        kv.commit(batch).unwrap();
        table::load(&kv)
    };
    let state = load("01").unwrap();
    assert_eq!((state.next.bucket, state.next.device, state.next.node), (9, 1, 1));
    assert_eq!(state.devices().next().unwrap().node, None);
    assert!(matches!(load("02"), Err(LoadError::Body { .. })), "the newer version has one field more");
    let newer = load("03");
    assert!(matches!(newer, Err(LoadError::Version { found: Some(3), expected: 2, .. })), "{newer:?}");
    let kv = MemoryKv::new();
    kv.commit(table::batch(&state, table::all_records(&state))).unwrap();
    assert_eq!(table::load(&kv).unwrap(), state);
}

#[test]
fn an_unknown_version_is_named() {
    assert_eq!(Command::decode(&[2, 0]), Err(CommandError::Version { found: Some(2) }));
    assert_eq!(Command::decode(&[]), Err(CommandError::Version { found: None }));
    assert!(matches!(Command::decode(&[1, 200]), Err(CommandError::Body(_))));
}

#[test]
fn golden_records() {
    let mut state = Snapshot::default();
    apply(CommandIndex(1), &create(), &mut state);
    let manifest = InstallManifest { cell: CellId(258), expected: Epoch(0), epoch: Epoch(3), bytes: vec![9] };
    apply(CommandIndex(2), &manifest.into(), &mut state);
    apply(CommandIndex(3), &SetConfig { key: "k".to_owned(), value: Some("v".to_owned()) }.into(), &mut state);
    apply(CommandIndex(4), &BeginStart { cell: CellId(258) }.into(), &mut state);
    let kv = MemoryKv::new();
    kv.commit(table::batch(&state, table::all_records(&state))).unwrap();
    let mut entries = Vec::new();
    let mut push = |key: &[u8], value: &[u8]| {
        entries.push((hex(key), hex(value)));
        ControlFlow::Continue(())
    };
    kv.scan_prefix(&[], &mut push).unwrap();
    let golden = [
        ("01", "0104"),
        ("02", "0302000101"),
        ("05616263", "010103616263ac02026d6501010000"),
        ("070102", "01030109"),
        ("096b", "010176"),
        ("0a0102", "0101"),
    ];
    assert_eq!(entries, golden.map(|(key, value)| (key.to_owned(), value.to_owned())));
    assert_eq!(table::load(&kv).unwrap(), state);
}

/// States that no manager can have come to; counting on from them would hand out what is in use, or begin again at zero.
fn impossible_states() -> Vec<Snapshot> {
    let mut sound = Snapshot::default();
    apply(CommandIndex(1), &create(), &mut sound);
    let device = AddDevice { uuid: DeviceUuid([5; 16]), path: "/dev/five".to_owned(), capacity_bytes: 1 };
    apply(CommandIndex(2), &device.into(), &mut sound);
    apply(CommandIndex(3), &BeginStart { cell: CellId(2) }.into(), &mut sound);
    let changes: [fn(&mut Snapshot); 6] = [
        |state| state.applied.0 = u64::MAX,
        |state| state.next.bucket = u64::MAX,
        |state| state.next.device = u32::MAX,
        |state| Arc::make_mut(&mut state.starts).values_mut().for_each(|starts| *starts = u64::MAX),
        |state| state.next.bucket = 1,
        |state| state.next.device = 0,
    ];
    let changed = |change: fn(&mut Snapshot)| {
        let mut state = sound.clone();
        change(&mut state);
        state
    };
    changes.map(changed).to_vec()
}

#[test]
fn impossible_numbers_are_refused() {
    for state in impossible_states() {
        let refused = Snapshot::from_export(&state.export());
        assert!(matches!(refused, Err(DecodeExportError::Impossible(_))), "{refused:?}");
        let kv = MemoryKv::new();
        kv.commit(table::batch(&state, table::all_records(&state))).unwrap();
        let refused = table::load(&kv);
        assert!(matches!(refused, Err(LoadError::Impossible(_))), "{refused:?}");
    }
}

#[test]
fn a_copy_that_leaves_no_room_to_skip_is_refused() {
    let mut state = Snapshot::default();
    state.applied.0 = NUMBER_LIMIT - 1;
    let copied = Snapshot::from_export(&state.export()).unwrap();
    assert_eq!(copied, state);
    let found = state.applied.0 + IMPORT_SKIPPED_COMMANDS;
    assert_eq!(copied.skip_lost(), Err(ImpossibleNumber { what: "command", found, limit: NUMBER_LIMIT }.into()));
}

#[test]
fn entries_of_a_newer_version_are_refused() {
    for (key, value) in [(vec![1], vec![2, 3]), (vec![200], vec![1]), (vec![7, 1], vec![1]), (vec![5, b'a'], vec![1, 1])] {
        let kv = MemoryKv::new();
        let mut batch = Batch::new();
        batch.put(key.clone(), value);
        kv.commit(batch).unwrap();
        assert!(table::load(&kv).is_err(), "{key:?}");
    }
}

/// A record that stands under another one's key would be found by its own name and removed by the other's.
#[test]
fn records_under_keys_of_others_are_refused() {
    let mut state = Snapshot::default();
    apply(CommandIndex(1), &create(), &mut state);
    let device = AddDevice { uuid: DeviceUuid([5; 16]), path: "/dev/five".to_owned(), capacity_bytes: 1 };
    apply(CommandIndex(2), &device.into(), &mut state);
    let credential = AddCredential { access_key: "KEY".to_owned(), secret: "12345678".to_owned(), user: "u".to_owned() };
    apply(CommandIndex(3), &credential.into(), &mut state);
    let sound = MemoryKv::new();
    sound.commit(table::batch(&state, table::all_records(&state))).unwrap();
    let mut entries = Vec::new();
    let mut push = |key: &[u8], value: &[u8]| {
        entries.push((key.to_vec(), value.to_vec()));
        ControlFlow::Continue(())
    };
    sound.scan_prefix(&[], &mut push).unwrap();
    assert_eq!(entries.len(), 5, "the last command, the next ids, and the three");
    for (key, value) in entries {
        let mut batch = Batch::new();
        batch.put([&key[..], b"x"].concat(), value);
        let kv = MemoryKv::new();
        kv.commit(batch).unwrap();
        let refused = table::load(&kv);
        assert!(matches!(refused, Err(LoadError::Misplaced { .. } | LoadError::UnknownEntry { .. })), "{key:?}: {refused:?}");
    }
}
