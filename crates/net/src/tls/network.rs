//! TLS over another network.

use super::authority::Authority;
use super::certificate::{CertificateError, OwnCertificate, named_in};
use super::failure::{TlsFailure, explain};
use super::guests::{Acceptor, GuestAcceptors, GuestAuthority};
use super::listener::TlsListener;
use super::stream::TlsConnection;
use crate::call::BoxFuture;
use crate::guests::guest_number;
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
use tokio_rustls::TlsConnector;
use types::ClusterId;

/// How long both ends may take from the first byte until each has seen the other's certificate.
pub const HANDSHAKE_LIMIT: Duration = Duration::from_secs(5);

/// Connections on which both ends show certificates of one cluster.
pub struct TlsNetwork {
    inner: Arc<dyn Network>,
    connector: TlsConnector,
    server_name: ServerName<'static>,
    env: Env,
    acceptor: Acceptor,
    guests: Option<Arc<GuestAcceptors>>,
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

    /// Accepts guests too: those whose certificate is of the authority of their number.
    pub fn with_guests(self, own: Identity, authority: GuestAuthority) -> TlsNetwork {
        TlsNetwork { guests: Some(Arc::new(GuestAcceptors::new(&self.env, own, authority))), ..self }
    }

    /// Trusts `authority` and shows `certificate`.
    pub(crate) fn showing(
        env: &Env,
        inner: Arc<dyn Network>,
        authority: &Authority,
        certificate: Arc<OwnCertificate>,
    ) -> Result<TlsNetwork, CertificateError> {
        let (provider, clock) = (Arc::new(provider()), Arc::new(Clock(env.clone())));
        let verifier = WebPkiServerVerifier::builder_with_provider(authority.roots()?, provider.clone()).build();
        let verifier = verifier.map_err(|error| rustls::Error::General(error.to_string()))?;
        let mut client = ClientConfig::builder_with_details(provider, clock)
            .with_protocol_versions(&[&TLS13])?
            .with_webpki_verifier(verifier)
            .with_client_cert_resolver(certificate.clone());
        // A guest says whose it is. Nodes say nothing that others could read.
        client.enable_sni = guest_number(&authority.cluster().0).is_some();
        client.resumption = Resumption::disabled();
        let acceptor = Acceptor { config: Arc::new(server_config(env, authority, certificate)?), cluster: authority.cluster() };
        let server_name = ServerName::try_from(authority.server_name()).expect("hexadecimal digits and a domain");
        Ok(TlsNetwork {
            inner,
            connector: TlsConnector::from(Arc::new(client)),
            server_name,
            env: env.clone(),
            acceptor,
            guests: None,
        })
    }
}

impl Network for TlsNetwork {
    fn connect<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<Box<dyn ByteStream>>> {
        Box::pin(async move {
            let stream = self.inner.connect(address).await?;
            let shaking = self.connector.connect(self.server_name.clone(), stream);
            let shaking = async { Ok((self.acceptor.cluster, tokio_rustls::TlsStream::from(shaking.await?))) };
            let connection = finish(&self.env, shaking).await?;
            let connection: Box<dyn ByteStream> = Box::new(connection);
            Ok(connection)
        })
    }

    fn listen<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<Box<dyn Listener>>> {
        Box::pin(async move {
            let inner = self.inner.listen(address).await?;
            let listener: Box<dyn Listener> =
                Box::new(TlsListener::new(inner, self.acceptor.clone(), self.guests.clone(), &self.env));
            Ok(listener)
        })
    }
}

/// What comes out of a handshake: the cluster that was meant, and the stream.
pub(super) type Shaken = (ClusterId, tokio_rustls::TlsStream<Box<dyn ByteStream>>);

/// Waits for a handshake and looks whom the peer's certificate names.
pub(super) async fn finish(env: &Env, shaking: impl Future<Output = io::Result<Shaken>>) -> io::Result<TlsConnection> {
    let (cluster, stream) = tokio::select! {
        biased;
        shaken = shaking => shaken.map_err(explain)?,
        () = env.sleep(HANDSHAKE_LIMIT) => return Err(TlsFailure::Slow(HANDSHAKE_LIMIT).into()),
    };
    let state: &CommonState = match &stream {
        tokio_rustls::TlsStream::Client(stream) => stream.get_ref().1,
        tokio_rustls::TlsStream::Server(stream) => stream.get_ref().1,
    };
    let peer = named_in(state.peer_certificates()).map_err(TlsFailure::from)?;
    match peer.cluster == cluster {
        true => Ok(TlsConnection { stream, peer }),
        false => Err(TlsFailure::OtherCluster.into()),
    }
}

/// How an end accepts: it trusts `authority` and shows `certificate`.
pub(super) fn server_config(
    env: &Env,
    authority: &Authority,
    certificate: Arc<OwnCertificate>,
) -> Result<ServerConfig, CertificateError> {
    let (provider, clock) = (Arc::new(provider()), Arc::new(Clock(env.clone())));
    let verifier = WebPkiClientVerifier::builder_with_provider(authority.roots()?, provider.clone()).clear_root_hint_subjects();
    let verifier = verifier.build().map_err(|error| rustls::Error::General(error.to_string()))?;
    let mut server = ServerConfig::builder_with_details(provider, clock)
        .with_protocol_versions(&[&TLS13])?
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(certificate);
    server.session_storage = Arc::new(NoServerSessionStorage {});
    server.send_tls13_tickets = 0;
    Ok(server)
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
