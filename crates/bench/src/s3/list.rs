//! One page of ListObjectsV2, scanned rather than parsed: the generator only needs the count, the order and the token.

use memchr::memmem;

/// What a page says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// Keys on the page.
    pub names: u64,
    /// Whether the keys ascend, as S3 promises.
    pub ascending: bool,
    /// The token of the next page, with XML entities undone; `None` on the last page.
    pub next: Option<String>,
}

/// Scans a page; `None` when it is not a ListBucketResult.
pub fn scan(xml: &[u8]) -> Option<Page> {
    memmem::find(xml, b"<ListBucketResult")?;
    let open = memmem::Finder::new(b"<Key>");
    let mut page = Page { names: 0, ascending: true, next: None };
    let mut previous: &[u8] = b"";
    for start in open.find_iter(xml).map(|place| place + b"<Key>".len()) {
        let key = &xml[start..start + memchr::memchr(b'<', &xml[start..])?];
        page.ascending &= page.names == 0 || previous < key;
        page.names += 1;
        previous = key;
    }
    if element(xml, b"<IsTruncated>")? == b"true" {
        let token = element(xml, b"<NextContinuationToken>")?;
        page.next = Some(unescape(std::str::from_utf8(token).ok()?));
    }
    Some(page)
}

/// The code of an S3 error document.
pub fn error_code(xml: &[u8]) -> Option<&str> {
    std::str::from_utf8(element(xml, b"<Code>")?).ok()
}

fn element<'a>(xml: &'a [u8], open: &[u8]) -> Option<&'a [u8]> {
    let start = memmem::find(xml, open)? + open.len();
    let length = memchr::memchr(b'<', &xml[start..])?;
    Some(&xml[start..start + length])
}

fn unescape(text: &str) -> String {
    const ENTITIES: [(&str, &str); 6] =
        [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#34;", "\""), ("&apos;", "'"), ("&amp;", "&")];
    let mut plain = text.to_owned();
    if plain.contains('&') {
        // The ampersand comes last, so that what it uncovers is not taken for another entity.
        for (entity, character) in ENTITIES {
            plain = plain.replace(entity, character);
        }
    }
    plain
}
