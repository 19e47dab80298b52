//! Giving a data folder its place in a cluster.

use super::{DataArgs, InitArgs, JoinArgs, NodeArgs};
use crate::place::{Place, Token};
use crate::serve::pid;
use anyhow::{Context, bail};
use bench::{output, tell};
use env::Env;
use net::RemoteCaller;
use node::Role;
use std::io::{self, IsTerminal};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;
use types::NodeIdentity;

/// `trilith cluster init`.
pub fn init(args: &InitArgs) -> anyhow::Result<()> {
    let env = Env::real_with_cores(1);
    let is_local = address(&args.node)?.ip().is_loopback();
    let token = Token::new(&env, args.tls || !(is_local || args.node.trust_network));
    place(&env, &args.node, &token, Vec::new())?.write(&args.node.data.data)?;
    let data = args.node.data.data.display();
    let connections = if token.tls { "TLS" } else { "plain TCP" };
    tell!("{data} is the first node of a new cluster, {}. Its nodes are connected by {connections}.", token.cluster)?;
    tell!("  start it       trilith serve --data {data}")?;
    tell!("  let others in  trilith cluster join - --via {}", args.node.cluster_addr)?;
    tell!("                 it asks for the token, a secret, which `trilith cluster token --data {data}` prints")?;
    Ok(())
}

/// How long `trilith cluster open` waits until a server that runs listens at its address, and how often it looks.
const OPEN_PATIENCE: Duration = Duration::from_secs(30);
const OPEN_LOOK: Duration = Duration::from_millis(100);

/// `trilith cluster open`. A server that runs takes it up by itself.
pub fn open(args: &InitArgs) -> anyhow::Result<()> {
    let data = &args.node.data.data;
    let Some(mut known) = Place::read(data)? else {
        bail!("{} holds no server yet: `trilith cluster init` makes it the first node of a cluster", data.display());
    };
    if !known.is_lone() {
        bail!("{} is reached at {} already", data.display(), known.address);
    }
    let env = Env::real_with_cores(1);
    let is_local = address(&args.node)?.ip().is_loopback();
    let tls = args.tls || !(is_local || args.node.trust_network);
    let opened = place(&env, &args.node, &Token { tls, ..known.token()? }, Vec::new())?;
    known.open(data, opened)?;
    let connections = if tls { "TLS" } else { "plain TCP" };
    let is_running = pid::is_running(data);
    if is_running && !crate::commands::run(async { Ok(listens(&env, address(&args.node)?).await) })? {
        bail!(
            "{} is the address of {} from now on, and the server that runs there does not listen at it yet: its log says why",
            known.address,
            data.display()
        );
    }
    let from_when = if is_running { "now" } else { "its next start" };
    tell!("{} listens for other nodes at {} from {from_when} on, by {connections}.", data.display(), known.address)?;
    tell!("  let others in  trilith cluster join - --via {}", known.address)?;
    tell!("                 it asks for the token, a secret, which `trilith cluster token --data {}` prints", data.display())?;
    Ok(())
}

/// Whether something takes connections at an address before the patience ends.
async fn listens(env: &Env, address: SocketAddr) -> bool {
    let deadline = env.now() + OPEN_PATIENCE;
    while env.now() < deadline {
        if TcpStream::connect_timeout(&address, OPEN_LOOK).is_ok() {
            return true;
        }
        env.sleep(OPEN_LOOK).await;
    }
    false
}

/// `trilith cluster join`. Changes nothing unless a node of the cluster says that the token is right.
pub fn join(args: &JoinArgs) -> anyhow::Result<()> {
    let env = Env::real_with_cores(1);
    let token: Token = match args.token.as_str() {
        "-" => token_of_input()?.parse()?,
        token => token.parse()?,
    };
    let place = place(&env, &args.node, &token, args.via.clone())?;
    crate::commands::run(check(&env, &place, &args.node.data.data))?;
    place.write(&args.node.data.data)?;
    let data = args.node.data.data.display();
    tell!("{data} is a node of cluster {}. Start it: trilith serve --data {data}", token.cluster)?;
    Ok(())
}

fn token_of_input() -> anyhow::Result<String> {
    if io::stdin().is_terminal() {
        output::prompt(format_args!("The cluster's token: "));
    }
    let mut line = String::new();
    io::stdin().read_line(&mut line).context("reading the token from standard input")?;
    Ok(line.trim().to_owned())
}

/// `trilith cluster token`.
pub fn token(args: &DataArgs) -> anyhow::Result<()> {
    let Some(place) = Place::read(&args.data)? else {
        bail!("{} is no node of a cluster: trilith cluster init makes it one", args.data.display());
    };
    if place.is_lone() {
        bail!("{} is reached by no other node: `trilith cluster open` gives it an address", args.data.display());
    }
    tell!("{}", place.token()?)?;
    Ok(())
}

/// A place for a folder that has none.
pub fn place(env: &Env, args: &NodeArgs, token: &Token, via: Vec<String>) -> anyhow::Result<Place> {
    let address = address(args)?;
    if token.tls && args.trust_network {
        bail!("connections of this token's cluster are TLS: --trust-network is for clusters without");
    }
    if address.ip().is_unspecified() || address.port() == 0 {
        bail!("cluster-addr is where the other nodes find this one: {address} is not");
    }
    if via.is_empty() && !args.roles.contains(&Role::Manager) {
        bail!("the first node of a cluster has the role manager: nobody else has it yet");
    }
    let mut identity = NodeIdentity::default();
    env.fill_random(&mut identity.0);
    let name = args.name.clone().unwrap_or_else(|| args.cluster_addr.clone());
    let place = Place {
        cluster: token.cluster.to_string(),
        secret: hex::encode(token.secret),
        identity: identity.to_string(),
        host: args.host.clone().unwrap_or_else(|| name.clone()),
        name,
        address: args.cluster_addr.clone(),
        rack: args.rack.clone(),
        zone: args.zone.clone(),
        via,
        tls: token.tls,
        trust_network: args.trust_network,
        is_member: false,
        roles: args.roles.iter().map(Role::to_string).collect(),
    };
    place.check_exposure()?;
    Ok(place)
}

fn address(args: &NodeArgs) -> anyhow::Result<SocketAddr> {
    args.cluster_addr
        .parse()
        .with_context(|| format!("cluster-addr is an address and a port such as 127.0.0.1:9002, not `{}`", args.cluster_addr))
}

/// Whether a node of the cluster takes the token, and would take this node.
async fn check(env: &Env, place: &Place, data: &Path) -> anyhow::Result<()> {
    let (mut last, network) = (None, place.network(env, data)?);
    for address in &place.via {
        let caller = RemoteCaller::new(env, network.clone(), address, place.identity()?);
        let applicant = node::Applicant::new(env, place.node_identity()?, &place.name, &place.address);
        match node::inquire(env, &caller, applicant.question()).await {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(reason)) => bail!("the cluster does not take this node: {reason}"),
            Err(error) => last = Some(error.to_string()),
        }
    }
    let reason = last.unwrap_or_else(|| "no address was given with --via".to_owned());
    bail!(
        "no node of the cluster answered: {reason}\nIs one running there? A wrong token, or one of another cluster, is refused in the same way."
    )
}
