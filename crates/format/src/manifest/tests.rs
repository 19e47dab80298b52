use proptest::collection::vec;
use proptest::prelude::{Strategy, any, prop_assert, prop_assert_eq, proptest};
use types::{Activation, CellId, DeviceId, Epoch, GatewayId, Generation, Place, Position, Sequence, ZoneIndex, ZoneOffset};

use super::{DeviceLive, IndexPiece, Manifest, NextIds, RecordedTable, RunSummary};
use crate::decode::Fault;
use crate::entry::tests::any_places;
use crate::replicas::Places;
use crate::run_index::RunId;

fn any_points() -> impl Strategy<Value = Vec<(DeviceId, Position)>> {
    let point = any::<(u32, u64, u32)>().prop_map(|(device, activation, offset)| {
        (DeviceId(device), Position { activation: Activation(activation), offset: ZoneOffset(offset) })
    });
    vec(point, 0..4)
}

fn any_run() -> impl Strategy<Value = RunSummary> {
    let piece = (any_places(), any::<u32>()).prop_map(|(places, frame_bytes)| IndexPiece { places, frame_bytes });
    (any::<(u64, u8, u64, u64, u64, u64)>(), vec(piece, 0..4)).prop_map(
        |((run, level, entries, bytes, min_epoch, max_epoch), index)| RunSummary {
            run: RunId(run),
            level,
            entries,
            bytes,
            min_epoch: Epoch(min_epoch),
            max_epoch: Epoch(max_epoch),
            index,
        },
    )
}

fn any_manifest() -> impl Strategy<Value = Manifest> {
    let watermark = any::<(u16, u64)>().prop_map(|(gateway, sequence)| (GatewayId(gateway), Sequence(sequence)));
    let live = (any::<(u32, u32, u64)>(), vec(any::<u8>(), 0..9)).prop_map(|((device, zones_per_share, newest), shares)| {
        DeviceLive { device: DeviceId(device), newest: Activation(newest), zones_per_share, shares }
    });
    let table = (any::<u32>(), vec(any::<u32>().prop_map(DeviceId), 0..4))
        .prop_map(|(generation, devices)| RecordedTable { generation: Generation(generation), devices });
    let lists = (vec(any_run(), 0..4), any_points(), vec(watermark, 0..4), vec(live, 0..4), any_points(), vec(table, 0..3));
    (any::<(u16, u64, u32, u64, u16, u64)>(), lists).prop_map(
        |((cell, epoch, generation, run, gateway, covered), (runs, start, watermarks, live, uploads, tables))| Manifest {
            cell: CellId(cell),
            epoch: Epoch(epoch),
            generation: Generation(generation),
            next: NextIds { run: RunId(run), gateway: GatewayId(gateway) },
            runs,
            start,
            watermarks,
            live,
            uploads,
            covered: Epoch(covered),
            tables,
        },
    )
}

fn reseal(bytes: &mut [u8]) {
    let crc = crc_fast::crc32_iscsi(&bytes[4..]);
    bytes[..4].copy_from_slice(&crc.to_le_bytes());
}

proptest! {
    #[test]
    fn every_manifest_survives_encoding(manifest in any_manifest()) {
        prop_assert_eq!(Manifest::decode(&manifest.encode()).unwrap(), manifest);
    }

    #[test]
    fn any_changed_byte_is_noticed(manifest in any_manifest(), at in any::<proptest::sample::Index>(), change in 1u8..) {
        let mut bytes = manifest.encode();
        let at = at.index(bytes.len());
        bytes[at] ^= change;
        prop_assert!(Manifest::decode(&bytes).is_err());
    }

    /// Behind a right checksum too: a bug elsewhere must not become a panic here.
    #[test]
    fn nonsense_with_a_right_checksum_never_panics(
        manifest in any_manifest(), damage in vec((any::<proptest::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let mut bytes = manifest.encode();
        for (at, value) in damage {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        reseal(&mut bytes);
        if let Ok(read) = Manifest::decode(&bytes) {
            prop_assert_eq!(Manifest::decode(&read.encode()).unwrap(), read);
        }
    }

    #[test]
    fn cut_manifests_are_refused(manifest in any_manifest(), cut in any::<proptest::sample::Index>()) {
        let mut bytes = manifest.encode();
        bytes.truncate(cut.index(bytes.len()));
        if bytes.len() >= 4 {
            reseal(&mut bytes);
        }
        prop_assert!(Manifest::decode(&bytes).is_err());
    }
}

#[test]
fn golden_manifest() {
    let place = Place { device: DeviceId(1), zone: ZoneIndex(2), offset: ZoneOffset(3) };
    let point = |device| (DeviceId(device), Position { activation: Activation(8), offset: ZoneOffset(9) });
    let manifest = Manifest {
        cell: CellId(1),
        epoch: Epoch(2),
        generation: Generation(3),
        next: NextIds { run: RunId(4), gateway: GatewayId(5) },
        runs: vec![RunSummary {
            run: RunId(6),
            level: 7,
            entries: 8,
            bytes: 9,
            min_epoch: Epoch(10),
            max_epoch: Epoch(11),
            index: vec![IndexPiece { places: Places::one(place), frame_bytes: 12 }],
        }],
        start: vec![point(13)],
        watermarks: vec![(GatewayId(14), Sequence(15))],
        live: vec![DeviceLive { device: DeviceId(16), newest: Activation(18), zones_per_share: 17, shares: vec![19, 25] }],
        uploads: vec![point(20)],
        covered: Epoch(21),
        tables: vec![RecordedTable { generation: Generation(22), devices: vec![DeviceId(23), DeviceId(24)] }],
    };
    #[rustfmt::skip]
    let after_crc = [
        2, 0, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 3, 0, 0, 0,
        1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 21, 0, 0, 0, 0, 0, 0, 0,
        6, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 1, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0,
        10, 0, 0, 0, 0, 0, 0, 0, 11, 0, 0, 0, 0, 0, 0, 0,
        12, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0,
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        13, 0, 0, 0, 9, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0,
        14, 0, 0, 0, 0, 0, 0, 0, 15, 0, 0, 0, 0, 0, 0, 0,
        16, 0, 0, 0, 17, 0, 0, 0, 18, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 19, 25,
        20, 0, 0, 0, 9, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0,
        22, 0, 0, 0, 2, 0, 0, 0, 23, 0, 0, 0, 24, 0, 0, 0,
    ];
    let bytes = manifest.encode();
    assert_eq!(bytes[4..], after_crc);
    assert_eq!(bytes[..4], [80, 86, 8, 81]);
}

#[test]
fn a_count_beyond_the_bytes_is_refused_before_anything_is_reserved() {
    let mut bytes = Manifest::default().encode();
    bytes[44..48].copy_from_slice(&u32::MAX.to_le_bytes());
    reseal(&mut bytes);
    let error = Manifest::decode(&bytes).unwrap_err();
    assert_eq!((error.field, error.offset), ("live", 44));
    assert_eq!(error.fault, Fault::OutOfRange { least: 0, most: 0, found: u64::from(u32::MAX) });
}
