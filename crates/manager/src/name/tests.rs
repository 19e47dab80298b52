//! Names that S3 allows, and names that it does not.

use super::{InvalidBucketName, InvalidCredential, check_bucket_name, check_credential};

#[test]
fn names_that_are_allowed() {
    let longest = "a".repeat(63);
    for name in ["abc", "a-b", "my.bucket.2024", "123", "1.2.3", "1.2.3.4.5", "a1.2.3.4", "a--b", "a-xn--b", &longest] {
        assert_eq!(check_bucket_name(name), Ok(()), "{name}");
    }
}

#[test]
fn names_that_are_refused() {
    let longer = "a".repeat(64);
    for (name, length) in [("", 0), ("ab", 2), (longer.as_str(), 64)] {
        assert_eq!(check_bucket_name(name), Err(InvalidBucketName::Length { found: length }), "{name}");
    }
    for (name, found) in [("Abc", 'A'), ("a_b", '_'), ("a b", ' '), ("a/b", '/'), ("b\u{fc}cher", '\u{fc}'), ("abc\n", '\n')] {
        assert_eq!(check_bucket_name(name), Err(InvalidBucketName::Character { found }), "{name}");
    }
    for name in ["-abc", "abc-", ".abc", "abc.", "a..b", "foo.-bar", "foo-.bar", "---", "..."] {
        assert_eq!(check_bucket_name(name), Err(InvalidBucketName::Label), "{name}");
    }
    for name in ["192.168.5.4", "1.2.3.4", "999.999.999.999", "01.02.03.04"] {
        assert_eq!(check_bucket_name(name), Err(InvalidBucketName::Address), "{name}");
    }
    for name in
        ["xn--abc", "sthree-abc", "amzn-s3-demo-abc", "abc-s3alias", "abc--ol-s3", "abc.mrap", "abc--x-s3", "abc--table-s3"]
    {
        assert!(matches!(check_bucket_name(name), Err(InvalidBucketName::Reserved { .. })), "{name}");
    }
}

#[test]
fn credentials() {
    assert_eq!(check_credential("AKIA", "12345678", "alice"), Ok(()));
    assert_eq!(check_credential("ab", "12345678", "alice"), Err(InvalidCredential::AccessKeyLength { found: 2 }));
    for (access_key, found) in [("a/b", '/'), ("a,b", ','), ("a=b", '='), ("a b", ' '), ("a\u{e9}b", '\u{e9}')] {
        assert_eq!(check_credential(access_key, "12345678", "alice"), Err(InvalidCredential::AccessKeyCharacter { found }));
    }
    assert_eq!(check_credential("AKIA", "1234567", "alice"), Err(InvalidCredential::SecretLength { found: 7 }));
    assert_eq!(check_credential("AKIA", "12345678", ""), Err(InvalidCredential::UserLength { found: 0 }));
}
