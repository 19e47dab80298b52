use std::collections::BTreeSet;
use std::sync::Arc;

use types::{BucketId, UploadId};

use super::Replay;
use crate::content::{Content, Extent, Piece};
use crate::name::{Name, Opseq};
use crate::pg::Pg;
use crate::record::{Mutation, Record};
use crate::space::Space;

fn name(key: &str) -> Name {
    Name::starting(BucketId(1), key.as_bytes())
}

fn content(block: u32) -> Arc<Content> {
    let extents = [Extent { first: block, count: 1 }].into();
    Arc::new(Content { pieces: [Piece { length: 9, extents, sums: [0].into() }].into(), parts: None })
}

fn put(key: &str, block: u32) -> Mutation {
    Mutation::Put { name: name(key), attributes: [].into(), content: content(block) }
}

fn replay(records: &[(u64, Mutation)]) -> Replay {
    let mut replay = Replay::default();
    for (at, (settled_below, mutation)) in records.iter().enumerate() {
        let record = Record { settled_below: Opseq(*settled_below), mutation: mutation.clone() };
        replay.push(Opseq(at as u64 + 1), record);
    }
    replay
}

fn doubts(replay: &Replay) -> Vec<u64> {
    replay.doubts().map(|(opseq, _)| opseq.0).collect()
}

fn pg() -> Pg {
    let mut space = Space::new(64, 64, 2);
    space.add_unit(0);
    Pg::new(space, Opseq(1))
}

#[test]
fn what_is_settled_is_believed() {
    assert_eq!(doubts(&replay(&[(1, put("a", 3)), (1, put("b", 4)), (2, put("c", 5))])), [2, 3]);
    assert_eq!(doubts(&replay(&[(1, put("a", 3)), (1, put("b", 4)), (3, Mutation::Mark)])), [0; 0]);
}

#[test]
fn what_a_later_record_relies_on_is_believed() {
    let (upload, attributes) = (UploadId([1; 16]), Box::<[u8]>::from([]));
    let part = Mutation::PutPart { name: name("a"), upload, number: 1, attributes: attributes.clone(), content: content(3) };
    let complete = Mutation::Complete { name: name("a"), upload, parts: vec![(1, Opseq(2))], attributes: attributes.clone() };
    let create = Mutation::CreateUpload { name: name("a"), upload, attributes: attributes.clone() };
    let tags = Mutation::SetAttributes { name: name("b"), base: Opseq(4), attributes };
    assert_eq!(doubts(&replay(&[(1, create), (1, part), (1, complete), (1, put("b", 4)), (1, tags)])), [0; 0]);
}

/// The version before stands again, and its blocks are its own.
#[test]
fn what_is_missing_or_revoked_is_passed_over() {
    let records = [(1, put("a", 3)), (1, put("a", 4)), (1, put("b", 4))];
    let mut pg = pg();
    replay(&records).finish(&mut pg, &BTreeSet::from([Opseq(2)]));
    assert_eq!(pg.object(&name("a")).map(|object| object.opseq), Some(Opseq(1)));
    pg.claim_all(Vec::new()).expect("each block has one owner");
    assert_eq!((pg.check(), pg.next()), (Ok(()), Opseq(4)));

    let mut again = records.to_vec();
    again.push((3, Mutation::Revoke { revoked: vec![Opseq(2)] }));
    let replayed = replay(&again);
    assert_eq!(doubts(&replayed), [3]);
    let mut pg = self::pg();
    replayed.finish(&mut pg, &BTreeSet::new());
    assert_eq!(pg.object(&name("a")).map(|object| object.opseq), Some(Opseq(1)));
    assert_eq!(pg.next(), Opseq(5));
}

#[test]
fn two_owners_of_a_block_are_found() {
    let mut pg = pg();
    replay(&[(1, put("a", 3)), (1, put("b", 3))]).finish(&mut pg, &BTreeSet::new());
    assert_eq!(pg.claim_all(Vec::new()), Err(Extent { first: 3, count: 1 }));
}
