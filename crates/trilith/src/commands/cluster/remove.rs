//! `trilith cluster remove`: asks the server of this folder's node to take another node out of the cluster.

use super::RemoveArgs;
use crate::place::Place;
use anyhow::bail;
use env::Env;
use net::RemoteCaller;

/// Removes a node; fails with the reason if it is refused.
pub fn run(args: &RemoveArgs) -> anyhow::Result<()> {
    let data = &args.data.data;
    let Some(place) = Place::read(data)? else {
        bail!("{} is no node of a cluster: run this on one that stays", data.display());
    };
    let env = Env::real_with_cores(1);
    let (identity, network) = (place.identity()?, place.network(&env)?);
    crate::commands::run(async {
        let caller = RemoteCaller::new(&env, network, &place.address, identity);
        match node::remove(&env, &caller, &args.name, args.force).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(reason)) => bail!("{reason}"),
            Err(error) => {
                bail!("the node of {} does not answer, and may have done part of it: {error}. Does it run?", data.display())
            }
        }
    })?;
    println!("Node {} is no part of the cluster any more.", args.name);
    Ok(())
}
