//! The core threads: one current-thread runtime, one disk ring and one listener each, so that a connection's work stays on
//! its thread. A node of a cluster serves one of the listeners on its main thread, where its messages to other nodes come and go.

use crate::settings::Settings;
use anyhow::{Context, bail};
use env::Env;
use manager::Manager;
use object::ObjectService;
use s3::{App, S3Config};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use tokio::sync::watch;

/// The running core threads.
pub struct Threads {
    address: SocketAddr,
    app: Arc<App>,
    shutdown: watch::Sender<bool>,
    handles: Vec<JoinHandle<anyhow::Result<()>>>,
    /// The listener of the thread that started all.
    here: Option<tokio::task::JoinHandle<std::io::Result<()>>>,
}

/// What the thread that starts the others does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MainThread {
    /// Works for all of them.
    Apart,
    /// Serves S3 too, in place of one of them.
    Serves,
}

/// Opens the S3 port and serves it.
pub fn start(
    settings: &Settings,
    service: Arc<ObjectService>,
    manager: Arc<Manager>,
    env: &Env,
    main: MainThread,
) -> anyhow::Result<Threads> {
    let config =
        S3Config { region: settings.region.clone(), domain: settings.domain.clone(), ..S3Config::new(settings.s3_address) };
    let app = App::new(config, service, manager, env);
    let (listeners, address) = s3::listen(settings.s3_address, settings.cores)?;
    let (shutdown, stopped) = watch::channel(false);
    let mut listeners = listeners.into_iter();
    let own = if main == MainThread::Serves { listeners.next() } else { None };
    let here = own.map(|listener| env.spawn(s3::serve_core(listener, app.clone(), stopped.clone())));
    let mut handles = Vec::new();
    for (core, listener) in listeners.enumerate() {
        let (app, stopped) = (app.clone(), stopped.clone());
        let thread = std::thread::Builder::new().name(format!("core-{core}"));
        handles.push(thread.spawn(move || run_core(core, listener, app, stopped)).context("starting a core thread")?);
    }
    Ok(Threads { address, app, shutdown, handles, here })
}

fn run_core(core: usize, listener: TcpListener, app: Arc<App>, stopped: watch::Receiver<bool>) -> anyhow::Result<()> {
    env::set_core_index(core);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async move {
        let _ring = disk::install_ring().ok();
        s3::serve_core(listener, app, stopped).await
    })?;
    Ok(())
}

impl Threads {
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What answers requests, for its figures.
    pub fn app(&self) -> &Arc<App> {
        &self.app
    }

    /// Finishes the requests in hand and ends the threads.
    pub async fn stop(self) -> anyhow::Result<()> {
        let Threads { shutdown, handles, here, .. } = self;
        shutdown.send_replace(true);
        if let Some(here) = here {
            here.await.context("the main thread's part of the server")??;
        }
        let join = move || {
            handles.into_iter().try_for_each(|handle| handle.join().unwrap_or_else(|_| bail!("a core thread panicked")))
        };
        tokio::task::spawn_blocking(join).await?
    }
}
