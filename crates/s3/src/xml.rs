//! Writing XML, for answers that the S3 library would serialise more slowly, and for errors.

use bytes::Bytes;

/// A document that grows from its start.
#[derive(Debug)]
pub struct Xml {
    out: Vec<u8>,
}

impl Xml {
    /// A document with its declaration.
    pub fn document() -> Xml {
        Xml::with_capacity(512)
    }

    /// A piece of a document.
    pub fn fragment() -> Xml {
        Xml { out: Vec::new() }
    }

    /// A document that will have about this many bytes.
    pub fn with_capacity(bytes: usize) -> Xml {
        let mut out = Vec::with_capacity(bytes);
        out.extend_from_slice(b"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
        Xml { out }
    }

    /// An opening tag; `name` may hold attributes.
    pub fn open(&mut self, name: &str) {
        self.out.push(b'<');
        self.out.extend_from_slice(name.as_bytes());
        self.out.push(b'>');
    }

    pub fn close(&mut self, name: &str) {
        self.out.extend_from_slice(b"</");
        self.out.extend_from_slice(name.as_bytes());
        self.out.push(b'>');
    }

    /// An element with text.
    pub fn element(&mut self, name: &str, text: &str) {
        self.open(name);
        self.text(text);
        self.close(name);
    }

    /// Markup or text that is known to need no escaping.
    #[inline]
    pub fn raw(&mut self, text: &[u8]) {
        self.out.extend_from_slice(text);
    }

    /// A number, without the formatting machinery.
    pub fn number(&mut self, number: u64) {
        let mut digits = [0u8; 20];
        let mut at = digits.len();
        let mut rest = number;
        loop {
            at -= 1;
            digits[at] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        self.out.extend_from_slice(&digits[at..]);
    }

    /// An element with a number.
    pub fn number_element(&mut self, name: &str, number: u64) {
        self.open(name);
        self.number(number);
        self.close(name);
    }

    /// Text with what XML reserves escaped. Control characters, which XML 1.0 cannot carry, become numeric references as S3
    /// writes them; clients that cannot read those ask for `encoding-type=url`.
    pub fn text(&mut self, text: &str) {
        let bytes = text.as_bytes();
        let mut plain_from = 0;
        for (at, &byte) in bytes.iter().enumerate() {
            if PLAIN[usize::from(byte)] {
                continue;
            }
            self.out.extend_from_slice(&bytes[plain_from..at]);
            plain_from = at + 1;
            self.escape(byte);
        }
        self.out.extend_from_slice(&bytes[plain_from..]);
    }

    fn escape(&mut self, byte: u8) {
        match byte {
            b'&' => self.raw(b"&amp;"),
            b'<' => self.raw(b"&lt;"),
            b'>' => self.raw(b"&gt;"),
            b'"' => self.raw(b"&quot;"),
            control => self.reference(control),
        }
    }

    fn reference(&mut self, control: u8) {
        const HEX: &[u8; 16] = b"0123456789abcdef";
        self.raw(b"&#x");
        if control >= 16 {
            self.out.push(HEX[usize::from(control >> 4)]);
        }
        self.out.push(HEX[usize::from(control & 15)]);
        self.out.push(b';');
    }

    pub fn finish(self) -> Bytes {
        Bytes::from(self.out)
    }
}

/// A document of somebody else's with references in place of control characters, as [`Xml::text`] writes them; `None` if it has none.
/// They stand in texts alone: nobody puts them into markup.
pub fn with_references(document: &[u8]) -> Option<Bytes> {
    let is_control = |byte: &u8| !PLAIN[usize::from(*byte)] && (*byte < b' ' || *byte == 0x7f);
    let first = document.iter().position(is_control)?;
    let mut xml = Xml { out: Vec::with_capacity(document.len() + 1024) };
    xml.raw(&document[..first]);
    for byte in &document[first..] {
        if is_control(byte) { xml.reference(*byte) } else { xml.out.push(*byte) }
    }
    Some(xml.finish())
}

/// Bytes that stand for themselves.
const PLAIN: [bool; 256] = {
    let mut plain = [true; 256];
    let mut byte = 0;
    while byte < 0x20 {
        plain[byte] = false;
        byte += 1;
    }
    plain[b'\t' as usize] = true;
    plain[b'\n' as usize] = true;
    plain[0x7f] = false;
    plain[b'&' as usize] = false;
    plain[b'<' as usize] = false;
    plain[b'>' as usize] = false;
    plain[b'"' as usize] = false;
    plain
};

#[cfg(test)]
mod tests;
