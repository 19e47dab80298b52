//! Why a connection with TLS did not come about, or ended, in words that say what to look at.

use super::certificate::CertificateError;
use rustls::{AlertDescription, CertificateError as Judgement, Error};
use std::io;
use std::time::Duration;

#[derive(Debug, thiserror::Error)]
pub(crate) enum TlsFailure {
    #[error("the peer's certificate is not of this cluster's authority: is the peer, or the token, of another cluster?")]
    OtherCluster,
    #[error("the peer's certificate is not signed with this cluster's secret: is the token wrong, or the certificate altered?")]
    OtherSecret,
    #[error("{0}; do the clocks of both machines agree?")]
    Clock(Error),
    #[error("the peer does not take this node's certificate ({0:?})")]
    NotTaken(AlertDescription),
    #[error("the peer speaks no TLS")]
    NoTls,
    #[error("the handshake was not finished within {0:?}")]
    Slow(Duration),
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    #[error(transparent)]
    Other(Error),
}

impl From<TlsFailure> for io::Error {
    fn from(failure: TlsFailure) -> io::Error {
        let kind = match failure {
            TlsFailure::Slow(_) => io::ErrorKind::TimedOut,
            _ => io::ErrorKind::InvalidData,
        };
        io::Error::new(kind, failure)
    }
}

/// The same error in better words, where it comes from TLS.
pub(crate) fn explain(error: io::Error) -> io::Error {
    let Some(cause) = error.get_ref().and_then(|cause| cause.downcast_ref::<Error>()) else { return error };
    let failure = match cause {
        Error::InvalidCertificate(judgement) => match judgement {
            Judgement::UnknownIssuer | Judgement::NotValidForName | Judgement::NotValidForNameContext { .. } => {
                TlsFailure::OtherCluster
            }
            Judgement::BadSignature => TlsFailure::OtherSecret,
            Judgement::Expired
            | Judgement::ExpiredContext { .. }
            | Judgement::NotValidYet
            | Judgement::NotValidYetContext { .. } => TlsFailure::Clock(cause.clone()),
            _ => TlsFailure::Other(cause.clone()),
        },
        Error::AlertReceived(alert) if is_about_certificates(*alert) => TlsFailure::NotTaken(*alert),
        Error::InvalidMessage(_) => TlsFailure::NoTls,
        _ => TlsFailure::Other(cause.clone()),
    };
    failure.into()
}

fn is_about_certificates(alert: AlertDescription) -> bool {
    matches!(
        alert,
        AlertDescription::BadCertificate
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnknownCA
            | AlertDescription::AccessDenied
            | AlertDescription::DecryptError
            | AlertDescription::CertificateRequired
    )
}
