//! Options of buckets, chosen by command and seen over HTTP.

use crate::http::Connection;
use crate::server::{Home, program, text};

/// Of `abc`, from RFC 1321.
const MD5: &str = "900150983cd24fb0d6963f7d28e17f72";

#[test]
fn a_bucket_with_fast_etags_is_made_by_command() {
    let home = Home::new();
    let server = home.serve(&[]);
    server.run(&["bucket", "create", "fast", "--etag", "fast"]);
    server.run(&["bucket", "make", "plain", "--etag", "md5"]);
    let mut tags = Vec::new();
    for bucket in ["fast", "plain"] {
        server.run(&["bucket", "policy", "set", bucket, "public-read-write"]);
        let mut s3 = Connection::open(&server.s3).unwrap();
        let path = format!("/{bucket}/key");
        let put = s3.ask("PUT", &path, &[], b"abc").unwrap();
        let tag = put.header("etag").expect("an ETag").to_owned();
        let got = s3.ask("GET", &path, &[("If-Match", &tag)], b"").unwrap();
        assert_eq!((got.status, got.header("etag")), (200, Some(tag.as_str())));
        tags.push(tag);
    }
    assert_eq!(tags[1], format!("\"{MD5}\""));
    let hash = tags[0].strip_prefix('"').and_then(|tag| tag.strip_suffix("-1\"")).unwrap_or_else(|| panic!("{}", tags[0]));
    assert!(hash.len() == 32 && hash.bytes().all(|letter| letter.is_ascii_hexdigit()), "{hash}");
    assert_ne!(hash, MD5);
    let help = text(&program().args(["bucket", "make", "--help"]).output().unwrap().stdout);
    assert!(help.contains("--etag <ETAG>") && help.contains("--etag fast") && help.contains("no MD5"), "{help}");
}

/// As S3 has it in its first region. What can't be had is no success.
#[test]
fn a_bucket_may_be_made_again_as_it_is() {
    let home = Home::new();
    let server = home.serve(&[]);
    for _ in 0..2 {
        server.run(&["bucket", "make", "box"]);
    }
    assert!(server.fail(&["bucket", "make", "box", "--etag", "fast"]).contains("BucketAlreadyOwnedByYou"));
}
