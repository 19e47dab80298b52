//! The cluster's certificate authority, made from the cluster's secret: every node that knows the secret has it, and none is special.

use super::certificate::CertificateError;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PKCS_ED25519, SanType,
};
use rustls::RootCertStore;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use std::sync::Arc;
use types::ClusterId;

/// What the key is for: keys made of the same secret for another purpose are others.
const KEY_CONTEXT: &str = "Trilith 2026-11 key of a cluster's certificate authority";
/// RFC 8410, section 7: what stands before the 32 bytes of an Ed25519 private key in PKCS #8.
const PKCS8_HEAD: [u8; 16] = [0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];
/// The domain that names in certificates are under; reserved for private use, so nobody else has them.
const DOMAIN: &str = "trilith.internal";

/// Signs the certificates of a cluster's nodes.
pub struct Authority {
    cluster: ClusterId,
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
}

impl Authority {
    /// The authority of a cluster with this secret. The same input gives the same authority, everywhere and always.
    pub fn of(cluster: ClusterId, secret: &[u8; 16]) -> Result<Authority, CertificateError> {
        let key = key_pair(&blake3::derive_key(KEY_CONTEXT, &[&cluster.0[..], secret].concat()))?;
        let mut params = CertificateParams::default();
        params.distinguished_name = named(format!("Trilith cluster {cluster}"));
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        // Its dates are never looked at: who has the secret has the key itself, not this certificate of it.
        let certificate = params.self_signed(&key)?.der().clone();
        Ok(Authority { cluster, issuer: Issuer::new(params, key), certificate })
    }

    pub fn cluster(&self) -> ClusterId {
        self.cluster
    }

    /// What peers' certificates are checked against.
    pub(crate) fn roots(&self) -> Result<Arc<RootCertStore>, CertificateError> {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone())?;
        Ok(Arc::new(roots))
    }

    /// The name that every server of the cluster has.
    pub(crate) fn server_name(&self) -> String {
        format!("{}.{DOMAIN}", self.cluster)
    }

    /// The id in a name of [`Authority::server_name`].
    pub(crate) fn named(server_name: &str) -> Option<ClusterId> {
        server_name.strip_suffix(DOMAIN)?.strip_suffix('.')?.parse().ok()
    }

    /// Signs a certificate for both ends of connections: of `key`, for the node that `node_uri` names, within these dates.
    pub(crate) fn sign(
        &self,
        key: &KeyPair,
        node_uri: String,
        not_before: time::OffsetDateTime,
        not_after: time::OffsetDateTime,
    ) -> Result<CertificateDer<'static>, CertificateError> {
        let mut params = CertificateParams::default();
        params.distinguished_name = named("Trilith node".to_owned());
        params.subject_alt_names = vec![SanType::DnsName(self.server_name().try_into()?), SanType::URI(node_uri.try_into()?)];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        (params.not_before, params.not_after) = (not_before, not_after);
        Ok(params.signed_by(key, &self.issuer)?.der().clone())
    }
}

fn named(name: String) -> DistinguishedName {
    let mut distinguished = DistinguishedName::new();
    distinguished.push(DnType::CommonName, name);
    distinguished
}

/// The Ed25519 key of a seed.
pub(crate) fn key_pair(seed: &[u8; 32]) -> Result<KeyPair, CertificateError> {
    let encoded = [&PKCS8_HEAD[..], seed].concat();
    Ok(KeyPair::from_pkcs8_der_and_sign_algo(&PrivatePkcs8KeyDer::from(encoded), &PKCS_ED25519)?)
}
