//! The HTTP side: a few paths, bound before anything else of a start so that a taken port is noticed at once.

use crate::metrics;
use crate::registry::Registry;
use crate::scrub;
use crate::sources::Sources;
use crate::status::{Status, UploadsStatus, Warning};
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use env::{Env, Instant};
use logstore::LogStore;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use subsystem::Subsystem;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;

/// Most connections open at once; the next ones wait in the kernel's queue.
pub const MAX_CONNECTIONS: usize = 64;
/// Pause after the system refused to accept a connection (no file descriptor left, for example).
const ACCEPT_RETRY: Duration = Duration::from_millis(100);
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What the admin port tells. Clones share it.
#[derive(Clone)]
pub struct Admin {
    inner: Arc<Inner>,
}

struct Inner {
    env: Env,
    version: &'static str,
    started: Instant,
    ready: AtomicBool,
    sources: OnceLock<Arc<Sources>>,
    registry: Registry,
}

impl Admin {
    /// An admin port of a process that is starting: live, and not ready.
    pub fn new(env: &Env, version: &'static str) -> Admin {
        let registry = Registry::new();
        let inner = Arc::new(Inner {
            env: env.clone(),
            version,
            started: env.now(),
            ready: AtomicBool::new(false),
            sources: OnceLock::new(),
            registry: registry.clone(),
        });
        let (uptime, ready) = (Arc::downgrade(&inner), Arc::downgrade(&inner));
        registry.gauge("trilith_process_uptime_seconds", "Time since the start", &[], move || {
            uptime.upgrade().map_or(0.0, |inner| (inner.env.now() - inner.started).as_secs_f64())
        });
        registry.gauge(
            "trilith_process_ready_state",
            "1 while S3 requests are served, or, without a gateway, what the node has",
            &[],
            move || ready.upgrade().map_or(0.0, |inner| f64::from(u8::from(inner.is_ready()))),
        );
        Admin { inner }
    }

    /// Where others register their metrics.
    pub fn registry(&self) -> &Registry {
        &self.inner.registry
    }

    /// The roles are there: status and metrics tell of them from now on. Once.
    pub fn attach(&self, sources: Sources) {
        let sources = Arc::new(sources);
        metrics::register(&self.inner.registry, &sources);
        assert!(self.inner.sources.set(sources).is_ok(), "the roles of a process are attached once");
    }

    /// Says whether S3 requests are served, as far as the process's start and stop decide that.
    pub fn set_ready(&self, ready: bool) {
        self.inner.ready.store(ready, Ordering::Relaxed);
    }

    /// The state at this moment.
    pub fn status(&self) -> Status {
        let inner = &self.inner;
        let mut status = Status {
            version: inner.version.to_owned(),
            ready: inner.is_ready(),
            cluster: None,
            uptime_ms: (inner.env.now() - inner.started).as_millis() as u64,
            s3_address: None,
            buckets: 0,
            copies: 0,
            devices: Vec::new(),
            engine: None,
            uploads: UploadsStatus::default(),
            cell: None,
            subsystems: Vec::new(),
            warnings: Vec::new(),
        };
        if let Some(sources) = inner.sources.get() {
            sources.describe(&mut status);
        }
        if !status.ready {
            status.warnings.insert(0, inner.why_not_ready());
        }
        status
    }

    /// What the node runs.
    pub(crate) fn subsystems(&self) -> &[Arc<dyn Subsystem>] {
        self.inner.sources.get().map_or(&[], |sources| &sources.subsystems)
    }

    /// The log engine, if one serves now.
    pub(crate) fn store(&self) -> Option<LogStore> {
        self.inner.sources.get().and_then(|sources| (sources.store)())
    }

    fn router(&self) -> Router {
        Router::new()
            .route("/", get(front::page))
            .route("/metrics", get(scrape))
            .route("/health/live", get(async || "live\n"))
            .route("/health/ready", get(ready))
            .route("/status", get(async |State(admin): State<Admin>| Json(admin.status())))
            .route("/scrub", get(scrub::progress).post(scrub::begin))
            .with_state(self.clone())
    }
}

impl Inner {
    /// Whether S3 requests are served now. A node's gateway may be out of its cell for a while, and answers nothing then.
    fn is_ready(&self) -> bool {
        let is_out = self.sources.get().is_some_and(|sources| sources.is_out_of_its_cell() || sources.was_removed());
        self.ready.load(Ordering::Relaxed) && !is_out
    }

    fn why_not_ready(&self) -> Warning {
        if self.sources.get().is_some_and(|sources| sources.was_removed()) {
            return Warning::error(
                "this node was removed from its cluster, and serves nothing",
                "stop it; to use the machine again, join an empty folder",
            );
        }
        if self.sources.get().is_some_and(|sources| sources.waits_for_a_place()) {
            return Warning::error(
                "S3 requests are not served here: the cell has as many gateways as it may have, and this node's waits for a place",
                "send them to another node; this one serves its devices",
            );
        }
        if self.ready.load(Ordering::Relaxed) {
            return Warning::error(
                "S3 requests are refused here: this node's gateway is out of the cell's view, or can't know that it is in it, \
                 because others did not hear of it, or it not of them",
                "send them to another node; this one joins again by itself some seconds after it is heard, later if that happens \
                 often: trilith cluster status",
            );
        }
        Warning::error("S3 requests are not served now", "the server is starting or stopping: its log says which")
    }
}

/// An open admin port.
pub struct AdminServer {
    address: SocketAddr,
    serving: JoinHandle<()>,
}

impl AdminServer {
    /// Opens the port and serves it on the present runtime.
    pub async fn start(address: SocketAddr, admin: &Admin) -> Result<AdminServer, BindError> {
        let failed = |source| BindError { address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        if !address.ip().is_loopback() {
            tracing::warn!(%address, "the admin port asks for no credentials and can be reached from other machines");
        }
        let listener = Limited { listener, free: Arc::new(Semaphore::new(MAX_CONNECTIONS)), env: admin.inner.env.clone() };
        let router = admin.router();
        let serving = tokio::spawn(async move {
            if let Err(error) = axum::serve(listener, router).await {
                tracing::error!(%error, "the admin port is closed");
            }
        });
        Ok(AdminServer { address, serving })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Closes the port. Its answers are short, so nobody is waited for.
    pub fn stop(self) {
        self.serving.abort();
    }
}

/// Why the admin port could not be opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot open the admin port {address} (admin_addr): {source}")]
pub struct BindError {
    pub address: SocketAddr,
    source: io::Error,
}

async fn scrape(State(admin): State<Admin>) -> Response {
    ([(header::CONTENT_TYPE, OPEN_METRICS)], admin.inner.registry.render()).into_response()
}

async fn ready(State(admin): State<Admin>) -> Response {
    if admin.inner.is_ready() {
        (StatusCode::OK, "ready\n").into_response()
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {}\n", admin.inner.why_not_ready().what)).into_response()
    }
}

/// A listener that accepts only while fewer than [`MAX_CONNECTIONS`] are open.
struct Limited {
    listener: TcpListener,
    free: Arc<Semaphore>,
    env: Env,
}

impl axum::serve::Listener for Limited {
    type Io = Held;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Held, SocketAddr) {
        let permit = self.free.clone().acquire_owned().await.expect("the semaphore is never closed");
        loop {
            match self.listener.accept().await {
                Ok((stream, peer)) => return (Held { stream, begun: held_io::Begun::NotYet, _permit: permit }, peer),
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection on the admin port");
                    self.env.sleep(ACCEPT_RETRY).await;
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// A connection and its share of the limit.
struct Held {
    stream: TcpStream,
    begun: held_io::Begun,
    _permit: OwnedSemaphorePermit,
}

mod front;
mod held_io;

#[cfg(test)]
mod tests;
