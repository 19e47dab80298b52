//! A whole cluster on this machine: one process for each node, as they would run on machines of their own.

use super::{DataArgs, DevArgs, NodeArgs, place};
use crate::credentials;
use crate::place::{Place, Token};
use crate::ports;
use crate::say::say;
use anyhow::{Context, bail};
use env::Env;
use node::Role;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};
use topology::MAX_CELL_GATEWAYS;

/// Where every node listens, each at its own address.
const S3_PORT: u16 = 9000;
const ADMIN_PORT: u16 = 9001;
const CLUSTER_PORT: u16 = 9002;
/// How long the nodes may take to stop.
const STOP_PATIENCE: Duration = Duration::from_secs(20);
/// What each node is told of its own, by its file. The environment would win over that, and say the same to all of them.
const OF_EACH_NODE: [&str; 10] = [
    "TRILITH_CONFIG",
    "TRILITH_S3_ADDR",
    "TRILITH_ADMIN_ADDR",
    "TRILITH_CLUSTER_ADDR",
    "TRILITH_DEVICES",
    "TRILITH_DEVICE_SIZE",
    "TRILITH_CHUNK_SPACE",
    "TRILITH_CORES",
    "TRILITH_ROOT_USER",
    "TRILITH_ROOT_PASSWORD",
];

/// `trilith cluster dev`.
pub fn run(args: &DevArgs) -> anyhow::Result<()> {
    crate::commands::run(run_nodes(args))
}

/// One node of the development cluster.
struct DevNode {
    number: u8,
    address: Ipv4Addr,
    data: PathBuf,
    process: Option<Child>,
}

async fn run_nodes(args: &DevArgs) -> anyhow::Result<()> {
    let env = Env::real_with_cores(1);
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    std::fs::create_dir_all(&args.data).with_context(|| format!("making {}", args.data.display()))?;
    let given = args.root_user.clone().zip(args.root_password.clone());
    for number in 1..=args.nodes {
        check_ports(args, number)?;
    }
    let (root, _) = credentials::root(&env, &args.data, given.as_ref())?;
    let token = token_of(&env, args)?;
    let mut nodes = Vec::new();
    if let Err(error) = start_all(&env, args, &token, &root, &mut nodes) {
        // Whoever sees this sees no cluster, and would not look for one.
        return Err(match stop(nodes).await {
            Ok(()) => error,
            Err(left) => error.context(left),
        });
    }
    say!("A cluster of {} nodes, each a process of its own:", args.nodes);
    for node in &nodes {
        let (number, address) = (node.number, node.address);
        say!(
            "  node {number}  S3 http://{address}:{S3_PORT}  admin http://{address}:{ADMIN_PORT}  log {}",
            log_of(&node.data).display()
        );
    }
    if usize::from(args.nodes) > MAX_CELL_GATEWAYS {
        say!(
            "  {MAX_CELL_GATEWAYS} of them serve S3; the others serve devices and chunks, and wait for a place among the gateways"
        );
    }
    say!("  access key {}", root.user);
    say!("  secret key {}", root.password);
    say!("Kill one and watch:   kill -9 $(cat {}/trilith.pid); trilith cluster status", nodes[nodes.len() - 1].data.display());
    say!("Start it again:       trilith serve --data {}", nodes[nodes.len() - 1].data.display());
    loop {
        tokio::select! {
            _ = terminate.recv() => break,
            _ = interrupt.recv() => break,
            (at, status) = ended(&mut nodes) => {
                say!("node {} ended: {status}; see {}", nodes[at].number, log_of(&nodes[at].data).display());
                nodes[at].process = None;
            }
        }
    }
    stop(nodes).await
}

/// Starts the nodes one after the other, each noted as soon as it runs.
fn start_all(
    env: &Env,
    args: &DevArgs,
    token: &Token,
    root: &credentials::Credentials,
    nodes: &mut Vec<DevNode>,
) -> anyhow::Result<()> {
    for number in 1..=args.nodes {
        let data = args.data.join(format!("node-{number}"));
        let address = address_of(args, number);
        if !address.is_loopback() {
            bail!("{address} is reached from beyond this machine: --first-addr is an address such as 127.0.0.1");
        }
        prepare(env, args, token, number, &data, root)?;
        nodes.push(DevNode { number, address, process: Some(start(&data)?), data });
    }
    Ok(())
}

/// Refuses a node whose ports are taken: it would end with a word in its log.
fn check_ports(args: &DevArgs, number: u8) -> anyhow::Result<()> {
    for (port, what) in [(S3_PORT, "S3"), (ADMIN_PORT, "admin"), (CLUSTER_PORT, "cluster")] {
        let address = SocketAddr::from((address_of(args, number), port));
        let taken = format!("node {number} can't have its {what} port");
        ports::check_free(address, "choose other addresses with --first-addr").context(taken)?;
    }
    Ok(())
}

/// Where a node listens.
fn address_of(args: &DevArgs, number: u8) -> Ipv4Addr {
    Ipv4Addr::from_bits(args.first_addr.to_bits().saturating_add(u32::from(number) - 1))
}

/// The token of the cluster that is there already, or of a new one.
fn token_of(env: &Env, args: &DevArgs) -> anyhow::Result<Token> {
    match Place::read(&args.data.join("node-1"))? {
        Some(place) if args.tls && !place.tls => {
            bail!(
                "the cluster in {} has plain connections already: leave out --tls, or take another folder",
                args.data.display()
            )
        }
        Some(place) => place.token(),
        None => Ok(Token::new(env, args.tls)),
    }
}

fn prepare(
    env: &Env,
    args: &DevArgs,
    token: &Token,
    number: u8,
    data: &Path,
    root: &credentials::Credentials,
) -> anyhow::Result<()> {
    let address = address_of(args, number);
    if Place::read(data)?.is_none() {
        let node = NodeArgs {
            data: DataArgs { data: data.to_owned() },
            cluster_addr: format!("{address}:{CLUSTER_PORT}"),
            name: Some(format!("node-{number}")),
            host: None,
            rack: String::new(),
            zone: String::new(),
            roles: Role::ALL.to_vec(),
            trust_network: false,
        };
        let via = if number == 1 { Vec::new() } else { vec![format!("{}:{CLUSTER_PORT}", args.first_addr)] };
        place::place(env, &node, token, via)?.write(data)?;
    }
    // So that `trilith serve --data` alone starts the node again.
    let settings = format!(
        "s3_addr = \"{address}:{S3_PORT}\"\nadmin_addr = \"{address}:{ADMIN_PORT}\"\ndevice_size = \"{}\"\ncores = {}\n\
         root_user = \"{}\"\nroot_password = \"{}\"\n",
        args.device_size, args.cores, root.user, root.password
    );
    let path = data.join("trilith.toml");
    let write = || -> std::io::Result<()> {
        let mut file = std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path)?;
        file.write_all(settings.as_bytes())
    };
    write().with_context(|| format!("writing {}", path.display()))
}

fn log_of(data: &Path) -> PathBuf {
    data.join("trilith.log")
}

fn start(data: &Path) -> anyhow::Result<Child> {
    let path = log_of(data);
    let log = std::fs::OpenOptions::new().append(true).create(true).open(&path);
    let log = log.with_context(|| format!("opening {}", path.display()))?;
    let program = std::env::current_exe().context("finding this program")?;
    let mut command = Command::new(program);
    for setting in OF_EACH_NODE {
        command.env_remove(setting);
    }
    command.arg("serve").arg("--data").arg(data).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    command.spawn().context("starting a node")
}

/// The next node that ends by itself.
async fn ended(nodes: &mut [DevNode]) -> (usize, String) {
    let waiting = nodes.iter_mut().enumerate().filter_map(|(at, node)| {
        let process = node.process.as_mut()?;
        Some(Box::pin(async move {
            let status = process.wait().await;
            (at, status.map_or_else(|error| error.to_string(), |status| status.to_string()))
        }))
    });
    let waiting: Vec<_> = waiting.collect();
    match waiting.is_empty() {
        true => std::future::pending().await,
        false => futures_util::future::select_all(waiting).await.0,
    }
}

async fn stop(nodes: Vec<DevNode>) -> anyhow::Result<()> {
    if nodes.is_empty() {
        return Ok(());
    }
    say!("stopping");
    let mut left = 0;
    for process in nodes.iter().filter_map(|node| node.process.as_ref()) {
        let id = process.id().and_then(|id| rustix::process::Pid::from_raw(id as i32));
        if let Some(id) = id {
            // One that has just ended needs no signal.
            let _ = rustix::process::kill_process(id, rustix::process::Signal::TERM);
        }
    }
    for mut node in nodes {
        let Some(process) = &mut node.process else { continue };
        if tokio::time::timeout(STOP_PATIENCE, process.wait()).await.is_err() {
            process.kill().await?;
            left += 1;
        }
    }
    if left > 0 {
        bail!("{left} nodes did not stop in {} s and were killed", STOP_PATIENCE.as_secs());
    }
    Ok(())
}
