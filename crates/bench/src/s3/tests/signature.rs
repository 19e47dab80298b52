//! The examples of the S3 API reference, "Signature Calculations for the Authorization Header" and "Authenticating
//! Requests: Using Query Parameters": their inputs, and the signatures that it prints.

use super::super::sigv4::{
    Credentials, EMPTY_SHA256, Request, Signer, Timestamp, UNSIGNED_PAYLOAD, encode_component, encode_path,
};

const HOST: &str = "examplebucket.s3.amazonaws.com";
/// 2013-05-24 00:00:00 UTC.
const EXAMPLE_TIME: u64 = 1_369_353_600;

fn example_signer() -> Signer {
    let credentials = Credentials {
        access_key: "AKIAIOSFODNN7EXAMPLE".to_owned(),
        secret_key: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".to_owned(),
    };
    Signer::new(credentials, "us-east-1")
}

fn check(request: &Request<'_>, signed_headers: &str, signature: &str) {
    let value = example_signer().authorization(Timestamp::from_unix(EXAMPLE_TIME), request);
    let expected = format!(
        "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,\
         SignedHeaders={signed_headers},Signature={signature}"
    );
    assert_eq!(value, expected);
}

#[test]
fn get_object_with_a_range() {
    let headers =
        [("host", HOST), ("range", "bytes=0-9"), ("x-amz-content-sha256", EMPTY_SHA256), ("x-amz-date", "20130524T000000Z")];
    let request = Request { method: "GET", path: "/test.txt", query: "", headers: &headers, payload_hash: EMPTY_SHA256 };
    check(
        &request,
        "host;range;x-amz-content-sha256;x-amz-date",
        "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
    );
}

#[test]
fn put_object_with_an_escaped_key() {
    let payload_hash = "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072";
    let headers = [
        ("date", "Fri, 24 May 2013 00:00:00 GMT"),
        ("host", HOST),
        ("x-amz-content-sha256", payload_hash),
        ("x-amz-date", "20130524T000000Z"),
        ("x-amz-storage-class", "REDUCED_REDUNDANCY"),
    ];
    let mut path = String::new();
    encode_path("/test$file.text", &mut path);
    assert_eq!(path, "/test%24file.text");
    let request = Request { method: "PUT", path: &path, query: "", headers: &headers, payload_hash };
    check(
        &request,
        "date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class",
        "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
    );
}

#[test]
fn query_parameters_with_and_without_values() {
    let headers = [("host", HOST), ("x-amz-content-sha256", EMPTY_SHA256), ("x-amz-date", "20130524T000000Z")];
    let names = "host;x-amz-content-sha256;x-amz-date";
    let lifecycle = Request { method: "GET", path: "/", query: "lifecycle=", headers: &headers, payload_hash: EMPTY_SHA256 };
    check(&lifecycle, names, "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
    let listing = Request { query: "max-keys=2&prefix=J", ..lifecycle };
    check(&listing, names, "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
}

#[test]
fn presigned_get() {
    let query = example_signer().presign(Timestamp::from_unix(EXAMPLE_TIME), 86_400, "GET", "/test.txt", "", HOST);
    assert_eq!(
        query,
        "X-Amz-Algorithm=AWS4-HMAC-SHA256\
         &X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2Faws4_request\
         &X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host\
         &X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404"
    );
}

#[test]
fn the_key_of_a_day_is_not_used_on_the_next() {
    let headers = [("host", HOST)];
    let request = Request { method: "GET", path: "/k", query: "", headers: &headers, payload_hash: UNSIGNED_PAYLOAD };
    let (day, next) = (Timestamp::from_unix(EXAMPLE_TIME), Timestamp::from_unix(EXAMPLE_TIME + 86_400));
    let mut kept = example_signer();
    let first = kept.authorization(day, &request);
    let second = kept.authorization(next, &request);
    assert_eq!(second, example_signer().authorization(next, &request));
    assert_eq!(first, kept.authorization(day, &request));
    assert_ne!(first, second);
}

#[test]
fn timestamps_cross_leap_years() {
    let cases = [
        (0, "19700101T000000Z"),
        (951_782_399, "20000228T235959Z"),
        (951_782_400, "20000229T000000Z"),
        (951_868_800, "20000301T000000Z"),
        (4_107_542_400, "21000301T000000Z"),
        (1_798_761_599, "20261231T235959Z"),
    ];
    for (seconds, text) in cases {
        assert_eq!(Timestamp::from_unix(seconds).text(), text);
    }
}

#[test]
fn encoding_escapes_what_is_not_unreserved() {
    let mut out = String::new();
    encode_component("a/b c+d=ü~", &mut out);
    assert_eq!(out, "a%2Fb%20c%2Bd%3D%C3%BC~");
}
