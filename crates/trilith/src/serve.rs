//! `trilith serve`: opens what is kept, wires the roles together, and runs until told to stop.
//!
//! ```text
//!   main thread                         core threads (one current-thread runtime and one disk ring each)
//!   manager, devices, log engine        S3 connections: parse, object service, engine, device
//!   checkpoints, collection, admin
//! ```
//!
//! The S3 port opens last: whoever can connect is served.

mod chunk_metrics;
mod descriptors;
pub mod devices;
mod failed_manager;
pub mod manifests;
mod member;
pub mod notes;
mod peers;
mod pid;
mod s3_metrics;
mod signals;
mod threads;

use crate::credentials::{self, Origin};
use crate::place::Place;
use crate::say::say;
use crate::settings::{ServeArgs, Settings, SyncMode};
use ::device::Device;
use admin::{Admin, AdminServer, Sources, Surroundings, Warning};
use anyhow::{Context, bail};
use env::Env;
use futures_util::FutureExt;
use futures_util::stream::{FuturesUnordered, StreamExt};
use logstore::{IndexForm, LogStore};
use manager::{BucketEngine, CreateBucketError, EtagMode, Manager, ManagerError, NewBucket, ROOT_USER};
use object::{Engines, ObjectService};
use signals::Signals;
use std::io::IsTerminal;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use types::DeviceId;

/// Runs the server until SIGTERM or SIGINT.
pub fn run(args: &ServeArgs) -> anyhow::Result<()> {
    let settings = args.settle()?;
    start_logging(&settings)?;
    end_with_any_panic();
    descriptors::raise_limit();
    std::fs::create_dir_all(&settings.data).with_context(|| format!("making the data folder {}", settings.data.display()))?;
    let env = Env::real_with_cores(settings.cores + 1);
    env::set_core_index(settings.cores);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let place = Place::read(&settings.data)?;
    runtime.block_on(async move {
        let _ring = disk::install_ring()
            .inspect_err(|error| tracing::info!(%error, "no io_uring: disk requests go through threads, which costs speed"))
            .ok();
        match place {
            Some(_) if settings.engine.index != IndexForm::Full => {
                bail!("index: a node of a cluster keeps the full index; `ludo` is for a server of its own")
            }
            Some(place) => member::serve(settings, env, place).await,
            None if settings.chunk_space > 0 => bail!(
                "chunk_space: chunks need a cluster. Make this folder its first node (`trilith cluster init --data {}`), or try one: \
                 `trilith cluster dev --chunk-space 4GiB`",
                settings.data.display()
            ),
            None => serve(settings, env).await,
        }
    })
}

fn start_logging(settings: &Settings) -> anyhow::Result<()> {
    let filter = tracing_subscriber::EnvFilter::try_new(&settings.log).with_context(|| format!("log = `{}`", settings.log))?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // A log that can't be written (its disk is full, its reader has gone) must not end the server: by default that is told on the same
    // stream, and the attempt panics.
    let builder = builder.with_ansi(std::io::stderr().is_terminal()).log_internal_errors(false);
    if settings.log_json {
        builder.json().init()
    } else {
        builder.init()
    }
    Ok(())
}

/// A panic is a bug of ours, and whoever waits for the task that had it would wait for ever. Release builds abort anyway; others must
/// not go on where those end.
fn end_with_any_panic() {
    let tell = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        tell(panic);
        std::process::abort();
    }));
}

async fn serve(settings: Settings, env: Env) -> anyhow::Result<()> {
    let mut signals = Signals::listen()?;
    let started = signals.unless_told(start(&settings, &env)).await;
    let Some(mut running) = started.map_err(|error| failed_manager::explain(error, &settings.data))? else { return Ok(()) };
    let end = tokio::select! {
        () = signals.told() => Ok(()),
        // What was acknowledged is safe, and a part of the port is served by nobody.
        why = running.server.failed() => return Err(why),
        why = failed_manager::ends(&env, &running.manager, &settings.data) => Err(why),
    };
    running.stop().await?;
    end
}

/// A server that serves.
struct Running {
    admin: Admin,
    admin_server: AdminServer,
    manager: Arc<Manager>,
    server: threads::Threads,
    store: LogStore,
    opened: devices::Opened,
    notes: Arc<notes::Notes>,
    _pid: pid::PidFile,
}

async fn start(settings: &Settings, env: &Env) -> anyhow::Result<Running> {
    // The lock on the data is the devices': taken first, so that a second server on the same data stops here.
    let disks = devices::open_disks(env, settings).await?;
    let admin = Admin::new(env, env!("CARGO_PKG_VERSION"));
    let admin_server = AdminServer::start(settings.admin_address, &admin).await?;
    let manager = Arc::new(Manager::open(env, &settings.data.join("manager")).await.context("opening the manager's state")?);
    let pid = pid::PidFile::write(&settings.data);
    let cluster = manager.ensure_cluster(format::FORMAT_VERSION).await?;
    let opened = devices::open(env, settings, &manager, cluster.id, disks).await?;
    let (root, origin) = credentials::root(env, &settings.data, settings.root.as_ref())?;
    manager.set_root_credential(&root.user, &root.password).await?;

    let config = settings.engine.clone();
    let notes = notes::Notes::new(manager.clone(), opened.devices.clone());
    let manifests = Arc::new(manifests::ManagerManifests::new(manager.clone(), Some(notes.clone()), config.cell));
    let store = LogStore::open(config, env.clone(), manifests, opened.devices.clone(), &opened.missing).await;
    let store = store.context("starting the log engine")?;
    env.spawn(notes.clone().keep(env.clone()));
    let service = Arc::new(ObjectService::new(manager.clone(), Engines::log(Arc::new(store.clone())), env.clone()));
    if store.waits_for().is_empty() {
        service.finish_removals().await.context("finishing bucket removals that a crash cut short")?;
    }
    service.look_after_removals();
    make_default_buckets(&manager, &settings.default_buckets).await?;

    let server = threads::start(settings, service, manager.clone(), env, threads::MainThread::Apart)?;
    s3_metrics::register(admin.registry(), server.app());
    admin.attach(Sources {
        manager: manager.clone(),
        devices: opened.devices.clone(),
        missing: opened.missing.clone(),
        store: {
            let store = store.clone();
            Arc::new(move || Some(store.clone()))
        },
        may_answer: Arc::new(|| true),
        s3_address: Arc::new(OnceLock::from(server.address())),
        chunks: Vec::new(),
        surroundings: Arc::new(Surroundings::default),
        notices: notices(settings),
    });
    admin.set_ready(true);
    greet(settings, Some(server.address()), &admin_server, &origin, &root)?;
    Ok(Running { admin, admin_server, manager, server, store, opened, notes, _pid: pid })
}

impl Running {
    async fn stop(self) -> anyhow::Result<()> {
        let Running { admin, admin_server, server, store, opened, notes, .. } = self;
        tracing::info!("stopping: finishing the requests in hand");
        admin.set_ready(false);
        server.stop().await?;
        close(&store, &opened.devices, &notes).await;
        admin_server.stop();
        tracing::info!("stopped");
        Ok(())
    }
}

/// Makes the next start quick: a last checkpoint, and sealed devices. It is no more than that, so nothing of it is waited for beside a disk that hangs.
async fn close(store: &LogStore, devices: &[Arc<Device>], notes: &notes::Notes) {
    let closing = async {
        store.close().await;
        for device in devices {
            if let Err(error) = device.seal().await {
                tracing::warn!(device = device.id().0, %error, "the device could not be sealed; the next start walks its log");
            }
        }
        notes.write().await;
    };
    tokio::select! {
        biased;
        () = closing => {}
        device = one_hangs(devices) => {
            tracing::warn!(device = device.0, "the disk of this device hangs: the next start walks the logs");
        }
    }
}

/// Waits until the disk of one of these devices hangs.
async fn one_hangs(devices: &[Arc<Device>]) -> DeviceId {
    let mut hung: FuturesUnordered<_> = devices.iter().map(|device| device.hung().map(|()| device.id())).collect();
    match hung.next().await {
        Some(device) => device,
        None => std::future::pending().await,
    }
}

/// What a person who starts the server, or looks at its status, should know of the settings.
fn notices(settings: &Settings) -> Vec<Warning> {
    match settings.sync {
        SyncMode::Always => Vec::new(),
        SyncMode::Batch { flush_interval_ms } => vec![Warning::notice(
            format!(
                "sync=batch:{flush_interval_ms}: a power cut loses what was acknowledged in the last {flush_interval_ms} ms"
            ),
            "sync=always acknowledges only what is durable",
        )],
        SyncMode::Off => {
            let what = "sync=off: a power cut loses any amount of what was acknowledged";
            vec![Warning::notice(what, "sync=always acknowledges only what is durable")]
        }
    }
}

async fn make_default_buckets(manager: &Manager, names: &[String]) -> anyhow::Result<()> {
    for name in names {
        let bucket =
            NewBucket { name: name.clone(), owner: ROOT_USER.to_owned(), engine: BucketEngine::Log, etag: EtagMode::Md5 };
        match manager.create_bucket(bucket).await {
            Ok(_) => {}
            Err(ManagerError::Refused(CreateBucketError::AlreadyOwnedByYou)) => {}
            Err(error) => bail!("making the default bucket {name}: {error}"),
        }
    }
    Ok(())
}

/// Says where everything is. Programs read the addresses from here when they asked for port 0.
fn greet(
    settings: &Settings,
    s3: Option<SocketAddr>,
    admin: &AdminServer,
    origin: &Origin,
    root: &credentials::Credentials,
) -> anyhow::Result<()> {
    match s3 {
        Some(address) => say!("Trilith {} serves S3 on http://{address}", env!("CARGO_PKG_VERSION")),
        None => say!("Trilith {} is a node of a cluster, and leaves S3 to others", env!("CARGO_PKG_VERSION")),
    }
    say!("  admin      http://{} (/status, /metrics, /health/ready)", admin.address());
    say!("  data       {}", settings.data.display());
    for notice in notices(settings) {
        say!("  note       {}; {}", notice.what, notice.advice);
    }
    match origin {
        Origin::New(path) => {
            say!("  access key {}", root.user);
            say!("  secret key {}", root.password);
            say!("             shown this once; kept in {}", path.display());
            credentials::note_shown(&settings.data, root)?;
        }
        Origin::File => say!("  access key {} (secret in {}/credentials)", root.user, settings.data.display()),
        Origin::Settings => {
            say!("  access key {} (from the settings)", root.user);
            if credentials::kept(&settings.data).is_ok_and(|kept| kept.is_some_and(|kept| kept != *root)) {
                let data = settings.data.display();
                say!("             {data}/credentials holds another pair, which is not valid while the settings name one");
            }
        }
    }
    Ok(())
}
