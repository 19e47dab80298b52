//! TLS over another network.

use super::authority::Authority;
use super::certificate::{CertificateError, OwnCertificate, named_in};
use super::failure::{TlsFailure, explain};
use super::listener::TlsListener;
use super::stream::TlsConnection;
use crate::call::BoxFuture;
use crate::hello::Identity;
use crate::network::{ByteStream, Listener, Network};
use env::Env;
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::{cipher_suite, default_provider};
use rustls::pki_types::{ServerName, UnixTime};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::time_provider::TimeProvider;
use rustls::version::TLS13;
use rustls::{ClientConfig, CommonState, ServerConfig};
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio_rustls::{TlsAcceptor, TlsConnector};
use types::ClusterId;

/// How long both ends may take from the first byte until each has seen the other's certificate.
pub const HANDSHAKE_LIMIT: Duration = Duration::from_secs(5);

/// Connections on which both ends show certificates of one cluster.
pub struct TlsNetwork {
    inner: Arc<dyn Network>,
    connector: TlsConnector,
    server_name: ServerName<'static>,
    ends: Ends,
    acceptor: TlsAcceptor,
}

/// What both ends of a handshake need.
#[derive(Clone)]
pub(crate) struct Ends {
    pub env: Env,
    pub cluster: ClusterId,
}

impl TlsNetwork {
    /// The connections of node `own`, over `inner`. Fails if no certificate can be made, for example because of the clock.
    pub fn new(
        env: &Env,
        inner: Arc<dyn Network>,
        authority: &Arc<Authority>,
        own: Identity,
    ) -> Result<TlsNetwork, CertificateError> {
        assert_eq!(own.cluster, authority.cluster(), "an authority certifies nodes of its own cluster");
        let certificate = OwnCertificate::new(env, authority.clone(), own);
        certificate.current()?;
        TlsNetwork::showing(env, inner, authority, Arc::new(certificate))
    }

    /// Trusts `authority` and shows `certificate`.
    pub(crate) fn showing(
        env: &Env,
        inner: Arc<dyn Network>,
        authority: &Authority,
        certificate: Arc<OwnCertificate>,
    ) -> Result<TlsNetwork, CertificateError> {
        let (provider, clock, roots) = (Arc::new(provider()), Arc::new(Clock(env.clone())), authority.roots()?);
        let verifier = WebPkiServerVerifier::builder_with_provider(roots.clone(), provider.clone()).build();
        let verifier = verifier.map_err(|error| rustls::Error::General(error.to_string()))?;
        let mut client = ClientConfig::builder_with_details(provider.clone(), clock.clone())
            .with_protocol_versions(&[&TLS13])?
            .with_webpki_verifier(verifier)
            .with_client_cert_resolver(certificate.clone());
        client.enable_sni = false;
        client.resumption = Resumption::disabled();
        let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider.clone()).clear_root_hint_subjects();
        let verifier = verifier.build().map_err(|error| rustls::Error::General(error.to_string()))?;
        let mut server = ServerConfig::builder_with_details(provider, clock)
            .with_protocol_versions(&[&TLS13])?
            .with_client_cert_verifier(verifier)
            .with_cert_resolver(certificate);
        server.session_storage = Arc::new(NoServerSessionStorage {});
        server.send_tls13_tickets = 0;
        let server_name = ServerName::try_from(authority.server_name()).expect("hexadecimal digits and a domain");
        Ok(TlsNetwork {
            inner,
            connector: TlsConnector::from(Arc::new(client)),
            server_name,
            ends: Ends { env: env.clone(), cluster: authority.cluster() },
            acceptor: TlsAcceptor::from(Arc::new(server)),
        })
    }
}

impl Network for TlsNetwork {
    fn connect<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<Box<dyn ByteStream>>> {
        Box::pin(async move {
            let stream = self.inner.connect(address).await?;
            let shaking = self.connector.connect(self.server_name.clone(), stream);
            let connection = self.ends.finish(async { Ok(tokio_rustls::TlsStream::from(shaking.await?)) }).await?;
            let connection: Box<dyn ByteStream> = Box::new(connection);
            Ok(connection)
        })
    }

    fn listen<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<Box<dyn Listener>>> {
        Box::pin(async move {
            let inner = self.inner.listen(address).await?;
            let listener: Box<dyn Listener> = Box::new(TlsListener::new(inner, self.acceptor.clone(), self.ends.clone()));
            Ok(listener)
        })
    }
}

impl Ends {
    /// Waits for a handshake and looks whom the peer's certificate names.
    pub async fn finish(
        &self,
        shaking: impl Future<Output = io::Result<tokio_rustls::TlsStream<Box<dyn ByteStream>>>>,
    ) -> io::Result<TlsConnection> {
        let stream = tokio::select! {
            biased;
            shaken = shaking => shaken.map_err(explain)?,
            () = self.env.sleep(HANDSHAKE_LIMIT) => return Err(TlsFailure::Slow(HANDSHAKE_LIMIT).into()),
        };
        let state: &CommonState = match &stream {
            tokio_rustls::TlsStream::Client(stream) => stream.get_ref().1,
            tokio_rustls::TlsStream::Server(stream) => stream.get_ref().1,
        };
        let peer = named_in(state.peer_certificates()).map_err(TlsFailure::from)?;
        match peer.cluster == self.cluster {
            true => Ok(TlsConnection { stream, peer }),
            false => Err(TlsFailure::OtherCluster.into()),
        }
    }
}

/// One implementation of everything; the cipher that processors with AES instructions are fastest at comes first.
fn provider() -> CryptoProvider {
    let cipher_suites = vec![
        cipher_suite::TLS13_AES_128_GCM_SHA256,
        cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
        cipher_suite::TLS13_AES_256_GCM_SHA384,
    ];
    CryptoProvider { cipher_suites, ..default_provider() }
}

/// Dates of certificates are compared with the environment's wall clock.
#[derive(Debug)]
pub(super) struct Clock(pub Env);

impl TimeProvider for Clock {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(Duration::from_millis(self.0.wall_clock_ms())))
    }
}
