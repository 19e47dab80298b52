//! Accepting: handshakes go on beside each other, so that a peer that takes its time holds nobody up.

use super::network::Ends;
use super::stream::TlsConnection;
use crate::call::BoxFuture;
use crate::network::{ByteStream, Listener};
use std::collections::VecDeque;
use std::io;
use tokio::task::{AbortHandle, JoinSet};
use tokio_rustls::TlsAcceptor;

/// Handshakes under way at one listener. When there is one more, the oldest ends: a node of the cluster is done within a few round trips,
/// so whom it hits is a stranger who holds connections open.
pub const MAX_HANDSHAKES: usize = 64;

pub(crate) struct TlsListener {
    inner: Box<dyn Listener>,
    acceptor: TlsAcceptor,
    ends: Ends,
    handshakes: JoinSet<io::Result<TlsConnection>>,
    /// Those under way, the oldest first; also some that have ended.
    oldest_first: VecDeque<AbortHandle>,
}

impl TlsListener {
    pub fn new(inner: Box<dyn Listener>, acceptor: TlsAcceptor, ends: Ends) -> TlsListener {
        TlsListener { inner, acceptor, ends, handshakes: JoinSet::new(), oldest_first: VecDeque::new() }
    }

    fn begin(&mut self, stream: Box<dyn ByteStream>) {
        self.oldest_first.retain(|handshake| !handshake.is_finished());
        if self.oldest_first.len() >= MAX_HANDSHAKES
            && let Some(oldest) = self.oldest_first.pop_front()
        {
            tracing::info!(address = self.address(), "{MAX_HANDSHAKES} handshakes are under way: the oldest is given up");
            oldest.abort();
        }
        let (ends, shaking) = (self.ends.clone(), self.acceptor.accept(stream));
        let handshake = async move { ends.finish(async { Ok(tokio_rustls::TlsStream::from(shaking.await?)) }).await };
        self.oldest_first.push_back(self.handshakes.spawn(handshake));
    }

    /// The next connection. Nothing is lost when this is dropped: handshakes go on.
    async fn next(&mut self) -> io::Result<Box<dyn ByteStream>> {
        loop {
            tokio::select! {
                // What has ended first: so no more than the bound are there at any time.
                biased;
                Some(ended) = self.handshakes.join_next() => match ended {
                    Ok(Ok(connection)) => return Ok(Box::new(connection)),
                    Ok(Err(error)) => tracing::info!(address = self.address(), %error, "a connection is refused"),
                    // Given up for another one.
                    Err(_) => {}
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
