//! The core threads: one current-thread runtime, one disk ring and one listener each, so that a connection's work stays on
//! its thread. A node of a cluster serves one of the listeners on its main thread, where its messages to other nodes come and go.

mod crew;

use super::lean;
use crate::settings::Settings;
use anyhow::Context;
use crew::Crew;
use env::Env;
use manager::Manager;
use object::ObjectService;
use s3::{App, S3Config};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use tokio::sync::watch;

/// The running core threads.
pub struct Threads {
    address: SocketAddr,
    app: Arc<App>,
    crew: Crew,
    /// The listener of the thread that started all.
    here: Option<tokio::task::JoinHandle<anyhow::Result<()>>>,
    /// Gives memory back that the same thread has freed.
    lean: tokio::task::JoinHandle<()>,
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
    let mut crew = Crew::new();
    let mut listeners = listeners.into_iter();
    let lean = env.spawn(lean::keep(app.clone()));
    let own = if main == MainThread::Serves { listeners.next() } else { None };
    let here = own.map(|listener| {
        let (serving, ending) = (s3::serve_core(listener, app.clone(), crew.stopped()), crew.ending());
        env.spawn(async move { ending.note("the main thread", serving.await.map_err(anyhow::Error::from)) })
    });
    for (core, listener) in listeners.enumerate() {
        let (app, stopped) = (app.clone(), crew.stopped());
        crew.start(&format!("core-{core}"), move || run_core(core, listener, app, stopped))?;
    }
    Ok(Threads { address, app, crew, here, lean })
}

fn run_core(core: usize, listener: TcpListener, app: Arc<App>, stopped: watch::Receiver<bool>) -> anyhow::Result<()> {
    env::set_core_index(core);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async move {
        let _ring = disk::install_ring().ok();
        let lean = tokio::spawn(lean::keep(app.clone()));
        let served = s3::serve_core(listener, app, stopped).await;
        lean.abort();
        served
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

    /// Waits until one of the threads has ended that was not told to: its part of the port is gone.
    pub async fn failed(&mut self) -> anyhow::Error {
        self.crew.failed().await
    }

    /// Finishes the requests in hand and ends the threads.
    pub async fn stop(self) -> anyhow::Result<()> {
        let Threads { crew, here, lean, .. } = self;
        lean.abort();
        crew.tell_to_stop();
        if let Some(here) = here {
            here.await.context("the main thread's part of the server")??;
        }
        tokio::task::spawn_blocking(move || crew.join()).await?
    }
}
