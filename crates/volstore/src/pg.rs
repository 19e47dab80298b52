//! The machine of a placement group: names, uploads, what is pending, and who owns each block. No I/O.
//!
//! ```text
//!            reserve          place               commit                    apply of a later mutation      release
//!   free ──────────► reserved ─────► pending ───────────────► visible ──────────────────────────► limbo ─────────► free
//!    ▲     give_up      │              │ (a start revokes)       ▲
//!    └──────────────────┘              └── obsolete ─────────────┼─────────────────────────────────▲
//!                                          a later one of the name is visible
//! ```
//!
//! Invariants:
//! - A block has one owner; [`Pg::check`] derives them all and compares.
//! - The head of a name is its visible version with the highest opseq.
//! - Blocks in limbo are free when what freed them is settled, and no reader has the content.

mod allocation;
mod check;
mod leaf;
mod listing;
mod numbers;
mod packing;
mod rows;
mod table;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::{Arc, Weak};

use engine::{Condition, Unmet};
use format::attributes::{Attributes, ETag};
use types::{BucketId, UploadId};

use crate::content::{Content, Extent, Object, PartChecksum, PartMark};
use crate::limits::MAX_OUTCOMES;
use crate::name::{Name, Opseq};
use crate::record::{Mutation, decode_attributes};
use crate::space::Space;

pub use allocation::Purpose;
#[cfg(test)]
pub use check::Account;
pub use rows::Cursor;
use table::Table;

/// An upload that is open.
#[derive(Clone, Debug)]
pub struct Upload {
    pub opseq: Opseq,
    pub attributes: Box<[u8]>,
    pub parts: BTreeMap<u16, Part>,
}

/// A part of an upload.
#[derive(Clone, Debug)]
pub struct Part {
    pub opseq: Opseq,
    pub attributes: Box<[u8]>,
    pub content: Arc<Content>,
}

/// What a completed upload was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    pub opseq: Opseq,
    /// Tag and time alone.
    pub attributes: Box<[u8]>,
}

/// An upload's name.
pub type UploadName = (Name, UploadId);

/// Mutations of a name that are not resolved.
#[derive(Default)]
struct PendingName {
    count: u32,
    /// The last delete that has taken effect meanwhile.
    deleted: Opseq,
}

/// Content that nothing names any more, and the mutation by which that is so.
type Freed = Vec<(Opseq, Arc<Content>)>;

/// A placement group and its logical volume.
pub struct Pg {
    space: Space,
    objects: Table,
    uploads: BTreeMap<UploadName, Upload>,
    outcomes: BTreeMap<UploadName, Outcome>,
    /// The same by age.
    outcome_ages: BTreeMap<Opseq, UploadName>,
    pending: BTreeMap<Opseq, Mutation>,
    pending_names: HashMap<Name, PendingName>,
    reserved: BTreeSet<Extent>,
    limbo: BTreeMap<Opseq, Vec<Arc<Content>>>,
    limbo_blocks: u64,
    /// First blocks of completed uploads' contents, and contents of parts with the same blocks that were held when they were joined.
    joined: Vec<(u32, Weak<Content>)>,
    /// Blocks of the dump that the superblock names.
    dump: Vec<Extent>,
    /// What the next mutation is called.
    next: Opseq,
    /// About how many bytes a dump has.
    row_bytes: u64,
}

impl Pg {
    /// An empty group.
    pub fn new(space: Space, next: Opseq) -> Pg {
        Pg {
            space,
            objects: Table::new(),
            uploads: BTreeMap::new(),
            outcomes: BTreeMap::new(),
            outcome_ages: BTreeMap::new(),
            pending: BTreeMap::new(),
            pending_names: HashMap::new(),
            reserved: BTreeSet::new(),
            limbo: BTreeMap::new(),
            limbo_blocks: 0,
            joined: Vec::new(),
            dump: Vec::new(),
            next,
            row_bytes: 0,
        }
    }

    /// The visible version of a name. Its blocks may be used again when the caller has given up its lock.
    pub fn object(&self, name: &Name) -> Option<Object> {
        self.objects.get(name)
    }

    /// The visible version of a name. Its blocks are not used again before its content is dropped.
    pub fn pin(&mut self, name: &Name) -> Option<Object> {
        self.objects.pin(name)
    }

    pub fn has_object(&self, name: &Name) -> bool {
        self.objects.contains(name)
    }

    pub fn object_count(&self) -> usize {
        self.objects.len()
    }

    pub fn upload(&self, upload: &UploadName) -> Option<&Upload> {
        self.uploads.get(upload)
    }

    pub fn outcome(&self, upload: &UploadName) -> Option<&Outcome> {
        self.outcomes.get(upload)
    }

    /// Whether a bucket has no object and no upload.
    pub fn is_empty(&self, bucket: BucketId) -> bool {
        let first = Name::starting(bucket, b"");
        let object = self.objects.range(Bound::Included(&first)).next().is_some_and(|(name, _)| name.bucket() == bucket);
        let upload = self.uploads.range((first, UploadId::default())..).next();
        !object && upload.is_none_or(|((name, _), _)| name.bucket() != bucket)
    }

    /// Whether mutations of a name are not resolved. One that failed is not until the next start, or the next primary, decides.
    pub fn is_pending(&self, name: &Name) -> bool {
        self.pending_names.contains_key(name)
    }

    /// Evaluates a condition. The caller holds the name alone, and has seen that nothing of it is pending.
    pub fn check_condition(&self, name: &Name, condition: &Condition) -> Result<(), Unmet> {
        assert!(condition.is_blind() || !self.is_pending(name), "a condition waits for what is pending");
        let newest: Option<ETag> = self.objects.get(name).filter(|_| !condition.is_blind()).map(|object| tag_of(&object));
        condition.check(newest.as_ref())
    }

    /// What the next mutation is called.
    pub fn next(&self) -> Opseq {
        self.next
    }

    /// Mutations below this number are resolved.
    pub fn floor(&self) -> Opseq {
        self.pending.first_key_value().map_or(self.next, |(first, _)| *first)
    }

    /// The log has a mutation. Its blocks were reserved.
    pub fn place(&mut self, opseq: Opseq, mutation: Mutation) {
        assert_eq!(opseq, self.next, "the numbers of the log have no gaps");
        self.next = opseq.next();
        if let Some(content) = mutation.content() {
            for extent in content.extents() {
                assert!(self.reserved.remove(&extent), "{extent:?} was not reserved");
            }
        }
        if let Some(name) = mutation.name() {
            self.pending_names.entry(name.clone()).or_default().count += 1;
        }
        self.pending.insert(opseq, mutation);
    }

    /// A mutation is durable, and its content: it takes effect.
    pub fn commit(&mut self, opseq: Opseq) {
        let mutation = self.pending.remove(&opseq).expect("what is committed is pending");
        let name = mutation.name().cloned();
        let freed = self.apply(opseq, mutation);
        self.free_later(freed);
        if let Some(name) = name {
            let pending = self.pending_names.get_mut(&name).expect("its name is pending");
            pending.count -= 1;
            if pending.count == 0 {
                self.pending_names.remove(&name);
            }
        }
    }

    /// Replays a mutation that is known to be whole. Blocks are claimed when all are replayed.
    pub fn replay(&mut self, opseq: Opseq, mutation: Mutation) {
        self.next = self.next.max(opseq.next());
        drop(self.apply(opseq, mutation));
    }

    fn apply(&mut self, opseq: Opseq, mutation: Mutation) -> Freed {
        match mutation {
            Mutation::Put { name, attributes, content } => self.put(name, Object { opseq, attributes, content }),
            Mutation::Delete { name } => self.delete(opseq, &name),
            Mutation::SetAttributes { name, base, attributes } => {
                if let Some(Object { content, .. }) = self.objects.get(&name).filter(|head| head.opseq == base) {
                    self.set_object(&name, Object { opseq, attributes, content });
                }
                Vec::new()
            }
            Mutation::CreateUpload { name, upload, attributes } => {
                let upload_name = (name, upload);
                if !self.uploads.contains_key(&upload_name) {
                    self.row_bytes += rows::upload_bytes(&upload_name.0, &attributes);
                    self.uploads.insert(upload_name, Upload { opseq, attributes, parts: BTreeMap::new() });
                }
                Vec::new()
            }
            Mutation::PutPart { name, upload, number, attributes, content } => {
                self.put_part(&(name, upload), number, Part { opseq, attributes, content })
            }
            Mutation::Complete { name, upload, parts, attributes } => self.complete(opseq, (name, upload), &parts, attributes),
            Mutation::Abort { name, upload } => {
                let parts = self.take_upload(&(name, upload)).map(|upload| upload.parts).unwrap_or_default();
                parts.into_values().map(|part| (opseq, part.content)).collect()
            }
            Mutation::Revoke { .. } | Mutation::Mark => Vec::new(),
        }
    }

    fn put(&mut self, name: Name, object: Object) -> Freed {
        let opseq = object.opseq;
        let deleted = self.pending_names.get(&name).map_or(Opseq::default(), |pending| pending.deleted);
        let head = self.objects.opseq(&name).unwrap_or_default();
        let later = head.max(deleted);
        if later > opseq {
            return vec![(later, object.content)];
        }
        if head == opseq {
            return Vec::new();
        }
        self.set_object(&name, object).map(|former| (opseq, former.content)).into_iter().collect()
    }

    fn delete(&mut self, opseq: Opseq, name: &Name) -> Freed {
        if let Some(pending) = self.pending_names.get_mut(name) {
            pending.deleted = pending.deleted.max(opseq);
        }
        if self.objects.opseq(name).is_none_or(|head| head > opseq) {
            return Vec::new();
        }
        let (former, body_bytes) = self.objects.remove(name).expect("it was looked at");
        self.row_bytes -= rows::object_bytes(name, body_bytes);
        vec![(opseq, former.content)]
    }

    /// The version before.
    fn set_object(&mut self, name: &Name, object: Object) -> Option<Object> {
        let table::Set { former, former_bytes, bytes } = self.objects.set(name, &object);
        self.row_bytes += rows::object_bytes(name, bytes);
        if former.is_some() {
            self.row_bytes -= rows::object_bytes(name, former_bytes);
        }
        former
    }

    fn put_part(&mut self, upload: &UploadName, number: u16, part: Part) -> Freed {
        let opseq = part.opseq;
        let Some(open) = self.uploads.get_mut(upload) else { return vec![(opseq, part.content)] };
        let former = open.parts.get(&number).map_or(Opseq::default(), |former| former.opseq);
        if former > opseq {
            return vec![(former, part.content)];
        }
        if former == opseq {
            return Vec::new();
        }
        self.row_bytes += rows::part_bytes(&upload.0, &part);
        let former = open.parts.insert(number, part);
        if let Some(former) = &former {
            self.row_bytes -= rows::part_bytes(&upload.0, former);
        }
        former.map(|former| (opseq, former.content)).into_iter().collect()
    }

    fn complete(&mut self, opseq: Opseq, name: UploadName, parts: &[(u16, Opseq)], attributes: Box<[u8]>) -> Freed {
        // None: a dump that is being replayed has its outcome, or a later one.
        let Some(mut upload) = self.take_upload(&name) else { return Vec::new() };
        self.remember(name.clone(), Outcome { opseq, attributes: outcome_attributes(&attributes) });
        let mut joined = Vec::with_capacity(parts.len());
        for (number, part) in parts {
            match upload.parts.remove(number).filter(|found| found.opseq == *part) {
                Some(found) => joined.push(found),
                // Only where a dump that is being replayed has a later version of the object.
                None => return Vec::new(),
            }
        }
        let marks =
            joined.iter().map(|part| PartMark { length: part.content.length(), checksum: checksum_of(&part.attributes) });
        let marks = Some(marks.collect());
        let pieces = joined.iter().flat_map(|part| part.content.pieces.iter().cloned()).collect();
        let content = Arc::new(Content { pieces, parts: marks });
        let held = joined.iter().filter(|part| Arc::strong_count(&part.content) > 1);
        let whole = content.first_block();
        self.joined.extend(held.filter_map(|part| Some((whole?, Arc::downgrade(&part.content)))));
        let mut freed: Freed = upload.parts.into_values().map(|part| (opseq, part.content)).collect();
        freed.extend(self.put(name.0, Object { opseq, attributes, content }));
        freed
    }

    fn take_upload(&mut self, name: &UploadName) -> Option<Upload> {
        let upload = self.uploads.remove(name)?;
        self.row_bytes -= rows::upload_bytes(&name.0, &upload.attributes);
        self.row_bytes -= upload.parts.values().map(|part| rows::part_bytes(&name.0, part)).sum::<u64>();
        Some(upload)
    }

    /// Remembers an outcome, and forgets the oldest beyond the limit.
    fn remember(&mut self, name: UploadName, outcome: Outcome) {
        if self.outcomes.contains_key(&name) {
            return;
        }
        self.row_bytes += rows::outcome_bytes(&name.0, &outcome);
        self.outcome_ages.insert(outcome.opseq, name.clone());
        self.outcomes.insert(name, outcome);
        while self.outcomes.len() > MAX_OUTCOMES {
            let (_, oldest) = self.outcome_ages.pop_first().expect("each outcome has an age");
            let forgotten = self.outcomes.remove(&oldest).expect("each age is of an outcome");
            self.row_bytes -= rows::outcome_bytes(&oldest.0, &forgotten);
        }
    }
}

/// The tag of a version. Attributes were read when they were taken in.
pub fn tag_of(object: &Object) -> ETag {
    attributes_of(&object.attributes).etag
}

/// Attributes that were read when they were taken in.
pub fn attributes_of(bytes: &[u8]) -> Attributes {
    decode_attributes(bytes).expect("attributes are read when they are taken in")
}

fn checksum_of(attributes: &[u8]) -> Option<PartChecksum> {
    attributes_of(attributes).checksum.as_ref().map(PartChecksum::of)
}

fn outcome_attributes(attributes: &[u8]) -> Box<[u8]> {
    let Attributes { etag, modified_ms, .. } = attributes_of(attributes);
    Attributes { etag, modified_ms, ..Attributes::default() }.to_bytes().to_vec().into()
}

#[cfg(test)]
mod tests;
