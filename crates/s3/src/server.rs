//! The HTTP server: one current-thread runtime per core, each with its own listening socket on the same port, so that a
//! connection's work stays on its thread.
//!
//! A program that owns the threads (to open a disk ring on each of them, say) calls [`listen`], builds one runtime per
//! listener and runs [`serve_core`] on it; [`S3Server::start`] does the same with plain threads.

mod answer;
mod body;
mod connection;
mod listen;
mod pace;
mod pulse;
mod stream;
mod unparsed;

use std::future::poll_fn;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::task::Poll;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::watch;

use crate::app::App;
use crate::config::{ACCEPT_RETRY_MS, MAX_CONNECTIONS_PER_CORE, Timeouts};

pub use body::{BodyFailure, RequestBody};
pub use listen::{ListenError, listen};
use pulse::{Order, Pulse};

/// Serves one listener on the present current-thread runtime until `shutdown` turns true; then finishes the requests in hand,
/// for at most the drain time, and returns.
pub async fn serve_core(listener: TcpListener, app: Arc<App>, mut shutdown: watch::Receiver<bool>) -> io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let pulse = Pulse::new();
    let timeouts = app.config().timeouts;
    let beating = tokio::spawn(beat(pulse.clone(), timeouts));
    loop {
        let accepted = tokio::select! {
            accepted = accept(&listener, &pulse) => accepted,
            stopped = shutdown.wait_for(|stop| *stop) => {
                // A sender that is gone means that the program is ending.
                drop(stopped);
                break;
            }
        };
        match accepted {
            Ok(socket) => start(socket, &app, &pulse),
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(ACCEPT_RETRY_MS)).await;
            }
        }
    }
    drop(listener);
    pulse.order(Order::Drain);
    if tokio::time::timeout(timeouts.drain, below(&pulse, 1)).await.is_err() {
        tracing::warn!(connections = pulse.open(), "cutting connections that did not end in time");
        pulse.order(Order::Cut);
        below(&pulse, 1).await;
    }
    beating.abort();
    Ok(())
}

/// Threads that serve S3.
#[derive(Debug)]
pub struct S3Server {
    address: SocketAddr,
    shutdown: watch::Sender<bool>,
    threads: Vec<JoinHandle<io::Result<()>>>,
}

impl S3Server {
    /// Opens the port and serves on `cores` threads.
    pub fn start(app: Arc<App>, cores: usize) -> Result<S3Server, ListenError> {
        let (listeners, address) = listen(app.config().address, cores)?;
        let (shutdown, stopped) = watch::channel(false);
        let threads = listeners
            .into_iter()
            .map(|listener| {
                let (app, stopped) = (app.clone(), stopped.clone());
                std::thread::spawn(move || {
                    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
                    runtime.block_on(serve_core(listener, app, stopped))
                })
            })
            .collect();
        Ok(S3Server { address, shutdown, threads })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Finishes the requests in hand and ends. Errors are those of opening the threads' runtimes.
    pub fn stop(self) -> io::Result<()> {
        self.shutdown.send_replace(true);
        for thread in self.threads {
            thread.join().map_err(|_| io::Error::other("a server thread panicked"))??;
        }
        Ok(())
    }
}

async fn accept(listener: &tokio::net::TcpListener, pulse: &Pulse) -> io::Result<tokio::net::TcpStream> {
    below(pulse, MAX_CONNECTIONS_PER_CORE).await;
    let (socket, _) = listener.accept().await?;
    socket.set_nodelay(true)?;
    Ok(socket)
}

fn start(socket: tokio::net::TcpStream, app: &Arc<App>, pulse: &Arc<Pulse>) {
    let registration = Arc::new(pulse.register());
    tokio::spawn(connection::run(socket, app.clone(), registration));
}

async fn below(pulse: &Pulse, limit: usize) {
    poll_fn(|cx| if pulse.poll_below(limit, cx.waker()) { Poll::Ready(()) } else { Poll::Pending }).await;
}

async fn beat(pulse: Arc<Pulse>, timeouts: Timeouts) {
    let mut ticks = tokio::time::interval(Timeouts::TICK);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        pulse.beat(&timeouts);
    }
}
