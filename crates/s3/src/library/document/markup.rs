//! What is looked for in a document while it comes, since the library's reader does not:
//!
//! - CDATA, which that reader drops without a word, so that `<Key>a<![CDATA[b]]></Key>` would delete `a`;
//! - more tags than any document needs, which it would turn into many times their bytes;
//! - elements that are not read. That reader passes over them, and what they ask for would be forgotten.

use http::Method;
use http::request::Parts;
use memchr::memchr;

use crate::config::MAX_DOCUMENT_TAGS;
use crate::direct::names_subresource;
use crate::failure::{Code, Failure, MALFORMED_XML, NOT_IMPLEMENTED};
use crate::query::Query;

const CDATA: &[u8] = b"<![CDATA[";

/// Most bytes of an element's name that are looked at; no name that is read is longer.
const MAX_NAME_BYTES: usize = 64;

/// A look through a document in pieces.
#[derive(Default)]
pub struct Markup {
    elements: Option<&'static Elements>,
    tags: usize,
    /// How much of [`CDATA`] stands at the end of what came.
    matched: usize,
    /// The name of the element that begins there.
    name: Option<Vec<u8>>,
}

/// The elements of one kind of document that are read, and what is said of others.
pub struct Elements {
    names: &'static [&'static str],
    code: &'static Code,
}

const CREATE_BUCKET: Elements = Elements { names: &["CreateBucketConfiguration", "LocationConstraint"], code: NOT_IMPLEMENTED };
const DELETE: Elements = Elements {
    names: &["Delete", "Quiet", "Object", "Key", "VersionId", "ETag", "Size", "LastModifiedTime"],
    code: MALFORMED_XML,
};
const TAGGING: Elements = Elements { names: &["Tagging", "TagSet", "Tag", "Key", "Value"], code: MALFORMED_XML };
impl Elements {
    /// Those of the document that a request with this head has.
    fn of(head: &Parts, query: &Query<'_>) -> Option<&'static Elements> {
        match head.method {
            Method::POST if query.has("delete") => Some(&DELETE),
            Method::PUT if query.has("tagging") => Some(&TAGGING),
            Method::PUT if !names_subresource(query) => Some(&CREATE_BUCKET),
            _ => None,
        }
    }

    fn check(&self, name: &[u8]) -> Result<(), Failure> {
        let local = name.rsplit(|byte| *byte == b':').next().unwrap_or(name);
        if self.names.iter().any(|known| known.as_bytes() == local) {
            return Ok(());
        }
        let name = String::from_utf8_lossy(name);
        Err(Failure::with(
            self.code,
            format!("The element {name} of the document is not known, or asks for what is not implemented."),
        ))
    }
}

impl Markup {
    /// Of the document that a request with this head has.
    pub fn of(head: &Parts, query: &Query<'_>) -> Markup {
        Markup { elements: Elements::of(head, query), ..Markup::default() }
    }

    /// Looks through the next piece. A CDATA in a comment is refused as well: what writes that can write something else.
    pub fn take(&mut self, mut bytes: &[u8]) -> Result<(), Failure> {
        while let Some(first) = bytes.first() {
            if *first == b'<' {
                self.matched = 1;
                self.tags += 1;
                self.name = self.elements.is_some().then(Vec::new);
            } else if CDATA.get(self.matched) == Some(first) && self.matched > 0 {
                self.matched += 1;
                self.name = None;
            } else {
                self.matched = 0;
                self.take_name(*first)?;
            }
            if self.matched == CDATA.len() {
                return Err(Failure::with(MALFORMED_XML, "CDATA sections are not read: write the text with escapes."));
            }
            if self.tags > MAX_DOCUMENT_TAGS {
                return Err(MALFORMED_XML.into());
            }
            let is_inside = self.matched > 0 || self.name.is_some();
            let skip = if is_inside { 1 } else { memchr(b'<', bytes).unwrap_or(bytes.len()).max(1) };
            bytes = &bytes[skip..];
        }
        Ok(())
    }

    /// The next byte of an element's name, or the one behind it. Ends of elements, comments and declarations have none.
    fn take_name(&mut self, byte: u8) -> Result<(), Failure> {
        let (Some(elements), Some(name)) = (self.elements, &mut self.name) else { return Ok(()) };
        let is_none = name.is_empty() && matches!(byte, b'/' | b'!' | b'?');
        let is_over = matches!(byte, b'>' | b'/' | b' ' | b'\t' | b'\r' | b'\n') || name.len() == MAX_NAME_BYTES;
        if !is_none && !is_over {
            name.push(byte);
            return Ok(());
        }
        let name = self.name.take().unwrap_or_default();
        if is_none { Ok(()) } else { elements.check(&name) }
    }
}

#[cfg(test)]
mod tests;
