//! `bench ceiling`: the limit that an S3 server on this HTTP library is compared with.
//!
//! A bare hyper server: GET answers a constant body, PUT reads a body and throws it away, HEAD and DELETE answer at once.
//! One current-thread runtime per core, each with its own listening socket on the same port (SO_REUSEPORT), so that a
//! connection's work stays on its thread. Nothing is parsed beyond HTTP, nothing is stored: what is left is what sockets
//! and hyper cost.

use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::thread::JoinHandle;

use anyhow::Context;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::sync::watch;

use crate::s3::mix::parse_size;
use crate::tell;

/// Connections that may wait to be accepted, per core.
const ACCEPT_BACKLOG: i32 = 1024;

/// A bare HTTP server answering constant bodies.
#[derive(Debug, Clone, clap::Args)]
pub struct CeilingArgs {
    /// Address to listen on.
    #[arg(long, default_value = "127.0.0.1:9100")]
    pub address: SocketAddr,

    /// Bytes of the body that answers a GET, such as 4096, 4K or 1M.
    #[arg(long, default_value = "4K", value_parser = |text: &str| parse_size(text).map_err(|error| error.to_string()))]
    pub size: u64,

    /// Threads; the number of cores unless given.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub threads: Option<u32>,
}

/// Serves until the process is interrupted.
pub fn run(args: &CeilingArgs) -> anyhow::Result<()> {
    let threads = args.threads.map_or_else(cores, |threads| threads as usize);
    let server =
        Ceiling::start(args.address, args.size as usize, threads).with_context(|| format!("listening on {}", args.address))?;
    tell!("answering {} bytes on http://{} with {threads} threads", args.size, server.address())?;
    server.join()
}

/// A running server.
#[derive(Debug)]
pub struct Ceiling {
    address: SocketAddr,
    stop: watch::Sender<bool>,
    threads: Vec<JoinHandle<io::Result<()>>>,
}

impl Ceiling {
    /// Binds the address, on every thread, and serves.
    pub fn start(address: SocketAddr, body_bytes: usize, threads: usize) -> io::Result<Self> {
        let (listeners, address) = bind(address, threads)?;
        let body = Bytes::from(vec![b'x'; body_bytes]);
        let (stop, stopped) = watch::channel(false);
        let threads = listeners
            .into_iter()
            .map(|listener| {
                let (body, stopped) = (body.clone(), stopped.clone());
                std::thread::spawn(move || serve(listener, body, stopped))
            })
            .collect();
        Ok(Ceiling { address, stop, threads })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops it, dropping open connections.
    pub fn stop(self) -> anyhow::Result<()> {
        self.stop.send_replace(true);
        self.join()
    }

    fn join(self) -> anyhow::Result<()> {
        for thread in self.threads {
            thread.join().expect("a server thread panicked").context("serving")?;
        }
        Ok(())
    }
}

/// One listening socket per thread. The first bind is exclusive and released at once: without it, a second server would
/// silently share the port with the first.
fn bind(address: SocketAddr, count: usize) -> io::Result<(Vec<TcpListener>, SocketAddr)> {
    let probe = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    probe.set_reuse_address(true)?;
    probe.bind(&address.into())?;
    let address = probe.local_addr()?.as_socket().ok_or_else(|| io::Error::other("not an internet address"))?;
    drop(probe);
    let mut listeners = Vec::with_capacity(count);
    for _ in 0..count {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_reuse_address(true)?;
        socket.set_reuse_port(true)?;
        socket.set_nonblocking(true)?;
        socket.bind(&address.into())?;
        socket.listen(ACCEPT_BACKLOG)?;
        listeners.push(socket.into());
    }
    Ok((listeners, address))
}

fn serve(listener: TcpListener, body: Bytes, mut stopped: watch::Receiver<bool>) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, async move {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                _ = stopped.changed() => return Ok(()),
            };
            // A connection that died in the queue is the client's affair.
            let Ok((stream, _)) = accepted else { continue };
            stream.set_nodelay(true)?;
            let body = body.clone();
            tokio::task::spawn_local(async move {
                let service = service_fn(move |request| answer(request, body.clone()));
                // A client that goes away ends its connection; the generator reports what it saw.
                http1::Builder::new().serve_connection(TokioIo::new(stream), service).await.ok();
            });
        }
    })
}

async fn answer(request: Request<Incoming>, body: Bytes) -> Result<Response<Full<Bytes>>, Infallible> {
    let mut response = Response::new(Full::new(Bytes::new()));
    match *request.method() {
        Method::GET | Method::HEAD => *response.body_mut() = Full::new(body),
        Method::DELETE => *response.status_mut() = StatusCode::NO_CONTENT,
        _ => {
            let mut incoming = request.into_body();
            while let Some(frame) = incoming.frame().await {
                if frame.is_err() {
                    *response.status_mut() = StatusCode::BAD_REQUEST;
                    break;
                }
            }
        }
    }
    Ok(response)
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
