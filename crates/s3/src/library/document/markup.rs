//! What is looked for in a document while it comes, since the library's reader does not: CDATA, which that reader drops without a
//! word, so that `<Key>a<![CDATA[b]]></Key>` would delete `a`; and more tags than any document needs, which it would turn into
//! many times their bytes.

use memchr::memchr;

use crate::config::MAX_DOCUMENT_TAGS;
use crate::failure::{Failure, MALFORMED_XML};

const CDATA: &[u8] = b"<![CDATA[";

/// A look through a document in pieces.
#[derive(Default)]
pub struct Markup {
    tags: usize,
    /// How much of [`CDATA`] stands at the end of what came.
    matched: usize,
}

impl Markup {
    /// Looks through the next piece. A CDATA in a comment is refused as well: what writes that can write something else.
    pub fn take(&mut self, mut bytes: &[u8]) -> Result<(), Failure> {
        while let Some(first) = bytes.first() {
            if *first == b'<' {
                self.matched = 1;
                self.tags += 1;
            } else if CDATA.get(self.matched) == Some(first) && self.matched > 0 {
                self.matched += 1;
            } else {
                self.matched = 0;
            }
            if self.matched == CDATA.len() {
                return Err(Failure::with(MALFORMED_XML, "CDATA sections are not read: write the text with escapes."));
            }
            if self.tags > MAX_DOCUMENT_TAGS {
                return Err(MALFORMED_XML.into());
            }
            let skip = if self.matched > 0 { 1 } else { memchr(b'<', bytes).unwrap_or(bytes.len()).max(1) };
            bytes = &bytes[skip..];
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
