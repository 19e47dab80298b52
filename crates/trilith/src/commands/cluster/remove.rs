//! Asking the server of a node to take another node, or a device, out of the cluster: `trilith cluster remove`, `trilith device forget`.

use super::RemoveArgs;
use crate::place::Place;
use anyhow::bail;
use bench::tell;
use env::Env;
use net::RemoteCaller;
use node::Removed;
use std::path::Path;

/// Removes a node; fails with the reason if it is refused.
pub fn run(args: &RemoveArgs) -> anyhow::Result<()> {
    let data = &args.data.data;
    let Some(place) = Place::read(data)? else {
        bail!("{} is no node of a cluster: run this on one that stays", data.display());
    };
    crate::commands::run(ask(data, &place, &Removed::Node(args.name.clone()), args.force))?;
    tell!("Node {} is no part of the cluster any more.", args.name)?;
    Ok(())
}

/// Has the server of this folder, which has this place in a cluster, remove something.
pub async fn ask(data: &Path, place: &Place, what: &Removed, force: bool) -> anyhow::Result<()> {
    let env = Env::real_with_cores(1);
    let caller = RemoteCaller::new(&env, place.network(&env, data)?, &place.address, place.identity()?);
    match node::remove(&env, &caller, what, force).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(reason)) => bail!("{reason}"),
        Err(error) => {
            bail!("the node of {} does not answer, and may have done part of it: {error}. Does it run?", data.display())
        }
    }
}
