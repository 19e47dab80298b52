//! TLS 1.3 between the nodes of a cluster: both ends show a certificate of the cluster's authority (RFD 8).
//!
//! ```text
//!   the cluster's secret ──► Authority ── signs ──► OwnCertificate: cluster id, node identity
//!                               │                        │ shown
//!                               └── trusted by ──► TlsNetwork ── over another Network
//! ```
//!
//! Invariants
//! - Nobody's word is taken before their certificate: the server says nothing about the cluster's content, the caller sends no request.
//! - Certificates are judged anew on every connection: nothing is resumed.
//! - Handshakes under way at one listener are bounded in number ([`crate::MAX_HANDSHAKES`]) and in time ([`HANDSHAKE_LIMIT`]).
//! - Nothing of this runs in a simulation: TLS draws its own randomness.

mod authority;
mod certificate;
mod failure;
mod guests;
mod listener;
mod network;
mod stream;

pub use authority::Authority;
pub use certificate::{CERTIFICATE_VALIDITY, CLOCK_SKEW, CertificateError, RENEW_AFTER};
pub use guests::GuestAuthority;
pub use network::{HANDSHAKE_LIMIT, TlsNetwork};

#[cfg(test)]
mod tests;
