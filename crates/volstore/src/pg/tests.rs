//! The machine against a plain model, with mutations that end in any order, and with crashes between any two steps: a dump that was taken slice by slice, a log that ends
//! anywhere, bytes that are there or not.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use format::attributes::{Attributes, ETag};
use model::choice::{Choose, Seeded};
use types::{BucketId, UploadId};

use super::{Cursor, Pg, Purpose};
use crate::content::{Content, Extent, Piece};
use crate::name::{Name, Opseq};
use crate::record::{Mutation, Record};
use crate::replay::Replay;
use crate::space::Space;

const BLOCKS: u64 = 4096;
const NAMES: usize = 3;
const STEPS: usize = 90;

fn name(number: usize) -> Name {
    Name::starting(BucketId(1), format!("{number}").as_bytes())
}

fn empty(next: Opseq) -> Pg {
    let mut space = Space::new(BLOCKS, BLOCKS, 2);
    space.add_unit(0);
    Pg::new(space, next)
}

fn attributes(number: u64) -> Box<[u8]> {
    let etag = ETag::Md5(u128::from(number).to_be_bytes());
    Attributes { etag, ..Attributes::default() }.to_bytes().to_vec().into()
}

/// A server that has a disk: each block has the number of the write that was last whole there.
struct World {
    pg: Pg,
    disk: BTreeMap<u64, u64>,
    /// Records of the log that are needed, from the first on.
    log: Vec<(Opseq, Record)>,
    durable: usize,
    settled_below: Opseq,
    /// Content that is on its way, by mutation: which blocks, and the number of the write.
    writing: BTreeMap<Opseq, (Vec<u64>, u64)>,
    writes: u64,
    /// What was answered, by name: the number of the write, in order of opseq.
    answered: BTreeMap<Name, BTreeMap<Opseq, Option<u64>>>,
    /// What was begun, by opseq.
    begun: BTreeMap<Opseq, (Name, Option<u64>)>,
    dump: (Vec<u8>, Opseq),
    dumping: Option<(Vec<u8>, Cursor, Opseq)>,
    upload: u8,
}

impl World {
    fn new() -> World {
        World {
            pg: empty(Opseq(1)),
            disk: BTreeMap::new(),
            log: Vec::new(),
            durable: 0,
            settled_below: Opseq(0),
            writing: BTreeMap::new(),
            writes: 0,
            answered: BTreeMap::new(),
            begun: BTreeMap::new(),
            dump: (Vec::new(), Opseq(1)),
            dumping: None,
            upload: 0,
        }
    }

    /// Content of some blocks, whose sum is the number of its write.
    fn content(&mut self, seeded: &mut Seeded) -> Option<(Arc<Content>, Vec<u64>)> {
        let count = seeded.below(3) as u64 + 1;
        let extents = self.pg.reserve(count, Purpose::Content)?;
        self.writes += 1;
        let blocks = extents.iter().flat_map(Extent::range).collect();
        let piece = Piece { length: count as u32 * 4096, extents: extents.into(), sums: [self.writes as u32].into() };
        Some((Arc::new(Content { pieces: [piece].into(), parts: None }), blocks))
    }

    fn place(&mut self, mutation: Mutation, blocks: Vec<u64>, sees: Option<u64>) {
        let opseq = self.pg.next();
        if let Some(name) = mutation.name() {
            let is_head = matches!(mutation, Mutation::Put { .. } | Mutation::Delete { .. } | Mutation::Complete { .. });
            if is_head {
                self.begun.insert(opseq, (name.clone(), sees));
            }
        }
        let record = Record { settled_below: self.settled_below, mutation: mutation.clone() };
        // A log has bytes, not references.
        self.log.push((opseq, Record::decode(&record.encode()).expect("its own bytes")));
        self.pg.place(opseq, mutation);
        self.writing.insert(opseq, (blocks, self.writes));
    }

    fn begin(&mut self, seeded: &mut Seeded) {
        let name = name(seeded.below(NAMES));
        if seeded.percent(25) {
            self.place(Mutation::Delete { name }, Vec::new(), None);
        } else if let Some((content, blocks)) = self.content(seeded) {
            let write = self.writes;
            self.place(Mutation::Put { name, attributes: attributes(write), content }, blocks, Some(write));
        }
    }

    /// An upload of one part from its opening to its end: what holds its name alone does.
    fn upload(&mut self, seeded: &mut Seeded) {
        while let Some((opseq, _)) = self.writing.first_key_value() {
            self.end(*opseq);
        }
        self.upload += 1;
        let (name, upload) = (name(seeded.below(NAMES)), UploadId([self.upload; 16]));
        let open = Mutation::CreateUpload { name: name.clone(), upload, attributes: attributes(0) };
        self.place(open, Vec::new(), None);
        self.end(Opseq(self.pg.next().0 - 1));
        let Some((content, blocks)) = self.content(seeded) else { return };
        let write = self.writes;
        let part = self.pg.next();
        let put = Mutation::PutPart { name: name.clone(), upload, number: 3, attributes: attributes(write), content };
        self.place(put, blocks, None);
        self.end(part);
        self.slice();
        let last = match seeded.below(4) {
            0 => Mutation::Abort { name, upload },
            _ => Mutation::Complete { name, upload, parts: vec![(3, part)], attributes: attributes(write) },
        };
        self.place(last, Vec::new(), Some(write));
        self.end(Opseq(self.pg.next().0 - 1));
    }

    /// A mutation's record and bytes are durable: so are all records before it.
    fn end(&mut self, opseq: Opseq) {
        let (blocks, write) = self.writing.remove(&opseq).expect("it is under way");
        self.disk.extend(blocks.into_iter().map(|block| (block, write)));
        let at = self.log.iter().position(|(logged, _)| *logged == opseq);
        self.durable = self.durable.max(at.map_or(0, |at| at + 1));
        self.pg.commit(opseq);
        if let Some((name, sees)) = self.begun.get(&opseq) {
            self.answered.entry(name.clone()).or_default().insert(opseq, *sees);
        }
    }

    fn settle(&mut self) {
        self.settled_below = self.pg.floor();
        self.pg.release(self.settled_below);
    }

    /// One more slice of a dump; its end cuts the log.
    fn slice(&mut self) {
        let floor = self.pg.floor();
        let (mut rows, cursor, keep_from) = self.dumping.take().unwrap_or((Vec::new(), Cursor::default(), floor));
        match self.pg.dump_slice(&cursor, &mut rows) {
            Some(next) => self.dumping = Some((rows, next, keep_from)),
            None => {
                self.settle();
                let before = self.log.len();
                self.log.retain(|(opseq, _)| *opseq >= keep_from);
                self.durable -= before - self.log.len();
                self.dump = (rows, keep_from);
            }
        }
    }

    /// The power goes: the log ends anywhere behind what is durable, and of the bytes under way each block is there or not.
    fn crash(&mut self, seeded: &mut Seeded) -> u64 {
        let kept = self.durable + seeded.below(self.log.len() - self.durable + 1);
        self.log.truncate(kept);
        for (blocks, write) in std::mem::take(&mut self.writing).into_values() {
            let whole = seeded.percent(40);
            let written = blocks.into_iter().filter(|_| whole || seeded.percent(50));
            self.disk.extend(written.map(|block| (block, write)));
        }
        let (rows, keep_from) = &self.dump;
        let mut pg = empty(*keep_from);
        pg.load_rows(rows).expect("a dump is read");
        let mut replay = Replay::default();
        self.log.iter().for_each(|(opseq, record)| replay.push(*opseq, record.clone()));
        let is_there = |content: &Content| {
            content.pieces.iter().all(|piece| {
                let mut blocks = piece.extents.iter().flat_map(Extent::range);
                blocks.all(|block| self.disk.get(&block) == Some(&u64::from(piece.sums[0])))
            })
        };
        let missing: BTreeSet<Opseq> =
            replay.doubts().filter(|(_, content)| !is_there(content)).map(|(opseq, _)| opseq).collect();
        replay.finish(&mut pg, &missing);
        pg.claim_all(Vec::new()).expect("each block has one owner");
        self.judge(&pg, is_there);
        self.pg = pg;
        self.dumping = None;
        self.durable = self.log.len();
        self.settled_below = Opseq(0);
        self.forget_unanswered();
        let revoked = missing.len() as u64;
        if revoked > 0 {
            let opseq = self.pg.next();
            self.place(Mutation::Revoke { revoked: missing.into_iter().collect() }, Vec::new(), None);
            self.end(opseq);
        }
        revoked
    }

    /// Each name has what was answered last, or something later that was begun; with its bytes.
    fn judge(&self, pg: &Pg, is_there: impl Fn(&Content) -> bool) {
        pg.check().expect("each block has one owner");
        for name in (0..NAMES).map(name) {
            let answered = self.answered.get(&name).and_then(|all| all.last_key_value());
            let (last, sees) = answered.map_or((Opseq(0), None), |(opseq, sees)| (*opseq, *sees));
            let head = pg.object(&name);
            let found = head.as_ref().map(|object| u64::from(object.content.pieces[0].sums[0]));
            let later = self.begun.range(last.next()..).filter(|(_, (of, _))| *of == name).map(|(_, (_, sees))| *sees);
            assert!(
                found == sees || later.clone().any(|later| later == found),
                "{name:?}: found {found:?}, answered {sees:?} by {last:?}, later {:?}",
                later.collect::<Vec<_>>()
            );
            assert!(head.is_none_or(|object| is_there(&object.content)), "{name:?} has other bytes");
        }
    }

    /// What was found is what counts from now on.
    fn forget_unanswered(&mut self) {
        for name in (0..NAMES).map(name) {
            let head = self.pg.object(&name);
            let found = head.map(|object| u64::from(object.content.pieces[0].sums[0]));
            let last = Opseq(self.pg.next().0 - 1);
            self.answered.entry(name).or_default().insert(last, found);
        }
        self.begun.clear();
    }
}

#[test]
fn crashes_between_any_two_steps() {
    let (mut revoked, mut crashes) = (0, 0);
    for seed in 0..400 {
        let mut seeded = Seeded::new(seed);
        let mut world = World::new();
        for _ in 0..STEPS {
            match seeded.below(20) {
                0..7 => world.begin(&mut seeded),
                7..13 => {
                    let under_way: Vec<Opseq> = world.writing.keys().copied().collect();
                    if !under_way.is_empty() {
                        world.end(under_way[seeded.below(under_way.len())]);
                    }
                }
                13 | 14 => world.settle(),
                15..18 => world.slice(),
                18 => world.upload(&mut seeded),
                _ => {
                    crashes += 1;
                    revoked += world.crash(&mut seeded);
                }
            }
            world.pg.check().unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
        }
        world.crash(&mut seeded);
    }
    assert!(crashes > 1000 && revoked > 200, "{crashes} crashes, {revoked} revoked");
}

/// The head is the one with the highest number, in whatever order they end.
#[test]
fn a_put_that_ends_late_is_obsolete() {
    for order in [[1, 2, 3], [3, 2, 1], [2, 3, 1], [3, 1, 2]] {
        let mut world = World::new();
        let mut seeded = Seeded::new(1);
        let (content, blocks) = world.content(&mut seeded).expect("there is room");
        world.place(Mutation::Put { name: name(0), attributes: attributes(1), content }, blocks, Some(1));
        world.place(Mutation::Delete { name: name(0) }, Vec::new(), None);
        let (content, blocks) = world.content(&mut seeded).expect("there is room");
        world.place(Mutation::Put { name: name(0), attributes: attributes(2), content }, blocks, Some(2));
        order.into_iter().for_each(|opseq| world.end(Opseq(opseq)));
        assert_eq!(world.pg.object(&name(0)).map(|object| object.opseq), Some(Opseq(3)), "{order:?}");
        world.settle();
        assert_eq!((world.pg.check(), world.pg.limbo_blocks()), (Ok(()), 0), "{order:?}");
    }
}

#[test]
fn blocks_wait_until_what_freed_them_is_settled() {
    let mut world = World::new();
    let mut seeded = Seeded::new(1);
    let (content, blocks) = world.content(&mut seeded).expect("there is room");
    world.place(Mutation::Put { name: name(0), attributes: attributes(1), content }, blocks, Some(1));
    world.end(Opseq(1));
    let kept = world.pg.pin(&name(0)).expect("it is there");
    world.begin(&mut Seeded::new(3));
    world.place(Mutation::Delete { name: name(0) }, Vec::new(), None);
    world.end(Opseq(3));
    assert!(!world.pg.release(world.pg.floor()), "an older one is under way");
    world.end(Opseq(2));
    assert!(!world.pg.release(Opseq(3)), "the delete is not settled");
    assert!(!world.pg.release(Opseq(4)), "a reader has it");
    drop(kept);
    assert!(world.pg.release(Opseq(4)));
    world.pg.check().expect("each block has one owner");
}

/// A copy to a learner holds parts; the object that they become is another reference to the same blocks.
#[test]
fn blocks_of_a_completed_object_wait_for_who_holds_its_parts() {
    let mut world = World::new();
    let upload = UploadId([1; 16]);
    let (content, blocks) = world.content(&mut Seeded::new(1)).expect("there is room");
    world.place(Mutation::CreateUpload { name: name(0), upload, attributes: attributes(0) }, Vec::new(), None);
    let part = Mutation::PutPart { name: name(0), upload, number: 1, attributes: attributes(1), content };
    world.place(part, blocks, None);
    (1..=2).for_each(|opseq| world.end(Opseq(opseq)));
    let (held, _) = world.pg.contents(&Cursor::default());
    assert_eq!(held.len(), 1);
    let parts = vec![(1, Opseq(2))];
    world.place(Mutation::Complete { name: name(0), upload, parts, attributes: attributes(1) }, Vec::new(), Some(1));
    world.end(Opseq(3));
    world.place(Mutation::Delete { name: name(0) }, Vec::new(), None);
    world.end(Opseq(4));
    assert!(!world.pg.release(Opseq(5)), "its part is being copied");
    drop(held);
    assert!(world.pg.release(Opseq(5)));
    world.pg.check().expect("each block has one owner");
}

#[test]
fn puts_leave_room_for_a_dump() {
    let mut pg = empty(Opseq(1));
    assert!(pg.reserve(BLOCKS - 2, Purpose::Content).is_none());
    let all = BLOCKS - 2 - pg.dump_blocks();
    let taken = pg.reserve(all, Purpose::Content).expect("the rest is for content");
    assert!(pg.reserve(1, Purpose::Content).is_none());
    assert_eq!((pg.reserve(0, Purpose::Content), pg.lacks_dump_room()), (Some(Vec::new()), false));
    let more = pg.reserve(1, Purpose::Dump).expect("a dump has the rest");
    assert_eq!((pg.reserve(0, Purpose::Content), pg.lacks_dump_room()), (None, true));
    pg.give_up(&more);
    let dump = pg.reserve(pg.dump_blocks(), Purpose::Dump).expect("a dump finds room");
    pg.give_up(&taken);
    pg.replace_dump(dump);
    pg.check().expect("each block has one owner");
    pg.replace_dump(Vec::new());
    assert_eq!((pg.check(), pg.used_blocks()), (Ok(()), 0));
}
