//! A mount on a machine that is no node: this process serves it, with the volume's key, and it ends with this process.

use super::{MountArgs, told_to_end};
use crate::volume_key::VolumeKey;
use ::mount::{ServeOptions, ServedMount, Unmount, is_mounted};
use anyhow::{Context, bail};
use bench::tell;
use clap::Args;
use env::Env;
use filesystem::asking::guest::{Line, client};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use tokio::runtime::Handle;

/// Threads that read the mount's requests, for each core.
const THREADS_PER_CORE: usize = 2;
/// How long a mount that is to end may be in use. Then its calls fail.
const END_PATIENCE: Duration = Duration::from_secs(10);
const END_LOOK: Duration = Duration::from_millis(50);

/// How a machine that is no node reaches the volume.
#[derive(Args, Clone, Debug)]
pub struct GuestArgs {
    /// Addresses of nodes, with commas between them: this machine is no node, and this process serves the mount
    #[arg(long, value_delimiter = ',', requires = "volume")]
    cluster: Vec<String>,
    /// A file with the volume's key, which `trilith volume key NAME` prints on a node; the variable TRILITH_VOLUME_KEY otherwise
    #[arg(long, requires = "cluster")]
    key_file: Option<PathBuf>,
    /// With --detach: where this process says what goes wrong [default: nowhere]
    #[arg(long, requires = "cluster")]
    log: Option<PathBuf>,
    /// Be the process in the background
    #[arg(long, hide = true)]
    background: bool,
}

impl GuestArgs {
    pub fn is_wanted(&self) -> bool {
        !self.cluster.is_empty()
    }

    fn key(&self) -> anyhow::Result<VolumeKey> {
        let text = match &self.key_file {
            Some(file) => std::fs::read_to_string(file).with_context(|| format!("reading the key from {}", file.display()))?,
            None => std::env::var("TRILITH_VOLUME_KEY").context(
                "a machine that is no node needs the volume's key: --key-file FILE, or the variable TRILITH_VOLUME_KEY. \
                 `trilith volume key NAME` prints it on a node",
            )?,
        };
        text.parse()
    }
}

/// Mounts and serves, in the foreground or in a process of its own.
pub fn run(args: &MountArgs, volume: &str, point: &Path) -> anyhow::Result<()> {
    if args.detach && !args.guest.background {
        return detach(args);
    }
    if args.guest.background {
        rustix::process::setsid().context("beginning a session")?;
    }
    let filter = tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| "warn".into());
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(cores).enable_all().build()?;
    runtime.block_on(async {
        let served = begin(args, volume, point, cores).await?;
        tell!("{volume} is mounted on {}", point.display())?;
        stay(&served).await
    })
}

async fn begin(args: &MountArgs, volume: &str, point: &Path, cores: usize) -> anyhow::Result<ServedMount> {
    let (env, key) = (Env::real_with_cores(cores), args.guest.key()?);
    let line = Line::new(&env, key.network(&env)?, key.identity(), &args.guest.cluster);
    let asked = line.volume().await.map_err(anyhow::Error::msg);
    let found = asked.with_context(|| format!("asking for {volume} at {}", args.guest.cluster.join(", ")))?;
    if found.name != volume {
        bail!("the key is that of volume {}, not of {volume}", found.name);
    }
    let client = client(&line, args.exclusive).await?;
    let options = ServeOptions {
        source: volume.to_owned(),
        allow_other: !args.private,
        read_only: args.read_only,
        threads: (cores * THREADS_PER_CORE).clamp(2, ::mount::MAX_THREADS),
        ..ServeOptions::default()
    };
    Ok(::mount::serve(client, point, &options, Handle::current(), None)?)
}

/// Until the mount has ended, or a signal says that it is to end.
async fn stay(served: &ServedMount) -> anyhow::Result<()> {
    let is_over = || served.wait_for(Duration::ZERO).is_some();
    if !told_to_end(|| Ok(is_over())).await? {
        return Ok(());
    }
    if is_mounted(&served.point())? {
        served.unmount(Unmount::Detach)?;
    }
    let env = Env::real_with_cores(1);
    let until = env.now() + END_PATIENCE;
    while !is_over() {
        if env.now() >= until {
            served.unmount(Unmount::Abort)?;
            break;
        }
        env.sleep(END_LOOK).await;
    }
    Ok(())
}

/// Starts this command again as a process of its own, and waits until it has mounted.
fn detach(args: &MountArgs) -> anyhow::Result<()> {
    let log = args.guest.log.clone().unwrap_or_else(|| PathBuf::from("/dev/null"));
    let opened = File::options().append(true).create(true).open(&log).with_context(|| format!("opening {}", log.display()))?;
    let mut command = Command::new("/proc/self/exe");
    command.args(std::env::args_os().skip(1)).arg("--background");
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(opened).spawn().context("starting a process")?;
    let mut said = BufReader::new(child.stdout.take().context("the process has an output")?);
    let mut first = String::new();
    said.read_line(&mut first)?;
    if !first.starts_with(FAILED) {
        tell!("{}", first.trim_end())?;
        return Ok(());
    }
    said.read_to_string(&mut first)?;
    child.wait()?;
    bail!("{}", first.trim_start_matches(FAILED).trim())
}

/// What the output of a process in the background begins with that could not mount.
const FAILED: &str = "not mounted: ";

/// The error of a process in the background goes to the command that started it.
pub fn tell_failure(args: &MountArgs, error: anyhow::Error) -> anyhow::Error {
    if args.guest.background && tell!("{FAILED}{error:#}").is_err() {
        tracing::warn!("the command that started this process is gone");
    }
    error
}
