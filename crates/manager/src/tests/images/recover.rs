//! Records for images that a copy of the state lacks, and the devices have.

use std::collections::BTreeSet;

use types::{DeviceId, ImageEpoch, ImageId, Layer, LayerOf, Token};

use super::super::machine::Machine;
use super::{MIB, ONE, create, image, open, remove, snapshot, with_holder, with_image};
use crate::{
    DeviceState, FoundImage, IMPORT_SKIPPED_IMAGES, ImageDevice, ImageRecord, PurgeImage, RecoveredImage, RemoveDevice,
    SetDeviceState, Snapshot,
};

const BLOB: u64 = types::BLOB_BYTES as u64;

fn found(id: u64) -> FoundImage {
    FoundImage {
        id: ImageId(id),
        parts: 5,
        layer: Layer(7),
        epoch: ImageEpoch(9),
        parent: None,
        copies: 2,
        devices: BTreeSet::from([DeviceId(1), DeviceId(2)]),
    }
}

/// What a manager has that begins with the copy.
fn imported(machine: &Machine) -> Machine {
    Machine(Snapshot::from_export(&machine.0.export()).unwrap().skip_lost().unwrap())
}

#[test]
fn an_image_without_a_record_gets_one_and_can_be_opened() {
    let mut machine = with_image();
    machine.run(create("recovered-6")).unwrap();
    let recovered = machine.0.recover_images(&[found(5), found(6)], 123);
    let expected =
        |id, name: &str| RecoveredImage { id: ImageId(id), name: name.to_owned(), size_bytes: 5 * BLOB, lost_parent: None };
    assert_eq!(recovered, [expected(5, "recovered-5"), expected(6, "recovered-6-again")]);
    let mut machine = imported(&machine);
    let record = image(&machine, ImageId(5));
    assert!(record.layer > Layer(7) && record.epoch > ImageEpoch(9));
    assert_eq!((record.copies, record.created_ms, record.is_settled, record.has_losses), (2, 123, false, false));
    assert_eq!(record.devices.len(), 3, "it may have had blobs on each");
    let opened = machine.run(open(ImageId(5), 1, None)).unwrap();
    assert!(opened.token > Token(0));
    assert_eq!(machine.run(create("next")).unwrap().id, ImageId(7 + IMPORT_SKIPPED_IMAGES));
}

#[test]
fn a_device_that_is_given_up_leaves_a_recovered_image_with_losses() {
    let mut machine = with_image();
    machine.0.recover_images(&[found(5)], 123);
    let mut machine = imported(&machine);
    machine.run(SetDeviceState { id: DeviceId(0), state: DeviceState::Failed }).unwrap();
    machine.run(RemoveDevice { id: DeviceId(0) }).unwrap();
    assert!(image(&machine, ImageId(5)).has_losses);
}

#[test]
fn a_known_image_gets_the_devices_and_the_layer_of_its_blobs() {
    let mut machine = with_image();
    let unused = image(&machine, ONE);
    let alien = FoundImage { devices: BTreeSet::from([DeviceId(2), DeviceId(77)]), ..found(1) };
    assert_eq!(machine.0.recover_images(&[alien], 123), []);
    let devices = vec![ImageDevice { device: DeviceId(2), out_since: None }];
    let expected = ImageRecord { devices, layer: Layer(7), epoch: ImageEpoch(9), ..unused };
    assert_eq!(image(&machine, ONE), expected);
    // Older blobs change nothing.
    let older = FoundImage { layer: Layer(2), epoch: ImageEpoch(1), devices: BTreeSet::new(), ..found(1) };
    machine.0.recover_images(&[older], 123);
    assert_eq!(image(&machine, ONE), expected);
    imported(&machine);
}

/// Its blobs are what a purge left.
#[test]
fn an_id_that_was_given_out_before_the_copy_gets_no_record() {
    let mut machine = with_image();
    machine.run(remove(ONE, false)).unwrap();
    machine.run(PurgeImage { id: ONE }).unwrap();
    let before = machine.0.clone();
    assert_eq!(machine.0.recover_images(&[found(1)], 123), []);
    assert_eq!(machine.0, before);
}

#[test]
fn a_clone_keeps_its_parent_and_the_parent_the_layer() {
    let parent = |image, layer| Some(LayerOf { image: ImageId(image), layer: Layer(layer) });
    let (mut machine, token) = with_holder();
    machine.run(snapshot(ONE, token, "a")).unwrap();
    let clones = [
        FoundImage { parent: parent(1, 0), parts: 1, ..found(4) },
        // Of a snapshot that is lost, too, and of an image that is.
        FoundImage { parent: parent(1, 3), ..found(5) },
        FoundImage { parent: parent(5, 7), ..found(6) },
        FoundImage { parent: parent(2, 1), ..found(7) },
    ];
    let recovered = machine.0.recover_images(&clones, 123);
    let sizes: Vec<u64> = recovered.iter().map(|image| image.size_bytes).collect();
    assert_eq!(sizes, [8 * MIB, 5 * BLOB, 5 * BLOB, 5 * BLOB], "a clone is no smaller than the snapshot");
    let lost: Vec<Option<ImageId>> = recovered.iter().map(|image| image.lost_parent).collect();
    assert_eq!(lost, [None, None, None, Some(ImageId(2))]);
    let machine = imported(&machine);
    let parents: Vec<_> = [4, 5, 6, 7].map(|id| image(&machine, ImageId(id)).parent).to_vec();
    assert_eq!(parents, [parent(1, 0), parent(1, 3), parent(5, 7), None]);
    let names = |id| image(&machine, id).snapshots.into_iter().map(|found| (found.name, found.layer)).collect::<Vec<_>>();
    assert_eq!(names(ONE), [("a".to_owned(), Layer(0)), ("recovered-3".to_owned(), Layer(3))]);
    assert_eq!(names(ImageId(5)), [("recovered-7".to_owned(), Layer(7))]);
}
