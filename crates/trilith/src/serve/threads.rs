//! The core threads: one current-thread runtime, one disk ring and one listener each, so that a connection's work stays on
//! its thread.

use crate::settings::Settings;
use anyhow::Context;
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
}

/// Opens the S3 port and serves it.
pub fn start(settings: &Settings, service: Arc<ObjectService>, manager: Arc<Manager>, env: &Env) -> anyhow::Result<Threads> {
    let config =
        S3Config { region: settings.region.clone(), domain: settings.domain.clone(), ..S3Config::new(settings.s3_address) };
    let app = App::new(config, service, manager, env);
    let (listeners, address) = s3::listen(settings.s3_address, settings.cores)?;
    let (shutdown, stopped) = watch::channel(false);
    let mut handles = Vec::new();
    for (core, listener) in listeners.into_iter().enumerate() {
        let (app, stopped) = (app.clone(), stopped.clone());
        let thread = std::thread::Builder::new().name(format!("core-{core}"));
        handles.push(thread.spawn(move || run_core(core, listener, app, stopped)).context("starting a core thread")?);
    }
    Ok(Threads { address, app, shutdown, handles })
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
    pub fn stop(self) -> anyhow::Result<()> {
        self.shutdown.send_replace(true);
        for handle in self.handles {
            handle.join().map_err(|_| anyhow::anyhow!("a core thread panicked"))??;
        }
        Ok(())
    }
}
