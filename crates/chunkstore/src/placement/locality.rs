//! Near the writer, but not all copies where one failure takes them.

use super::error::Lacking;
use super::taken::Taken;
use super::{Cluster, PlaceError, Placer, Random, Request};
use topology::Level;
use types::NodeId;

/// From the narrowest around the writer outwards.
const OUTWARDS: [Level; 4] = [Level::Host, Level::Rack, Level::Pod, Level::Zone];

/// Each copy goes to the narrowest domain around the writer that has a node for it. If there are several copies, the last one goes outside
/// the first one's domain of level `beyond`: with copies on different hosts and `beyond` a rack, two stay in the writer's rack and one
/// leaves it.
#[derive(Clone, Copy, Debug)]
pub struct Locality {
    pub beyond: Level,
}

impl Placer for Locality {
    fn place(&self, cluster: &Cluster, request: &Request<'_>, random: &mut Random<'_>) -> Result<Vec<NodeId>, PlaceError> {
        request.check()?;
        let mut taken = Taken::new(cluster, request);
        while taken.chosen() < request.copies {
            let is_last = taken.chosen() + 1 == request.copies;
            let left = if is_last { self.left_behind(cluster, request, &taken) } else { 0..0 };
            let node = nearest(cluster, request, &taken, random, |at| !left.contains(&at));
            taken.add(node.ok_or_else(|| Lacking::in_cluster(cluster, request, taken.chosen()))?);
        }
        Ok(taken.into_chosen())
    }
}

impl Locality {
    /// Nodes that the last copy may not be on: those around all the other copies, if one domain holds them all.
    fn left_behind(&self, cluster: &Cluster, request: &Request<'_>, taken: &Taken<'_>) -> std::ops::Range<usize> {
        let others = request.has.len() + taken.chosen();
        let around = taken.first().and_then(|first| cluster.domain_of(first, self.beyond));
        around.filter(|domain| taken.held_in(domain) == others).map_or(0..0, |domain| domain.nodes.clone())
    }
}

/// A node in the narrowest domain around the writer that has one; anywhere, if the writer is nowhere.
fn nearest(
    cluster: &Cluster,
    request: &Request<'_>,
    taken: &Taken<'_>,
    random: &mut Random<'_>,
    may: impl Fn(usize) -> bool,
) -> Option<usize> {
    for level in request.writer.map_or([].as_slice(), |_| &OUTWARDS) {
        let domain = request.writer.and_then(|writer| cluster.domain_at(&writer, *level));
        if let Some(domain) = domain.filter(|domain| taken.allowed_in(domain) > 0)
            && let Some(node) = taken.pick(&domain.nodes, random, &may)
        {
            return Some(node);
        }
    }
    taken.pick(&(0..cluster.nodes().len()), random, may)
}
