//! Contents of relocations in a leader's memory.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use format::chunk_block::{BLOCK_DATA_BYTES, ChunkVersion, Era};
use format::chunk_command::{ChunkCommand, Registration, Relocation};
use parking_lot::Mutex;
use types::DeviceId;

use super::{OTHER, Rig, place};
use crate::limits::MAX_CONTENTS_BYTES;
use crate::message::{LiveCopy, NodeAnswer, NodeRequest, ToNode};

const CHUNKS: u32 = 100;

/// Each relocation kept its content until it was brought, a thousand of each unit: node after node ran out of memory when one of them was slow.
#[tokio::test(start_paused = true)]
async fn contents_for_a_target_that_takes_none_are_few() {
    let taken = Arc::new(Mutex::new(BTreeSet::new()));
    let noted = taken.clone();
    let about = move |to: ToNode| match to.request {
        NodeRequest::Depart { .. } => Some(NodeAnswer::Departed),
        NodeRequest::Take { .. } => {
            noted.lock().insert(to.id);
            let (version, content) = (ChunkVersion { counter: 0, writer: 0 }, Some(Bytes::from_static(b"content")));
            Some(NodeAnswer::Live(LiveCopy { version, era: Era::first(1), capacity: 100, is_settled: true, content }))
        }
        _ => None,
    };
    let mut rig = Rig::with(12, about).await;
    for device in [1, 2] {
        rig.apply(ChunkCommand::Grant { device: DeviceId(device), first_block: 0, blocks: CHUNKS }).await;
    }
    rig.played.silence(OTHER);
    let mut ids = Vec::new();
    for block in 0..CHUNKS {
        let registration = Registration { bytes: BLOCK_DATA_BYTES, ..rig.registration(&[place(1, block)]) };
        ids.push(rig.commit(ChunkCommand::Register(registration)).await);
    }
    for (id, block) in ids.into_iter().zip(0..) {
        let (from, to) = (Some(place(1, block)), Some(place(2, block)));
        rig.apply(ChunkCommand::Relocate(Relocation { id, from, to, is_lost: false })).await;
    }
    rig.env.sleep(Duration::from_secs(1)).await;
    let most = (MAX_CONTENTS_BYTES / 2 / BLOCK_DATA_BYTES) as usize;
    let found = taken.lock().len();
    assert!((1..=most).contains(&found), "{found} contents, at most {most} are to be in memory");
    // Nor do they stay there: another target may need the room.
    rig.env.sleep(Duration::from_secs(30)).await;
    let taken = rig.member.contents.taken_bytes();
    assert!(taken <= BLOCK_DATA_BYTES, "{taken} bytes are taken");
}
