//! LIST as tests read it.

use crate::http::Connection;
use std::collections::BTreeMap;
use std::io;

/// What a list says of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// With its quotes.
    pub etag: String,
    pub size: String,
}

/// All keys of a bucket that begin with `prefix`, asked for in pages of `page` keys.
pub fn list(connection: &mut Connection, bucket: &str, prefix: &str, page: u64) -> io::Result<BTreeMap<String, Listed>> {
    let mut names = BTreeMap::new();
    let mut token = String::new();
    loop {
        let answer = connection.get(&format!("/{bucket}?list-type=2&prefix={prefix}&max-keys={page}{token}"))?;
        if answer.status == 503 {
            return Err(io::Error::new(io::ErrorKind::ResourceBusy, answer.text()));
        }
        assert_eq!(answer.status, 200, "{}", answer.text());
        let xml = answer.text();
        for item in xml.split("<Contents>").skip(1) {
            let listed = Listed { etag: element(item, "ETag").replace("&quot;", "\""), size: element(item, "Size").to_owned() };
            let again = names.insert(element(item, "Key").to_owned(), listed);
            assert!(again.is_none(), "a key is listed twice: {xml}");
        }
        if element(&xml, "IsTruncated") == "false" {
            return Ok(names);
        }
        let next = element(&xml, "NextContinuationToken").replace('+', "%2B").replace('=', "%3D");
        token = format!("&continuation-token={next}");
    }
}

fn element<'a>(xml: &'a str, name: &str) -> &'a str {
    let (open, close) = (format!("<{name}>"), format!("</{name}>"));
    let start = xml.find(&open).unwrap_or_else(|| panic!("no {name} in {xml}")) + open.len();
    &xml[start..start + xml[start..].find(&close).unwrap()]
}
