//! Signature Version 4: reading what a request claims, and checking it.
//!
//! Signing keys are kept for their day, and the canonical request of a request that is written canonically is hashed without building it.
//! Any other request, and one whose signature does not match so, is written out in the forms that clients sign ([`forms`]).
//!
//! Source: Amazon S3 API reference, "Authenticating Requests (AWS Signature Version 4)"; its example requests are the tests.

mod canonical;
mod claim;
mod keys;
mod time;
mod written;

#[cfg(test)]
mod tests;

pub use canonical::{Canonical, Payload};
pub use claim::{Claim, claim_of, is_claim};
pub use keys::{SigningKey, SigningKeys};
pub use time::seconds_of_basic_time;
pub use written::{Written, forms};

/// What a request signed by header names its algorithm.
pub const ALGORITHM: &str = "AWS4-HMAC-SHA256";

/// SHA-256 of nothing, in hexadecimal digits.
pub const EMPTY_SHA256: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
