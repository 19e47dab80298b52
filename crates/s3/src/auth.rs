//! Who a request is from.

use std::sync::Arc;

use env::Env;
use http::HeaderMap;
use http::request::Parts;
use manager::Manager;
use object::Principal;

use crate::config::MAX_CLOCK_SKEW_SECONDS;
use crate::dates::iso8601;
use crate::failure::{
    ACCESS_DENIED, Failure, INVALID_ACCESS_KEY_ID, INVALID_REQUEST, REQUEST_TIME_TOO_SKEWED, SIGNATURE_DOES_NOT_MATCH,
};
use crate::payload::ChunkSigning;
use crate::query::Query;
use crate::sigv4::{Canonical, Claim, Payload, SigningKeys, Written, forms, seconds_of_basic_time};

/// Verifies signatures against the manager's credentials. Lookups take no lock.
pub struct Authenticator {
    manager: Arc<Manager>,
    keys: SigningKeys,
    env: Env,
}

/// A request of a known client: anonymous, or a user whose signature is right.
pub struct Verified<'a> {
    pub principal: Principal,
    pub payload: PayloadClaim<'a>,
    /// What the signatures of chunks are checked with.
    pub signing: Option<ChunkSigning>,
}

/// What `x-amz-content-sha256` says of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PayloadClaim<'a> {
    /// Nothing.
    Unsigned,
    /// Its hash, in 64 hexadecimal digits.
    Sha256(&'a str),
    /// It is framed as `aws-chunked`.
    Chunked { is_signed: bool, has_trailers: bool },
}

impl Verified<'_> {
    /// A request without a signature. Its hash still counts; signatures of chunks have nothing to begin with.
    pub fn anonymous(headers: &HeaderMap) -> Verified<'_> {
        let payload = payload_claim(headers).unwrap_or(PayloadClaim::Unsigned);
        Verified { principal: Principal::Anonymous, payload, signing: None }
    }
}

impl Authenticator {
    pub fn new(manager: Arc<Manager>, env: Env) -> Authenticator {
        Authenticator { manager, keys: SigningKeys::new(), env }
    }

    /// Checks a claim: its time, then its access key, then its signature.
    pub fn verify<'a>(&self, head: &'a Parts, query: &Query<'_>, claim: &Claim<'_>) -> Result<Verified<'a>, Failure> {
        self.check_time(claim)?;
        let payload = match payload_claim(&head.headers) {
            Some(payload) => payload,
            None if claim.presigned.is_some() => PayloadClaim::Unsigned,
            None => return Err(Failure::with(INVALID_REQUEST, MISSING_HASH).detail("MissingHeaderName", CONTENT_SHA256)),
        };
        let snapshot = self.manager.snapshot();
        let Some(credential) = snapshot.credential(&claim.access_key) else {
            return Err(Failure::new(INVALID_ACCESS_KEY_ID).detail("AWSAccessKeyId", claim.access_key.clone()));
        };
        let key = self.keys.get(&claim.access_key, &credential.secret, &claim.day, &claim.region);
        let canonical =
            Canonical { method: &head.method, path: head.uri.path(), query: head.uri.query(), headers: &head.headers };
        let signed = content_sha256(&head.headers).map_or(Payload::UNSIGNED, Payload);
        let is_right = |signature: &[u8; 64]| is_equal(signature, claim.signature.as_bytes());
        let as_it_stands = canonical.signature(claim, signed, &key);
        if !as_it_stands.is_ok_and(|signature| is_right(&signature)) {
            let mut written = forms(&canonical, query, claim, signed);
            let asked_for = written.next().expect("there is one form at least");
            if !is_right(&asked_for.signature(&key)) && !written.any(|form| is_right(&form.signature(&key))) {
                return Err(mismatch(claim, &asked_for));
            }
        }
        let signing = matches!(payload, PayloadClaim::Chunked { is_signed: true, .. }).then(|| ChunkSigning {
            key,
            time: claim.time.to_string(),
            day: claim.day.to_string(),
            region: claim.region.to_string(),
            // The right one, so it has as many bytes.
            previous: claim.signature.as_bytes().try_into().expect("64 hexadecimal digits"),
        });
        let principal = Principal::User { name: Arc::from(credential.user.as_str()), is_root: credential.is_root };
        Ok(Verified { principal, payload, signing })
    }

    /// A presigned URL lives from its time on for as long as it says; any other request is as old as clocks may differ.
    fn check_time(&self, claim: &Claim<'_>) -> Result<(), Failure> {
        let signed_at = seconds_of_basic_time(&claim.time).expect("the claim was checked for form");
        let now_ms = self.env.wall_clock_ms();
        let now = now_ms / 1000;
        let is_early = signed_at > now + MAX_CLOCK_SKEW_SECONDS;
        if is_early || (claim.presigned.is_none() && now > signed_at + MAX_CLOCK_SKEW_SECONDS) {
            return Err(Failure::new(REQUEST_TIME_TOO_SKEWED)
                .detail("RequestTime", claim.time.clone())
                .detail("ServerTime", shown(now_ms))
                .detail("MaxAllowedSkewMilliseconds", (MAX_CLOCK_SKEW_SECONDS * 1000).to_string()));
        }
        match claim.presigned {
            Some(presigned) if now >= signed_at + presigned.expires_seconds => {
                Err(Failure::with(ACCESS_DENIED, "Request has expired")
                    .detail("X-Amz-Expires", presigned.expires_seconds.to_string())
                    .detail("Expires", shown((signed_at + presigned.expires_seconds) * 1000))
                    .detail("ServerTime", shown(now_ms)))
            }
            _ => Ok(()),
        }
    }
}

const MISSING_HASH: &str = "Missing required header for this request: x-amz-content-sha256";

fn shown(ms_since_1970: u64) -> String {
    String::from_utf8_lossy(&iso8601(ms_since_1970)).into_owned()
}

/// What the server would have signed, so that a client's author can compare.
fn mismatch(claim: &Claim<'_>, written: &Written) -> Failure {
    Failure::new(SIGNATURE_DOES_NOT_MATCH)
        .detail("AWSAccessKeyId", claim.access_key.clone())
        .detail("StringToSign", written.to_sign.clone())
        .detail("SignatureProvided", claim.signature.clone())
        .detail("StringToSignBytes", bytes_of(written.to_sign.as_bytes()))
        .detail("CanonicalRequest", String::from_utf8_lossy(&written.canonical))
        .detail("CanonicalRequestBytes", bytes_of(&written.canonical))
}

/// Hexadecimal digits of each byte, with spaces between, as S3 shows them.
fn bytes_of(text: &[u8]) -> String {
    let digits: Vec<String> = text.iter().map(|byte| format!("{byte:02x}")).collect();
    digits.join(" ")
}

/// The header that says what was signed of the payload.
pub const CONTENT_SHA256: &str = "x-amz-content-sha256";

fn content_sha256(headers: &HeaderMap) -> Option<&str> {
    headers.get(CONTENT_SHA256)?.to_str().ok()
}

/// `None` when nothing is said, or something that is not understood here.
pub fn payload_claim(headers: &HeaderMap) -> Option<PayloadClaim<'_>> {
    let chunked = |is_signed, has_trailers| Some(PayloadClaim::Chunked { is_signed, has_trailers });
    match content_sha256(headers)? {
        "UNSIGNED-PAYLOAD" => Some(PayloadClaim::Unsigned),
        "STREAMING-UNSIGNED-PAYLOAD-TRAILER" => chunked(false, true),
        "STREAMING-AWS4-HMAC-SHA256-PAYLOAD" => chunked(true, false),
        "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER" => chunked(true, true),
        hash if hash.len() == 64 && hash.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f')) => {
            Some(PayloadClaim::Sha256(hash))
        }
        _ => None,
    }
}

/// In a time that does not depend on where they differ.
pub fn is_equal(computed: &[u8; 64], given: &[u8]) -> bool {
    given.len() == computed.len() && computed.iter().zip(given).fold(0, |differs, (one, other)| differs | (one ^ other)) == 0
}
