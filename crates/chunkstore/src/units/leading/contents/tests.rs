use std::sync::Arc;

use tokio::sync::Semaphore;
use types::NodeId;

use super::Contents;
use crate::limits::MAX_CONTENTS_BYTES;

const BYTES: u32 = 4 << 20;
const ALL: u64 = (MAX_CONTENTS_BYTES / BYTES) as u64;
const SLOW: NodeId = NodeId(1);

fn begun(contents: &mut Contents, all: &Arc<Semaphore>, relocations: std::ops::Range<u64>, target: NodeId, is_up: bool) -> u64 {
    relocations.filter(|relocation| contents.begin(all, *relocation, target, BYTES, is_up)).count() as u64
}

/// Each of a thousand relocations of each unit kept one: node after node ran out of memory when one was removed.
#[test]
fn there_is_room_for_some_contents_of_all_units_together() {
    let all = Arc::new(Semaphore::new(MAX_CONTENTS_BYTES as usize));
    let (mut one, mut other) = (Contents::default(), Contents::default());
    assert_eq!(begun(&mut one, &all, 0..300, SLOW, true), ALL / 2, "it keeps none from the others");
    assert_eq!(begun(&mut one, &all, 300..310, NodeId(2), true), 10);
    assert_eq!(begun(&mut other, &all, 0..300, NodeId(2), true), ALL / 2 - 10, "another unit's");
    assert_eq!(begun(&mut one, &all, 0..4, SLOW, true), 4, "for these there is room already");
    assert_eq!(begun(&mut one, &all, 400..500, NodeId(3), true), 0);
    one.end(300);
    assert_eq!(begun(&mut one, &all, 400..500, NodeId(3), true), 1);
    drop(one);
    assert_eq!(begun(&mut other, &all, 300..700, NodeId(3), true), ALL / 2);
}

#[test]
fn for_a_silent_target_one_content_is_kept() {
    let all = Arc::new(Semaphore::new(MAX_CONTENTS_BYTES as usize));
    let mut contents = Contents::default();
    assert_eq!(begun(&mut contents, &all, 0..9, SLOW, false), 1);
    contents.end(0);
    assert_eq!(begun(&mut contents, &all, 1..9, SLOW, false), 1);
    assert_eq!(all.available_permits(), (MAX_CONTENTS_BYTES - BYTES) as usize);
}
