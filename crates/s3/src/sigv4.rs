//! Signature Version 4: reading what a request claims, and checking it.
//!
//! The S3 library verifies signatures as well, and derives the signing key anew for each request (five HMACs). This module
//! is for the requests that take the short way: it keeps signing keys for their day, hashes the canonical request without
//! building it, and handles only requests whose path and query are already written canonically. Everything else, and every
//! signature that does not match, is left to the library, whose answer is then the answer.
//!
//! Source: Amazon S3 API reference, "Authenticating Requests (AWS Signature Version 4)"; its example requests are the tests.

mod canonical;
mod claim;
mod keys;
mod time;

#[cfg(test)]
mod tests;

pub use canonical::{Canonical, Payload};
pub use claim::{Claim, claim_of, is_claim};
pub use keys::{SigningKey, SigningKeys};
pub use time::seconds_of_basic_time;

/// What a request signed by header names its algorithm.
pub const ALGORITHM: &str = "AWS4-HMAC-SHA256";

/// SHA-256 of nothing, in hexadecimal digits.
pub const EMPTY_SHA256: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
