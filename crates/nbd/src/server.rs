//! Serving connections.
//!
//! The program owns the threads: on each core it runs [`NbdServer::serve`] in a current-thread runtime, with a copy of the same
//! listener. All of them share one [`NbdServer`], so that its limits and the count of an export's clients are those of the
//! whole program.

mod account;
mod clients;
mod connection;
mod listen;
mod open_requests;
mod operation;
mod output;
mod session;
mod stall;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::export::Exports;
use crate::limits::{ACCEPT_RETRY, NbdConfig};
use account::Pool;
use clients::Clients;
use listen::Accepted;
pub use listen::{ListenError, Listener};

/// What the server is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stop {
    #[default]
    Run,
    /// Answer the requests under way, take nothing more, then end the connections. Clients that reconnect send the rest again, to
    /// the next server.
    Restart,
    /// Answer the requests under way, refuse further ones as "shutting down" for [`Timeouts::grace`](crate::Timeouts::grace), then
    /// end the connections. Clients pass the refusal on as an error.
    End,
}

/// A server of exports.
pub struct NbdServer {
    exports: Arc<dyn Exports>,
    config: NbdConfig,
    pool: Pool,
    clients: Clients,
    connection_count: AtomicUsize,
}

impl NbdServer {
    pub fn new(exports: Arc<dyn Exports>, config: NbdConfig) -> Arc<NbdServer> {
        let pool = Pool::new(&config.limits);
        Arc::new(NbdServer { exports, config, pool, clients: Clients::default(), connection_count: AtomicUsize::new(0) })
    }

    /// Accepts connections on the present runtime until `stop` says otherwise, and returns when all of them have ended. A
    /// sender that is gone means [`Stop::End`].
    pub async fn serve(self: Arc<Self>, listener: Listener, mut stop: watch::Receiver<Stop>) -> io::Result<()> {
        let acceptor = listener.into_acceptor()?;
        let mut connections = JoinSet::new();
        loop {
            let accepted = tokio::select! {
                biased;
                _ = stopped(&mut stop) => break,
                Some(ended) = connections.join_next() => {
                    if let Err(error) = ended {
                        tracing::error!(%error, "a connection's task did not end by itself");
                    }
                    continue;
                }
                accepted = acceptor.accept() => accepted,
            };
            match accepted {
                Ok(Accepted::Unix(socket)) => {
                    connections.spawn(self.clone().serve_connection(socket, stop.clone()));
                }
                Ok(Accepted::Tcp(socket)) => {
                    connections.spawn(self.clone().serve_connection(socket, stop.clone()));
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(ACCEPT_RETRY).await;
                }
            }
        }
        drop(acceptor);
        while let Some(ended) = connections.join_next().await {
            if let Err(error) = ended {
                tracing::error!(%error, "a connection's task did not end by itself");
            }
        }
        Ok(())
    }

    /// Serves one connection until it ends.
    pub async fn serve_connection<S>(self: Arc<Self>, socket: S, stop: watch::Receiver<Stop>)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send,
    {
        let limit = self.config.limits.connections;
        let Some(_counted) = Counted::enter(&self.connection_count, limit) else {
            tracing::warn!(limit, "closing a connection: too many are open");
            return;
        };
        connection::run(&self, socket, stop).await;
    }

    /// Connections that are open.
    pub fn connection_count(&self) -> usize {
        self.connection_count.load(Ordering::Relaxed)
    }
}

/// Ready when the server is told to stop.
async fn stopped(stop: &mut watch::Receiver<Stop>) -> Stop {
    stop.wait_for(|stop| *stop != Stop::Run).await.map_or(Stop::End, |stop| *stop)
}

/// One of the connections that count; until it is dropped.
struct Counted<'a>(&'a AtomicUsize);

impl<'a> Counted<'a> {
    fn enter(count: &'a AtomicUsize, limit: usize) -> Option<Counted<'a>> {
        let before = count.fetch_add(1, Ordering::Relaxed);
        let counted = Counted(count);
        (before < limit).then_some(counted)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
