//! A version of an object in few bytes: the body of its row, in memory and in dumps.
//!
//! ```text
//!   opseq │ shape │ attributes                                           │ content
//!                   usual head: digest 16 │ modified_ms │ type │ others    one run: bytes │ first block │ sums
//!                   else: all of them                                      none: nothing. Else: pieces and parts in postcard
//! ```
//!
//! | bit of `shape` | means |
//! |---|---|
//! | 0 | the attributes begin with a tag of one part and a time, as those of a usual object do |
//! | 1 | that tag is a fast one, else an MD5 |
//! | 2 | the content is one piece in one run of blocks |
//! | 3 | there is no content |
//!
//! Numbers are LEB128, sums are little endian, `others` and the attributes have their length before them. `type` is the place in [`CONTENT_TYPES`] plus one; 0: it is
//! among the others, if there is one. Numbers of types never change their meaning.

use std::sync::Arc;

use format::attributes::{ETAG_BYTES, Tag};
use types::limits::BLOCK_BYTES;

use super::numbers::{push_number, take, take_number};
use crate::content::{Content, Extent, Object, Piece};
use crate::limits::SUM_BYTES;
use crate::name::Opseq;

const USUAL_HEAD: u8 = 1;
const FAST_TAG: u8 = 2;
const ONE_RUN: u8 = 4;
const NO_CONTENT: u8 = 8;

const DIGEST_BYTES: usize = 16;
/// As `format::attributes` writes a tag of one part: its kind, the digest, no parts.
const MD5: u8 = 0;
const FAST: u8 = 2;
const TAG_BYTES: usize = 3 + ETAG_BYTES;
const HEAD_BYTES: usize = TAG_BYTES + 3 + 8;

/// Types that many objects have.
const CONTENT_TYPES: [&str; 24] = [
    "binary/octet-stream",
    "application/octet-stream",
    "text/plain",
    "text/html",
    "text/css",
    "text/csv",
    "text/xml",
    "text/javascript",
    "application/javascript",
    "application/json",
    "application/xml",
    "application/pdf",
    "application/zip",
    "application/gzip",
    "application/x-tar",
    "application/x-www-form-urlencoded",
    "image/jpeg",
    "image/png",
    "image/gif",
    "image/webp",
    "image/svg+xml",
    "audio/mpeg",
    "video/mp4",
    "text/plain; charset=utf-8",
];

/// The body of a version's row.
pub fn pack(object: &Object) -> Vec<u8> {
    let Object { opseq, attributes, content } = object;
    let mut body = Vec::with_capacity(64);
    push_number(&mut body, opseq.0);
    let shape_at = body.len();
    body.push(0);
    let mut shape = pack_attributes(attributes, &mut body);
    if let Some((piece, first)) = one_run(content) {
        shape |= ONE_RUN;
        push_number(&mut body, u64::from(piece.length));
        push_number(&mut body, u64::from(first));
        piece.sums.iter().for_each(|sum| body.extend_from_slice(&sum.to_le_bytes()));
    } else if content.pieces.is_empty() && content.parts.is_none() {
        shape |= NO_CONTENT;
    } else {
        body.extend(postcard::to_allocvec(&**content).expect("content has no type that can't be written"));
    }
    body[shape_at] = shape;
    body
}

fn pack_attributes(attributes: &[u8], body: &mut Vec<u8>) -> u8 {
    let Some((kind, digest, modified_ms)) = usual_head(attributes) else {
        push_number(body, attributes.len() as u64);
        body.extend_from_slice(attributes);
        return 0;
    };
    body.extend_from_slice(digest);
    push_number(body, modified_ms);
    let others = &attributes[HEAD_BYTES..];
    let found = CONTENT_TYPES.iter().position(|content_type| others.starts_with(&type_bytes(content_type)));
    body.push(found.map_or(0, |at| at as u8 + 1));
    let others = &others[found.map_or(0, |at| type_bytes(CONTENT_TYPES[at]).len())..];
    push_number(body, others.len() as u64);
    body.extend_from_slice(others);
    USUAL_HEAD | if kind == FAST { FAST_TAG } else { 0 }
}

/// A content type as attributes have it. Its length is among the bytes, so none begins with another.
fn type_bytes(content_type: &str) -> Vec<u8> {
    let mut bytes = vec![Tag::ContentType as u8, content_type.len() as u8, 0];
    bytes.extend_from_slice(content_type.as_bytes());
    bytes
}

/// The kind and the digest of a tag of one part, and the time, if attributes begin so.
fn usual_head(attributes: &[u8]) -> Option<(u8, &[u8], u64)> {
    let head = attributes.get(..HEAD_BYTES)?;
    let kind = head[3];
    let (digest, time) = (&head[4..4 + DIGEST_BYTES], head.last_chunk().expect("eight bytes"));
    let modified_ms = u64::from_le_bytes(*time);
    (matches!(kind, MD5 | FAST) && head == head_of(kind, digest, modified_ms)).then_some((kind, digest, modified_ms))
}

fn head_of(kind: u8, digest: &[u8], modified_ms: u64) -> [u8; HEAD_BYTES] {
    let mut head = [0; HEAD_BYTES];
    head[..4].copy_from_slice(&[Tag::ETag as u8, ETAG_BYTES as u8, 0, kind]);
    head[4..4 + DIGEST_BYTES].copy_from_slice(digest);
    head[TAG_BYTES..TAG_BYTES + 3].copy_from_slice(&[Tag::ModifiedMs as u8, 8, 0]);
    head[TAG_BYTES + 3..].copy_from_slice(&modified_ms.to_le_bytes());
    head
}

fn one_run(content: &Content) -> Option<(&Piece, u32)> {
    let [piece] = &*content.pieces else { return None };
    let [extent] = &*piece.extents else { return None };
    let is_usual = content.parts.is_none() && piece.is_sane();
    is_usual.then_some((piece, extent.first))
}

/// The number of a version whose body was packed here.
pub fn opseq_of(body: &[u8]) -> Opseq {
    let mut rest = body;
    Opseq(take_number(&mut rest).expect("a row that was packed is whole"))
}

/// A version that was packed here.
pub fn unpack(body: &[u8]) -> Object {
    read(body).expect("a row that was packed is whole")
}

/// A version from a body of a dump. None if it is none.
pub fn read(body: &[u8]) -> Option<Object> {
    let mut rest = body;
    let opseq = Opseq(take_number(&mut rest)?);
    let (shape, behind) = rest.split_first()?;
    rest = behind;
    let attributes = read_attributes(*shape, &mut rest)?;
    let content = if shape & ONE_RUN != 0 {
        let length = u32::try_from(take_number(&mut rest)?).ok()?;
        let first = u32::try_from(take_number(&mut rest)?).ok()?;
        let sums = take(&mut rest, (length as usize).div_ceil(SUM_BYTES) * 4)?;
        let sums = sums.chunks_exact(4).map(|sum| u32::from_le_bytes(sum.try_into().expect("four bytes"))).collect();
        let extent = Extent { first, count: (length as usize).div_ceil(BLOCK_BYTES) as u32 };
        Content { pieces: [Piece { length, extents: [extent].into(), sums }].into(), parts: None }
    } else if shape & NO_CONTENT != 0 {
        Content::default()
    } else {
        let (content, behind) = postcard::take_from_bytes(rest).ok()?;
        rest = behind;
        content
    };
    rest.is_empty().then(|| Object { opseq, attributes, content: Arc::new(content) })
}

fn read_attributes(shape: u8, rest: &mut &[u8]) -> Option<Box<[u8]>> {
    if shape & USUAL_HEAD == 0 {
        let length = take_number(rest)? as usize;
        return Some(take(rest, length)?.into());
    }
    let digest = take(rest, DIGEST_BYTES)?;
    let modified_ms = take_number(rest)?;
    let kind = if shape & FAST_TAG != 0 { FAST } else { MD5 };
    let mut attributes = head_of(kind, digest, modified_ms).to_vec();
    match take(rest, 1)?[0] {
        0 => {}
        number => attributes.extend(type_bytes(CONTENT_TYPES.get(usize::from(number) - 1)?)),
    }
    let length = take_number(rest)? as usize;
    attributes.extend_from_slice(take(rest, length)?);
    Some(attributes.into())
}

#[cfg(test)]
mod tests;
