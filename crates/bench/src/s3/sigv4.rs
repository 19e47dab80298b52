//! AWS Signature Version 4 for a client: by header, and presigned.
//!
//! Written from the S3 API reference, "Authenticating Requests (AWS Signature Version 4)", and tested with the examples
//! printed there. The signing key is derived once a day and kept; the rest is two hashes of short texts per request.

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

/// The payload hash of a request whose body is not signed.
pub const UNSIGNED_PAYLOAD: &str = "UNSIGNED-PAYLOAD";

/// SHA-256 of no bytes at all.
pub const EMPTY_SHA256: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// Longest life of a presigned URL: seven days.
pub const PRESIGNED_MAX_SECONDS: u64 = 7 * 86_400;

/// An access key and its secret.
#[derive(Clone)]
pub struct Credentials {
    /// The public half.
    pub access_key: String,
    /// The secret half.
    pub secret_key: String,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials").field("access_key", &self.access_key).finish_non_exhaustive()
    }
}

/// A second of UTC as signatures spell it: `20130524T000000Z`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timestamp([u8; 16]);

impl Timestamp {
    /// From seconds since 1970.
    pub fn from_unix(seconds: u64) -> Self {
        let (mut days, second_of_day) = (seconds / 86_400, seconds % 86_400);
        let mut year = 1970;
        while days >= days_in_year(year) {
            days -= days_in_year(year);
            year += 1;
        }
        let mut month = 1;
        while days >= days_in_month(year, month) {
            days -= days_in_month(year, month);
            month += 1;
        }
        let (hour, minute, second) = (second_of_day / 3600, second_of_day / 60 % 60, second_of_day % 60);
        let text = format!("{year:04}{month:02}{:02}T{hour:02}{minute:02}{second:02}Z", days + 1);
        Timestamp(text.as_bytes().try_into().expect("years up to 9999 take four digits"))
    }

    /// `20130524T000000Z`.
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.0).expect("made of ASCII digits")
    }

    /// `20130524`.
    pub fn date(&self) -> &str {
        &self.text()[..8]
    }
}

/// What is signed: everything that the server will rebuild from the request.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// GET, PUT and so on.
    pub method: &'a str,
    /// The path as sent, percent-encoded once.
    pub path: &'a str,
    /// The query as sent: encoded, sorted by name, every name with an equals sign.
    pub query: &'a str,
    /// Lower-case names with their values, sorted by name.
    pub headers: &'a [(&'a str, &'a str)],
    /// Hexadecimal SHA-256 of the body, or [`UNSIGNED_PAYLOAD`].
    pub payload_hash: &'a str,
}

impl Request<'_> {
    /// The canonical request, whose hash is signed.
    fn canonical(&self, out: &mut String) {
        out.extend([self.method, "\n", self.path, "\n", self.query, "\n"]);
        for (name, value) in self.headers {
            out.extend([name, ":", value.trim(), "\n"]);
        }
        out.push('\n');
        self.push_signed_headers(out);
        out.extend(["\n", self.payload_hash]);
    }

    fn push_signed_headers(&self, out: &mut String) {
        let mut separator = "";
        for (name, _) in self.headers {
            out.extend([separator, name]);
            separator = ";";
        }
    }
}

/// Signs requests of one key pair in one region. One per thread: it keeps the day's key and scratch space.
#[derive(Debug, Clone)]
pub struct Signer {
    credentials: Credentials,
    region: String,
    day: Option<DayKey>,
    scratch: String,
}

#[derive(Debug, Clone)]
struct DayKey {
    date: String,
    scope: String,
    key: Hmac<Sha256>,
}

impl Signer {
    /// A signer for service `s3` of `region`.
    pub fn new(credentials: Credentials, region: impl Into<String>) -> Self {
        Signer { credentials, region: region.into(), day: None, scratch: String::new() }
    }

    /// The value of the Authorization header.
    pub fn authorization(&mut self, at: Timestamp, request: &Request<'_>) -> String {
        let signature = self.signature(at, request);
        let scope = &self.day.as_ref().expect("derived by signature").scope;
        let mut value = String::with_capacity(256);
        value.extend(["AWS4-HMAC-SHA256 Credential=", &self.credentials.access_key, "/", scope, ",SignedHeaders="]);
        request.push_signed_headers(&mut value);
        value.extend([",Signature=", &signature]);
        value
    }

    /// The whole query of a presigned URL that signs the Host header only. `query` holds the operation's own parameters,
    /// encoded and sorted; S3's names in lower case sort after `X-Amz-`.
    pub fn presign(&mut self, at: Timestamp, life_seconds: u64, method: &str, path: &str, query: &str, host: &str) -> String {
        assert!(life_seconds <= PRESIGNED_MAX_SECONDS, "a presigned URL lives at most seven days");
        self.derive(at);
        let scope = &self.day.as_ref().expect("just derived").scope;
        let mut full = String::with_capacity(384);
        full.push_str("X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=");
        encode_component(&self.credentials.access_key, &mut full);
        full.push_str("%2F");
        encode_component(scope, &mut full);
        full.extend(["&X-Amz-Date=", at.text(), "&X-Amz-Expires=", &life_seconds.to_string(), "&X-Amz-SignedHeaders=host"]);
        if !query.is_empty() {
            full.extend(["&", query]);
        }
        let headers = [("host", host)];
        let request = Request { method, path, query: &full, headers: &headers, payload_hash: UNSIGNED_PAYLOAD };
        let signature = self.signature(at, &request);
        full.extend(["&X-Amz-Signature=", &signature]);
        full
    }

    /// The hexadecimal signature.
    fn signature(&mut self, at: Timestamp, request: &Request<'_>) -> String {
        self.derive(at);
        let day = self.day.as_ref().expect("just derived");
        self.scratch.clear();
        request.canonical(&mut self.scratch);
        let canonical_hash = hex::encode(Sha256::digest(self.scratch.as_bytes()));
        let mut mac = day.key.clone();
        for part in ["AWS4-HMAC-SHA256\n", at.text(), "\n", &day.scope, "\n", &canonical_hash] {
            mac.update(part.as_bytes());
        }
        hex::encode(mac.finalize().into_bytes())
    }

    fn derive(&mut self, at: Timestamp) {
        if self.day.as_ref().is_some_and(|day| day.date == at.date()) {
            return;
        }
        let secret = format!("AWS4{}", self.credentials.secret_key);
        let mut key = hmac_sha256(secret.as_bytes(), at.date().as_bytes());
        for part in [self.region.as_str(), "s3", "aws4_request"] {
            key = hmac_sha256(&key, part.as_bytes());
        }
        self.day = Some(DayKey {
            date: at.date().to_owned(),
            scope: format!("{}/{}/s3/aws4_request", at.date(), self.region),
            key: keyed(&key),
        });
    }
}

/// Percent-encodes a path, leaving `/` between its segments.
pub fn encode_path(path: &str, out: &mut String) {
    encode(path, true, out);
}

/// Percent-encodes a query name or value.
pub fn encode_component(text: &str, out: &mut String) {
    encode(text, false, out);
}

fn encode(text: &str, keep_slash: bool, out: &mut String) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    for byte in text.bytes() {
        let plain = byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) || (keep_slash && byte == b'/');
        if plain {
            out.push(char::from(byte));
        } else {
            out.push('%');
            out.push(char::from(DIGITS[usize::from(byte >> 4)]));
            out.push(char::from(DIGITS[usize::from(byte & 15)]));
        }
    }
}

fn keyed(key: &[u8]) -> Hmac<Sha256> {
    Hmac::new_from_slice(key).expect("HMAC takes keys of any length")
}

fn hmac_sha256(key: &[u8], message: &[u8]) -> [u8; 32] {
    let mut mac = keyed(key);
    mac.update(message);
    mac.finalize().into_bytes().into()
}

fn days_in_year(year: u64) -> u64 {
    if is_leap(year) { 366 } else { 365 }
}

fn days_in_month(year: u64, month: u64) -> u64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}
