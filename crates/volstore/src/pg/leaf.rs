//! Rows of neighbouring names in one string of bytes, ascending. A name is written without what it shares with the one before it.
//!
//! ```text
//!   row   shared │ length of the rest │ rest of the name │ length of the body │ body
//! ```
//!
//! Numbers are LEB128. The first row shares nothing.

use std::cmp::Ordering;
use std::ops::Range;

use super::numbers::{push_number, take_number};

/// A leaf above so many bytes is divided.
pub const LEAF_BYTES: usize = 2048;
/// A leaf's room grows by so many bytes at once: what is not used is less than that.
const ROOM_STEP: usize = 128;

/// Some rows.
#[derive(Clone, Debug, Default)]
pub struct Leaf {
    bytes: Vec<u8>,
}

/// Where a name stands in a leaf, or would stand.
struct Place {
    at: usize,
    /// Where the row ends that has this very name, and its body.
    found: Option<(usize, Range<usize>)>,
    /// The name before it.
    before: Vec<u8>,
}

impl Leaf {
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Bytes of memory.
    #[cfg(test)]
    pub fn room(&self) -> usize {
        self.bytes.capacity()
    }

    /// The body of a name's row. Rows are compared only where they leave what the name has in common with the row before.
    pub fn get(&self, name: &[u8]) -> Option<&[u8]> {
        let mut rows = Rows { bytes: &self.bytes, at: 0, name: Vec::new() };
        let mut matched = 0;
        while rows.at < self.bytes.len() {
            let shared = rows.number();
            let rest = rows.take();
            let body = rows.take();
            match shared.cmp(&matched) {
                // It differs from the name where the row before does.
                Ordering::Greater => {}
                Ordering::Less => return None,
                Ordering::Equal => {
                    let (rest, wanted) = (&self.bytes[rest], &name[matched..]);
                    let more = rest.iter().zip(wanted).take_while(|(left, right)| left == right).count();
                    match rest[more..].first().cmp(&wanted[more..].first()) {
                        Ordering::Less => matched += more,
                        Ordering::Equal => return Some(&self.bytes[body]),
                        Ordering::Greater => return None,
                    }
                }
            }
        }
        None
    }

    pub fn rows(&self) -> Rows<'_> {
        Rows { bytes: &self.bytes, at: 0, name: Vec::new() }
    }

    /// Has a name's row be this one; without a body it goes. The body before.
    pub fn set(&mut self, name: &[u8], body: Option<&[u8]>) -> Option<Box<[u8]>> {
        let Place { at, found, before } = self.find(name);
        let former = found.as_ref().map(|(_, body)| self.bytes[body.clone()].into());
        let end = found.map_or(at, |(end, _)| end);
        let mut new = Vec::with_capacity(name.len() + body.map_or(0, <[u8]>::len) + 16);
        if let Some(body) = body {
            push_row(&mut new, &before, name, body);
        }
        // The row behind it shares bytes with another one from now on, unless the names stay.
        let mut replaced = at..end;
        if former.is_some() != body.is_some() && end < self.bytes.len() {
            let mut rows =
                Rows { bytes: &self.bytes, at: end, name: if former.is_some() { name.to_vec() } else { before.clone() } };
            let (next, next_body) = rows.step().expect("there is a row");
            replaced.end = rows.at;
            let next_body = &self.bytes[next_body];
            push_row(&mut new, if body.is_some() { name } else { &before }, &next, next_body);
        }
        self.replace(replaced, &new);
        former
    }

    fn replace(&mut self, range: Range<usize>, new: &[u8]) {
        let len = self.bytes.len() - range.len() + new.len();
        if len > self.bytes.capacity() {
            self.bytes.reserve_exact(len.next_multiple_of(ROOM_STEP) - self.bytes.len());
        }
        self.bytes.splice(range, new.iter().copied());
        if self.bytes.capacity() - len > 2 * ROOM_STEP {
            self.bytes.shrink_to(len.next_multiple_of(ROOM_STEP));
        }
    }

    /// Whether there is more than one row.
    pub fn has_several(&self) -> bool {
        let mut rows = self.rows();
        rows.advance().is_some() && rows.advance().is_some()
    }

    /// Whether a name that is there is the last one.
    pub fn ends_with(&self, name: &[u8]) -> bool {
        self.find(name).found.is_some_and(|(end, _)| end == self.bytes.len())
    }

    /// Divides a leaf. `is_ascending`: its last row was the newest, so that the next ones may follow it. The first name of the other leaf.
    pub fn divide(&mut self, is_ascending: bool) -> (Box<[u8]>, Leaf) {
        let least = if is_ascending { self.bytes.len() } else { self.bytes.len() / 2 };
        let mut rows = self.rows();
        let mut at = 0;
        let (name, body) = loop {
            let (name, body) = rows.step().expect("a leaf that is divided has several rows");
            if at > 0 && (rows.at >= least || rows.at == self.bytes.len()) {
                break (name, body);
            }
            at = rows.at;
        };
        let mut bytes = Vec::new();
        push_row(&mut bytes, b"", &name, &self.bytes[body]);
        bytes.extend_from_slice(&self.bytes[rows.at..]);
        self.replace(at..self.bytes.len(), b"");
        bytes.shrink_to_fit();
        (name.into(), Leaf { bytes })
    }

    /// Takes the rows of the leaf behind it, too.
    pub fn join(&mut self, later: &Leaf) {
        let mut rows = self.rows();
        while rows.step().is_some() {}
        let last = rows.name;
        let mut behind = later.rows();
        let Some((first, body)) = behind.step() else { return };
        let mut new = Vec::with_capacity(later.bytes.len());
        push_row(&mut new, &last, &first, &later.bytes[body]);
        new.extend_from_slice(&later.bytes[behind.at..]);
        self.replace(self.bytes.len()..self.bytes.len(), &new);
    }

    fn find(&self, name: &[u8]) -> Place {
        let mut rows = self.rows();
        let mut before = Vec::with_capacity(name.len());
        loop {
            let at = rows.at;
            let Some(body) = rows.advance() else { return Place { at, found: None, before } };
            match rows.name[..].cmp(name) {
                Ordering::Less => before.clone_from(&rows.name),
                Ordering::Equal => return Place { at, found: Some((rows.at, body)), before },
                Ordering::Greater => return Place { at, found: None, before },
            }
        }
    }
}

/// Rows, ascending.
pub struct Rows<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Of the last row.
    name: Vec<u8>,
}

impl<'a> Rows<'a> {
    /// The next row's name, and its body.
    pub fn next_row(&mut self) -> Option<(&[u8], &'a [u8])> {
        let body = self.advance()?;
        Some((&self.name, &self.bytes[body]))
    }

    fn step(&mut self) -> Option<(Vec<u8>, Range<usize>)> {
        let body = self.advance()?;
        Some((self.name.clone(), body))
    }

    fn advance(&mut self) -> Option<Range<usize>> {
        if self.at == self.bytes.len() {
            return None;
        }
        let shared = self.number();
        let rest = self.take();
        self.name.truncate(shared);
        self.name.extend_from_slice(&self.bytes[rest]);
        Some(self.take())
    }

    /// The range of bytes that a length and they are.
    fn take(&mut self) -> Range<usize> {
        let len = self.number();
        let start = self.at;
        self.at += len;
        start..self.at
    }

    fn number(&mut self) -> usize {
        let mut rest = &self.bytes[self.at..];
        let number = take_number(&mut rest).expect("a row that was packed is whole");
        self.at = self.bytes.len() - rest.len();
        number as usize
    }
}

fn push_row(out: &mut Vec<u8>, before: &[u8], name: &[u8], body: &[u8]) {
    let shared = before.iter().zip(name).take_while(|(left, right)| left == right).count();
    push_number(out, shared as u64);
    push_number(out, (name.len() - shared) as u64);
    out.extend_from_slice(&name[shared..]);
    push_number(out, body.len() as u64);
    out.extend_from_slice(body);
}
