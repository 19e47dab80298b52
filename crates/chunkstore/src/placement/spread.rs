//! Failure domains first.
//!
//! Each copy goes down the hierarchy: of the zones that have a node for it those with the fewest copies, and one of these by its free space;
//! then a pod in it, a rack, a host. So copies are in as many zones as there are, then in as many pods, and so on, and within that
//! the load follows the free space.

use super::cluster::Domain;
use super::error::Lacking;
use super::taken::Taken;
use super::{Cluster, PlaceError, Placer, Random, Request, below};
use topology::Level;
use types::NodeId;

/// As far apart as the cluster is wide.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spread;

impl Placer for Spread {
    fn place(&self, cluster: &Cluster, request: &Request<'_>, random: &mut Random<'_>) -> Result<Vec<NodeId>, PlaceError> {
        request.check()?;
        let mut taken = Taken::new(cluster, request);
        while taken.chosen() < request.copies {
            let node = farthest(cluster, &taken, random);
            taken.add(node.ok_or_else(|| Lacking::in_cluster(cluster, request, taken.chosen()))?);
        }
        Ok(taken.into_chosen())
    }
}

fn farthest(cluster: &Cluster, taken: &Taken<'_>, random: &mut Random<'_>) -> Option<usize> {
    let mut nodes = 0..cluster.nodes().len();
    for level in [Level::Zone, Level::Pod, Level::Rack, Level::Host] {
        nodes = emptiest(cluster.domains_in(&nodes, level), taken, random)?.nodes.clone();
    }
    taken.pick(&nodes, random, |_| true)
}

/// Of the domains that have a node for a copy, those with the fewest copies; of these one, with the probability of its share of the free blocks.
fn emptiest<'a>(domains: &'a [Domain], taken: &Taken<'_>, random: &mut Random<'_>) -> Option<&'a Domain> {
    let candidates: Vec<&Domain> = domains.iter().filter(|domain| taken.allowed_in(domain) > 0).collect();
    let fewest = candidates.iter().map(|domain| taken.held_in(domain)).min()?;
    let candidates: Vec<&Domain> = candidates.into_iter().filter(|domain| taken.held_in(domain) == fewest).collect();
    let free: u64 = candidates.iter().map(|domain| domain.free_blocks).sum();
    let mut ticket = below(random, free);
    for domain in candidates {
        if ticket < domain.free_blocks {
            return Some(domain);
        }
        ticket -= domain.free_blocks;
    }
    unreachable!("a ticket is below the sum of the free blocks, and an open node has one");
}
