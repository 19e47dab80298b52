//! Notes: small records beside the superblock, each kind in two slots that are written in turn.
//!
//! Invariants
//! - One writes at a time: the next write of a kind may go to the same slot as one that failed.
//! - A write that nobody waits for any more goes on to its end, and the next one waits for that: what was given up must not land over what was
//!   acknowledged since.
//! - A write that fails ends all writing on the device, whatever kind of notes it was for, as any other does: the disk takes no more after it, and
//!   a device that does not say so is taken for a good one, though no fence can be raised on it. What finds no space was refused, and harms nobody.

use std::sync::Arc;

use format::superblock::notes::NotesKind;
use tokio::sync::Mutex;

use crate::error::NotesIoError;
use crate::finishing::Finishing;
use crate::inner::Inner;
use crate::superblock_io;
use crate::zone_io::is_out_of_space;

/// The sequence number of the newest notes of each kind, as far as it is known.
type Sequences = [Option<u64>; NotesKind::ALL.len()];

/// What a device knows of its notes.
#[derive(Default)]
pub(crate) struct Notes(Arc<Mutex<Sequences>>);

impl Notes {
    pub async fn read(&self, inner: &Inner, kind: NotesKind) -> Result<Option<Vec<u8>>, NotesIoError> {
        let mut sequences = self.0.lock().await;
        let found = superblock_io::read_notes(&*inner.disk, inner.superblock.device_uuid, kind).await?;
        sequences[index(kind)] = Some(found.as_ref().map_or(0, |(sequence, _)| *sequence));
        Ok(found.map(|(_, bytes)| bytes))
    }

    pub async fn write(&self, inner: &Arc<Inner>, kind: NotesKind, bytes: &[u8]) -> Result<(), NotesIoError> {
        let (writer, bytes) = (inner.clone(), bytes.to_vec());
        let mut sequences = self.0.clone().lock_owned().await;
        let writing = async move {
            let (disk, uuid) = (&*writer.disk, writer.superblock.device_uuid);
            let known = match sequences[index(kind)] {
                Some(sequence) => sequence,
                None => superblock_io::read_notes(disk, uuid, kind).await?.map_or(0, |(sequence, _)| sequence),
            };
            // Set only after the write has ended well: a failed one is repeated into the same slot, never into the good one.
            let written = superblock_io::write_notes(disk, uuid, kind, known + 1, &bytes).await;
            if let Err(NotesIoError::Disk(error)) = &written
                && !is_out_of_space(error)
            {
                writer.poison(error.clone());
            }
            written?;
            sequences[index(kind)] = Some(known + 1);
            Ok(())
        };
        Finishing::new(&inner.env, writing).await
    }
}

fn index(kind: NotesKind) -> usize {
    match kind {
        NotesKind::Fences => 0,
        NotesKind::Manager => 1,
        NotesKind::Units => 2,
    }
}
