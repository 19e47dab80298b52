use http::{HeaderMap, HeaderValue};
use proptest::prelude::{ProptestConfig, any, proptest};

use super::{Target, bucket_of_name};

fn target(path: &str, host: &str) -> Result<(String, String), &'static str> {
    let mut headers = HeaderMap::new();
    headers.insert("host", HeaderValue::from_str(host).expect("a host"));
    Target::of(path, &headers, Some("s3.example.org"))
        .map(|target| (target.bucket.into_owned(), target.key.into_owned()))
        .map_err(|failure| failure.code.name)
}

fn found(bucket: &str, key: &str) -> Result<(String, String), &'static str> {
    Ok((bucket.to_owned(), key.to_owned()))
}

#[test]
fn path_style() {
    for (path, expected) in [
        ("/", found("", "")),
        ("/bucket", found("bucket", "")),
        ("/bucket/", found("bucket", "")),
        ("/bucket/key", found("bucket", "key")),
        ("/bucket//key", found("bucket", "/key")),
        ("/bucket/a/b/", found("bucket", "a/b/")),
        ("/bucket/a%20b%2Bc+d", found("bucket", "a b+c+d")),
        ("/bucket/%C3%A9", found("bucket", "é")),
        ("/bucket%2Fkey", found("bucket", "key")),
        ("", Err("InvalidURI")),
        ("*", Err("InvalidURI")),
        ("/a/%", Err("InvalidURI")),
        ("/a/%4", Err("InvalidURI")),
        ("/a/%g0", Err("InvalidURI")),
        ("/a/%C3%28", Err("InvalidURI")),
    ] {
        for host in ["localhost:9000", "127.0.0.1", "[::1]:9000", "s3.example.org", "S3.EXAMPLE.ORG:80", "elsewhere.org"] {
            assert_eq!(target(path, host), expected, "{path} at {host}");
        }
    }
}

#[test]
fn virtual_host_style() {
    for host in ["bucket.s3.example.org", "bucket.s3.example.org:9000", "bucket.S3.example.ORG"] {
        assert_eq!(target("/a/b", host), found("bucket", "a/b"), "{host}");
        assert_eq!(target("/", host), found("bucket", ""), "{host}");
    }
    assert_eq!(target("/key", "a.b.s3.example.org"), found("a.b", "key"), "names may have dots");
    for host in ["xs3.example.org", ".s3.example.org", "example.org", "s3.example.org.evil.net", ""] {
        assert_eq!(bucket_of_name(host, "s3.example.org"), None, "{host}");
    }
}

#[test]
fn long_keys() {
    let path = |bytes: usize| format!("/b/{}", "k".repeat(bytes));
    assert!(target(&path(1024), "localhost").is_ok());
    assert_eq!(target(&path(1025), "localhost"), Err("KeyTooLongError"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// What a client encodes comes back, whatever is in it.
    #[test]
    fn encoded_keys_come_back(key in any::<String>()) {
        let path = format!("/bucket/{}", percent_encoding::utf8_percent_encode(&key, percent_encoding::NON_ALPHANUMERIC));
        match target(&path, "localhost") {
            Ok(found) => assert_eq!(found, (String::from("bucket"), key)),
            Err(code) => assert!(code == "KeyTooLongError" && key.len() > 1024, "{code}"),
        }
    }

    /// Whatever path comes, it is read or refused.
    #[test]
    fn any_path_is_read_or_refused(path in "[ -~]{0,60}", host in "[ -~]{0,40}") {
        if let Ok((_, key)) = target(&path, &host) {
            assert!(key.len() <= 1024);
        }
    }
}
