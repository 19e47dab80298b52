//! Checks of stores on simulated disks: each finding, and none where all is well.

use std::collections::BTreeSet;
use std::sync::Arc;

use device::VolumeOwner;
use disk::{Fault, FaultRule, Operation};
use format::blob_header::BlobState;
use manager::{FoundImage, ImageDevice, ImageHolder, ImageRecord, Redundancy, SnapshotRecord};
use types::limits::BLOCK_BYTES;
use types::{BLOB_BYTES, BlobId, DeviceId, ImageEpoch, ImageId, Layer, LayerOf, NodeId, PIECE_BYTES, Pieces, Token};

use super::finding::Difference;
use super::{DeviceBlobs, Finding, ImageCount, Known, MAX_FINDINGS, Report, check, found_images};
use crate::store::layout::slot_start;
use crate::store::tests::support::{Rig, fill, holder, overwrite, pieces};
use crate::stores::{Change, NewBlob};

const IMAGE: ImageId = ImageId(3);
const TOKEN: u64 = 10;
const ONE: DeviceId = DeviceId(1);
const TWO: DeviceId = DeviceId(2);

fn id(index: u32, layer: u32) -> BlobId {
    BlobId { image: IMAGE, index, layer: Layer(layer) }
}

/// Of an image with two parts and one snapshot, closed in order, with a copy of each blob on each of these devices.
fn record(devices: &[DeviceId]) -> ImageRecord {
    let copies = devices.len() as u8;
    let snapshot =
        SnapshotRecord { name: "s".to_owned(), layer: Layer(0), size_bytes: 2 * u64::from(BLOB_BYTES), created_ms: 1 };
    ImageRecord {
        id: IMAGE,
        name: "vm".to_owned(),
        size_bytes: 2 * u64::from(BLOB_BYTES),
        created_ms: 1,
        layer: Layer(1),
        branches: Vec::new(),
        snapshots: vec![snapshot],
        parent: None,
        token: Token(TOKEN),
        holder: None,
        copies,
        devices: devices.iter().map(|device| ImageDevice { device: *device, out_since: None }).collect(),
        epoch: ImageEpoch(1),
        redundancy: Redundancy { hosts: 1, devices: copies },
        short_hosts: Vec::new(),
        is_settled: true,
        removed_ms: None,
        has_losses: false,
        is_purging: false,
    }
}

/// The same, but its last holder did not close it.
fn left_open(record: ImageRecord) -> ImageRecord {
    ImageRecord { holder: Some(ImageHolder { node: NodeId(1), since_ms: 1, is_keeper: false }), ..record }
}

/// A part that a snapshot has as well, and one that is new.
async fn used(device: DeviceId) -> Rig {
    let rig = Rig::numbered(device.0).await;
    rig.enter(holder(IMAGE.0, TOKEN)).await;
    for blob in [id(0, 0), id(0, 1), id(1, 1)] {
        rig.create(holder(IMAGE.0, TOKEN), blob, fill(blob, 0..2, 1)).await;
    }
    rig
}

async fn read(rigs: &[&Rig]) -> Vec<DeviceBlobs> {
    let mut devices = Vec::new();
    for rig in rigs {
        devices.push(DeviceBlobs::read(rig.device.volume(VolumeOwner::Images)).await.expect("reads"));
    }
    devices
}

async fn report(record: ImageRecord, rigs: &[&Rig]) -> Report {
    let known = Known { records: [(record.id, Arc::new(record))].into(), next: ImageId(5) };
    check(&known, &read(rigs).await).await
}

async fn findings(record: ImageRecord, rigs: &[&Rig]) -> Vec<Finding> {
    report(record, rigs).await.findings
}

/// The wrong ones and the notes among findings are as many.
fn are_wrong(findings: &[Finding]) -> Vec<bool> {
    assert!(findings.iter().all(|finding| !finding.to_string().is_empty()));
    findings.iter().map(Finding::is_wrong).collect()
}

fn ruin(rig: &Rig, block: u32, slot: u64) {
    (0..200).for_each(|_| rig.disk.corrupt_at_rest(rig.slot_place(block, slot), 512));
}

#[tokio::test(start_paused = true)]
async fn equal_copies_are_well_and_counted() {
    let (one, two) = (used(ONE).await, used(TWO).await);
    let report = report(record(&[ONE, TWO]), &[&one, &two]).await;
    assert_eq!((report.findings, report.wrong, report.untold), (Vec::new(), 0, 0));
    assert_eq!(report.images, [ImageCount { image: IMAGE, blobs: 6, pieces: 12 }]);
    assert_eq!(report.images[0].bytes(), 12 * u64::from(PIECE_BYTES));
    assert_eq!(report.compared_bytes, 12 * u64::from(PIECE_BYTES));
}

#[tokio::test(start_paused = true)]
async fn an_image_without_blobs_is_well() {
    let rig = Rig::numbered(1).await;
    let report = report(ImageRecord { devices: Vec::new(), ..record(&[ONE]) }, &[&rig]).await;
    assert_eq!(report.findings, []);
    assert_eq!(report.images, [ImageCount { image: IMAGE, blobs: 0, pieces: 0 }]);
}

#[tokio::test(start_paused = true)]
async fn a_block_without_a_header_is_wrong_and_named() {
    let rig = used(ONE).await;
    ruin(&rig, 1, 1);
    let found = findings(record(&[ONE]), &[&rig]).await;
    assert_eq!(found, [Finding::Damaged { device: ONE, block: 1 }]);
    assert_eq!(are_wrong(&found), [true]);
}

#[tokio::test(start_paused = true)]
async fn a_header_that_rots_is_wrong_only_if_no_power_cut_can_have_torn_it() {
    let rig = used(ONE).await;
    let at = rig.rows(IMAGE.0)[2].at;
    rig.change(holder(IMAGE.0, TOKEN), at, fill(at.id, 5..6, 1)).await;
    ruin(&rig, at.block, 0);
    let fell_back = |is_rot| Finding::FellBack { device: ONE, block: at.block, id: Some(at.id), is_rot };
    let closed = record(&[ONE]);
    let taken_over = ImageRecord { token: Token(TOKEN + 1), ..closed.clone() };
    let unsettled = ImageRecord { is_settled: false, ..closed.clone() };
    for (record, is_rot) in [(closed.clone(), true), (left_open(closed), false), (taken_over, false), (unsettled, false)] {
        let found = findings(record, &[&rig]).await;
        assert_eq!(found, [fell_back(is_rot)]);
        assert_eq!(are_wrong(&found), [is_rot]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_blob_in_two_blocks_is_wrong() {
    let rig = used(ONE).await;
    // The header of block 0 is copied to a block that was free.
    let spare = rig.create(holder(IMAGE.0, TOKEN), id(7, 1), Change::default()).await;
    let mut header = format::blob_header::BlobHeader::decode(&rig.disk.peek(rig.slot_place(0, 1), 4096)).expect("a header");
    header.block = spare.block;
    header.serial = 3;
    let volume = rig.device.volume(VolumeOwner::Images);
    let buf = crate::store::layout::padded(&header.encode());
    volume.write(slot_start(spare.block, 1), buf).await.expect("writes");
    let found = findings(record(&[ONE]), &[&rig]).await;
    // The other slot is empty, so that this one counts less.
    assert_eq!(found, [Finding::Double { device: ONE, block: spare.block, id: id(0, 0) }]);
    assert_eq!(are_wrong(&found), [true]);
}

#[tokio::test(start_paused = true)]
async fn blobs_without_a_record_are_of_a_purged_image_or_of_one_that_is_lost() {
    let rig = used(ONE).await;
    let devices = read(&[&rig]).await;
    let count = ImageCount { image: IMAGE, blobs: 3, pieces: 6 };
    for (next, expected) in [(4, Finding::Purged(count)), (3, Finding::Unrecorded { parts: 2, count })] {
        let known = Known { records: Default::default(), next: ImageId(next) };
        let report = check(&known, &devices).await;
        assert_eq!(report.images, [count]);
        assert_eq!(report.findings, [expected]);
        assert_eq!(are_wrong(&report.findings), [next == 3]);
        assert_eq!(report.wrong, u64::from(next == 3));
    }
}

#[tokio::test(start_paused = true)]
async fn a_device_that_the_record_does_not_use_and_a_layer_that_it_does_not_have_are_wrong() {
    let (one, two) = (used(ONE).await, used(TWO).await);
    let found = findings(ImageRecord { layer: Layer(0), snapshots: Vec::new(), ..record(&[ONE]) }, &[&one, &two]).await;
    let later = |index| Finding::LaterLayer { id: id(index, 1), device: ONE, newest: Layer(0) };
    assert_eq!(found, [later(0), later(1), Finding::UnusedDevice { image: IMAGE, device: TWO, blobs: 3 }]);
    assert_eq!(are_wrong(&found), [true; 3]);
}

#[tokio::test(start_paused = true)]
async fn blobs_that_no_view_needs_are_noted() {
    let rig = used(ONE).await;
    let found = findings(ImageRecord { snapshots: Vec::new(), ..record(&[ONE]) }, &[&rig]).await;
    assert_eq!(found, [Finding::Unneeded { image: IMAGE, blobs: 1 }]);
    assert_eq!(are_wrong(&found), [false]);
}

#[tokio::test(start_paused = true)]
async fn a_missing_copy_is_wrong_unless_its_layer_was_being_written() {
    let (one, two) = (used(ONE).await, used(TWO).await);
    let rows = two.rows(IMAGE.0);
    for index in [0, 2] {
        two.free(holder(IMAGE.0, TOKEN), rows[index].at).await;
    }
    let few = |id, may_be| Finding::FewCopies { id, found: 1, least: 2, may_be };
    let both = record(&[ONE, TWO]);
    let found = findings(both.clone(), &[&one, &two]).await;
    assert_eq!(found, [few(id(0, 0), false), few(id(1, 1), false)]);
    assert_eq!(are_wrong(&found), [true; 2]);
    let found = findings(left_open(both.clone()), &[&one, &two]).await;
    assert_eq!(found, [few(id(0, 0), false), few(id(1, 1), true)]);
    assert_eq!(are_wrong(&found), [true, false]);
    let found = findings(ImageRecord { redundancy: Redundancy { hosts: 1, devices: 1 }, ..both.clone() }, &[&one, &two]).await;
    assert_eq!(found, [Finding::Wanting { image: IMAGE, blobs: 2, wanted: 2 }]);
    assert_eq!(are_wrong(&found), [false]);
    // A device that is not there may have what is missing.
    assert_eq!(findings(both, &[&one]).await, []);
}

#[tokio::test(start_paused = true)]
async fn copies_that_do_not_count_are_noted_and_not_compared() {
    let (one, two) = (used(ONE).await, used(TWO).await);
    let at = two.rows(IMAGE.0)[0].at;
    two.change(holder(IMAGE.0, TOKEN), at, overwrite(at.id, 0, BLOCK_BYTES, 9)).await;
    let mut out = ImageRecord { redundancy: Redundancy { hosts: 1, devices: 1 }, ..record(&[ONE, TWO]) };
    out.devices[1].out_since = Some(ImageEpoch(1));
    let partial = NewBlob { id: id(1, 0), state: BlobState::Partial, parent: None };
    one.store.create(holder(IMAGE.0, TOKEN), partial, Change::default()).await.expect("there is space");
    let report = report(out, &[&one, &two]).await;
    let expected = [Finding::Uncounted { image: IMAGE, copies: 4 }, Finding::Wanting { image: IMAGE, blobs: 3, wanted: 2 }];
    assert_eq!(report.findings, expected);
    assert_eq!((are_wrong(&report.findings), report.compared_bytes), (vec![false; 2], 0));
}

#[tokio::test(start_paused = true)]
async fn copies_that_differ_are_wrong_unless_their_layer_was_being_written() {
    let (one, two) = (used(ONE).await, used(TWO).await);
    let rows = two.rows(IMAGE.0);
    for (at, offset) in [(rows[0].at, PIECE_BYTES + 8192), (rows[0].at, 4096), (rows[2].at, 0)] {
        two.change(holder(IMAGE.0, TOKEN), at, overwrite(at.id, offset, BLOCK_BYTES, 9)).await;
    }
    two.change(holder(IMAGE.0, TOKEN), rows[2].at, fill(rows[2].at.id, 9..10, 1)).await;
    let different = |id, pieces, blocks, first, may_be| Finding::Different {
        id,
        devices: [ONE, TWO],
        difference: Difference { pieces, blocks, first },
        may_be,
    };
    for may_be in [false, true] {
        let both = record(&[ONE, TWO]);
        let found = findings(if may_be { left_open(both) } else { both }, &[&one, &two]).await;
        let ended = different(id(0, 0), 0, 2, Some(4096), false);
        assert_eq!(found, [ended, different(id(1, 1), 1, 1, Some(0), may_be)]);
        assert_eq!(are_wrong(&found), [true, !may_be]);
    }
}

/// A holder that ended may have been filling a piece with what it reads as anyway.
#[tokio::test(start_paused = true)]
async fn a_piece_that_one_copy_of_an_ended_layer_lacks_is_wrong_only_if_the_image_was_closed() {
    let (one, two) = (used(ONE).await, used(TWO).await);
    let at = two.rows(IMAGE.0)[0].at;
    two.change(holder(IMAGE.0, TOKEN), at, fill(at.id, 9..10, 1)).await;
    let both = record(&[ONE, TWO]);
    for (record, may_be) in [(both.clone(), false), (left_open(both), true)] {
        let difference = Difference { pieces: 1, blocks: 0, first: None };
        let expected = Finding::Different { id: id(0, 0), devices: [ONE, TWO], difference, may_be };
        assert_eq!(findings(record, &[&one, &two]).await, [expected]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_copy_that_can_not_be_read_is_wrong() {
    let (one, two) = (used(ONE).await, used(TWO).await);
    let place = one.slot_place(0, 2);
    one.disk.add_rule(FaultRule::always_in(place..place + 4096, Operation::Read, Fault::Fail));
    let found = findings(record(&[ONE, TWO]), &[&one, &two]).await;
    assert!(matches!(&found[..], [Finding::Unreadable { id: found, device: ONE, .. }] if *found == id(0, 0)), "{found:?}");
    assert_eq!(are_wrong(&found), [true]);
}

#[tokio::test(start_paused = true)]
async fn content_beyond_the_end_and_a_purge_that_was_begun_are_noted() {
    let rig = used(ONE).await;
    let mut cut = record(&[ONE]);
    cut.snapshots.clear();
    cut.layer = Layer(2);
    cut.size_bytes = u64::from(BLOB_BYTES);
    cut.removed_ms = Some(5);
    cut.is_purging = true;
    let found = findings(cut, &[&rig]).await;
    let expected = [
        Finding::Purging { image: IMAGE },
        Finding::Unneeded { image: IMAGE, blobs: 1 },
        Finding::BeyondEnd { image: IMAGE, blobs: 1 },
    ];
    assert_eq!(found, expected);
    assert_eq!(are_wrong(&found), [false; 3]);
}

/// Those that are not kept count all the same.
#[test]
fn findings_beyond_the_limit_are_counted() {
    let mut report = Report::default();
    for block in 0..MAX_FINDINGS as u32 + 7 {
        report.add(Finding::Damaged { device: ONE, block });
    }
    report.add(Finding::Purging { image: IMAGE });
    assert_eq!((report.findings.len(), report.wrong, report.untold), (MAX_FINDINGS, MAX_FINDINGS as u64 + 7, 8));
}

#[tokio::test(start_paused = true)]
async fn what_devices_have_of_an_image_is_found_for_a_record() {
    let (one, two) = (used(ONE).await, used(TWO).await);
    let clone = ImageId(4);
    let parent = LayerOf { image: IMAGE, layer: Layer(0) };
    let mut late = holder(clone.0, 12);
    late.epoch = ImageEpoch(6);
    two.enter(late).await;
    let blob = BlobId { image: clone, index: 8, layer: Layer(2) };
    let new = NewBlob { id: blob, state: BlobState::Whole, parent: Some(parent) };
    let zeroed = Change { zeroed: pieces(0..64), ..Change::default() };
    assert_eq!(zeroed.zeroed, Pieces::ALL);
    two.store.create(late, new, zeroed).await.expect("there is space");
    let found = found_images(&read(&[&one, &two]).await);
    let first = FoundImage {
        id: IMAGE,
        parts: 2,
        layer: Layer(1),
        epoch: ImageEpoch(1),
        parent: None,
        copies: 2,
        devices: BTreeSet::from([ONE, TWO]),
    };
    let second = FoundImage {
        id: clone,
        parts: 9,
        layer: Layer(2),
        epoch: ImageEpoch(6),
        parent: Some(parent),
        copies: 1,
        devices: BTreeSet::from([TWO]),
    };
    assert_eq!(found, [first, second]);
}
