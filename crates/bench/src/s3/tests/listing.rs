//! Pages of names and error documents.

use super::super::list::{Page, error_code, scan};

#[test]
fn a_page_is_counted_and_its_token_unescaped() {
    let xml = b"<?xml version=\"1.0\"?><ListBucketResult><IsTruncated>true</IsTruncated>\
        <Contents><Key>a</Key><Size>1</Size></Contents><Contents><Key>a/b</Key></Contents>\
        <NextContinuationToken>x&amp;lt;&lt;=</NextContinuationToken></ListBucketResult>";
    assert_eq!(scan(xml), Some(Page { names: 2, ascending: true, next: Some("x&lt;<=".to_owned()) }));
}

#[test]
fn the_last_page_has_no_token() {
    let xml = b"<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>";
    assert_eq!(scan(xml), Some(Page { names: 0, ascending: true, next: None }));
}

#[test]
fn disorder_and_repetition_are_seen() {
    for keys in ["<Key>b</Key><Key>a</Key>", "<Key>a</Key><Key>a</Key>"] {
        let xml = format!("<ListBucketResult>{keys}<IsTruncated>false</IsTruncated></ListBucketResult>");
        assert!(!scan(xml.as_bytes()).unwrap().ascending, "{keys}");
    }
}

#[test]
fn what_is_no_page_is_refused() {
    assert_eq!(scan(b"<Error><Code>AccessDenied</Code></Error>"), None);
    assert_eq!(scan(b"<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>"), None, "no token");
    assert_eq!(scan(b"<ListBucketResult><Key>cut of"), None);
    assert_eq!(scan(b""), None);
}

#[test]
fn error_codes_are_found() {
    assert_eq!(error_code(b"<Error><Code>NoSuchKey</Code><Message>m</Message></Error>"), Some("NoSuchKey"));
    assert_eq!(error_code(b"gateway down"), None);
}
