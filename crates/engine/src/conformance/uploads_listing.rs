//! Lists of open uploads.

use std::collections::BTreeSet;

use bytes::Bytes;
use types::UploadId;

use super::Engine;
use super::support::{BUCKET, attributes, key, open_upload};
use crate::upload::{UploadPage, UploadQuery};

async fn page(
    engine: &Engine,
    prefix: &str,
    delimiter: &str,
    after: Option<(Bytes, Option<UploadId>)>,
    max_items: usize,
) -> UploadPage {
    let text = |text: &str| Bytes::copy_from_slice(text.as_bytes());
    let query = UploadQuery { bucket: BUCKET, prefix: text(prefix), after, delimiter: text(delimiter), max_items };
    engine.uploads(&query).await.expect("a list succeeds")
}

fn shown(page: &UploadPage) -> Vec<String> {
    let show = |bytes: &Bytes| String::from_utf8_lossy(bytes).into_owned();
    let mut names: Vec<String> = page.uploads.iter().map(|upload| show(&upload.key)).collect();
    names.extend(page.prefixes.iter().map(|prefix| show(prefix) + "*"));
    names
}

pub(super) async fn pages_and_prefixes(engine: Engine) {
    assert_eq!(shown(&page(&engine, "", "", None, 10).await), [""; 0]);
    for (number, name) in ["c", "a/1", "a/2", "b", "a"].into_iter().enumerate() {
        open_upload(&engine, &key(name), number as u64).await;
    }
    let all = page(&engine, "", "", None, 10).await;
    assert_eq!(shown(&all), ["a", "a/1", "a/2", "b", "c"]);
    assert!(!all.truncated);
    let initiated: Vec<u64> = all.uploads.iter().map(|upload| upload.initiated_ms).collect();
    assert_eq!(initiated, [4, 1, 2, 3, 0].map(|number| attributes(number).modified_ms));

    assert_eq!(shown(&page(&engine, "a/", "", None, 10).await), ["a/1", "a/2"]);
    assert_eq!(shown(&page(&engine, "", "/", None, 10).await), ["a", "b", "c", "a/*"]);
    let first = page(&engine, "", "/", None, 2).await;
    assert_eq!(shown(&first), ["a", "a/*"]);
    assert!(first.truncated);
    let after_prefix = Some((Bytes::from_static(b"a/"), None));
    assert_eq!(shown(&page(&engine, "", "/", after_prefix, 2).await), ["b", "c"]);
    let after_key = Some((Bytes::from_static(b"a/1"), None));
    assert_eq!(shown(&page(&engine, "", "", after_key, 10).await), ["a/2", "b", "c"]);
}

pub(super) async fn many_uploads_of_one_key(engine: Engine) {
    let mut opened = BTreeSet::new();
    for number in 0..7 {
        opened.insert(open_upload(&engine, &key("same"), number).await.upload);
    }
    let other = open_upload(&engine, &key("tail"), 9).await.upload;
    assert_eq!(opened.len(), 7, "every upload has an id of its own");
    let mut seen = Vec::new();
    let mut after = None;
    loop {
        let next = page(&engine, "", "", after, 3).await;
        assert!(next.uploads.len() == 3 || !next.truncated, "a page that is not the last is full");
        seen.extend(next.uploads.iter().map(|upload| upload.upload));
        let Some(last) = next.uploads.last().filter(|_| next.truncated) else { break };
        after = Some((last.key.clone(), Some(last.upload)));
    }
    let expected: Vec<UploadId> = opened.into_iter().chain([other]).collect();
    assert_eq!(seen, expected, "in order of key, then of id");
    let after_all = page(&engine, "", "", Some((Bytes::from_static(b"same"), None)), 10).await;
    assert_eq!(after_all.uploads.iter().map(|upload| upload.upload).collect::<Vec<_>>(), [other]);
}
