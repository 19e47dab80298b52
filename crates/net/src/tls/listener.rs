//! Accepting: what comes out are connections whose handshake is done.

use super::guests::{Acceptor, GuestAcceptors};
use super::network::finish;
use super::stream::TlsConnection;
use crate::call::BoxFuture;
use crate::handshakes::Handshakes;
use crate::network::{ByteStream, Listener};
use env::Env;
use rustls::server::Acceptor as Hello;
use std::io;
use std::sync::Arc;
use tokio_rustls::LazyConfigAcceptor;

pub(crate) struct TlsListener {
    inner: Box<dyn Listener>,
    env: Env,
    own: Acceptor,
    guests: Option<Arc<GuestAcceptors>>,
    handshakes: Handshakes<io::Result<TlsConnection>>,
}

impl TlsListener {
    pub fn new(inner: Box<dyn Listener>, own: Acceptor, guests: Option<Arc<GuestAcceptors>>, env: &Env) -> TlsListener {
        TlsListener { inner, env: env.clone(), own, guests, handshakes: Handshakes::new() }
    }

    fn begin(&mut self, stream: Box<dyn ByteStream>) {
        let (env, own, guests) = (self.env.clone(), self.own.clone(), self.guests.clone());
        let handshake = async move {
            let shaking = async {
                let hello = LazyConfigAcceptor::new(Hello::default(), stream).await?;
                // A node names no server. What a guest names says which certificates are right.
                let acceptor = match (hello.client_hello().server_name(), guests) {
                    (Some(name), Some(guests)) => guests.of_server_name(name)?,
                    _ => own,
                };
                let shaken = hello.into_stream(acceptor.config).await?;
                Ok((acceptor.cluster, tokio_rustls::TlsStream::from(shaken)))
            };
            finish(&env, shaking).await
        };
        self.handshakes.begin(&self.inner.address(), handshake);
    }

    /// The next connection. Nothing is lost when this is dropped: handshakes go on.
    async fn next(&mut self) -> io::Result<Box<dyn ByteStream>> {
        loop {
            tokio::select! {
                // What has ended first: so no more than the bound are there at any time.
                biased;
                Some(ended) = self.handshakes.next() => match ended {
                    Ok(connection) => return Ok(Box::new(connection)),
                    Err(error) => tracing::info!(address = self.address(), %error, "a connection is refused"),
                },
                accepted = self.inner.accept() => self.begin(accepted?),
            }
        }
    }
}

impl Listener for TlsListener {
    fn address(&self) -> String {
        self.inner.address()
    }

    fn accept(&mut self) -> BoxFuture<'_, io::Result<Box<dyn ByteStream>>> {
        Box::pin(self.next())
    }
}
