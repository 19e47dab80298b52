//! Giving a data folder its place in a cluster.

use super::{DataArgs, InitArgs, JoinArgs, NodeArgs};
use crate::place::{Place, Token};
use anyhow::{Context, bail};
use env::Env;
use net::{RemoteCaller, TcpNetwork};
use std::net::SocketAddr;
use std::sync::Arc;
use types::NodeIdentity;

/// `trilith cluster init`.
pub fn init(args: &InitArgs) -> anyhow::Result<()> {
    let env = Env::real_with_cores(1);
    let token = Token::new(&env);
    place(&env, &args.node, &token, Vec::new())?.write(&args.node.data.data)?;
    let data = args.node.data.data.display();
    println!("{data} is the first node of a new cluster, {}.", token.cluster);
    println!("  start it       trilith serve --data {data}");
    println!("  let others in  trilith cluster join {token} --via {}", args.node.cluster_addr);
    println!("                 the token is a secret; `trilith cluster token --data {data}` prints it again");
    Ok(())
}

/// `trilith cluster join`. Changes nothing unless a node of the cluster says that the token is right.
pub fn join(args: &JoinArgs) -> anyhow::Result<()> {
    let env = Env::real_with_cores(1);
    let token: Token = args.token.parse()?;
    let place = place(&env, &args.node, &token, args.via.clone())?;
    crate::commands::run(check(&env, &place))?;
    place.write(&args.node.data.data)?;
    let data = args.node.data.data.display();
    println!("{data} is a node of cluster {}. Start it: trilith serve --data {data}", token.cluster);
    Ok(())
}

/// `trilith cluster token`.
pub fn token(args: &DataArgs) -> anyhow::Result<()> {
    let Some(place) = Place::read(&args.data)? else {
        bail!("{} is no node of a cluster: trilith cluster init makes it one", args.data.display());
    };
    println!("{}", place.token()?);
    Ok(())
}

/// A place for a folder that has none.
pub fn place(env: &Env, args: &NodeArgs, token: &Token, via: Vec<String>) -> anyhow::Result<Place> {
    let address: SocketAddr = args.cluster_addr.parse().with_context(|| {
        format!("cluster-addr is an address and a port such as 127.0.0.1:9002, not `{}`", args.cluster_addr)
    })?;
    if !address.ip().is_loopback() && !args.trust_network {
        bail!("{address} is reached from beyond this machine, and nothing is encrypted yet: --trust-network allows it");
    }
    if address.ip().is_unspecified() || address.port() == 0 {
        bail!("cluster-addr is where the other nodes find this one: {address} is not");
    }
    let mut identity = NodeIdentity::default();
    env.fill_random(&mut identity.0);
    let name = args.name.clone().unwrap_or_else(|| args.cluster_addr.clone());
    Ok(Place {
        cluster: token.cluster.to_string(),
        secret: hex::encode(token.secret),
        identity: identity.to_string(),
        host: args.host.clone().unwrap_or_else(|| name.clone()),
        name,
        address: args.cluster_addr.clone(),
        rack: args.rack.clone(),
        zone: args.zone.clone(),
        via,
    })
}

/// Whether a node of the cluster takes the token, and would take this node.
async fn check(env: &Env, place: &Place) -> anyhow::Result<()> {
    let mut last = None;
    for address in &place.via {
        let caller = RemoteCaller::new(env, Arc::new(TcpNetwork), address, place.identity()?);
        let question = node::inquiry(place.node_identity()?, &place.name, &place.address);
        match node::inquire(env, &caller, question).await {
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
