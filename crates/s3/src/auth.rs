//! Who a request is from.

use std::sync::Arc;

use env::Env;
use http::HeaderMap;
use http::request::Parts;
use manager::Manager;
use object::Principal;

use crate::config::MAX_CLOCK_SKEW_SECONDS;
use crate::payload::ChunkSigning;
use crate::sigv4::{Canonical, Claim, Payload, SigningKey, SigningKeys, seconds_of_basic_time};

/// Verifies signatures against the manager's credentials. Lookups take no lock.
pub struct Authenticator {
    manager: Arc<Manager>,
    keys: SigningKeys,
    env: Env,
}

/// A request whose signature is right.
pub struct Verified<'a> {
    pub principal: Principal,
    pub payload: PayloadClaim<'a>,
    key: SigningKey,
    signature: [u8; 64],
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

impl Authenticator {
    pub fn new(manager: Arc<Manager>, env: Env) -> Authenticator {
        Authenticator { manager, keys: SigningKeys::new(), env }
    }

    /// The user behind an access key.
    pub fn principal(&self, access_key: &str) -> Option<Principal> {
        let snapshot = self.manager.snapshot();
        let credential = snapshot.credential(access_key)?;
        Some(Principal::User { name: Arc::from(credential.user.as_str()), is_root: credential.is_root })
    }

    /// The secret of an access key.
    pub fn secret(&self, access_key: &str) -> Option<String> {
        self.manager.snapshot().credential(access_key).map(|credential| credential.secret.clone())
    }

    /// Checks a claim. `None` means only that this way cannot say yes: the library then finds the reason, or a way.
    pub fn verify<'a>(&self, head: &'a Parts, claim: &Claim<'_>) -> Option<Verified<'a>> {
        let payload = payload_claim(&head.headers).or_else(|| claim.presigned.map(|_| PayloadClaim::Unsigned))?;
        if !self.is_timely(claim) {
            return None;
        }
        let snapshot = self.manager.snapshot();
        let credential = snapshot.credential(&claim.access_key)?;
        let key = self.keys.get(&claim.access_key, &credential.secret, &claim.day, &claim.region);
        let canonical =
            Canonical { method: &head.method, path: head.uri.path(), query: head.uri.query(), headers: &head.headers };
        let signed = Payload(content_sha256(&head.headers).unwrap_or("UNSIGNED-PAYLOAD"));
        let signature = canonical.signature(claim, signed, &key).ok()?;
        if !is_equal(&signature, claim.signature.as_bytes()) {
            return None;
        }
        let principal = Principal::User { name: Arc::from(credential.user.as_str()), is_root: credential.is_root };
        Some(Verified { principal, payload, key, signature })
    }

    fn is_timely(&self, claim: &Claim<'_>) -> bool {
        let Some(signed_at) = claim.time.as_deref().and_then(seconds_of_basic_time) else { return false };
        let now = self.env.wall_clock_ms() / 1000;
        if signed_at > now + MAX_CLOCK_SKEW_SECONDS {
            return false;
        }
        let life = claim.presigned.map_or(MAX_CLOCK_SKEW_SECONDS, |presigned| presigned.expires_seconds);
        now <= signed_at + life
    }
}

impl Verified<'_> {
    /// What the signatures of chunks are checked with.
    pub fn chunk_signing(&self, claim: &Claim<'_>) -> ChunkSigning {
        ChunkSigning {
            key: self.key.clone(),
            time: claim.time.as_deref().unwrap_or_default().to_owned(),
            day: claim.day.to_string(),
            region: claim.region.to_string(),
            previous: self.signature,
        }
    }
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
