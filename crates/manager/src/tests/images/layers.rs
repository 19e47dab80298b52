//! Snapshots, rollbacks, clones.

use types::{ErrorKind, ImageId, Layer, LayerOf, Token};

use super::super::machine::Machine;
use super::{MIB, ONE, change, clone, image, open, remove, snapshot, with_holder};
use crate::modules::images::limits::{LAYER_LIMIT, MAX_IMAGE_BRANCHES, MAX_SNAPSHOTS};
use crate::operation::Refusal;
use crate::{
    Branch, CloseImage, CreateImage, FlattenImage, ImageError, ImageRecord, InvalidImageName, PurgeImage, RemoveImageSnapshot,
    ResizeImage, RollbackImage, SnapshotImage, SnapshotRecord,
};

fn rollback(token: Token, snapshot: &str) -> RollbackImage {
    RollbackImage { id: ONE, token, snapshot: snapshot.to_owned(), ended: None }
}

fn remove_snapshot(name: &str) -> RemoveImageSnapshot {
    RemoveImageSnapshot { id: ONE, name: name.to_owned() }
}

fn branches(image: &ImageRecord) -> Vec<(u32, u32)> {
    image.branches.iter().map(|branch| (branch.layer.0, branch.base.0)).collect()
}

fn names(machine: &Machine) -> Vec<(String, u32)> {
    image(machine, ONE).snapshots.iter().map(|snapshot| (snapshot.name.clone(), snapshot.layer.0)).collect()
}

/// The layers that a view of one has, the newest first.
fn view(image: &ImageRecord, layer: u32) -> Vec<u32> {
    std::iter::successors(Some(Layer(layer)), |layer| image.base_of(*layer)).map(|layer| layer.0).collect()
}

#[test]
fn a_snapshot_ends_a_layer() {
    let (mut machine, token) = with_holder();
    let made = machine.run(snapshot(ONE, token, "a")).unwrap();
    let expected = SnapshotRecord { name: "a".to_owned(), layer: Layer(0), size_bytes: 8 * MIB, created_ms: 99 };
    assert_eq!((made.layer, made.snapshot("a")), (Layer(1), Some(&expected)));
    assert_eq!(made.snapshot("b"), None);
    let exists = ImageError::SnapshotExists { name: "a".to_owned() };
    assert_eq!(machine.run(snapshot(ONE, token, "a")), Err(exists));
    assert_eq!(machine.run(snapshot(ONE, token, "a@b")), Err(ImageError::Name(InvalidImageName::Character { found: '@' })));
    machine.run(snapshot(ONE, token, "b")).unwrap();
    assert_eq!(names(&machine), [("a".to_owned(), 0), ("b".to_owned(), 1)]);
    assert_eq!(view(&image(&machine, ONE), 2), [2, 1, 0]);
    machine.run(remove_snapshot("a")).unwrap();
    assert_eq!(machine.run(remove_snapshot("a")), Err(ImageError::NoSuchSnapshot { name: "a".to_owned() }));
    assert_eq!(names(&machine), [("b".to_owned(), 1)]);
    machine.run(snapshot(ONE, token, "a")).unwrap();
    assert_eq!(names(&machine), [("b".to_owned(), 1), ("a".to_owned(), 2)]);
    assert_eq!(machine.0.check(), Ok(()));
}

#[test]
fn a_rollback_begins_a_branch_above_the_snapshot() {
    let (mut machine, token) = with_holder();
    machine.run(snapshot(ONE, token, "a")).unwrap();
    machine.run(ResizeImage { id: ONE, token: Some(token), size_bytes: 2 * MIB }).unwrap();
    machine.run(snapshot(ONE, token, "b")).unwrap();
    assert_eq!(machine.run(rollback(token, "c")), Err(ImageError::NoSuchSnapshot { name: "c".to_owned() }));
    let back = machine.run(rollback(token, "a")).unwrap();
    assert_eq!((back.layer, back.size_bytes, branches(&back)), (Layer(3), 8 * MIB, vec![(3, 0)]));
    assert_eq!((view(&back, 3), view(&back, 1)), (vec![3, 0], vec![1, 0]));
    machine.run(snapshot(ONE, token, "c")).unwrap();
    let back = machine.run(rollback(token, "b")).unwrap();
    assert_eq!((back.layer, back.size_bytes, branches(&back)), (Layer(5), 2 * MIB, vec![(3, 0), (5, 1)]));
    assert_eq!((view(&back, 5), view(&back, 4), view(&back, 3)), (vec![5, 1, 0], vec![4, 3, 0], vec![3, 0]));
    assert_eq!(machine.0.check(), Ok(()));
}

/// Layer 2 was written to after the first rollback, and nothing can read it after the second.
#[test]
fn branches_that_no_view_needs_are_forgotten() {
    let (mut machine, token) = with_holder();
    machine.run(snapshot(ONE, token, "a")).unwrap();
    for layer in 2..100 {
        assert_eq!(branches(&machine.run(rollback(token, "a")).unwrap()), [(layer, 0)]);
    }
    machine.run(snapshot(ONE, token, "b")).unwrap();
    let both = machine.run(rollback(token, "a")).unwrap();
    assert_eq!(branches(&both), [(99, 0), (101, 0)]);
    let one = machine.run(remove_snapshot("b")).unwrap();
    assert_eq!(branches(&one), [(101, 0)], "the snapshot needed the other");
    // A branch below another one: it is needed without a snapshot of its own.
    machine.run(snapshot(ONE, token, "c")).unwrap();
    machine.run(rollback(token, "c")).unwrap();
    let chain = machine.run(remove_snapshot("c")).unwrap();
    assert_eq!(branches(&chain), [(101, 0), (103, 101)]);
    assert_eq!(view(&chain, 103), [103, 101, 0]);
    assert_eq!(machine.0.check(), Ok(()));
}

#[test]
fn snapshots_branches_and_layers_have_limits() {
    let (mut machine, token) = with_holder();
    machine.run(snapshot(ONE, token, "a")).unwrap();
    let before = image(&machine, ONE);
    let record =
        |number: u32| SnapshotRecord { name: format!("s{number}"), layer: Layer(number), ..before.snapshots[0].clone() };
    change(&mut machine, ONE, |image| {
        image.layer = Layer(MAX_SNAPSHOTS as u32);
        image.snapshots = (0..MAX_SNAPSHOTS as u32).map(record).collect();
    });
    assert_eq!(machine.0.check(), Ok(()));
    assert_eq!(machine.run(snapshot(ONE, token, "b")), Err(ImageError::TooManySnapshots));
    machine.run(remove_snapshot("s7")).unwrap();
    machine.run(snapshot(ONE, token, "b")).unwrap();

    let (mut machine, token) = with_holder();
    machine.run(snapshot(ONE, token, "a")).unwrap();
    // One above the other, so that the newest layer needs them all.
    let chain = |number: u32| Branch { layer: Layer(2 * number + 2), base: Layer(2 * number) };
    let newest = Layer(2 * MAX_IMAGE_BRANCHES as u32);
    change(&mut machine, ONE, |image| {
        image.layer = newest;
        image.branches = (0..MAX_IMAGE_BRANCHES as u32).map(chain).collect();
    });
    machine.run(snapshot(ONE, token, "b")).unwrap();
    assert_eq!(machine.0.check(), Ok(()));
    assert_eq!(machine.run(rollback(token, "b")), Err(ImageError::TooManyBranches));
    assert_eq!(ImageError::TooManyBranches.kind(), ErrorKind::Full);
    machine.run(remove_snapshot("b")).unwrap();
    assert_eq!(branches(&machine.run(rollback(token, "a")).unwrap()), [(newest.0 + 2, 0)]);

    change(&mut machine, ONE, |image| image.layer = Layer(LAYER_LIMIT - 2));
    machine.run(snapshot(ONE, token, "c")).unwrap();
    assert_eq!(machine.run(snapshot(ONE, token, "d")), Err(ImageError::TooManyLayers));
    assert_eq!(machine.run(rollback(token, "a")), Err(ImageError::TooManyLayers));
    assert_eq!(machine.0.check(), Ok(()));
}

#[test]
fn a_clone_pins_its_snapshot_and_its_parent() {
    let (mut machine, token) = with_holder();
    machine.run(snapshot(ONE, token, "a")).unwrap();
    machine.run(snapshot(ONE, token, "b")).unwrap();
    machine.run(CloseImage { id: ONE, token, is_settled: true }).unwrap();
    assert_eq!(machine.run(clone("two", ONE, "c")), Err(ImageError::NoSuchSnapshot { name: "c".to_owned() }));
    let nowhere = ImageId(9);
    assert_eq!(machine.run(clone("two", nowhere, "a")), Err(ImageError::NotFound { id: nowhere }));
    let smaller = CreateImage { size_bytes: MIB, ..clone("two", ONE, "a") };
    assert_eq!(machine.run(smaller), Err(ImageError::CloneSize { least: 8 * MIB }));
    let two = machine.run(CreateImage { size_bytes: 9 * MIB, ..clone("two", ONE, "b") }).unwrap();
    assert_eq!((two.parent, two.layer), (Some(LayerOf { image: ONE, layer: Layer(1) }), Layer(0)));
    assert_eq!(machine.0.clones_of(ONE).collect::<Vec<_>>(), [&two]);

    let pinned = ImageError::Cloned { clone: two.id, name: "two".to_owned() };
    assert_eq!(machine.run(remove_snapshot("b")), Err(pinned.clone()));
    machine.run(remove_snapshot("a")).unwrap();
    assert_eq!(machine.run(remove(ONE, true)), Err(pinned.clone()));
    // It could come back.
    machine.run(remove(two.id, false)).unwrap();
    assert_eq!(machine.run(remove_snapshot("b")), Err(pinned.clone()));
    assert_eq!(machine.run(remove(ONE, true)), Err(pinned));
    machine.run(PurgeImage { id: two.id }).unwrap();

    let three = machine.run(clone("three", ONE, "b")).unwrap().id;
    let token = machine.run(open(three, 2, None)).unwrap().token;
    assert_eq!(machine.run(FlattenImage { id: three, token }).unwrap().parent, None);
    assert_eq!(machine.run(FlattenImage { id: three, token }), Err(ImageError::NotClone));
    machine.run(remove_snapshot("b")).unwrap();
    machine.run(remove(ONE, false)).unwrap();
    assert_eq!(machine.0.check(), Ok(()));
}

/// Caught: a rollback whose answer was lost, sent again, and carried out twice: what was written between was gone.
#[test]
fn a_command_that_comes_after_another_ended_its_layer_is_refused() {
    let (mut machine, token) = with_holder();
    machine.run(snapshot(ONE, token, "a")).unwrap();
    let late = RollbackImage { ended: Some(Layer(1)), ..rollback(token, "a") };
    machine.run(late.clone()).unwrap();
    assert_eq!(machine.run(late).map(drop), Err(ImageError::LayerEnded { newest: Layer(2) }));
    let late = SnapshotImage { ended: Some(Layer(1)), ..snapshot(ONE, token, "b") };
    assert_eq!(machine.run(late).map(drop), Err(ImageError::LayerEnded { newest: Layer(2) }));
}
