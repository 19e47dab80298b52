//! Rows: what dumps have of a group, slice by slice.
//!
//! Uploads go first, then outcomes, then objects. A completion that happens meanwhile is replayed: its upload is in the dump, or its object is. The other way round,
//! neither might be.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use types::UploadId;

use crate::content::Content;
use crate::limits::SLICE_ROWS;
use crate::name::{Name, Opseq};
use crate::record::decode_attributes;

use super::{Outcome, Part, Pg, Upload, UploadName, packing};

const LENGTH_BYTES: usize = 4;
/// The longest encodings of numbers in a row, together.
const ROW_NUMBERS: u64 = 64;
/// The same in the row of an object: its length and those of name and body, its kind, the bucket.
const OBJECT_NUMBERS: u64 = 24;

/// A row, as it is read.
#[derive(Deserialize)]
enum Row<'a> {
    Upload {
        name: Name,
        upload: UploadId,
        opseq: Opseq,
        attributes: Box<[u8]>,
    },
    Part {
        name: Name,
        upload: UploadId,
        number: u16,
        opseq: Opseq,
        attributes: Box<[u8]>,
        content: Content,
    },
    Outcome {
        name: Name,
        upload: UploadId,
        opseq: Opseq,
        attributes: Box<[u8]>,
    },
    /// As `packing` has it.
    Object {
        name: Name,
        body: &'a [u8],
    },
}

/// The same, as it is written.
#[derive(Serialize)]
enum RowRef<'a> {
    Upload { name: &'a Name, upload: UploadId, opseq: Opseq, attributes: &'a [u8] },
    Part { name: &'a Name, upload: UploadId, number: u16, opseq: Opseq, attributes: &'a [u8], content: &'a Content },
    Outcome { name: &'a Name, upload: UploadId, opseq: Opseq, attributes: &'a [u8] },
    Object { name: &'a Name, body: &'a [u8] },
}

/// Where the next slice of a dump begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cursor {
    Uploads(Option<UploadName>),
    Outcomes(Option<UploadName>),
    Objects(Option<Name>),
}

impl Default for Cursor {
    fn default() -> Cursor {
        Cursor::Uploads(None)
    }
}

fn after<K>(key: Option<&K>) -> (Bound<&K>, Bound<&K>) {
    (key.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded)
}

fn from(name: Option<&Name>) -> Bound<&Name> {
    name.map_or(Bound::Unbounded, Bound::Excluded)
}

impl Pg {
    /// Writes the next rows of a dump; where the slice after them begins, none at the end.
    pub fn dump_slice(&self, cursor: &Cursor, out: &mut Vec<u8>) -> Option<Cursor> {
        match cursor {
            Cursor::Uploads(last) => {
                let mut last_key = None;
                for (key, upload) in self.uploads.range(after(last.as_ref())).take(SLICE_ROWS) {
                    write_upload(key, upload, out);
                    last_key = Some(key.clone());
                }
                Some(last_key.map_or(Cursor::Outcomes(None), |key| Cursor::Uploads(Some(key))))
            }
            Cursor::Outcomes(last) => {
                let mut last_key = None;
                for (key, outcome) in self.outcomes.range(after(last.as_ref())).take(SLICE_ROWS) {
                    let Outcome { opseq, attributes } = outcome;
                    write(&RowRef::Outcome { name: &key.0, upload: key.1, opseq: *opseq, attributes }, out);
                    last_key = Some(key.clone());
                }
                Some(last_key.map_or(Cursor::Objects(None), |key| Cursor::Outcomes(Some(key))))
            }
            Cursor::Objects(last) => {
                let mut last_name = None;
                for (name, row) in self.objects.range(from(last.as_ref())).take(SLICE_ROWS) {
                    write(&RowRef::Object { name: &name, body: row.body() }, out);
                    last_name = Some(name);
                }
                last_name.map(|name| Cursor::Objects(Some(name)))
            }
        }
    }

    /// Contents of the same rows as those of a slice, with the names that have them.
    pub fn contents(&mut self, cursor: &Cursor) -> (Vec<(Name, Arc<Content>)>, Option<Cursor>) {
        let mut contents = Vec::new();
        match cursor {
            Cursor::Uploads(last) => {
                let mut last_key = None;
                for (key, upload) in self.uploads.range(after(last.as_ref())).take(SLICE_ROWS) {
                    contents.extend(upload.parts.values().map(|part| (key.0.clone(), part.content.clone())));
                    last_key = Some(key.clone());
                }
                (contents, Some(last_key.map_or(Cursor::Objects(None), |key| Cursor::Uploads(Some(key)))))
            }
            Cursor::Outcomes(_) => (contents, Some(Cursor::Objects(None))),
            Cursor::Objects(last) => {
                let contents = self.objects.pin_slice(from(last.as_ref()), SLICE_ROWS);
                let next = contents.last().map(|(name, _)| Cursor::Objects(Some(name.clone())));
                (contents, next)
            }
        }
    }

    /// Reads all rows of a dump. None where they are damaged.
    pub fn load_rows(&mut self, mut bytes: &[u8]) -> Option<()> {
        while !bytes.is_empty() {
            let (length, rest) = bytes.split_first_chunk::<LENGTH_BYTES>()?;
            let (row, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
            self.load_row(postcard::from_bytes(row).ok()?)?;
            bytes = rest;
        }
        Some(())
    }

    fn load_row(&mut self, row: Row<'_>) -> Option<()> {
        match row {
            Row::Upload { name, upload, opseq, attributes } => {
                check(&name, &attributes, None)?;
                self.row_bytes += upload_bytes(&name, &attributes);
                self.uploads.insert((name, upload), Upload { opseq, attributes, parts: BTreeMap::new() });
            }
            Row::Part { name, upload, number, opseq, attributes, content } => {
                check(&name, &attributes, Some(&content))?;
                let name = (name, upload);
                let part = Part { opseq, attributes, content: Arc::new(content) };
                drop(self.put_part(&name, number, part));
            }
            Row::Outcome { name, upload, opseq, attributes } => {
                check(&name, &attributes, None)?;
                self.remember((name, upload), Outcome { opseq, attributes });
            }
            Row::Object { name, body } => {
                let object = packing::read(body)?;
                check(&name, &object.attributes, Some(&object.content))?;
                drop(self.set_object(&name, object));
            }
        }
        Some(())
    }
}

fn check(name: &Name, attributes: &[u8], content: Option<&Content>) -> Option<()> {
    let is_sane = name.is_sane() && decode_attributes(attributes).is_ok() && content.is_none_or(Content::is_sane);
    is_sane.then_some(())
}

fn write_upload((name, id): &UploadName, upload: &Upload, out: &mut Vec<u8>) {
    let Upload { opseq, attributes, parts } = upload;
    write(&RowRef::Upload { name, upload: *id, opseq: *opseq, attributes }, out);
    for (number, Part { opseq, attributes, content }) in parts {
        write(&RowRef::Part { name, upload: *id, number: *number, opseq: *opseq, attributes, content }, out);
    }
}

fn write(row: &RowRef<'_>, out: &mut Vec<u8>) {
    let bytes = postcard::to_allocvec(row).expect("a row has no type that can't be written");
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(&bytes);
}

// At most so many bytes of rows: what a dump needs is known before it begins.

pub fn name_bytes(name: &Name) -> u64 {
    name.key().len() as u64 + ROW_NUMBERS
}

pub fn upload_bytes(name: &Name, attributes: &[u8]) -> u64 {
    name_bytes(name) + attributes.len() as u64
}

pub fn outcome_bytes(name: &Name, outcome: &Outcome) -> u64 {
    upload_bytes(name, &outcome.attributes)
}

pub fn part_bytes(name: &Name, part: &Part) -> u64 {
    upload_bytes(name, &part.attributes) + content_bytes(&part.content)
}

/// `body_bytes`: of the row's body.
pub fn object_bytes(name: &Name, body_bytes: usize) -> u64 {
    name.key().len() as u64 + body_bytes as u64 + OBJECT_NUMBERS
}

fn content_bytes(content: &Content) -> u64 {
    const EXTENT: u64 = 10;
    const PIECE: u64 = 11;
    const SUM: u64 = 5;
    const PART: u64 = 84;
    let piece = |piece: &crate::content::Piece| PIECE + piece.extents.len() as u64 * EXTENT + piece.sums.len() as u64 * SUM;
    let parts = content.parts.as_ref().map_or(0, |parts| parts.len() as u64);
    content.pieces.iter().map(piece).sum::<u64>() + parts * PART
}

/// Blocks of a dump of so many bytes.
pub fn blocks_for(row_bytes: u64) -> u64 {
    row_bytes.div_ceil(crate::dump::BLOCK_ROOM)
}

/// The count anew.
pub(super) fn counted(pg: &Pg) -> u64 {
    let objects: u64 = pg.objects.range(Bound::Unbounded).map(|(name, row)| object_bytes(&name, row.body().len())).sum();
    let of_upload = |(name, upload): (&UploadName, &Upload)| {
        let parts: u64 = upload.parts.values().map(|part| part_bytes(&name.0, part)).sum();
        upload_bytes(&name.0, &upload.attributes) + parts
    };
    let uploads: u64 = pg.uploads.iter().map(of_upload).sum();
    let outcomes: u64 = pg.outcomes.iter().map(|(name, outcome)| outcome_bytes(&name.0, outcome)).sum();
    objects + uploads + outcomes
}
