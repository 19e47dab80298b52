use std::sync::Arc;

use types::NodeId;

use super::{ContentRoom, Contents};
use crate::limits::MAX_CONTENTS_BYTES;

const BYTES: u32 = 4 << 20;
const ALL: u64 = (MAX_CONTENTS_BYTES / BYTES) as u64;
const SLOW: NodeId = NodeId(1);

fn begun(
    contents: &mut Contents,
    room: &Arc<ContentRoom>,
    relocations: std::ops::Range<u64>,
    target: NodeId,
    is_up: bool,
) -> u64 {
    relocations.filter(|relocation| contents.begin(room, *relocation, target, BYTES, is_up)).count() as u64
}

/// Each of a thousand relocations of each unit kept one: node after node ran out of memory when one was removed.
#[test]
fn there_is_room_for_some_contents_of_all_units_together() {
    let room = Arc::new(ContentRoom::default());
    let (mut one, mut other) = (Contents::default(), Contents::default());
    assert_eq!(begun(&mut one, &room, 0..300, SLOW, true), ALL / 2, "it keeps none from the others");
    assert_eq!(begun(&mut one, &room, 300..310, NodeId(2), true), 10);
    assert_eq!(begun(&mut other, &room, 0..300, NodeId(2), true), ALL / 2 - 10, "another unit's");
    assert_eq!(begun(&mut one, &room, 0..4, SLOW, true), 4, "for these there is room already");
    assert_eq!(begun(&mut one, &room, 400..500, NodeId(3), true), 0);
    one.end(300);
    assert_eq!(begun(&mut one, &room, 400..500, NodeId(3), true), 1);
    drop(one);
    assert_eq!(begun(&mut other, &room, 300..700, NodeId(3), true), ALL / 2);
}

/// Two units that relocated to one slow node had all of it: a third one's relocations, to others, waited for it.
#[test]
fn a_target_has_half_of_it_of_all_units_together() {
    let room = Arc::new(ContentRoom::default());
    let mut units: Vec<Contents> = (0..3).map(|_| Contents::default()).collect();
    let of_units: Vec<u64> = units.iter_mut().map(|unit| begun(unit, &room, 0..ALL, SLOW, true)).collect();
    assert_eq!(of_units, [ALL / 2, 0, 0]);
    drop(units.remove(0));
    assert_eq!(begun(&mut units[0], &room, 0..ALL, SLOW, true), ALL / 2);
    assert_eq!(begun(&mut units[1], &room, 0..ALL, NodeId(2), true), ALL / 2);
}

#[test]
fn for_a_silent_target_one_content_is_kept() {
    let room = Arc::new(ContentRoom::default());
    let mut contents = Contents::default();
    assert_eq!(begun(&mut contents, &room, 0..9, SLOW, false), 1);
    contents.end(0);
    assert_eq!(begun(&mut contents, &room, 1..9, SLOW, false), 1);
    assert_eq!(room.taken_bytes(), BYTES);
}
