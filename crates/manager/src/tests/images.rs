//! Block images: their lives, and which node has them open.

mod devices;
mod layers;
mod records;
mod recover;

use std::sync::Arc;

use types::{DeviceId, DeviceUuid, ErrorKind, ImageEpoch, ImageId, Layer, LayerOf, NodeId, Token};

use super::machine::Machine;
use super::nodes::node;
use crate::modules::images::limits::{
    IMAGE_ROOM_BYTES, MAX_CLONE_DEPTH, MAX_IMAGE_BYTES, MAX_IMAGE_NAME_BYTES, MAX_IMAGES, MAX_IMAGES_BYTES, MIN_IMAGE_BYTES,
    SNAPSHOT_ROOM_BYTES,
};
use crate::operation::Refusal;
use crate::{
    AddDevice, BeginPurge, Branch, CloseImage, CreateImage, FlattenImage, ImageDevice, ImageError, ImageHolder, ImageRecord,
    InvalidImageName, OpenImage, ParentSnapshot, PurgeImage, Redundancy, RemoveImage, RemoveImageSnapshot, RenameImage,
    ResizeImage, RestoreImage, RollbackImage, SetDeviceIn, SetDeviceOut, SnapshotImage, SnapshotRecord, UnlockImage,
    UseDevices, check_image_name,
};

const MIB: u64 = 1 << 20;

/// The first image of a machine.
const ONE: ImageId = ImageId(1);

/// One with something in each of its fields.
pub(super) fn record() -> ImageRecord {
    ImageRecord {
        id: ImageId(300),
        name: "vm/a".to_owned(),
        size_bytes: 8 * MIB,
        created_ms: 5,
        layer: Layer(3),
        branches: vec![Branch { layer: Layer(3), base: Layer(1) }],
        snapshots: vec![SnapshotRecord { name: "s".to_owned(), layer: Layer(1), size_bytes: MIB, created_ms: 6 }],
        parent: Some(LayerOf { image: ImageId(2), layer: Layer(9) }),
        token: Token(200),
        holder: Some(ImageHolder { node: NodeId(4), since_ms: 7, is_keeper: true }),
        copies: 3,
        devices: vec![
            ImageDevice { device: DeviceId(1), out_since: None },
            ImageDevice { device: DeviceId(2), out_since: Some(ImageEpoch(8)) },
        ],
        epoch: ImageEpoch(8),
        redundancy: Redundancy { hosts: 2, devices: 3 },
        short_hosts: vec![NodeId(3)],
        is_settled: true,
        removed_ms: Some(400),
        has_losses: false,
        is_purging: false,
    }
}

fn copies_on(devices: u8) -> Redundancy {
    Redundancy { hosts: devices, devices }
}

fn create(name: &str) -> CreateImage {
    CreateImage { name: name.to_owned(), size_bytes: 8 * MIB, copies: 3, created_ms: 77, parent: None }
}

fn clone(name: &str, image: ImageId, snapshot: &str) -> CreateImage {
    CreateImage { parent: Some(ParentSnapshot { image, snapshot: snapshot.to_owned() }), ..create(name) }
}

fn open(id: ImageId, node: u32, expected: Option<Token>) -> OpenImage {
    OpenImage { id, node: NodeId(node), since_ms: 88, expected, as_keeper: false }
}

fn keep(id: ImageId, node: u32, expected: Option<Token>) -> OpenImage {
    OpenImage { as_keeper: true, ..open(id, node, expected) }
}

fn snapshot(id: ImageId, token: Token, name: &str) -> SnapshotImage {
    SnapshotImage { id, token, name: name.to_owned(), created_ms: 99, ended: None }
}

fn remove(id: ImageId, with_snapshots: bool) -> RemoveImage {
    RemoveImage { id, with_snapshots, removed_ms: 111 }
}

fn restore(id: ImageId, name: &str) -> RestoreImage {
    RestoreImage { id, name: name.to_owned() }
}

/// Two nodes, three devices, and the image `one`, which is closed.
fn with_image() -> Machine {
    let mut machine = Machine::default();
    for number in 1..=2 {
        machine.run(node(number)).unwrap();
    }
    for number in 0..3 {
        let add = AddDevice { uuid: DeviceUuid([number; 16]), path: "/dev/x".to_owned(), capacity_bytes: 9 };
        machine.run(add).unwrap();
    }
    machine.run(create("one")).unwrap();
    machine
}

/// As [`with_image`], open on node 1.
fn with_holder() -> (Machine, Token) {
    let mut machine = with_image();
    let token = machine.run(open(ONE, 1, None)).unwrap().token;
    (machine, token)
}

fn image(machine: &Machine, id: ImageId) -> ImageRecord {
    ImageRecord::clone(machine.0.image(id).unwrap())
}

/// Changes a record past the commands.
fn change(machine: &mut Machine, id: ImageId, change: impl FnOnce(&mut ImageRecord)) {
    change(Arc::make_mut(machine.0.images.records_mut().get_mut(&id).unwrap()));
}

#[test]
fn names_that_are_allowed_and_refused() {
    let longest = "a".repeat(MAX_IMAGE_NAME_BYTES);
    for name in ["a", "A.b_c-d/9", "-a", "_", "a/", "a..b", &longest] {
        assert_eq!(check_image_name(name), Ok(()), "{name}");
    }
    let longer = "a".repeat(MAX_IMAGE_NAME_BYTES + 1);
    for name in ["", &longer] {
        assert_eq!(check_image_name(name), Err(InvalidImageName::Length { found: name.len() }));
    }
    for (name, found) in [("a@b", '@'), ("a b", ' '), ("b\u{fc}cher", '\u{fc}'), ("a\n", '\n'), ("a:b", ':')] {
        assert_eq!(check_image_name(name), Err(InvalidImageName::Character { found }), "{name}");
    }
    for name in [".a", "/a", "."] {
        assert_eq!(check_image_name(name), Err(InvalidImageName::Start), "{name}");
    }
    assert_eq!(check_image_name("a//b"), Err(InvalidImageName::Slashes));
}

#[test]
fn an_image_begins_closed_and_empty() {
    let mut machine = with_image();
    let expected = ImageRecord {
        id: ONE,
        name: "one".to_owned(),
        size_bytes: 8 * MIB,
        created_ms: 77,
        layer: Layer(0),
        branches: Vec::new(),
        snapshots: Vec::new(),
        parent: None,
        token: Token(0),
        holder: None,
        copies: 3,
        devices: Vec::new(),
        epoch: ImageEpoch(0),
        redundancy: copies_on(3),
        short_hosts: Vec::new(),
        is_settled: true,
        removed_ms: None,
        has_losses: false,
        is_purging: false,
    };
    assert_eq!(image(&machine, ONE), expected);
    assert_eq!(machine.0.image_named("one").unwrap().id, ONE);
    assert_eq!(machine.run(create("two")).unwrap().id, ImageId(2));
    assert_eq!(machine.0.images().map(|image| image.id.0).collect::<Vec<_>>(), [1, 2]);
    let taken = ImageError::AlreadyExists { id: ONE, name: "one".to_owned() };
    assert_eq!(machine.run(create("one")), Err(taken.clone()));
    assert_eq!(taken.kind(), ErrorKind::Conflict);
    assert_eq!(machine.run(create("")), Err(ImageError::Name(InvalidImageName::Length { found: 0 })));
    for found in [0, MIN_IMAGE_BYTES - 512, MIN_IMAGE_BYTES + 1, MAX_IMAGE_BYTES + 512] {
        assert_eq!(machine.run(CreateImage { size_bytes: found, ..create("three") }), Err(ImageError::Size { found }));
    }
    for found in [0, 4] {
        assert_eq!(machine.run(CreateImage { copies: found, ..create("three") }), Err(ImageError::Copies { found }));
    }
    machine.run(CreateImage { size_bytes: MIN_IMAGE_BYTES, ..create("least") }).unwrap();
    machine.run(CreateImage { size_bytes: MAX_IMAGE_BYTES, copies: 1, ..create("most") }).unwrap();
}

#[test]
fn an_image_gets_another_name_while_it_is_closed() {
    let (mut machine, token) = with_holder();
    machine.run(create("two")).unwrap();
    let held = ImageError::Held { node: NodeId(1), token, since_ms: 88 };
    assert_eq!(machine.run(RenameImage { id: ONE, name: "uno".to_owned() }), Err(held));
    machine.run(CloseImage { id: ONE, token, is_settled: true }).unwrap();
    let rename = |id, name: &str| RenameImage { id, name: name.to_owned() };
    let taken = ImageError::AlreadyExists { id: ImageId(2), name: "two".to_owned() };
    assert_eq!(machine.run(rename(ONE, "two")), Err(taken));
    assert_eq!(machine.run(rename(ONE, "/")), Err(ImageError::Name(InvalidImageName::Start)));
    assert_eq!(machine.run(rename(ImageId(9), "x")), Err(ImageError::NotFound { id: ImageId(9) }));
    let before = image(&machine, ONE);
    assert_eq!(*machine.run(rename(ONE, "one")).unwrap(), before);
    let renamed = machine.run(rename(ONE, "uno")).unwrap();
    assert_eq!((renamed.name.as_str(), renamed.token), ("uno", token));
    assert_eq!((machine.0.image_named("one"), machine.0.image_named("uno")), (None, Some(&renamed)));
    machine.run(create("one")).unwrap();
}

#[test]
fn one_node_has_an_image_open() {
    let mut machine = with_image();
    assert_eq!(machine.run(open(ONE, 3, None)), Err(ImageError::NoSuchNode { node: NodeId(3) }));
    assert_eq!(machine.run(open(ImageId(2), 1, None)), Err(ImageError::NotFound { id: ImageId(2) }));
    let opened = machine.run(open(ONE, 1, None)).unwrap();
    let token = opened.token;
    assert_eq!(token.0, machine.0.applied().0, "the index of the command");
    assert_eq!(opened.holder, Some(ImageHolder { node: NodeId(1), since_ms: 88, is_keeper: false }));
    let held = ImageError::Held { node: NodeId(1), token, since_ms: 88 };
    for node in [1, 2] {
        assert_eq!(machine.run(open(ONE, node, None)), Err(held.clone()));
    }
    let other = Token(token.0 - 1);
    assert_eq!(
        machine.run(CloseImage { id: ONE, token: other, is_settled: true }),
        Err(ImageError::OtherToken { found: token })
    );
    let closed = machine.run(CloseImage { id: ONE, token, is_settled: true }).unwrap();
    assert_eq!((closed.holder, closed.token), (None, token));
    assert_eq!(machine.run(CloseImage { id: ONE, token, is_settled: true }), Err(ImageError::Closed));
    assert!(machine.run(open(ONE, 2, None)).unwrap().token > token);
}

#[test]
fn an_image_is_taken_over_from_the_holder_that_was_seen() {
    let (mut machine, first) = with_holder();
    let second = machine.run(open(ONE, 2, Some(first))).unwrap();
    assert!(second.token > first);
    assert_eq!(second.holder.unwrap().node, NodeId(2));
    let found = second.token;
    assert_eq!(machine.run(open(ONE, 1, Some(first))), Err(ImageError::OtherToken { found }), "another was faster");
    assert_eq!(machine.run(snapshot(ONE, first, "a")), Err(ImageError::OtherToken { found }));
    // The second holder closes the image: its token is the one that counts.
    machine.run(CloseImage { id: ONE, token: found, is_settled: true }).unwrap();
    assert_eq!(machine.run(open(ONE, 1, Some(first))), Err(ImageError::OtherToken { found }));
    machine.run(open(ONE, 1, Some(found))).unwrap();
}

#[test]
fn a_keeper_makes_way() {
    let mut machine = with_image();
    let kept = machine.run(keep(ONE, 1, None)).unwrap();
    assert!(kept.holder.unwrap().is_keeper && kept.is_settled);
    let held = ImageError::Held { node: NodeId(1), token: kept.token, since_ms: 88 };
    assert_eq!(machine.run(keep(ONE, 2, None)), Err(held), "one keeper is enough");
    // What is done with closed images is done beside it.
    machine.run(RenameImage { id: ONE, name: "renamed".to_owned() }).unwrap();
    assert!(machine.run(ResizeImage { id: ONE, token: None, size_bytes: 16 * MIB }).unwrap().holder.is_some());
    let opened = machine.run(open(ONE, 2, None)).unwrap();
    assert!(opened.token > kept.token && opened.is_settled && !opened.holder.unwrap().is_keeper);
    let late = CloseImage { id: ONE, token: kept.token, is_settled: true };
    assert_eq!(machine.run(late), Err(ImageError::OtherToken { found: opened.token }));
    assert!(machine.run(keep(ONE, 1, None)).is_err(), "in use");
    // A holder that is gone is followed by a keeper, and copies may differ since.
    let kept = machine.run(keep(ONE, 1, Some(opened.token))).unwrap();
    assert!(!kept.is_settled);
    let unlocked = machine.run(UnlockImage { id: ONE, token: kept.token }).unwrap();
    assert_eq!((unlocked.holder, unlocked.is_settled), (None, false));
    let kept = machine.run(keep(ONE, 1, None)).unwrap();
    machine.run(CloseImage { id: ONE, token: kept.token, is_settled: true }).unwrap();
    let kept = machine.run(keep(ONE, 1, None)).unwrap();
    let removed = machine.run(remove(ONE, false)).unwrap();
    assert_eq!((removed.holder, removed.is_settled), (None, true));
    assert_eq!(
        machine
            .run(SetDeviceOut { id: ONE, token: kept.token, devices: vec![], redundancy: copies_on(1), short_host: None })
            .map(drop),
        Err(ImageError::Trashed { id: ONE })
    );
}

#[test]
fn an_unlocked_holder_is_over() {
    let (mut machine, token) = with_holder();
    let stale = UnlockImage { id: ONE, token: Token(token.0 - 1) };
    assert_eq!(machine.run(stale), Err(ImageError::OtherToken { found: token }));
    let unlocked = machine.run(UnlockImage { id: ONE, token }).unwrap();
    assert_eq!((unlocked.holder, unlocked.token.0), (None, machine.0.applied().0));
    assert_eq!(machine.run(UnlockImage { id: ONE, token }), Err(ImageError::Closed));
    assert_eq!(machine.run(CloseImage { id: ONE, token, is_settled: true }), Err(ImageError::Closed));
    let next = machine.run(open(ONE, 2, None)).unwrap().token;
    assert_eq!(machine.run(CloseImage { id: ONE, token, is_settled: true }), Err(ImageError::OtherToken { found: next }));
}

type Ask = fn(&mut Machine, Token) -> Result<(), ImageError>;

/// Each is refused from a closed image and from another holder, and changes nothing then.
#[test]
fn what_a_holder_asks_names_its_token() {
    let asked: [Ask; 9] = [
        |machine, token| machine.run(CloseImage { id: ONE, token, is_settled: true }).map(drop),
        |machine, token| machine.run(UnlockImage { id: ONE, token }).map(drop),
        |machine, token| machine.run(ResizeImage { id: ONE, token: Some(token), size_bytes: MIB }).map(drop),
        |machine, token| machine.run(snapshot(ONE, token, "b")).map(drop),
        |machine, token| machine.run(RollbackImage { id: ONE, token, snapshot: "a".to_owned(), ended: None }).map(drop),
        |machine, token| machine.run(FlattenImage { id: ONE, token }).map(drop),
        |machine, token| machine.run(UseDevices { id: ONE, token, devices: vec![DeviceId(2)] }).map(drop),
        |machine, token| {
            machine
                .run(SetDeviceOut { id: ONE, token, devices: vec![DeviceId(0)], redundancy: copies_on(1), short_host: None })
                .map(drop)
        },
        |machine, token| machine.run(SetDeviceIn { id: ONE, token, device: DeviceId(0), redundancy: copies_on(1) }).map(drop),
    ];
    for (number, ask) in asked.into_iter().enumerate() {
        let (mut machine, token) = with_holder();
        machine.run(UseDevices { id: ONE, token, devices: vec![DeviceId(0), DeviceId(1)] }).unwrap();
        machine.run(snapshot(ONE, token, "a")).unwrap();
        let other = Token(token.0 + 1);
        assert_eq!(ask(&mut machine, other), Err(ImageError::OtherToken { found: token }), "{number}");
        let outcome = ask(&mut machine, token);
        assert!(outcome.is_ok() || outcome == Err(ImageError::NotClone), "{number}: {outcome:?}");
        let (mut machine, token) = with_holder();
        machine.run(CloseImage { id: ONE, token, is_settled: true }).unwrap();
        assert_eq!(ask(&mut machine, token), Err(ImageError::Closed), "{number}");
    }
}

#[test]
fn an_image_changes_its_size() {
    let mut machine = with_image();
    let resize = |token, size_bytes| ResizeImage { id: ONE, token, size_bytes };
    assert_eq!(machine.run(resize(None, 16 * MIB)).unwrap().size_bytes, 16 * MIB);
    assert_eq!(machine.run(resize(None, 8 * MIB)), Err(ImageError::ShrinksClosed));
    assert_eq!(machine.run(resize(None, MIB + 1)), Err(ImageError::Size { found: MIB + 1 }));
    let token = machine.run(open(ONE, 1, None)).unwrap().token;
    let held = ImageError::Held { node: NodeId(1), token, since_ms: 88 };
    assert_eq!(machine.run(resize(None, 32 * MIB)), Err(held));
    assert_eq!(machine.run(resize(Some(token), 2 * MIB)).unwrap().size_bytes, 2 * MIB);
}

#[test]
fn what_is_in_the_trash_comes_back_or_is_forgotten() {
    let (mut machine, token) = with_holder();
    machine.run(snapshot(ONE, token, "a")).unwrap();
    let held = ImageError::Held { node: NodeId(1), token, since_ms: 88 };
    assert_eq!(machine.run(remove(ONE, true)), Err(held));
    machine.run(CloseImage { id: ONE, token, is_settled: true }).unwrap();
    assert_eq!(machine.run(remove(ONE, false)), Err(ImageError::Snapshots { count: 1 }));
    assert_eq!(machine.run(PurgeImage { id: ONE }), Err(ImageError::NotTrashed { id: ONE }));
    assert_eq!(machine.run(restore(ONE, "one")), Err(ImageError::NotTrashed { id: ONE }));
    let before = image(&machine, ONE);
    assert_eq!(machine.run(remove(ONE, true)).unwrap().removed_ms, Some(111));
    assert_eq!(machine.0.image_named("one"), None);

    let trashed = ImageError::Trashed { id: ONE };
    assert_eq!(machine.run(remove(ONE, true)), Err(trashed.clone()));
    assert_eq!(machine.run(open(ONE, 1, None)), Err(trashed.clone()));
    assert_eq!(machine.run(open(ONE, 1, Some(token))), Err(trashed.clone()));
    assert_eq!(machine.run(ResizeImage { id: ONE, token: None, size_bytes: 16 * MIB }), Err(trashed.clone()));
    assert_eq!(machine.run(RenameImage { id: ONE, name: "x".to_owned() }), Err(trashed.clone()));
    assert_eq!(machine.run(RemoveImageSnapshot { id: ONE, name: "a".to_owned() }), Err(trashed.clone()));
    assert_eq!(machine.run(clone("two", ONE, "a")), Err(trashed));

    let other = machine.run(create("one")).unwrap().id;
    let taken = ImageError::AlreadyExists { id: other, name: "one".to_owned() };
    assert_eq!(machine.run(restore(ONE, "one")), Err(taken));
    assert_eq!(machine.run(restore(ONE, "")), Err(ImageError::Name(InvalidImageName::Length { found: 0 })));
    let restored = machine.run(restore(ONE, "old")).unwrap();
    assert_eq!(*restored, ImageRecord { name: "old".to_owned(), ..before }, "with its snapshot");

    assert_eq!(machine.run(BeginPurge { id: ONE }).map(drop), Err(ImageError::NotTrashed { id: ONE }));
    machine.run(remove(ONE, true)).unwrap();
    machine.run(BeginPurge { id: ONE }).unwrap();
    assert_eq!(machine.run(restore(ONE, "old")), Err(ImageError::Purging { id: ONE }), "parts of it are gone");
    assert_eq!(machine.0.check(), Ok(()));
    machine.run(PurgeImage { id: ONE }).unwrap();
    assert_eq!(machine.run(PurgeImage { id: ONE }), Err(ImageError::NotFound { id: ONE }));
    assert_eq!(machine.run(restore(ONE, "old")), Err(ImageError::NotFound { id: ONE }));
    assert!(machine.run(create("old")).unwrap().id > other, "an id is for ever");
}

#[test]
fn images_are_few_and_have_little_room() {
    let mut machine = with_image();
    let template = image(&machine, ONE);
    for id in (2..=MAX_IMAGES as u64).map(ImageId) {
        let record = ImageRecord { id, name: format!("image-{}", id.0), ..template.clone() };
        machine.0.images.records_mut().insert(id, Arc::new(record));
    }
    machine.0.images.next = MAX_IMAGES as u64 + 1;
    assert_eq!(machine.0.check(), Ok(()));
    assert_eq!(machine.run(create("more")), Err(ImageError::TooMany));
    assert_eq!(ImageError::TooMany.kind(), ErrorKind::Full);

    let (mut machine, token) = with_holder();
    let most = (MAX_IMAGES_BYTES - 2 * IMAGE_ROOM_BYTES) / SNAPSHOT_ROOM_BYTES;
    let one = SnapshotRecord { name: "s".to_owned(), layer: Layer(0), size_bytes: MIB, created_ms: 0 };
    // As if they were the snapshots of many images.
    let others = ImageRecord { id: ImageId(2), snapshots: vec![one; most - 2], ..image(&machine, ONE) };
    machine.0.images.records_mut().insert(others.id, Arc::new(others));
    machine.run(snapshot(ONE, token, "a")).unwrap();
    machine.run(snapshot(ONE, token, "b")).unwrap();
    assert_eq!(machine.run(snapshot(ONE, token, "c")), Err(ImageError::Room));
    machine.run(RemoveImageSnapshot { id: ONE, name: "a".to_owned() }).unwrap();
    machine.run(snapshot(ONE, token, "c")).unwrap();
}

#[test]
fn rows_of_clones_are_short() {
    let mut machine = with_image();
    let mut last = ONE;
    for depth in 0..=MAX_CLONE_DEPTH {
        let token = machine.run(open(last, 1, None)).unwrap().token;
        machine.run(snapshot(last, token, "a")).unwrap();
        let next = machine.run(clone(&format!("clone-{depth}"), last, "a"));
        assert_eq!(machine.0.check(), Ok(()));
        if depth == MAX_CLONE_DEPTH {
            assert_eq!(next, Err(ImageError::CloneDepth));
            machine.run(FlattenImage { id: last, token }).unwrap();
            machine.run(clone("again", last, "a")).unwrap();
        } else {
            last = next.unwrap().id;
        }
    }
}
