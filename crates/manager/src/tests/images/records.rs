//! The bytes of images, copies of them, and records that can't be.

use std::sync::Arc;

use env::Env;
use kv::{Kv, KvRead, MemoryKv};
use types::{DeviceId, DeviceUuid, ImageEpoch, ImageId, Layer, LayerOf, NodeId, Token};

use super::super::format::hex;
use super::super::machine::Machine;
use super::super::nodes::node;
use super::{MIB, ONE, change, clone, copies_on, create, image, open, record, remove, snapshot, with_holder};
use crate::modules::images::limits::{
    BRANCH_ROOM_BYTES, IMAGE_ROOM_BYTES, MAX_IMAGE_BYTES, MAX_IMAGE_COPIES, MAX_IMAGE_NAME_BYTES, SNAPSHOT_ROOM_BYTES,
};
use crate::{
    Branch, Command, IMPORT_SKIPPED_COMMANDS, IMPORT_SKIPPED_IMAGE_EPOCHS, IMPORT_SKIPPED_IMAGES, IMPORT_SKIPPED_LAYERS,
    ImageDevice, ImageError, ImageHolder, ImageRecord, ImpossibleState, Manager, ManagerError, NewImage, ParentSnapshot,
    Redundancy, RollbackImage, SetDeviceOut, Snapshot, SnapshotRecord, UseDevices, table,
};

#[test]
fn golden_bytes_of_images() {
    let golden = concat!(
        "ac02",       // id
        "04766d2f61", // name
        "80808004",   // size
        "05",         // created
        "03",         // layer
        "010301",     // a branch
        "01017301",   // a snapshot: its name, its layer,
        "80804006",   // its size, when it was made
        "010209",     // parent
        "c801",       // token
        "01040701",   // holder, a keeper
        "03",         // copies
        "02",         // devices:
        "0100",       // one in sync
        "020108",     // one out since epoch 8
        "08",         // epoch
        "0203",       // redundancy
        "0103",       // hosts that are short
        "01",         // settled
        "019003",     // removed
        "00",         // without losses
        "00",         // not being purged
    );
    assert_eq!(hex(&postcard::to_allocvec(&record()).unwrap()), golden);
    let commands: [(Command, &str); 4] = [
        (clone("a", ONE, "s").into(), "0900016180808004034d01010173"),
        (open(ONE, 2, Some(Token(9))).into(), "0902010258010900"),
        (remove(ONE, true).into(), "090901016f"),
        (
            SetDeviceOut {
                id: ONE,
                token: Token(9),
                devices: vec![DeviceId(3)],
                redundancy: copies_on(2),
                short_host: Some(NodeId(4)),
            }
            .into(),
            "090e0109010302020104",
        ),
    ];
    for (command, bytes) in commands {
        assert_eq!(hex(&command.encode()), bytes, "{command:?}");
        assert_eq!(Command::decode(&command.encode()), Ok(command));
    }
    let (machine, _) = with_holder();
    let kv = MemoryKv::new();
    kv.commit(table::batch(&machine.0, table::all_entries(&machine.0))).unwrap();
    let entry = |key: &[u8]| hex(&KvRead::get(&kv, key).unwrap().unwrap());
    assert_eq!(entry(&[2, 16]), "02", "the next image");
    assert_eq!(entry(&[16, 0, 0, 0, 0, 0, 0, 0, 1]), "01036f6e65808080044d00000000070101580003000003030001000000");
    assert_eq!(table::load(&kv).unwrap(), machine.0);
}

/// What they count for is no less than what they can have.
#[test]
fn no_record_is_longer_than_it_counts_for() {
    let bytes = |value: &ImageRecord| postcard::to_allocvec(value).unwrap().len();
    let name = "a".repeat(MAX_IMAGE_NAME_BYTES);
    let bare = ImageRecord {
        id: ImageId(u64::MAX),
        name: name.clone(),
        size_bytes: u64::MAX,
        created_ms: u64::MAX,
        layer: Layer(u32::MAX),
        branches: Vec::new(),
        snapshots: Vec::new(),
        parent: Some(LayerOf { image: ImageId(u64::MAX), layer: Layer(u32::MAX) }),
        token: Token(u64::MAX),
        holder: Some(ImageHolder { node: NodeId(u32::MAX), since_ms: u64::MAX, is_keeper: true }),
        copies: u8::MAX,
        devices: Vec::new(),
        epoch: ImageEpoch(u64::MAX),
        redundancy: copies_on(u8::MAX),
        short_hosts: vec![NodeId(u32::MAX); usize::from(MAX_IMAGE_COPIES)],
        is_settled: true,
        removed_ms: Some(u64::MAX),
        has_losses: true,
        is_purging: true,
    };
    // Lengths of four lists grow to at most five bytes, and the key of the entry is nine.
    assert!(bytes(&bare) + 4 * 4 + 9 <= IMAGE_ROOM_BYTES, "{}", bytes(&bare));
    let snapshot = SnapshotRecord { name, layer: Layer(u32::MAX), size_bytes: MAX_IMAGE_BYTES, created_ms: u64::MAX };
    assert!(postcard::to_allocvec(&snapshot).unwrap().len() <= SNAPSHOT_ROOM_BYTES);
    let branch = Branch { layer: Layer(u32::MAX), base: Layer(u32::MAX) };
    assert_eq!(postcard::to_allocvec(&branch).unwrap().len(), BRANCH_ROOM_BYTES);
}

/// A parent with two snapshots and a branch, its clone, and an image in the trash that has the clone's name.
fn with_everything() -> Machine {
    let (mut machine, token) = with_holder();
    machine.run(UseDevices { id: ONE, token, devices: vec![DeviceId(0), DeviceId(2)] }).unwrap();
    machine
        .run(SetDeviceOut { id: ONE, token, devices: vec![DeviceId(0)], redundancy: copies_on(1), short_host: None })
        .unwrap();
    machine.run(snapshot(ONE, token, "a")).unwrap();
    machine.run(snapshot(ONE, token, "b")).unwrap();
    machine.run(RollbackImage { id: ONE, token, snapshot: "a".to_owned(), ended: None }).unwrap();
    let two = machine.run(create("two")).unwrap().id;
    machine.run(remove(two, false)).unwrap();
    machine.run(clone("two", ONE, "b")).unwrap();
    machine
}

#[test]
fn images_come_back_from_a_copy() {
    let machine = with_everything();
    assert_eq!(machine.0.check(), Ok(()));
    let copy = machine.0.export();
    let read = Snapshot::from_export(&copy).unwrap();
    assert_eq!(read, machine.0);
    assert_eq!(read.export(), copy);
}

/// A copy; then a snapshot, another epoch, another holder and another image; then all managers are lost.
#[test]
fn an_import_gives_out_nothing_of_images_that_may_have_been_given_out() {
    let mut machine = with_everything();
    let copy = machine.0.export();
    let before = image(&machine, ONE);
    machine.run(snapshot(ONE, before.token, "c")).unwrap();
    machine
        .run(SetDeviceOut {
            id: ONE,
            token: before.token,
            devices: vec![DeviceId(0)],
            redundancy: copies_on(1),
            short_host: None,
        })
        .unwrap();
    let taken_over = machine.run(open(ONE, 2, Some(before.token))).unwrap();
    let lost = machine.run(create("lost")).unwrap().id;

    let mut machine = Machine(Snapshot::from_export(&copy).unwrap().skip_lost().unwrap());
    let after = image(&machine, ONE);
    let skipped = ImageRecord {
        layer: Layer(before.layer.0 + IMPORT_SKIPPED_LAYERS),
        epoch: ImageEpoch(before.epoch.0 + IMPORT_SKIPPED_IMAGE_EPOCHS),
        holder: None,
        is_settled: false,
        ..before.clone()
    };
    assert_eq!(after, skipped);
    assert!(after.layer > taken_over.layer && after.epoch > taken_over.epoch);
    // What was written above the lost snapshot is below the newest layer.
    let mut view = std::iter::successors(Some(after.layer), |layer| after.base_of(*layer));
    assert!(view.any(|layer| layer == taken_over.layer));
    let opened = machine.run(open(ONE, 1, None)).unwrap();
    assert!(opened.token > taken_over.token && opened.token.0 > IMPORT_SKIPPED_COMMANDS);
    let next = machine.run(create("next")).unwrap().id;
    assert_eq!(next.0, lost.0 + IMPORT_SKIPPED_IMAGES);
    assert_eq!(machine.0.check(), Ok(()));
}

type Change = fn(&mut Machine);

#[test]
fn impossible_images_are_refused() {
    let changes: Vec<Change> = vec![
        |machine| machine.0.images.next = 3,
        |machine| machine.0.images.next = u64::MAX,
        |machine| change(machine, ONE, |image| image.layer = Layer(u32::MAX)),
        |machine| change(machine, ONE, |image| image.epoch = ImageEpoch(u64::MAX)),
        |machine| change(machine, ONE, |image| image.name = "two".to_owned()),
        |machine| change(machine, ImageId(2), |image| image.removed_ms = None),
        |machine| change(machine, ONE, |image| image.name = "/".to_owned()),
        |machine| change(machine, ONE, |image| image.size_bytes = 1),
        |machine| change(machine, ONE, |image| image.copies = 4),
        |machine| change(machine, ONE, |image| image.redundancy = copies_on(0)),
        |machine| change(machine, ONE, |image| image.redundancy = copies_on(4)),
        |machine| change(machine, ONE, |image| image.redundancy = Redundancy { hosts: 2, devices: 1 }),
        |machine| change(machine, ONE, |image| image.short_hosts = vec![NodeId(1); usize::from(image.copies)]),
        |machine| change(machine, ONE, |image| image.layer = Layer(1)),
        |machine| change(machine, ONE, |image| image.snapshots[0].name = "b".to_owned()),
        |machine| change(machine, ONE, |image| image.snapshots[0].name = "a@b".to_owned()),
        |machine| change(machine, ONE, |image| image.snapshots[0].size_bytes = 1),
        |machine| change(machine, ONE, |image| image.snapshots.reverse()),
        |machine| change(machine, ONE, |image| _ = image.snapshots.pop()),
        |machine| change(machine, ONE, |image| image.branches[0].base = image.branches[0].layer),
        |machine| change(machine, ONE, |image| image.branches[0].layer.0 += 1),
        |machine| change(machine, ONE, |image| image.branches.push(image.branches[0])),
        |machine| change(machine, ONE, |image| image.parent = Some(LayerOf { image: ImageId(3), layer: Layer(0) })),
        |machine| change(machine, ONE, |image| image.token = Token(1 << 20)),
        |machine| change(machine, ONE, |image| image.token = Token(0)),
        |machine| change(machine, ONE, |image| image.removed_ms = Some(1)),
        |machine| change(machine, ONE, |image| image.devices.reverse()),
        |machine| change(machine, ONE, |image| image.devices[1] = ImageDevice { device: DeviceId(9), out_since: None }),
        |machine| change(machine, ONE, |image| image.devices[1].out_since = Some(ImageEpoch(2))),
        |machine| _ = machine.0.images.records_mut().remove(&ONE),
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let mut machine = with_everything();
        change(&mut machine);
        assert!(machine.0.check().is_err(), "change {number}");
        assert!(Snapshot::from_export(&machine.0.export()).is_err(), "change {number}");
    }
    let mut machine = with_everything();
    change(&mut machine, ImageId(3), |image| image.parent = Some(LayerOf { image: ONE, layer: Layer(2) }));
    let what = "a parent that there is not";
    assert_eq!(machine.0.check(), Err(ImpossibleState::Record { kind: "image", key: "ImageId(3)".to_owned(), what }));
    // A record under another's key.
    let mut machine = with_everything();
    let moved = ImageRecord { id: ImageId(2), ..image(&machine, ONE) };
    machine.0.images.records_mut().insert(ONE, Arc::new(moved));
    assert!(Snapshot::from_export(&machine.0.export()).is_err());
}

/// Each method asks for what its name says, dated now.
#[tokio::test(start_paused = true)]
async fn a_manager_does_it_all() {
    let env = Env::simulated(1);
    let manager = Manager::open_in_memory(&env).await.unwrap();
    let member = manager.register_node(node(1)).await.unwrap().id;
    let device = |number| manager.add_device(DeviceUuid([number; 16]), "/dev/x", 1 << 40);
    let devices = vec![device(1).await.unwrap().id, device(2).await.unwrap().id];
    let new = |name: &str, parent| NewImage { name: name.to_owned(), size_bytes: 4 * MIB, copies: 2, parent };
    let now_ms = env.wall_clock_ms();
    let made = manager.create_image(new("one", None)).await.unwrap();
    let id = made.id;
    assert_eq!((made.copies, made.created_ms), (2, now_ms));
    assert_eq!(manager.rename_image(id, "uno").await.unwrap().name, "uno");
    let first = manager.open_image(id, member, None).await.unwrap();
    assert_eq!(first.holder, Some(ImageHolder { node: member, since_ms: now_ms, is_keeper: false }));
    let token = manager.open_image(id, member, Some(first.token)).await.unwrap().token;
    let stale = manager.close_image(id, first.token, true).await.unwrap_err();
    assert_eq!(stale, ManagerError::Refused(ImageError::OtherToken { found: token }));
    assert_eq!(manager.use_image_devices(id, token, devices.clone()).await.unwrap().devices.len(), 2);
    let out = manager.set_image_devices_out(id, token, vec![devices[0]], copies_on(1), None).await.unwrap();
    assert_eq!((out.epoch, out.redundancy), (ImageEpoch(1), copies_on(1)));
    assert_eq!(manager.set_image_device_in(id, token, devices[0], copies_on(2)).await.unwrap().redundancy, copies_on(2));
    assert_eq!(manager.snapshot_image(id, token, "a", Layer(0)).await.unwrap().snapshots[0].created_ms, now_ms);
    assert_eq!(manager.resize_image(id, Some(token), MIB).await.unwrap().size_bytes, MIB);
    let back = manager.rollback_image(id, token, "a", Layer(1)).await.unwrap();
    assert_eq!((back.size_bytes, back.layer), (4 * MIB, Layer(2)));
    let parent = ParentSnapshot { image: id, snapshot: "a".to_owned() };
    let clone = manager.create_image(new("clone", Some(parent))).await.unwrap().id;
    let of_clone = manager.open_image(clone, member, None).await.unwrap().token;
    assert_eq!(manager.flatten_image(clone, of_clone).await.unwrap().parent, None);
    assert_eq!(manager.unlock_image(clone, of_clone).await.unwrap().holder, None);
    assert!(manager.remove_image_snapshot(id, "a").await.unwrap().snapshots.is_empty());
    assert_eq!(manager.close_image(id, token, true).await.unwrap().holder, None);
    assert_eq!(manager.remove_image(id, false).await.unwrap().removed_ms, Some(now_ms));
    assert_eq!(manager.restore_image(id, "one").await.unwrap().removed_ms, None);
    manager.remove_image(id, false).await.unwrap();
    manager.purge_image(id).await.unwrap();
    assert_eq!(manager.snapshot().images().map(|image| image.id).collect::<Vec<_>>(), [clone]);
}
