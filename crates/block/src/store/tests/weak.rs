//! Modes in which answers do not wait for the medium: a power cut may lose what was answered, and never shows a blob what another left.

use device::SyncMode;
use disk::SECTOR_BYTES;
use types::PIECE_BYTES;

use super::crash::run;
use super::support::{Rig, UNIT_BYTES, fill, holder, id, new, patient, stamped, version_of};

#[tokio::test(start_paused = true)]
async fn a_cut_shows_no_bytes_of_another_blob() {
    let mut looked_at = 0;
    for seed in 0..2 {
        let mutations = run(seed, None, SyncMode::Off, false).await.mutations;
        for cut in (0..=mutations).step_by(2) {
            let history = run(seed, Some(cut), SyncMode::Off, false).await;
            let rig = history.rig.crash().await;
            for row in [3, 4].into_iter().flat_map(|image| rig.rows(image)) {
                for piece in (0..64).filter(|piece| row.data.contains(*piece)) {
                    let bytes = rig.read_piece(row.at, piece).await.expect("reads");
                    for (number, sector) in bytes.chunks(SECTOR_BYTES).enumerate() {
                        let at = piece * PIECE_BYTES + (number * SECTOR_BYTES) as u32;
                        let expected = stamped(row.at.id, at, SECTOR_BYTES, version_of(sector));
                        assert!(expected == sector, "seed {seed}, cut {cut}: byte {at} of {}", row.at.id);
                    }
                    looked_at += 1;
                }
            }
        }
    }
    assert!(looked_at > 100, "{looked_at} pieces");
}

/// A freed block is not written to before the medium knows that it is free.
#[tokio::test(start_paused = true)]
async fn a_blob_whose_end_is_not_durable_yet_does_not_show_the_next_one() {
    let mut partly = 0;
    for seed in 0..30 {
        let rig = Rig::with(seed, UNIT_BYTES, SyncMode::Off).await;
        let one = holder(3, 10);
        rig.enter(one).await;
        let at = rig.create(one, id(3, 0), fill(id(3, 0), 0..4, 1)).await;
        rig.store.flush().await.expect("flushes");
        rig.free(one, at).await;
        rig.disk.power_cut_after(1);
        let next = id(3, 1);
        assert_eq!(
            patient(rig.store.create(one, new(next), fill(next, 0..4, 2))).await,
            None,
            "the power goes behind the content"
        );
        let rig = rig.crash().await;
        assert_eq!(rig.rows(3), [], "seed {seed}");
        // The disk that the test wants: part of the content survives.
        let content = rig.disk.peek(rig.slot_place(at.block, 2), 4 * PIECE_BYTES as usize);
        partly += u32::from(content.chunks(SECTOR_BYTES).any(|sector| version_of(sector) == 2));
    }
    assert!(partly > 10, "{partly} of 30 cuts left the next one's content");
}
