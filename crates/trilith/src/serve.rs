//! `trilith serve`: opens what is kept, wires the roles together, and runs until told to stop.
//!
//! ```text
//!   main thread                         core threads (one current-thread runtime and one disk ring each)
//!   manager, devices, log engine        S3 connections: parse, object service, engine, device
//!   checkpoints, collection, admin
//! ```
//!
//! The S3 port opens last: whoever can connect is served.

mod descriptors;
pub mod devices;
mod failed_manager;
mod guests;
mod lean;
mod member;
mod mount;
mod nbd;
mod peers;
pub mod pid;
mod s3_metrics;
mod secrets;
mod signals;
mod threads;

use crate::credentials::{self, Origin};
use crate::place::Place;
use crate::say::say;
use crate::settings::{ServeArgs, Settings, SyncMode};
use admin::{AdminServer, Warning};
use anyhow::{Context, bail};
use env::Env;
use logstore::IndexForm;
use manager::{BucketEngine, CreateBucketError, EtagMode, Manager, ManagerError, NewBucket, ROOT_USER};
use std::io::IsTerminal;
use std::net::SocketAddr;

/// Runs the server until SIGTERM or SIGINT.
pub fn run(args: &ServeArgs) -> anyhow::Result<()> {
    let settings = args.settle()?;
    start_logging(&settings)?;
    end_with_any_panic();
    descriptors::raise_limit();
    disk::use_small_pages();
    std::fs::create_dir_all(&settings.data).with_context(|| format!("making the data folder {}", settings.data.display()))?;
    let env = Env::real_with_cores(settings.cores + 1);
    env::set_core_index(settings.cores);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let place = Place::of_server(&env, &settings.data)?;
    runtime.block_on(async move {
        let _ring = disk::install_ring()
            .inspect_err(|error| tracing::info!(%error, "no io_uring: disk requests go through threads, which costs speed"))
            .ok();
        if !place.is_lone() && settings.engine.index != IndexForm::Full {
            bail!("index: a node that others reach keeps the full index; `ludo` is for a lone node")
        }
        member::serve(settings, env, place).await
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
