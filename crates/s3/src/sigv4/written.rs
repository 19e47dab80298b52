//! The canonical request built as text: for a request that is not written the way it is signed, and for the answer that says what was
//! expected.
//!
//! Clients differ in what they sign. These forms are tried, each with the same key, so a wrong signature gains nothing:
//!
//! | part | forms |
//! |---|---|
//! | path | percent-encoded anew; as it stands in the request line |
//! | host | as sent; without its default port, which proxies add; in lower case |
//! | payload | what `x-amz-content-sha256` says; for a presigned URL also `UNSIGNED-PAYLOAD` |

use http::HeaderMap;
use http::header::HOST;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use sha2::{Digest, Sha256};
use smallvec::SmallVec;

use super::canonical::{Canonical, Payload, hex64};
use super::keys::SigningKey;
use super::{ALGORITHM, Claim};
use crate::query::Query;

/// What stays as it is in a canonical query.
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// What stays as it is in a canonical path.
const OF_PATH: &AsciiSet = &UNRESERVED.remove(b'/');

/// Ports that a client leaves out of the host that it signs.
const DEFAULT_PORTS: [&str; 2] = [":80", ":443"];

/// A canonical request and the text that is signed for it.
pub struct Written {
    pub canonical: Vec<u8>,
    pub to_sign: String,
}

impl Written {
    /// The signature of this form, in hexadecimal digits.
    pub fn signature(&self, key: &SigningKey) -> [u8; 64] {
        hex64(&key.sign(&[self.to_sign.as_bytes()]))
    }
}

/// All forms of a request that a client may have signed; the first is the one that the specification asks for.
pub fn forms<'a>(
    request: &'a Canonical<'a>,
    query: &'a Query<'_>,
    claim: &'a Claim<'_>,
    payload: Payload<'a>,
) -> impl Iterator<Item = Written> + 'a {
    let query = written_query(query);
    let (paths, hosts) = (paths(request.path), hosts(request.headers));
    let is_given = claim.presigned.is_some() && payload != Payload::UNSIGNED;
    let payloads: SmallVec<[Payload<'a>; 2]> =
        [Some(payload), is_given.then_some(Payload::UNSIGNED)].into_iter().flatten().collect();
    payloads.into_iter().flat_map(move |payload| {
        let (query, hosts) = (query.clone(), hosts.clone());
        paths.clone().into_iter().flat_map(move |path| {
            let query = query.clone();
            hosts.clone().into_iter().map(move |host| written(request, &path, &query, &host, claim, payload))
        })
    })
}

fn written(request: &Canonical<'_>, path: &str, query: &str, host: &[u8], claim: &Claim<'_>, payload: Payload<'_>) -> Written {
    let mut text = Vec::with_capacity(512);
    for line in [request.method.as_str(), path, query] {
        text.extend_from_slice(line.as_bytes());
        text.push(b'\n');
    }
    for name in claim.signed_headers.split(';') {
        let value = request.headers.get(name).map_or(&b""[..], |value| value.as_bytes());
        text.extend_from_slice(name.as_bytes());
        text.push(b':');
        push_value(&mut text, if name == HOST { host } else { value });
        text.push(b'\n');
    }
    for line in ["", &claim.signed_headers] {
        text.extend_from_slice(line.as_bytes());
        text.push(b'\n');
    }
    text.extend_from_slice(payload.0.as_bytes());
    let digest = hex64(&Sha256::digest(&text).into());
    let digest = std::str::from_utf8(&digest).expect("hexadecimal digits");
    let Claim { time, day, region, .. } = claim;
    Written { canonical: text, to_sign: format!("{ALGORITHM}\n{time}\n{day}/{region}/s3/aws4_request\n{digest}") }
}

/// Without outer spaces, and with one space for each run of inner ones.
fn push_value(text: &mut Vec<u8>, value: &[u8]) {
    let words = value.split(|byte| matches!(byte, b' ' | b'\t')).filter(|word| !word.is_empty());
    for (index, word) in words.enumerate() {
        if index > 0 {
            text.push(b' ');
        }
        text.extend_from_slice(word);
    }
}

fn paths(path: &str) -> SmallVec<[String; 2]> {
    // The guard has decoded it before.
    let decoded = percent_decode_str(path).decode_utf8_lossy();
    let encoded = utf8_percent_encode(&decoded, OF_PATH).to_string();
    let mut paths = SmallVec::new();
    let is_raw = encoded != path;
    paths.push(encoded);
    if is_raw {
        paths.push(path.to_owned());
    }
    paths
}

fn hosts(headers: &HeaderMap) -> SmallVec<[Vec<u8>; 4]> {
    let sent = headers.get(HOST).map_or(&b""[..], |host| host.as_bytes());
    let without_port = DEFAULT_PORTS.iter().find_map(|port| sent.strip_suffix(port.as_bytes()));
    let mut hosts: SmallVec<[Vec<u8>; 4]> = SmallVec::new();
    for host in [Some(sent), without_port].into_iter().flatten() {
        for form in [host.to_vec(), host.to_ascii_lowercase()] {
            if !hosts.contains(&form) {
                hosts.push(form);
            }
        }
    }
    hosts
}

/// Parameters encoded anew and sorted, without the signature itself.
fn written_query(query: &Query<'_>) -> String {
    let encode = |text: &str| utf8_percent_encode(text, UNRESERVED).to_string();
    let pairs = query.pairs().iter().filter(|(name, _)| name != "X-Amz-Signature");
    let mut pairs: Vec<(String, String)> = pairs.map(|(name, value)| (encode(name), encode(value))).collect();
    pairs.sort_unstable();
    let pairs: Vec<String> = pairs.into_iter().map(|(name, value)| format!("{name}={value}")).collect();
    pairs.join("&")
}
