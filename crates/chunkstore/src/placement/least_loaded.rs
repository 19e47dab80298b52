//! Least loaded, by power of choices.
//!
//! The paper's monitor keeps a heap of loads and takes the least. Between two reports of a node the heap is as old as the last one, so that
//! every maintenance unit and every put finds the same node on top and all write to it (a herd), which then reports itself loaded and
//! is avoided by all. Two random nodes, the less loaded of them, need no heap, no state and no lock, spread puts over half of the cluster at any
//! moment, and leave the fullest node within `log log n` chunks of the mean (Azar, Broder, Karlin, Upfal 1999). Where few nodes take
//! chunks, the choice is exact.

use super::error::Lacking;
use super::taken::Taken;
use super::{Cluster, PlaceError, Placer, Random, Request};
use types::NodeId;

/// The least loaded of a few random nodes, for each copy.
#[derive(Clone, Copy, Debug, Default)]
pub struct LeastLoaded;

impl Placer for LeastLoaded {
    fn place(&self, cluster: &Cluster, request: &Request<'_>, random: &mut Random<'_>) -> Result<Vec<NodeId>, PlaceError> {
        request.check()?;
        let mut taken = Taken::new(cluster, request);
        let everywhere = 0..cluster.nodes().len();
        while taken.chosen() < request.copies {
            let node = taken.pick(&everywhere, random, |_| true);
            taken.add(node.ok_or_else(|| Lacking::in_cluster(cluster, request, taken.chosen()))?);
        }
        Ok(taken.into_chosen())
    }
}
