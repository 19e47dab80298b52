//! Accepting: what comes out are connections whose handshake is done.

use super::network::Ends;
use super::stream::TlsConnection;
use crate::call::BoxFuture;
use crate::handshakes::Handshakes;
use crate::network::{ByteStream, Listener};
use std::io;
use tokio_rustls::TlsAcceptor;

pub(crate) struct TlsListener {
    inner: Box<dyn Listener>,
    acceptor: TlsAcceptor,
    ends: Ends,
    handshakes: Handshakes<io::Result<TlsConnection>>,
}

impl TlsListener {
    pub fn new(inner: Box<dyn Listener>, acceptor: TlsAcceptor, ends: Ends) -> TlsListener {
        TlsListener { inner, acceptor, ends, handshakes: Handshakes::new() }
    }

    fn begin(&mut self, stream: Box<dyn ByteStream>) {
        let (ends, shaking) = (self.ends.clone(), self.acceptor.accept(stream));
        let handshake = async move { ends.finish(async { Ok(tokio_rustls::TlsStream::from(shaking.await?)) }).await };
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
