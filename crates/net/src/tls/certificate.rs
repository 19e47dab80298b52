//! A node's own certificate, and what a peer's certificate says.
//!
//! A node makes its certificate itself, with a key that never leaves the process: at its start, and again when the certificate is a year old
//! or the clock was set. So nothing on disk can expire.

use super::authority::{Authority, key_pair};
use crate::hello::Identity;
use env::Env;
use parking_lot::Mutex;
use rustls::SignatureScheme;
use rustls::client::ResolvesClientCert;
use rustls::crypto::ring::sign::any_eddsa_type;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::sync::Arc;
use std::time::Duration;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// How long a certificate is valid after it was made.
pub const CERTIFICATE_VALIDITY: Duration = Duration::from_secs(10 * 365 * DAY.as_secs());
/// How far the clock of a machine may be behind another's: certificates are valid this long before they were made.
pub const CLOCK_SKEW: Duration = DAY;
/// A certificate that is older is replaced by a new one at the next connection.
pub const RENEW_AFTER: Duration = Duration::from_secs(365 * DAY.as_secs());
const _: () = assert!(RENEW_AFTER.as_secs() * 2 < CERTIFICATE_VALIDITY.as_secs());

const SCHEME: &str = "trilith://";

/// A certificate that could not be made, or does not say what it must.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    #[error("making a certificate: {0}")]
    Making(#[from] rcgen::Error),
    #[error("using a certificate: {0}")]
    Using(#[from] rustls::Error),
    #[error("the clock of this machine is beyond the dates of certificates: {seconds} seconds after 1970")]
    Clock { seconds: i64 },
    #[error("the peer's certificate names no node of a cluster")]
    Nameless,
    #[error("the peer shows no certificate")]
    Absent,
}

/// The certificate that a node shows to others.
pub(crate) struct OwnCertificate {
    env: Env,
    authority: Arc<Authority>,
    identity: Identity,
    current: Mutex<Option<Made>>,
}

struct Made {
    at_ms: u64,
    key: Arc<CertifiedKey>,
}

impl OwnCertificate {
    pub fn new(env: &Env, authority: Arc<Authority>, identity: Identity) -> OwnCertificate {
        OwnCertificate { env: env.clone(), authority, identity, current: Mutex::default() }
    }

    /// The certificate to show now.
    pub fn current(&self) -> Result<Arc<CertifiedKey>, CertificateError> {
        let now_ms = self.env.wall_clock_ms();
        let mut current = self.current.lock();
        if let Some(made) = current.as_ref().filter(|made| made.is_fresh(now_ms)) {
            return Ok(made.key.clone());
        }
        let key = self.make(now_ms)?;
        *current = Some(Made { at_ms: now_ms, key: key.clone() });
        Ok(key)
    }

    fn make(&self, now_ms: u64) -> Result<Arc<CertifiedKey>, CertificateError> {
        let mut seed = [0; 32];
        self.env.fill_random(&mut seed);
        let key = key_pair(&seed)?;
        let now = i64::try_from(now_ms / 1000).unwrap_or(i64::MAX);
        let not_before = date(now.saturating_sub(CLOCK_SKEW.as_secs() as i64))?;
        let not_after = date(now.saturating_add(CERTIFICATE_VALIDITY.as_secs() as i64))?;
        let certificate = self.authority.sign(&key, uri(self.identity), not_before, not_after)?;
        let signing = any_eddsa_type(&PrivatePkcs8KeyDer::from(key.serialize_der()))?;
        Ok(Arc::new(CertifiedKey::new(vec![certificate], signing)))
    }

    /// None, and a word in the log, if there can be none.
    fn resolve_now(&self) -> Option<Arc<CertifiedKey>> {
        self.current().inspect_err(|error| tracing::error!(%error, "this node has no certificate")).ok()
    }

    #[cfg(test)]
    pub fn alter(&self, change: impl Fn(&mut Vec<u8>)) {
        let key = self.current().unwrap();
        let mut bytes = key.cert[0].to_vec();
        change(&mut bytes);
        let key = Arc::new(CertifiedKey::new(vec![CertificateDer::from(bytes)], key.key.clone()));
        *self.current.lock() = Some(Made { at_ms: self.env.wall_clock_ms(), key });
    }
}

impl Made {
    /// Neither old, nor made by a clock that has been set back since.
    fn is_fresh(&self, now_ms: u64) -> bool {
        let latest = self.at_ms.saturating_add(RENEW_AFTER.as_millis() as u64);
        now_ms <= latest && now_ms.saturating_add(CLOCK_SKEW.as_millis() as u64 / 2) >= self.at_ms
    }
}

impl std::fmt::Debug for OwnCertificate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "OwnCertificate({:?})", self.identity)
    }
}

impl ResolvesServerCert for OwnCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.resolve_now()
    }
}

impl ResolvesClientCert for OwnCertificate {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.resolve_now()
    }

    fn has_certs(&self) -> bool {
        true
    }
}

fn date(seconds: i64) -> Result<time::OffsetDateTime, CertificateError> {
    time::OffsetDateTime::from_unix_timestamp(seconds).map_err(|_| CertificateError::Clock { seconds })
}

/// How a certificate names a node of a cluster.
fn uri(identity: Identity) -> String {
    format!("{SCHEME}{}/{}", identity.cluster, identity.node)
}

fn parse_uri(uri: &str) -> Option<Identity> {
    let (cluster, node) = uri.strip_prefix(SCHEME)?.split_once('/')?;
    Some(Identity { cluster: cluster.parse().ok()?, node: node.parse().ok()? })
}

/// Whom a certificate names. It has been checked already: it is the authority's, and valid.
pub(crate) fn named_in(certificates: Option<&[CertificateDer<'_>]>) -> Result<Identity, CertificateError> {
    let certificate = certificates.and_then(<[_]>::first).ok_or(CertificateError::Absent)?;
    let certificate = webpki::EndEntityCert::try_from(certificate).map_err(|_| CertificateError::Nameless)?;
    let mut names = certificate.valid_uri_names();
    match (names.next().and_then(parse_uri), names.next()) {
        (Some(identity), None) => Ok(identity),
        _ => Err(CertificateError::Nameless),
    }
}
