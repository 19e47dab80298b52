//! The examples of the Amazon S3 API reference, "Signature Calculations for the Authorization Header: Transferring Payload in
//! a Single Chunk" and "Authenticating Requests: Using Query Parameters".

use std::borrow::Cow;

use http::{HeaderMap, HeaderName, HeaderValue, Method};

use super::canonical::NotCanonical;
use super::time::basic_time_of;
use super::{Canonical, Claim, EMPTY_SHA256, Payload, SigningKey, SigningKeys, claim_of, forms, seconds_of_basic_time};
use crate::query::Query;

const ACCESS_KEY: &str = "AKIAIOSFODNN7EXAMPLE";
const SECRET: &str = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
const REGION: &str = "us-east-1";
const HOST: (&str, &str) = ("host", "examplebucket.s3.amazonaws.com");
const TIME: (&str, &str) = ("x-amz-date", "20130524T000000Z");

fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
    pairs
        .iter()
        .map(|(name, value)| {
            (HeaderName::from_bytes(name.as_bytes()).expect("a name"), HeaderValue::from_str(value).expect("a value"))
        })
        .collect()
}

fn parsed(query: Option<&str>) -> Query<'_> {
    Query::parse(query).expect("well-formed")
}

fn authorization(signed_headers: &str, signature: &str) -> String {
    format!(
        "AWS4-HMAC-SHA256 Credential={ACCESS_KEY}/20130524/{REGION}/s3/aws4_request,SignedHeaders={signed_headers},Signature={signature}"
    )
}

/// Checks one example signed by header.
fn check(method: Method, path: &str, query: Option<&str>, pairs: &[(&str, &str)], payload: &str, expected: &str) {
    let mut signed: Vec<&str> = pairs.iter().map(|(name, _)| *name).collect();
    signed.sort_unstable();
    let authorization = authorization(&signed.join(";"), expected);
    let mut all = pairs.to_vec();
    all.push(("authorization", &authorization));
    let headers = headers(&all);
    let claim = claim_of(&headers, &parsed(query), REGION).expect("well-formed").expect("signed");
    assert_eq!(claim.access_key, ACCESS_KEY);
    let canonical = Canonical { method: &method, path, query, headers: &headers };
    let key = SigningKeys::new().get(ACCESS_KEY, SECRET, &claim.day, &claim.region);
    let signature = canonical.signature(&claim, Payload(payload), &key).expect("canonical");
    assert_eq!(std::str::from_utf8(&signature), Ok(expected));
    let written = forms(&canonical, &parsed(query), &claim, Payload(payload)).next().expect("a form");
    assert_eq!(written.signature(&key), signature, "written out");
    assert_eq!(claim.signature, expected);
}

#[test]
fn get_object_example() {
    check(
        Method::GET,
        "/test.txt",
        None,
        &[HOST, ("range", "bytes=0-9"), ("x-amz-content-sha256", EMPTY_SHA256), TIME],
        EMPTY_SHA256,
        "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
    );
}

#[test]
fn put_object_example() {
    let sha256 = "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072";
    check(
        Method::PUT,
        "/test%24file.text",
        None,
        &[
            HOST,
            ("date", "Fri, 24 May 2013 00:00:00 GMT"),
            ("x-amz-content-sha256", sha256),
            TIME,
            ("x-amz-storage-class", "REDUCED_REDUNDANCY"),
        ],
        sha256,
        "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
    );
}

#[test]
fn get_lifecycle_example() {
    check(
        Method::GET,
        "/",
        Some("lifecycle"),
        &[HOST, ("x-amz-content-sha256", EMPTY_SHA256), TIME],
        EMPTY_SHA256,
        "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
    );
}

#[test]
fn list_objects_example() {
    check(
        Method::GET,
        "/",
        Some("prefix=J&max-keys=2"),
        &[HOST, ("x-amz-content-sha256", EMPTY_SHA256), TIME],
        EMPTY_SHA256,
        "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
    );
}

#[test]
fn presigned_example() {
    let signature = "aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404";
    let query = format!(
        "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential={ACCESS_KEY}%2F20130524%2F{REGION}%2Fs3%2Faws4_request&X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host&X-Amz-Signature={signature}"
    );
    let headers = headers(&[HOST]);
    let claim = claim_of(&headers, &parsed(Some(&query)), REGION).expect("well-formed").expect("signed");
    assert_eq!(claim.presigned.map(|presigned| presigned.expires_seconds), Some(86_400));
    let canonical = Canonical { method: &Method::GET, path: "/test.txt", query: Some(&query), headers: &headers };
    let key = SigningKey::derive(SECRET, &claim.day, &claim.region);
    let computed = canonical.signature(&claim, Payload("UNSIGNED-PAYLOAD"), &key).expect("canonical");
    assert_eq!(std::str::from_utf8(&computed), Ok(signature));
}

#[test]
fn what_would_have_to_be_rewritten_is_left_alone() {
    let key = SigningKey::derive(SECRET, "20130524", REGION);
    let headers = headers(&[HOST, TIME, ("x-amz-meta-a", "two  spaces")]);
    let claim = |signed: &'static str| Claim {
        access_key: Cow::Borrowed(ACCESS_KEY),
        day: Cow::Borrowed("20130524"),
        region: Cow::Borrowed(REGION),
        signed_headers: Cow::Borrowed(signed),
        signature: Cow::Borrowed(""),
        time: Cow::Borrowed("20130524T000000Z"),
        presigned: None,
    };
    let sign = |path: &str, query: Option<&str>, signed: &'static str| {
        let canonical = Canonical { method: &Method::GET, path, query, headers: &headers };
        canonical.signature(&claim(signed), Payload("UNSIGNED-PAYLOAD"), &key).map(|_| ())
    };
    assert_eq!(sign("/a/b%20c", Some("a=b%2Fc"), "host"), Ok(()));
    for path in ["/a=b", "/a%2fb", "/a%41", "/a%2Fb", "/a b", "/a%2", "/a+b"] {
        assert_eq!(sign(path, None, "host"), Err(NotCanonical), "{path}");
    }
    for query in ["a=b/c", "a=b+c", "a=b=c", "a=%61"] {
        assert_eq!(sign("/a", Some(query), "host"), Err(NotCanonical), "{query}");
    }
    assert_eq!(sign("/a", None, "host;range"), Err(NotCanonical), "an absent header");
    assert_eq!(sign("/a", None, "host;x-amz-meta-a"), Err(NotCanonical), "a run of spaces");
}

#[test]
fn keys_are_of_a_secret_day_and_region() {
    let keys = SigningKeys::new();
    let sign = |secret: &str, day: &str, region: &str| keys.get(ACCESS_KEY, secret, day, region).sign(&[b"text"]);
    let first = sign(SECRET, "20130524", REGION);
    assert_eq!(first, sign(SECRET, "20130524", REGION), "from the cache");
    assert_eq!(first, SigningKey::derive(SECRET, "20130524", REGION).sign(&[b"te", b"xt"]));
    assert_ne!(first, sign("another secret", "20130524", REGION));
    assert_ne!(first, sign(SECRET, "20130525", REGION));
    assert_ne!(first, sign(SECRET, "20130524", "eu-west-1"));
    assert_eq!(first, sign(SECRET, "20130524", REGION), "after others");
}

#[test]
fn malformed_claims_are_refused_with_the_code_of_s3() {
    let good = "0".repeat(64);
    let credential = format!("{ACCESS_KEY}/20130524/{REGION}/s3/aws4_request");
    let cases: &[(String, &str)] = &[
        (format!("AWS {ACCESS_KEY}:abcdef="), "InvalidRequest"),
        (String::from("Basic abcdef"), "InvalidArgument"),
        (format!("AWS4-HMAC-SHA256 Credential={credential},Signature={good}"), "AuthorizationHeaderMalformed"),
        (format!("AWS4-HMAC-SHA256 Credential={credential},SignedHeaders=host,Signature=abc"), "AuthorizationHeaderMalformed"),
        (
            format!("AWS4-HMAC-SHA256 Credential={credential},SignedHeaders=host,SignedHeaders=a,Signature={good}"),
            "AuthorizationHeaderMalformed",
        ),
        (
            format!("AWS4-HMAC-SHA256 Credential=a/20130524/eu-west-1/s3/aws4_request,SignedHeaders=host,Signature={good}"),
            "AuthorizationHeaderMalformed",
        ),
        (
            format!("AWS4-HMAC-SHA256 Credential=a/20130524/{REGION}/sqs/aws4_request,SignedHeaders=host,Signature={good}"),
            "AuthorizationHeaderMalformed",
        ),
        (
            format!("AWS4-HMAC-SHA256 Credential=a/2013-524/{REGION}/s3/aws4_request,SignedHeaders=host,Signature={good}"),
            "AuthorizationHeaderMalformed",
        ),
        (format!("AWS4-HMAC-SHA256 Credential=a/{REGION},SignedHeaders=host,Signature={good}"), "AuthorizationHeaderMalformed"),
    ];
    for (authorization, code) in cases {
        let headers = headers(&[HOST, TIME, ("authorization", authorization)]);
        let failure = claim_of(&headers, &parsed(None), REGION).expect_err(authorization);
        assert_eq!(failure.code.name, *code, "{authorization}");
    }
    let presigned = |credential: &str, expires: &str| {
        format!(
            "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential={credential}&X-Amz-Date=20130524T000000Z&X-Amz-Expires={expires}&X-Amz-SignedHeaders=host&X-Amz-Signature={good}"
        )
    };
    for (query, code) in [
        (String::from("AWSAccessKeyId=a&Expires=1&Signature=b"), "InvalidRequest"),
        (format!("X-Amz-Signature={good}"), "AuthorizationQueryParametersError"),
        (presigned(&credential, "604801"), "AuthorizationQueryParametersError"),
        (presigned(&credential, "-1"), "AuthorizationQueryParametersError"),
        (presigned("a/b", "1"), "AuthorizationQueryParametersError"),
        (presigned(&credential, "1") + "&X-Amz-Expires=2", "AuthorizationQueryParametersError"),
    ] {
        let headers = headers(&[HOST]);
        let failure = claim_of(&headers, &parsed(Some(&query)), REGION).expect_err(&query);
        assert_eq!(failure.code.name, code, "{query}");
    }
    let both = headers(&[HOST, ("authorization", "AWS4-HMAC-SHA256 a=b")]);
    let query = presigned(&credential, "1");
    let failure = claim_of(&both, &parsed(Some(&query)), REGION).expect_err("two mechanisms");
    assert_eq!(failure.code.name, "InvalidArgument");
}

#[test]
fn dates_of_claims() {
    let claimed = |name: &str, value: &str| {
        let authorization = authorization("host", &"0".repeat(64));
        let headers = headers(&[HOST, (name, value), ("authorization", &authorization)]);
        let claim = claim_of(&headers, &Query::default(), REGION).map_err(|failure| failure.code.name)?;
        Ok(claim.expect("signed").time.into_owned())
    };
    let expected = Ok(String::from("20130524T000000Z"));
    assert_eq!(claimed("x-amz-date", "20130524T000000Z"), expected);
    assert_eq!(claimed("date", "20130524T000000Z"), expected);
    assert_eq!(claimed("date", "Fri, 24 May 2013 00:00:00 GMT"), expected);
    assert_eq!(claimed("x-amz-date", "20130525T000000Z"), Err("AuthorizationHeaderMalformed"));
    for (name, value) in [
        ("x-amz-date", "Fri, 24 May 2013 00:00:00 GMT"),
        ("x-amz-date", ""),
        ("date", "yesterday"),
        ("x-amz-other", "20130524T000000Z"),
    ] {
        assert_eq!(claimed(name, value), Err("AccessDenied"), "{name}: {value}");
    }
}

/// Each is signed as another client would: as it is sent, or as it should be.
#[test]
fn forms_that_clients_sign() {
    let claim = Claim {
        access_key: Cow::Borrowed(ACCESS_KEY),
        day: Cow::Borrowed("20130524"),
        region: Cow::Borrowed(REGION),
        signed_headers: Cow::Borrowed("host;x-amz-meta-a;x-amz-meta-gone"),
        signature: Cow::Borrowed(""),
        time: Cow::Borrowed("20130524T000000Z"),
        presigned: None,
    };
    let texts = |path: &str, query: &str, host: &str| -> Vec<String> {
        let headers = headers(&[("host", host), ("x-amz-meta-a", "two   words")]);
        let canonical = Canonical { method: &Method::GET, path, query: Some(query), headers: &headers };
        let query = parsed(Some(query));
        let forms = forms(&canonical, &query, &claim, Payload::UNSIGNED);
        forms.map(|form| String::from_utf8(form.canonical).expect("text")).collect()
    };
    let rest = "x-amz-meta-a:two words\nx-amz-meta-gone:\n\nhost;x-amz-meta-a;x-amz-meta-gone\nUNSIGNED-PAYLOAD";
    assert_eq!(texts("/a%20b", "z=1&a=b/c", "example.org"), [format!("GET\n/a%20b\na=b%2Fc&z=1\nhost:example.org\n{rest}")]);
    let odd = texts("/a(1)", "", "Example.org:443");
    let all = ["/a%281%29", "/a(1)"].into_iter().flat_map(|path| {
        let hosts = ["Example.org:443", "example.org:443", "Example.org", "example.org"];
        hosts.map(|host| format!("GET\n{path}\n\nhost:{host}\n{rest}"))
    });
    assert_eq!(odd, all.collect::<Vec<_>>());
}

#[test]
fn times() {
    assert_eq!(basic_time_of(1_369_353_600), "20130524T000000Z");
    assert_eq!(basic_time_of(1_709_251_199), "20240229T235959Z");
    assert_eq!(seconds_of_basic_time("19700101T000000Z"), Some(0));
    assert_eq!(seconds_of_basic_time("20130524T000000Z"), Some(1_369_353_600));
    assert_eq!(seconds_of_basic_time("20240229T235959Z"), Some(1_709_251_199));
    assert_eq!(seconds_of_basic_time("20260301T000000Z"), Some(1_772_323_200));
    for wrong in [
        "",
        "20130524T000000",
        "20130524 000000Z",
        "20231329T000000Z",
        "20230229T000000Z",
        "20230228T240000Z",
        "2023022xT000000Z",
    ] {
        assert_eq!(seconds_of_basic_time(wrong), None, "{wrong}");
    }
}
