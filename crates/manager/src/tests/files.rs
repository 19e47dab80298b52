//! File volumes.

use types::{DeviceUuid, FileVolumeId};

use super::format::hex;
use super::machine::Machine;
use crate::{
    AddDevice, Command, CreateFileVolume, FileQuota, FileVolumeError, FileVolumeRecord, ForgetFileVolume, RemoveFileVolume,
    ResizeFileVolume,
};

const QUOTA: FileQuota = FileQuota { bytes: Some(300), inodes: None };

pub(super) fn record(id: u32, name: &str) -> FileVolumeRecord {
    FileVolumeRecord { id: FileVolumeId(id), name: name.to_owned(), created_ms: 5, quota: QUOTA, is_removing: false }
}

fn create(name: &str) -> CreateFileVolume {
    CreateFileVolume { name: name.to_owned(), created_ms: 5, quota: QUOTA }
}

fn machine_with_a_device() -> Machine {
    let mut machine = Machine::default();
    machine.run(AddDevice { uuid: DeviceUuid([1; 16]), path: "disk".to_owned(), capacity_bytes: 1 << 30 }).unwrap();
    machine
}

#[test]
fn golden_bytes_of_file_volumes() {
    assert_eq!(hex(&postcard::to_allocvec(&record(1, "home")).unwrap()), "0104686f6d650501ac020000");
    let commands: [(Command, &str); 4] = [
        (create("a").into(), "0a0001610501ac0200"),
        (ResizeFileVolume { id: FileVolumeId(2), quota: FileQuota::default() }.into(), "0a01020000"),
        (RemoveFileVolume { id: FileVolumeId(2) }.into(), "0a0202"),
        (ForgetFileVolume { id: FileVolumeId(2) }.into(), "0a0302"),
    ];
    for (command, bytes) in commands {
        assert_eq!(hex(&command.encode()), bytes, "{command:?}");
        assert_eq!(Command::decode(&command.encode()), Ok(command));
    }
}

#[test]
fn a_volume_is_made_resized_and_removed() {
    let mut machine = machine_with_a_device();
    let made = machine.run(create("home")).unwrap();
    assert_eq!(*made, record(1, "home"));
    assert_eq!(machine.run(create("home")), Err(FileVolumeError::AlreadyExists { name: "home".to_owned() }));
    let id = made.id;
    let quota = FileQuota { bytes: None, inodes: Some(7) };
    assert_eq!(machine.run(ResizeFileVolume { id, quota }).unwrap().quota, quota);
    assert_eq!(machine.run(ForgetFileVolume { id }), Err(FileVolumeError::NotRemoving));
    assert!(machine.run(RemoveFileVolume { id }).unwrap().is_removing);
    assert_eq!(machine.0.file_volume_named("home"), None);
    assert_eq!(machine.run(RemoveFileVolume { id }), Err(FileVolumeError::Removing));
    // The name is free before the contents are.
    assert_eq!(machine.run(create("home")).unwrap().id, FileVolumeId(2));
    machine.0.check().unwrap();
    machine.run(ForgetFileVolume { id }).unwrap();
    assert_eq!(machine.run(ForgetFileVolume { id }), Err(FileVolumeError::NotFound { id }));
    assert_eq!(machine.run(create("other")).unwrap().id, FileVolumeId(3), "an id is never used again");
}

#[test]
fn names_and_devices_are_checked() {
    let mut machine = machine_with_a_device();
    for name in ["", ".hidden", "-x", "a/b", "a b", "ä", &"x".repeat(129)] {
        assert_eq!(machine.run(create(name)), Err(FileVolumeError::Name { name: name.to_owned() }));
    }
    assert_eq!(Machine::default().run(create("home")), Err(FileVolumeError::NoDevice));
}
