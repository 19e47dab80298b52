//! What reads answer.

use bytes::{Bytes, BytesMut};
use smallvec::SmallVec;

/// A part of what was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    Data(Bytes),
    /// That many zeros.
    Zeros(u32),
}

/// What was read: parts one after the other.
pub type Content = SmallVec<[Part; 1]>;

/// Adds a part; zeros that follow zeros become one part.
pub(crate) fn append(content: &mut Content, part: Part) {
    match (content.last_mut(), part) {
        (Some(Part::Zeros(before)), Part::Zeros(more)) => *before += more,
        (_, part) => content.push(part),
    }
}

/// The bytes of a content, behind what `bytes` has.
pub(crate) fn extend(bytes: &mut BytesMut, content: &Content) {
    for part in content {
        match part {
            Part::Data(data) => bytes.extend_from_slice(data),
            Part::Zeros(length) => bytes.resize(bytes.len() + *length as usize, 0),
        }
    }
}
