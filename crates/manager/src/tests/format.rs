//! The durable bytes, so that a change of them is seen.

use std::ops::ControlFlow;
use std::sync::Arc;

use kv::{Batch, Kv, KvRead, MemoryKv};
use types::{BucketId, CellId, DeviceUuid, Epoch};

use crate::limits::NUMBER_LIMIT;
use crate::modules::log::Starts;
use crate::{
    AddCredential, AddDevice, BeginStart, BucketEngine, Command, CommandIndex, CreateBucket, DecodeExportError, EntryError,
    EtagMode, IMPORT_SKIPPED_COMMANDS, ImpossibleNumber, InstallManifest, LoadError, MarkBucketDeleting, SetConfig, Snapshot,
    TakeToken, apply, table,
};

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn create() -> Command {
    let (name, owner) = ("abc".to_owned(), "me".to_owned());
    CreateBucket { name, owner, engine: BucketEngine::Volume, etag: EtagMode::Fast, created_ms: 300 }.into()
}

#[test]
fn golden_commands() {
    let golden: [(Command, &str); 6] = [
        (create(), "020003616263026d650101ac02"),
        (MarkBucketDeleting { name: "abc".to_owned(), id: BucketId(1) }.into(), "02010361626301"),
        (InstallManifest { cell: CellId(2), expected: Epoch(0), epoch: Epoch(3), bytes: vec![9] }.into(), "04000200030109"),
        (TakeToken {}.into(), "0402"),
        (SetConfig { key: "k".to_owned(), value: None }.into(), "0002016b00"),
        (BeginStart { cell: CellId(2) }.into(), "040302"),
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
        "05",                                           // entries
        "01010105",                                     // the last command
        "0202050102",                                   // the next bucket
        "04056162630e0103616263ac02026d6501010000",     // a bucket
        "04064b455910034b4559083132333435363738017500", // a credential
        "030a00020103",                                 // three starts of cell 2
    ];
    let copy = hex(&state.export());
    assert_eq!(&copy[..24], "5452494c4d47520001000000");
    assert_eq!(&copy[32..], body.concat());
}

#[test]
fn bytes_that_are_no_command_are_refused() {
    for bytes in [&[][..], &[1, 200], &[200, 0]] {
        assert!(Command::decode(bytes).is_err(), "{bytes:?}");
    }
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
    kv.commit(table::batch(&state, table::all_entries(&state))).unwrap();
    let mut entries = Vec::new();
    let mut push = |key: &[u8], value: &[u8]| {
        entries.push((hex(key), hex(value)));
        ControlFlow::Continue(())
    };
    kv.scan_prefix(&[], &mut push).unwrap();
    let golden = [
        ("01", "04"),
        ("0205", "02"),
        ("05616263", "0103616263ac02026d6501010000"),
        ("070102", "030109"),
        ("096b", "0176"),
        ("0a0102", "01"),
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
        |state| state.buckets.next = u64::MAX,
        |state| state.devices.next = u64::MAX,
        |state| state.starts.records_mut().values_mut().for_each(|starts| *starts = Arc::new(Starts(u64::MAX))),
        |state| state.buckets.next = 1,
        |state| state.devices.next = 0,
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
        kv.commit(table::batch(&state, table::all_entries(&state))).unwrap();
        let refused = table::load(&kv);
        assert!(matches!(refused, Err(LoadError::Entry(EntryError::Impossible(_)))), "{refused:?}");
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
fn unknown_entries_and_bad_values_are_refused() {
    for (key, value) in
        [(vec![1], vec![2, 3]), (vec![200], vec![1]), (vec![7, 1], vec![1]), (vec![5, b'a'], vec![1, 1]), (vec![2, 9], vec![1])]
    {
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
    sound.commit(table::batch(&state, table::all_entries(&state))).unwrap();
    let mut entries = Vec::new();
    let mut push = |key: &[u8], value: &[u8]| {
        entries.push((key.to_vec(), value.to_vec()));
        ControlFlow::Continue(())
    };
    sound.scan_prefix(&[], &mut push).unwrap();
    assert_eq!(entries.len(), 6, "the last command, the next bucket and device, and the three");
    for (key, value) in entries {
        let mut batch = Batch::new();
        batch.put([&key[..], b"x"].concat(), value);
        let kv = MemoryKv::new();
        kv.commit(batch).unwrap();
        let refused = table::load(&kv);
        assert!(
            matches!(
                refused,
                Err(LoadError::Entry(EntryError::Misplaced { .. } | EntryError::Unknown { .. } | EntryError::Body { .. }))
            ),
            "{key:?}: {refused:?}"
        );
    }
}
