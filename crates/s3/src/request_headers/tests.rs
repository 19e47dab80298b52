use engine::{Condition, ETagMatch};
use http::{HeaderMap, HeaderName, HeaderValue};
use object::ByteRange;

use super::{attributes, content_md5, parse_etag, parse_range, write_condition};

fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
    let name = |name: &str| HeaderName::from_bytes(name.as_bytes()).expect("a name");
    pairs.iter().map(|(key, value)| (name(key), HeaderValue::from_str(value).expect("a value"))).collect()
}

#[test]
fn ranges() {
    for (text, expected) in [
        ("bytes=0-0", Some(ByteRange::Between(0, 0))),
        ("bytes=5-", Some(ByteRange::From(5))),
        ("bytes=-7", Some(ByteRange::Last(7))),
        ("bytes=1-2\t, ", Some(ByteRange::Between(1, 2))),
        ("bytes= 1-2", None),
        ("bytes=\t-2", None),
        ("Bytes=,1-2", Some(ByteRange::Between(1, 2))),
        ("bytes=1 - 2", None),
        ("bytes =1-2", None),
        ("bytes=0-99999999999999999999999", Some(ByteRange::Between(0, u64::MAX))),
        ("bytes=5-4", None),
        ("bytes=-", None),
        ("bytes=a-b", None),
        ("bytes=+1-2", None),
        ("bytes=1-2,4-5", None),
        ("items=1-2", None),
        ("bytes", None),
        ("", None),
    ] {
        assert_eq!(parse_range(text), expected, "{text}");
    }
}

#[test]
fn tags_of_entities() {
    let digits = "5eb63bbbe01eeed093cb22bb8f5acdc3";
    let plain = parse_etag(digits).expect("digits");
    for text in [format!("\"{digits}\""), format!(" \"{digits}\" "), format!("W/\"{digits}\"")] {
        assert_eq!(parse_etag(&text), Some(plain), "{text}");
    }
    assert_eq!(parse_etag(&format!("\"{digits}-3\"")).expect("of parts").suffix(), Some(3));
    for text in ["", "\"\"", "abc", "\"5EB63BBBE01EEED093CB22BB8F5ACDC3\""] {
        assert_eq!(parse_etag(text), None, "{text}");
    }
}

#[test]
fn conditions_of_writes() {
    let digits = "5eb63bbbe01eeed093cb22bb8f5acdc3";
    let tag = parse_etag(digits).expect("digits");
    let condition = |pairs: &[(&str, &str)]| write_condition(&headers(pairs)).map_err(|failure| failure.code.name);
    assert_eq!(condition(&[]), Ok(Condition::None));
    assert_eq!(condition(&[("if-none-match", "*")]), Ok(Condition::Absent));
    assert_eq!(condition(&[("if-match", "*")]), Ok(Condition::Match(ETagMatch::Any)));
    assert_eq!(condition(&[("if-match", digits)]), Ok(Condition::Match(ETagMatch::OneOf(vec![tag]))));
    assert_eq!(condition(&[("if-match", "\"none of ours\"")]), Ok(Condition::Match(ETagMatch::OneOf(vec![]))));
    assert_eq!(condition(&[("if-none-match", &format!("\"x\", \"{digits}\""))]), Ok(Condition::NoneMatch(vec![tag])));
    assert_eq!(condition(&[("if-match", "*"), ("if-none-match", "*")]), Err("NotImplemented"));
}

#[test]
fn encodings_without_the_framing() {
    for (given, expected) in [
        ("aws-chunked", None),
        ("aws-chunked,gzip", Some("gzip")),
        ("gzip, aws-chunked", Some("gzip")),
        ("gzip,aws-chunked,br", Some("gzip,br")),
        ("gzip, br", Some("gzip, br")),
        ("AWS-CHUNKED", None),
        ("gzip, Aws-Chunked", Some("gzip")),
        ("aws-chunkedish", Some("aws-chunkedish")),
    ] {
        let found = attributes(&headers(&[("content-encoding", given)])).expect("fine").content_encoding;
        assert_eq!(found.as_deref(), expected.map(str::as_bytes), "{given}");
    }
}

#[test]
fn digests() {
    let md5 = |text: &str| content_md5(&headers(&[("content-md5", text)])).map_err(|failure| failure.code.name);
    assert_eq!(md5("AAAAAAAAAAAAAAAAAAAAAA=="), Ok(Some([0; 16])));
    assert_eq!(md5("AAAAAAAAAAAAAAAAAAAAAB=="), Ok(Some([0; 16])), "more than there is room for");
    for wrong in ["", "AAAA", "nonsense!", "AAAAAAAAAAAAAAAAAAAAAAA="] {
        assert_eq!(md5(wrong), Err("InvalidDigest"), "{wrong}");
    }
}
