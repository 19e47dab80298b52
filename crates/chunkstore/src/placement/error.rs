//! Why copies can't be placed, and what would help.

use super::{Cluster, MAX_COPIES, Request};
use std::fmt;
use topology::{Level, SelectError};

/// Why a placer has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlaceError {
    /// More copies together than [`MAX_COPIES`].
    TooManyCopies { copies: usize },
    /// Not enough domains with a node that takes chunks.
    Lacking(Lacking),
    /// The map of a hash placer has not enough domains, whatever their load.
    Map(SelectError),
}

/// What there is, where it is not enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lacking {
    /// New copies that were asked for.
    pub wanted: usize,
    /// New copies that found a place.
    pub found: usize,
    /// Copies that are there.
    pub has: usize,
    pub apart: Level,
    /// Domains of that level, and those of them with a node that takes chunks.
    pub domains: usize,
    pub open_domains: usize,
    pub nodes: usize,
    pub full: usize,
    pub busy: usize,
    pub away: usize,
}

impl Lacking {
    pub(super) fn in_cluster(cluster: &Cluster, request: &Request<'_>, found: usize) -> PlaceError {
        let nodes = cluster.nodes();
        let (domains, open_domains) = cluster.count(request.apart);
        PlaceError::Lacking(Lacking {
            wanted: request.copies,
            found,
            has: request.has.len(),
            apart: request.apart,
            domains,
            open_domains,
            nodes: nodes.len(),
            full: nodes.iter().filter(|node| node.load.is_full()).count(),
            busy: nodes.iter().filter(|node| node.load.is_busy()).count(),
            away: nodes.iter().filter(|node| !node.is_up).count(),
        })
    }
}

impl fmt::Display for Lacking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self.apart {
            Level::Device => "node",
            wider => wider.name(),
        };
        write!(f, "{} new copies on different {word}s", self.wanted)?;
        if self.has > 0 {
            write!(f, ", apart from {} that are there", self.has)?;
        }
        write!(f, ": {} found a place; ", self.found)?;
        write!(f, "of {} {word}s {} have a node that takes chunks; ", self.domains, self.open_domains)?;
        write!(f, "of {} nodes {} are full, {} busy, {} away", self.nodes, self.full, self.busy, self.away)
    }
}

impl fmt::Display for PlaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlaceError::TooManyCopies { copies } => write!(f, "{copies} copies of a chunk, at most {MAX_COPIES} can be"),
            PlaceError::Lacking(lacking) => lacking.fmt(f),
            PlaceError::Map(cause) => write!(f, "by the map: {cause}"),
        }
    }
}

impl std::error::Error for PlaceError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            PlaceError::Map(cause) => Some(cause),
            PlaceError::TooManyCopies { .. } | PlaceError::Lacking(_) => None,
        }
    }
}
